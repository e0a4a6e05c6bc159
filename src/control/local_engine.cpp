#include "control/local_engine.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/log.h"

namespace qwell {
namespace {

// A step that takes longer than this makes the engine unready: it is stuck, not slow.
constexpr Duration kStepPatience = std::chrono::seconds(60);

// Gathers the updates of one request and wakes whoever waits for the last.
class Collector final : public UpdateListener {
 public:
  explicit Collector(std::function<void(const TokenEvent&)> on_token) : on_token_(std::move(on_token)) {}

  void on_update(Update update) override {
    if (on_token_) {
      for (const TokenEvent& token : update.tokens) on_token_(token);
    }
    {
      const std::lock_guard lock(mutex_);
      for (TokenEvent& token : update.tokens) completion_.tokens.push_back(std::move(token));
      if (!update.prompt_logprobs.empty()) completion_.prompt_logprobs = std::move(update.prompt_logprobs);
      completion_.finish = update.finish;
      completion_.cached_tokens = update.cached_tokens;
      completion_.timing = update.timing;
      error_ = std::move(update.error);
    }
    if (update.finish != FinishReason::kNone) ended_.notify_all();
  }

  Result<Completion> wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return completion_.finish != FinishReason::kNone; });
    if (error_) return *error_;
    return std::move(completion_);
  }

 private:
  const std::function<void(const TokenEvent&)> on_token_;
  std::mutex mutex_;
  std::condition_variable ended_;
  Completion completion_;
  std::optional<Failure> error_;
};

}  // namespace

LocalEngine::LocalEngine(Config config, const ModelConfig& model, WeightSource& source,
                         const std::function<void(int done, int total)>& progress)
    : layout_(resolve(config.options, model)) {
  const EngineOptions& options = layout_.options;
  const int threads = options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Team team(threads);
  const auto ops = make_cpu_ops(team, options.isa);
  plan_ = memory_plan(layout_, model, *ops);
  weights_ = load_weights(model, source, options.act, *ops, team, layout_.max_model_len, progress);

  const int vocab = config.vocab_size > 0 ? std::min(config.vocab_size, model.vocab_size) : model.vocab_size;
  Router::Config router;
  router.model = {.name = config.served_name,
                  .path = config.path,
                  .vocab_size = model.vocab_size,
                  .context_length_max = 0,
                  .stop_token_ids = config.stop_token_ids};
  router.max_waiting = options.max_waiting;
  // The context is what a decode rank's pages can hold; known before the groups are made.
  router.model.context_length_max = std::min(layout_.max_model_len, layout_.decode_pages * layout_.decode_layout.page_tokens);
  router_ = std::make_unique<Router>(std::move(router));
  decode_ = std::make_unique<DecodeGroup>(layout_, weights_, vocab, config.model_id, *router_);
  if (options.disaggregated) {
    prefill_ = std::make_unique<PrefillGroup>(layout_, weights_, sessions_, decode_->shared_memory(), decode_->shared_cache(),
                                              config.model_id, *router_);
  }
  router_->attach(prefill_.get(), decode_.get(), &sessions_);
  decode_->start_threads();
  if (prefill_) prefill_->start_threads();
  router_->start();
}

LocalEngine::~LocalEngine() { stop(); }

Result<Generator::Ticket> LocalEngine::submit(GenerationRequest request, std::shared_ptr<UpdateListener> listener) {
  return router_->submit(std::move(request), std::move(listener));
}

GeneratorStatus LocalEngine::status() const {
  GeneratorStatus status = router_->status();
  const DecodeGroup::Usage usage = decode_->usage();
  status.pages_used = usage.pages.held;
  status.pages_cached = usage.pages.cached;
  status.pages_total = usage.total_pages;
  if (prefill_ && !layout_.shared_pool) {
    const auto pages = prefill_->cache().usage();
    status.pages_used += pages.held;
    status.pages_cached += pages.cached;
    status.pages_total += prefill_->cache().num_pages();
  }
  status.sessions_open = sessions_.open_sessions();
  status.ready = true;
  const auto check = [&](const char* group, std::optional<TimePoint> since) {
    if (!since || Clock::now() - *since < kStepPatience) return;
    status.ready = false;
    status.reason = fmt::format("a step of the {} group has run for {:.0f} s", group, seconds(Clock::now() - *since));
  };
  check("decode", decode_->step_running_since());
  if (prefill_) check("prefill", prefill_->step_running_since());
  if (prefill_ && prefill_->failed()) {
    status.ready = false;
    status.reason = "the prefill group has failed";
  }
  if (decode_->failed()) {
    status.ready = false;
    status.reason = "the decode group has failed";
  }
  return status;
}

bool LocalEngine::drain(Deadline deadline) {
  router_->drain();
  std::mutex mutex;
  std::condition_variable nobody;
  while (router_->unfinished() > 0 && !deadline.passed()) {
    std::unique_lock lock(mutex);
    nobody.wait_for(lock, std::chrono::milliseconds(20));
  }
  return router_->unfinished() == 0;
}

void LocalEngine::stop() {
  if (prefill_) prefill_->stop();
  decode_->stop();
  router_->stop();
}

std::vector<TokenId> Completion::token_ids() const {
  std::vector<TokenId> ids;
  ids.reserve(tokens.size());
  for (const TokenEvent& token : tokens) ids.push_back(token.token);
  return ids;
}

Result<Completion> complete(Generator& generator, GenerationRequest request, const std::function<void(const TokenEvent&)>& on_token) {
  auto collector = std::make_shared<Collector>(on_token);
  auto ticket = generator.submit(std::move(request), collector);
  if (!ticket) return ticket.failure();
  return collector->wait();
}

}  // namespace qwell
