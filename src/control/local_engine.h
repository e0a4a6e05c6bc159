#pragma once
// The whole engine in one process: the groups, their memory, and the router before them.

#include <functional>
#include <memory>
#include <string>

#include "checkpoint/config.h"
#include "control/router.h"
#include "engine/config.h"
#include "engine/decode_group.h"
#include "engine/prefill_group.h"

namespace qwell {

class LocalEngine final : public Generator {
 public:
  struct Config {
    EngineOptions options;
    std::string served_name;
    std::string path;
    std::string model_id;  // identity of the weights, for the prefix index
    std::vector<TokenId> stop_token_ids;
    int vocab_size = 0;  // tokens that have a meaning; 0: all rows of the head
  };
  // Loads the weights from `source`, makes the plan, takes the memory and starts the threads. Throws Error.
  LocalEngine(Config config, const ModelConfig& model, WeightSource& source, const std::function<void(int done, int total)>& progress = {});
  ~LocalEngine() override;

  Result<Ticket> submit(GenerationRequest request, std::shared_ptr<UpdateListener> listener) override;
  void cancel(Ticket ticket) override { router_->cancel(ticket); }
  const ModelInfo& model() const override { return router_->model(); }
  GeneratorStatus status() const override;

  const EngineLayout& layout() const { return layout_; }
  const MemoryPlan& plan() const { return plan_; }
  const std::string& numerics_id() const { return weights_.numerics_id; }

  // Takes no more requests and waits until all in work have ended, or `deadline`; true if all ended.
  bool drain(Deadline deadline);
  void stop();

 private:
  EngineLayout layout_;
  MemoryPlan plan_;
  ModelWeights weights_;
  SessionTable sessions_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<DecodeGroup> decode_;
  std::unique_ptr<PrefillGroup> prefill_;
};

// A request from beginning to end on the caller's thread: for commands and tests.
struct Completion {
  std::vector<TokenEvent> tokens;
  std::vector<std::optional<TokenEvent>> prompt_logprobs;
  FinishReason finish = FinishReason::kNone;
  int cached_tokens = 0;
  RequestTiming timing;

  std::vector<TokenId> token_ids() const;
};
// `on_token` is called on an engine thread as tokens come.
Result<Completion> complete(Generator& generator, GenerationRequest request, const std::function<void(const TokenEvent&)>& on_token = {});

}  // namespace qwell
