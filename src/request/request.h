#pragma once
// What is asked of the engine and what comes back: plain data shared by server, router, prefill and decode.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace qwell {

using TokenId = std::int32_t;

// How the token at a position is chosen from the model's distribution there. The neutral values are the defaults.
struct SamplingParams {
  float temperature = 1.0F;         // 0: greedy
  float top_p = 1.0F;               // (0, 1]
  int top_k = 0;                    // 0: off
  float min_p = 0.0F;               // [0, 1]
  float presence_penalty = 0.0F;    // [-2, 2], over the answer's tokens
  float frequency_penalty = 0.0F;   // [-2, 2], over the answer's tokens
  float repetition_penalty = 1.0F;  // (0, ...), over prompt and answer
  std::uint64_t seed = 0;
  std::uint32_t sample = 0;  // which of the n answers of one request; draws differ by it
  std::vector<std::pair<TokenId, float>> logit_bias;
};

struct GenerationRequest {
  std::string id;  // for logs and traces; need not be unique
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  int max_tokens = 16;                  // >= 1, or 0 to only read the prompt (with prompt_logprobs or without)
  int min_tokens = 0;                   // stop ids can't be chosen before so many tokens
  std::vector<TokenId> stop_token_ids;  // the model's own included, unless they are to be ignored
  int logprobs = -1;                    // -1: none; n: the chosen token's logprob and the n best at each position
  int prompt_logprobs = -1;             // likewise for the prompt's tokens
  std::string cache_salt;               // requests share cached prefixes only with equal salt
  Deadline deadline = Deadline::never();
};

// Checks ranges and ids against the vocabulary; the failure's `param` names the field in the API's spelling.
Result<void> validate(const GenerationRequest& request, int vocab_size, int context_length_max);

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

// One token of the answer.
struct TokenEvent {
  int index = 0;  // position in the answer, from 0
  TokenId token = 0;
  float logprob = 0;              // of the unmodified distribution at temperature 1; set when logprobs were asked for
  std::vector<TokenLogprob> top;  // best first
};

enum class FinishReason {
  kNone,       // not finished
  kStop,       // a stop id was chosen; it is the last token event
  kLength,     // max_tokens or the context's end
  kCancelled,  // by the caller
  kError,      // see Update::error
};

const char* to_string(FinishReason reason);

// Where a request's time went and what it moved. Seconds.
struct RequestTiming {
  double queued = 0;                  // submitted until a prefill group took it
  double prefill = 0;                 // until the last row of the prompt was computed
  double transfer = 0;                // until all units had come to the decode rank
  double decode = 0;                  // until the last token
  std::uint64_t kv_bytes_moved = 0;   // between the groups
  std::uint64_t kv_bytes_shared = 0;  // changed hands without a copy
  int preemptions = 0;

  RequestTiming& operator+=(const RequestTiming& other);
};

// What a listener gets: in order, each token index exactly once, and exactly one update with a finish reason, the last.
struct Update {
  std::vector<TokenEvent> tokens;
  // Once, with the first update, if prompt_logprobs were asked for: one entry per prompt token; the first has no value.
  std::vector<std::optional<TokenEvent>> prompt_logprobs;
  FinishReason finish = FinishReason::kNone;
  std::optional<Failure> error;
  int cached_tokens = 0;  // of the prompt, found in the prefix cache; from the first update on
  RequestTiming timing;   // complete with the last update
};

class UpdateListener {
 public:
  virtual ~UpdateListener() = default;
  // Called from the engine's threads, one call at a time per request. Must not block and must not throw.
  virtual void on_update(Update update) = 0;
};

struct ModelInfo {
  std::string name;
  std::string path;
  int vocab_size = 0;
  int context_length_max = 0;  // prompt and answer together
  std::vector<TokenId> stop_token_ids;
};

struct GeneratorStatus {
  bool ready = false;
  std::string reason;  // why not ready
  int waiting = 0;
  int running = 0;
  std::int64_t pages_used = 0;    // held by sequences in work
  std::int64_t pages_cached = 0;  // held by the prefix index alone
  std::int64_t pages_total = 0;
  int sessions_open = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t kv_bytes_moved = 0;
  std::uint64_t kv_bytes_shared = 0;
  std::uint64_t prefix_hit_tokens = 0;
};

// Something that answers requests: the router in one process, or a stand-in in tests. All methods may be called from any thread.
class Generator {
 public:
  using Ticket = std::uint64_t;

  virtual ~Generator() = default;
  // Refuses at once (invalid, too large, queue full) or takes the request and will end it by a last update.
  virtual Result<Ticket> submit(GenerationRequest request, std::shared_ptr<UpdateListener> listener) = 0;
  // The caller has no more interest. The last update is kCancelled unless the request had ended. Unknown tickets are ignored.
  virtual void cancel(Ticket ticket) = 0;
  virtual const ModelInfo& model() const = 0;
  virtual GeneratorStatus status() const = 0;
};

}  // namespace qwell
