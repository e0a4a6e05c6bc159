#include "engine/prefill_group.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "engine/prompt_scores.h"

namespace qwell {
namespace {

using JobKey = std::pair<Ticket, std::uint32_t>;

// What an order says about a job besides its rows.
struct OrderedJob {
  Ticket ticket;
  std::uint32_t attempt;
  std::int32_t computed_end;
};

constexpr std::uint8_t kStopOrder = 0;
constexpr std::uint8_t kStepOrder = 1;

}  // namespace

struct PrefillGroup::Rank {
  Rank(const EngineLayout& layout, const ModelWeights& weights, std::shared_ptr<GroupWindow> window, int index)
      : context(weights, std::move(window), index, layout.prefill_threads, layout.spin_us, layout.options.isa,
                layout.options.step_deadline) {}

  RankContext context;
  std::shared_ptr<KvMemory> kv;
  std::map<JobKey, SessionWriter> writers;  // of the jobs of the last step
};

namespace {

// Pushes the pages of every layer as soon as its keys are written.
template <class Pushes>
class PushHooks final : public ForwardHooks {
 public:
  explicit PushHooks(Pushes push) : push_(std::move(push)) {}
  void keys_written(int layer) override { push_(layer); }
  void layer_done(int, View, Range) override {}

 private:
  Pushes push_;
};

}  // namespace

PrefillGroup::PrefillGroup(const EngineLayout& layout, const ModelWeights& weights, SessionTable& sessions,
                           std::shared_ptr<KvMemory> shared_memory, std::shared_ptr<PageCache> shared_cache, const std::string& model_id,
                           EngineEvents& events)
    : layout_(layout),
      weights_(weights),
      sessions_(sessions),
      transport_(sessions),
      events_(events),
      window_(make_local_window(layout.prefill_shape)),
      cache_(std::move(shared_cache)) {
  if (cache_ == nullptr) {
    cache_ = std::make_shared<PageCache>(layout.prefill_pages, layout.options.prefill_page_tokens, model_id, layout.options.prefix_caching);
  }
  for (int r = 0; r < layout.options.prefill_ranks; ++r) {
    auto rank = std::make_unique<Rank>(layout, weights, window_, r);
    rank->kv = shared_memory != nullptr ? shared_memory
                                        : std::make_shared<KvMemory>(weights.config.num_layers, layout.prefill_pages,
                                                                     prefill_layout(layout, weights.config, r), "prefill pages");
    ranks_.push_back(std::move(rank));
  }
}

PrefillGroup::~PrefillGroup() { stop(); }

void PrefillGroup::start_threads() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    threads_.emplace_back([this, r] { r == 0 ? lead(*ranks_[r]) : follow(*ranks_[r]); });
  }
}

void PrefillGroup::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_came_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  const std::lock_guard lock(mutex_);
  jobs_.clear();
}

std::vector<KvShard> PrefillGroup::shards() const {
  std::vector<KvShard> shards;
  for (const auto& rank : ranks_) shards.push_back({rank->context.model.kv_heads(), rank->kv->layout()});
  return shards;
}

std::optional<TimePoint> PrefillGroup::step_running_since() const {
  const std::int64_t began = step_began_.load(std::memory_order_relaxed);
  if (began == 0) return std::nullopt;
  return TimePoint(Duration(began));
}

bool PrefillGroup::can_accept(int tokens) const {
  const std::lock_guard lock(mutex_);
  if (stopping_ || stopped_) return false;
  // One chunk runs, one waits: what is left to compute, with the new prompt's first chunk, stays within two.
  std::int64_t pending = 0;
  for (const auto& job : jobs_) pending += job->length() - job->computed;
  const int chunk = layout_.options.max_num_batched_tokens;
  return pending == 0 || pending + std::min(tokens, chunk) <= 2 * std::int64_t{chunk};
}

bool PrefillGroup::start(Work& work, std::shared_ptr<DecodePlace> place) {
  auto job = std::make_shared<Job>();
  const bool own = place == nullptr || !layout_.shared_pool;
  if (own) {
    const std::span<const TokenId> reusable = work.scores_prompt() ? std::span<const TokenId>() : std::span(work.tokens);
    auto pages = cache_->acquire(reusable, work.request->cache_salt, static_cast<int>(work.tokens.size()));
    if (!pages) return false;
    job->own_pages = std::move(*pages);
    job->cached = job->own_pages.cached_tokens();
  } else {
    job->cached = place->pages.cached_tokens();
  }
  job->computed = job->cached;
  if (place != nullptr && !layout_.shared_pool) {
    SessionPlan plan{.id = work.ticket,
                     .layers = weights_.config.num_layers,
                     .first_position = place->pages.cached_tokens(),
                     .end_position = static_cast<int>(work.tokens.size()),
                     .sources = shards(),
                     .destination = place->shard,
                     .hidden_bytes = static_cast<std::int64_t>(place->hidden.size())};
    place->session = sessions_.open(std::move(plan), place->address, Deadline::in(layout_.options.session_deadline));
  }
  job->place = std::move(place);
  job->work = std::move(work);
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  work_came_.notify_one();
  return true;
}

