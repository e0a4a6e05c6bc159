#pragma once
// A request on its way through the engine, and the interfaces by which orders leave and come back. In one process they are plain calls; a
// cluster implements them with messages.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/page_cache.h"
#include "request/request.h"
#include "transfer/session.h"

namespace qwell {

using Ticket = Generator::Ticket;

// What one attempt at a request works on. `tokens` is the prompt and the answer so far: after a preemption or the loss of a rank the
// request goes on from there.
struct Work {
  Ticket ticket = 0;
  std::uint32_t attempt = 0;  // the router drops what comes from an older one
  std::uint64_t age = 0;      // order of arrival: the youngest is preempted first, and keeps its age
  std::shared_ptr<const GenerationRequest> request;
  std::vector<TokenId> tokens;

  // Whether the prompt's own logprobs are still to be computed: once, so not after a preemption.
  bool scores_prompt() const { return request->prompt_logprobs >= 0 && generated() == 0; }
  int prompt_length() const { return static_cast<int>(request->prompt.size()); }
  int generated() const { return static_cast<int>(tokens.size()) - prompt_length(); }
};

// A decode rank's promise: pages for the sequence, and where the prefill group writes. Held by whoever may still write or read; the pages
// go back when the last one lets go.
struct DecodePlace {
  int rank = 0;
  PageTable pages;
  KvShard shard;                     // what the pages hold
  SessionAddress address;            // where a writer finds them, and `hidden`
  std::shared_ptr<Session> session;  // null: the prefill rank writes into `pages` itself, or no prefill group is involved
  std::vector<std::byte> hidden;     // the last hidden row, act [H]
};

// Bytes of keys and values that a prompt's way to the decode rank took: crossed from one group to the other, or stayed in place.
struct KvBytes {
  std::uint64_t moved = 0;
  std::uint64_t shared = 0;
};

struct PromptLogprobs {
  std::vector<std::optional<TokenEvent>> tokens;
};

// What comes back. Called from the engine's threads; must not block.
class EngineEvents {
 public:
  virtual ~EngineEvents() = default;

  // The prompt is computed and all of it has come to `place` (null if the request generates nothing).
  virtual void prefilled(Work work, std::shared_ptr<DecodePlace> place, int cached_tokens, PromptLogprobs logprobs, KvBytes bytes) = 0;
  struct Generated {
    Ticket ticket = 0;
    std::uint32_t attempt = 0;
    TokenEvent token;
    FinishReason finish = FinishReason::kNone;
  };
  // One call per step and rank.
  virtual void generated(std::span<Generated> tokens) = 0;
  // Pages ran out: to be prefilled again, before new requests.
  virtual void preempted(Work work) = 0;
  virtual void failed(Ticket ticket, std::uint32_t attempt, const Failure& failure) = 0;
  // Something that a waiting request may need has become free.
  virtual void capacity_freed() = 0;
};

class PrefillPort {
 public:
  virtual ~PrefillPort() = default;
  // Whether a prompt of so many tokens could start now or next.
  virtual bool can_accept(int tokens) const = 0;
  // False if it can't after all (no pages); nothing is kept then.
  virtual bool start(Work& work, std::shared_ptr<DecodePlace> place) = 0;
  virtual void cancel(Ticket ticket) = 0;
};

class DecodePort {
 public:
  virtual ~DecodePort() = default;
  // Pages for the tokens so far and a share of the answer, and a place in the batch; null when no rank has them now.
  virtual std::shared_ptr<DecodePlace> reserve(const Work& work) = 0;
  // The sequence enters the batch of place->rank: with the last hidden row computed (`prefilled`), or to be computed there.
  virtual void add(Work work, std::shared_ptr<DecodePlace> place, bool prefilled) = 0;
  virtual void cancel(Ticket ticket) = 0;
  // The most tokens that a sequence can ever have here.
  virtual int tokens_max() const = 0;
};

}  // namespace qwell
