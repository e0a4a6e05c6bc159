#pragma once
// The decode group: ranks that own their sequences and share the experts, distinct rows. Without disaggregation it runs the prompts too.
//
// Every rank's thread runs its own loop: take what arrived, sample what came with a computed hidden row, run a step over all its sequences,
// sample, report. A rank without work joins the steps that others announce, with zero rows. The ports may be called from any thread.

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/config.h"
#include "engine/rank_context.h"
#include "engine/step_batch.h"
#include "engine/work.h"

namespace qwell {

class DecodeGroup final : public DecodePort {
 public:
  // `tokens_padded_from`: ids at and beyond it have no meaning and are never chosen.
  DecodeGroup(const EngineLayout& layout, const ModelWeights& weights, int vocab_size, const std::string& model_id, EngineEvents& events);
  ~DecodeGroup() override;

  void start_threads();
  void stop();

  std::shared_ptr<DecodePlace> reserve(const Work& work) override;
  void add(Work work, std::shared_ptr<DecodePlace> place, bool prefilled) override;
  void cancel(Ticket ticket) override;
  int tokens_max() const override;

  // Where all ranks use the same pages.
  std::shared_ptr<KvMemory> shared_memory() const;
  std::shared_ptr<PageCache> shared_cache() const;

  struct Usage {
    PageCache::Usage pages;
    int total_pages = 0;
    int sequences = 0;
  };
  Usage usage() const;
  bool failed() const;
  std::optional<TimePoint> step_running_since() const;

 private:
  struct Sequence;
  struct Rank;

  void drive(Rank& rank);
  void take_inbox(Rank& rank);
  void drop_cancelled(Rank& rank);
  void sample_arrivals(Rank& rank);
  void compose(Rank& rank);
  bool make_room(Rank& rank, Sequence& sequence);
  void preempt(Rank& rank, Sequence& sequence);
  void finish_step(Rank& rank, View hidden);
  // Samples one token for each of `sequences` from the rows `index` of `hidden`, and reports them.
  void sample(Rank& rank, View hidden, const std::vector<std::int32_t>& index, const std::vector<Sequence*>& sequences);
  FinishReason append(Sequence& sequence, TokenId token) const;
  void end(Rank& rank, Sequence& sequence);
  void sweep_ended(Rank& rank);
  void fail_all(Rank& rank, const Failure& failure);

  const EngineLayout layout_;
  const ModelWeights& weights_;
  const int vocab_size_;
  EngineEvents& events_;
  std::shared_ptr<GroupWindow> window_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace qwell