void PrefillGroup::cancel(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->work.ticket == ticket) job->cancelled = true;
  }
  work_came_.notify_one();
}

std::shared_ptr<PrefillGroup::Job> PrefillGroup::find(Ticket ticket, std::uint32_t attempt) const {
  const std::lock_guard lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->work.ticket == ticket && job->work.attempt == attempt) return job;
  }
  return nullptr;
}

// Between steps no rank writes, so a job may be dropped with its pages and its place. Called with no lock held.
void PrefillGroup::drop_cancelled() {
  std::vector<std::shared_ptr<Job>> dropped;
  {
    const std::lock_guard lock(mutex_);
    const auto kept = std::stable_partition(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job->cancelled.load(); });
    dropped.assign(kept, jobs_.end());
    jobs_.erase(kept, jobs_.end());
  }
  for (const auto& job : dropped) {
    const Failure why{FailureCode::kCancelled, "cancelled by the caller", {}};
    if (job->place != nullptr && job->place->session != nullptr) job->place->session->fail(why);
    events_.failed(job->work.ticket, job->work.attempt, why);
  }
  if (!dropped.empty()) {
    dropped.clear();
    events_.capacity_freed();
  }
}

bool PrefillGroup::compose(std::vector<std::byte>& order, StepBatch& batch) {
  order.clear();
  batch.clear();
  running_.clear();
  const std::lock_guard lock(mutex_);
  int budget = layout_.options.max_num_batched_tokens;
  for (const auto& job : jobs_) {
    const int count = std::min(budget, job->length() - job->computed);
    if (count <= 0) break;
    batch.add(job->work.tokens, job->computed, job->computed + count, job->pages());
    running_.push_back({job, {job->computed, count}});
    budget -= count;
  }
  if (running_.empty()) return false;
  append_value(order, kStepOrder);
  batch.append_bytes(order);
  append_value(order, static_cast<std::uint32_t>(running_.size()));
  for (const auto& [job, range] : running_) append_value(order, OrderedJob{job->work.ticket, job->work.attempt, range.end()});
  return true;
}

void PrefillGroup::lead(Rank& rank) {
  std::vector<std::byte> order;
  StepBatch batch;
  std::uint64_t step = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      work_came_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) break;
    }
    drop_cancelled();
    if (!compose(order, batch)) continue;
    step_began_ = Clock::now().time_since_epoch().count();
    ++step;
    auto published = rank.context.member.publish_order(step, order);
    auto hidden = published ? run(rank, step, batch, std::span(order).subspan(order.size() - running_.size() * sizeof(OrderedJob) - 4))
                            : Result<View>(published.failure());
    if (!hidden) {
      fail_all(hidden.failure());
      break;
    }
    finish_step(rank, *hidden, batch);
    step_began_ = 0;
  }
  order.clear();
  append_value(order, kStopOrder);
  if (auto published = rank.context.member.publish_order(step + 1, order); !published && !stopped_) {
    log::warn("{}: the stop order did not reach all ranks: {}", layout_.prefill_shape.name, published.failure().message);
  }
}

void PrefillGroup::follow(Rank& rank) {
  StepBatch batch;
  for (std::uint64_t step = 1;; ++step) {
    auto order = rank.context.member.await_order(step, std::chrono::seconds(1));
    while (!order && order.failure().code == FailureCode::kDeadline && !stopped_) {
      order = rank.context.member.await_order(step, std::chrono::seconds(1));
    }
    if (!order) return;
    std::span<const std::byte> bytes = *order;
    if (read_value<std::uint8_t>(bytes) == kStopOrder) return;
    bytes = batch.read_bytes(bytes);
    // The order's memory is used again as soon as the next one is published; that needs this rank's consent, given by asking for it.
    if (auto hidden = run(rank, step, batch, bytes); !hidden) {
      log::error("{}", hidden.failure().message);
      return;
    }
  }
}

