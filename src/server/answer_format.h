#pragma once
// The two response schemas: chat completions and completions, whole and in chunks. Pure functions from values to JSON text.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/answer_text.h"
#include "server/text_codec.h"

namespace qwell::server {

struct Usage {
  std::int64_t prompt_tokens = 0;      // each prompt once, however many answers it has
  std::int64_t cached_tokens = 0;      // likewise
  std::int64_t completion_tokens = 0;  // of all answers
  RequestTiming timing;                // of all answers together; an extension, as "timings"
};

// How an answer ended.
struct Ending {
  std::string finish_reason;          // "stop", "length"
  std::string stop_string;            // the stop string that matched, or empty
  std::optional<TokenId> stop_token;  // the stop token that the request itself named
};

using PromptLogprobs = std::vector<std::optional<TokenEvent>>;

// What the chunks and the whole response need to know of their request.
struct AnswerHead {
  std::string id;
  std::int64_t created = 0;  // Unix seconds
  std::string model;
  int logprobs = -1;         // as in GenerationRequest
  int prompt_logprobs = -1;  // the extension's, to be reported
  bool return_token_ids = false;
  bool usage_in_chunks = false;  // chunks have "usage": null, or the numbers if given
};

struct PromptPart {
  std::vector<TokenId> ids;
  std::string echo;                      // text that comes before the answer; empty without echo
  std::vector<AnswerToken> echo_tokens;  // filled for echo with logprobs; offsets within echo
};

struct WholeAnswer {
  AnswerDelta answer;
  Ending ending;
  PromptLogprobs prompt_logprobs;
  const PromptPart* prompt = nullptr;
};

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  virtual const AnswerHead& head() const = 0;
  // The chunk that opens a choice, or empty if it has nothing to say.
  virtual std::string first_chunk(int index, const PromptPart& prompt, const PromptLogprobs& logprobs, const Usage* usage) const = 0;
  // `ending`: set with the choice's last chunk.
  virtual std::string chunk(int index, const AnswerDelta& delta, const Ending* ending, const Usage* usage) const = 0;
  virtual std::string usage_chunk(const Usage& usage) const = 0;
  virtual std::string whole(const std::vector<WholeAnswer>& answers, const Usage& usage) const = 0;
};

// `codec` must outlive the format.
std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head, const TextCodec& codec);
std::unique_ptr<AnswerFormat> make_completion_format(AnswerHead head, const TextCodec& codec);

}  // namespace qwell::server
