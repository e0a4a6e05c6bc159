#pragma once
// The prefill group: ranks that run prompts in chunks, replicated rows, and write the keys and values to the decode rank while they
// compute.
//
// Rank 0 leads: it decides what the next step holds and gives the order to the others. Every rank's thread runs the same forward pass over
// its own heads and experts and pushes its own heads' pages. start(), can_accept() and cancel() may be called from any thread.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/config.h"
#include "engine/rank_context.h"
#include "engine/step_batch.h"
#include "engine/work.h"

namespace qwell {

class PrefillGroup final : public PrefillPort {
 public:
  // `shared`: the memory and cache of the decode side, where both use the same pages; else empty, and the group has its own.
  PrefillGroup(const EngineLayout& layout, const ModelWeights& weights, SessionTable& sessions, std::shared_ptr<KvMemory> shared_memory,
               std::shared_ptr<PageCache> shared_cache, const std::string& model_id, EngineEvents& events);
  ~PrefillGroup() override;

  void start_threads();
  void stop();

  bool can_accept(int tokens) const override;
  bool start(Work& work, std::shared_ptr<DecodePlace> place) override;
  void cancel(Ticket ticket) override;

  PageCache& cache() { return *cache_; }
  // Shards of the pages by rank, for session plans.
  std::vector<KvShard> shards() const;
  bool failed() const { return stopped_; }
  // When the last step began, while one runs; for readiness.
  std::optional<TimePoint> step_running_since() const;

 private:
  // One prompt in work.
  struct Job {
    Work work;
    std::shared_ptr<DecodePlace> place;
    PageTable own_pages;  // empty where the pool is shared: then the place's pages are written
    int computed = 0;     // tokens whose keys and values are in the pages, cached ones included
    int cached = 0;
    std::atomic<bool> cancelled{false};
    PromptLogprobs logprobs;

    const std::vector<std::int32_t>& pages() const { return own_pages.empty() ? place->pages.pages() : own_pages.pages(); }
    int length() const { return static_cast<int>(work.tokens.size()); }
  };
  // What a rank keeps between steps.
  struct Rank;

  void lead(Rank& rank);
  void follow(Rank& rank);
  // Chooses the rows of the next step and writes the order; false when there is nothing to do.
  bool compose(std::vector<std::byte>& order, StepBatch& batch);
  Result<View> run(Rank& rank, std::uint64_t step, StepBatch& batch, std::span<const std::byte> jobs);
  void finish_step(Rank& rank, View hidden, const StepBatch& batch);
  void complete(const std::shared_ptr<Job>& job, View hidden, int last_row, Rank& rank);
  void fail_all(const Failure& failure);
  void drop_cancelled();
  std::shared_ptr<Job> find(Ticket ticket, std::uint32_t attempt) const;

  const EngineLayout layout_;
  const ModelWeights& weights_;
  SessionTable& sessions_;
  LocalTransport transport_;
  EngineEvents& events_;
  std::shared_ptr<GroupWindow> window_;
  std::shared_ptr<PageCache> cache_;
  std::vector<std::unique_ptr<Rank>> ranks_;

  mutable std::mutex mutex_;
  std::condition_variable work_came_;
  std::deque<std::shared_ptr<Job>> jobs_;                        // in order of start
  std::vector<std::pair<std::shared_ptr<Job>, Range>> running_;  // of the step: job, tokens
  bool stopping_ = false;
  std::atomic<bool> stopped_{false};
  std::atomic<std::int64_t> step_began_{0};  // nanoseconds of Clock, 0 while idle
  std::vector<std::thread> threads_;
};

}  // namespace qwell
