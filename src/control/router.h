#pragma once
// Where requests wait, and nowhere else: bounded, in order of arrival, holding nothing but their text. A request leaves when a prefill
// group can start it and a decode rank has pages for it; what was preempted goes first, oldest first. The router keeps the tokens that were
// sent, takes each position once and drops what older attempts still report.
//
// Threads: submit, cancel and status from anywhere; the events from the engine's threads; one thread of its own does the dispatching and
// all that may take a moment. Listeners are called by engine threads or the router's thread, one call at a time per request, with no lock
// held but the request's own.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/work.h"
#include "request/request.h"
#include "transfer/session.h"

namespace qwell {

class Router final : public Generator, public EngineEvents {
 public:
  struct Config {
    ModelInfo model;
    int max_waiting = 1024;
  };

  explicit Router(Config config);
  ~Router() override;

  // Before start(): the groups, of which prefill may be null (the decode group runs prompts). They outlive stop().
  void attach(PrefillPort* prefill, DecodePort* decode, SessionTable* sessions);
  void start();
  // Ends every request with kCancelled and the thread. The groups must have stopped.
  void stop();
  // Refuses new requests from now on; those in work go on.
  void drain() { draining_ = true; }
  int unfinished() const;

  Result<Ticket> submit(GenerationRequest request, std::shared_ptr<UpdateListener> listener) override;
  void cancel(Ticket ticket) override;
  const ModelInfo& model() const override { return config_.model; }
  GeneratorStatus status() const override;  // what the router itself knows; pages and readiness are added by who owns the groups

  void prefilled(Work work, std::shared_ptr<DecodePlace> place, int cached_tokens, PromptLogprobs logprobs, KvBytes bytes) override;
  void generated(std::span<Generated> tokens) override;
  void preempted(Work work) override;
  void failed(Ticket ticket, std::uint32_t attempt, const Failure& failure) override;
  void capacity_freed() override;

 private:
  struct Entry;
  using EntryPtr = std::shared_ptr<Entry>;

  void run();
  void do_cancels();
  void end_late();
  bool dispatch_next();
  EntryPtr find(Ticket ticket) const;
  void put_back(const EntryPtr& entry);
  void finish(const EntryPtr& entry, FinishReason reason, std::optional<Failure> error);
  void signal();

  const Config config_;
  PrefillPort* prefill_ = nullptr;
  DecodePort* decode_ = nullptr;
  SessionTable* sessions_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool something_changed_ = false;
  bool stopping_ = false;
  std::unordered_map<Ticket, EntryPtr> entries_;
  std::deque<EntryPtr> waiting_;  // by age
  std::vector<Ticket> cancels_;
  Ticket next_ticket_ = 1;
  std::atomic<bool> draining_{false};
  std::thread thread_;

  struct Counters {
    std::atomic<std::uint64_t> prompt_tokens{0}, generated_tokens{0}, preemptions{0}, bytes_moved{0}, bytes_shared{0}, hit_tokens{0};
  } counters_;
};

}  // namespace qwell