Result<View> PrefillGroup::run(Rank& rank, std::uint64_t step, StepBatch& batch, std::span<const std::byte> jobs) {
  struct Push {
    SessionWriter* writer;
    std::span<const std::int32_t> pages;
    int computed_end;
  };
  std::vector<Push> pushes;
  std::map<JobKey, SessionWriter> writers;
  const auto count = read_value<std::uint32_t>(jobs);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto ordered = read_value<OrderedJob>(jobs);
    const JobKey key{ordered.ticket, ordered.attempt};
    auto writer = rank.writers.extract(key);
    if (writer.empty()) {
      const std::shared_ptr<Job> job = find(ordered.ticket, ordered.attempt);
      if (job == nullptr || job->place == nullptr || job->place->session == nullptr) continue;
      const Session& session = *job->place->session;
      writers.emplace(key, SessionWriter(session.plan(), session.address(), rank.context.member.rank(), transport_));
    } else {
      writers.insert(std::move(writer));
    }
    pushes.push_back({&writers.at(key), batch.block_table(static_cast<int>(i)), ordered.computed_end});
  }
  rank.writers = std::move(writers);  // nodes keep their addresses

  std::optional<Failure> push_failure;
  PushHooks hooks([&](int layer) {
    const auto* base = static_cast<const std::byte*>(rank.kv->layer(layer).base);
    for (const Push& push : pushes) {
      auto pushed = push.writer->push(layer, push.computed_end, base, push.pages);
      if (!pushed) push_failure = pushed.failure();
    }
  });
  rank.context.member.begin_step(step);
  auto hidden = rank.context.model.forward(batch.step(*rank.kv, &hooks));
  if (hidden && push_failure) return *push_failure;
  return hidden;
}

void PrefillGroup::finish_step(Rank& rank, View hidden, const StepBatch& batch) {
  bool freed = false;
  for (std::size_t s = 0; s < running_.size(); ++s) {
    const auto& [job, range] = running_[s];
    if (job->work.scores_prompt()) {
      append_prompt_scores(rank.context, hidden, batch.first_row(static_cast<int>(s)), job->work.tokens, range.first, range.end(),
                           job->work.request->prompt_logprobs, job->logprobs);
    }
    {
      const std::lock_guard lock(mutex_);
      job->computed = range.end();
    }
    PageTable& pages = job->own_pages.empty() ? job->place->pages : job->own_pages;
    pages.publish(job->work.tokens, range.end());
    if (range.end() == job->length()) {
      complete(job, hidden, batch.last_row(static_cast<int>(s)), rank);
      freed = true;
    }
  }
  running_.clear();
  if (freed) events_.capacity_freed();
}

void PrefillGroup::complete(const std::shared_ptr<Job>& job, View hidden, int last_row, Rank& rank) {
  KvBytes kv;
  std::optional<Failure> fault;
  if (job->place != nullptr) {
    const auto* row = static_cast<const std::byte*>(hidden.at_bytes(last_row * hidden.stride[0]));
    const std::span bytes(row, job->place->hidden.size());
    if (job->place->session == nullptr) {
      std::copy(bytes.begin(), bytes.end(), job->place->hidden.begin());
      const auto pages = static_cast<std::size_t>(job->place->shard.layout.pages_for(job->length()));
      kv.shared = pages * KvMemory::bytes(weights_.config.num_layers, 1, job->place->shard.layout);
    } else {
      // All ranks have pushed their pages: forward() ended with a join after the last of them.
      auto pushed = rank.writers.at({job->work.ticket, job->work.attempt}).push_hidden(bytes);
      const Session& session = *job->place->session;
      if (!pushed) {
        fault = pushed.failure();
      } else if (session.state() == SessionState::kFailed) {
        fault = session.failure();
      } else {
        QWELL_CHECK(session.state() == SessionState::kComplete, "session {} is {}, {} units are missing", session.plan().id,
                    to_string(session.state()), session.missing());
        kv.moved = static_cast<std::uint64_t>(session.plan().kv_bytes());
      }
    }
  }
  rank.writers.erase({job->work.ticket, job->work.attempt});
  {
    const std::lock_guard lock(mutex_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), job));
  }
  job->own_pages.release();  // before anybody learns that the prompt is done
  if (fault) {
    events_.failed(job->work.ticket, job->work.attempt, *fault);
  } else {
    events_.prefilled(std::move(job->work), std::move(job->place), job->cached, std::move(job->logprobs), kv);
  }
}

void PrefillGroup::fail_all(const Failure& failure) {
  log::error("{}", failure.message);
  std::deque<std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    jobs.swap(jobs_);
  }
  for (const auto& job : jobs) {
    if (job->place != nullptr && job->place->session != nullptr) job->place->session->fail(failure);
    events_.failed(job->work.ticket, job->work.attempt, failure);
  }
}

}  // namespace qwell
