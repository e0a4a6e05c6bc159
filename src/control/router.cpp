#include "control/router.h"

#include <algorithm>

#include "base/check.h"

namespace qwell {
namespace {

constexpr Duration kHousekeeping = std::chrono::milliseconds(200);

}  // namespace

// Everything but `delivery` and what it guards is under the router's mutex.
struct Router::Entry {
  enum class Stage { kWaiting, kPrefill, kDecode, kEnded };

  Ticket ticket = 0;
  std::uint32_t attempt = 0;
  std::shared_ptr<const GenerationRequest> request;
  std::shared_ptr<UpdateListener> listener;
  Stage stage = Stage::kWaiting;
  bool cancelled = false;
  std::optional<Failure> cancel_failure;  // set where the cancel is not the caller's: a deadline
  TimePoint submitted, stage_began;

  std::mutex delivery;
  bool ended = false;
  std::vector<TokenId> tokens;  // the answer so far
  RequestTiming timing;
  int cached_tokens = 0;
  bool reported_prompt = false;
  PromptLogprobs scores;
};

Router::Router(Config config) : config_(std::move(config)) {}

Router::~Router() { stop(); }

void Router::attach(PrefillPort* prefill, DecodePort* decode, SessionTable* sessions) {
  prefill_ = prefill;
  decode_ = decode;
  sessions_ = sessions;
}

void Router::start() {
  QWELL_CHECK(decode_ != nullptr, "no decode group is attached");
  thread_ = std::thread([this] { run(); });
}

void Router::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::vector<EntryPtr> left;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [ticket, entry] : entries_) left.push_back(entry);
  }
  for (const EntryPtr& entry : left)
    finish(entry, FinishReason::kCancelled, Failure{FailureCode::kUnavailable, "the server is stopping", {}});
}

int Router::unfinished() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(entries_.size());
}

Result<Router::Ticket> Router::submit(GenerationRequest request, std::shared_ptr<UpdateListener> listener) {
  if (auto valid = validate(request, config_.model.vocab_size, config_.model.context_length_max); !valid) return valid.failure();
  if (draining_) return failure(FailureCode::kUnavailable, "the server is stopping");
  auto entry = std::make_shared<Entry>();
  entry->request = std::make_shared<const GenerationRequest>(std::move(request));
  entry->listener = std::move(listener);
  entry->submitted = entry->stage_began = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return failure(FailureCode::kUnavailable, "the server is stopping");
    if (static_cast<int>(waiting_.size()) >= config_.max_waiting) {
      return failure(FailureCode::kOverloaded, "{} requests are waiting already; try again later", waiting_.size());
    }
    entry->ticket = next_ticket_++;
    entries_.emplace(entry->ticket, entry);
    waiting_.push_back(entry);
    something_changed_ = true;
  }
  changed_.notify_one();
  counters_.prompt_tokens += entry->request->prompt.size();
  return entry->ticket;
}

void Router::cancel(Ticket ticket) {
  {
    const std::lock_guard lock(mutex_);
    cancels_.push_back(ticket);
    something_changed_ = true;
  }
  changed_.notify_one();
}

GeneratorStatus Router::status() const {
  GeneratorStatus status;
  {
    const std::lock_guard lock(mutex_);
    status.waiting = static_cast<int>(waiting_.size());
    status.running = static_cast<int>(entries_.size() - waiting_.size());
  }
  status.prompt_tokens = counters_.prompt_tokens;
  status.generated_tokens = counters_.generated_tokens;
  status.preemptions = counters_.preemptions;
  status.kv_bytes_moved = counters_.bytes_moved;
  status.kv_bytes_shared = counters_.bytes_shared;
  status.prefix_hit_tokens = counters_.hit_tokens;
  return status;
}

void Router::signal() {
  {
    const std::lock_guard lock(mutex_);
    something_changed_ = true;
  }
  changed_.notify_one();
}

void Router::capacity_freed() { signal(); }

void Router::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kHousekeeping, [this] { return stopping_ || something_changed_; });
      if (stopping_) return;
      something_changed_ = false;
    }
    do_cancels();
    end_late();
    while (dispatch_next()) {
    }
    if (sessions_ != nullptr) sessions_->sweep();
  }
}

void Router::do_cancels() {
  std::vector<EntryPtr> ended_here;
  std::vector<Ticket> elsewhere;
  {
    const std::lock_guard lock(mutex_);
    for (const Ticket ticket : cancels_) {
      const auto found = entries_.find(ticket);
      if (found == entries_.end()) continue;
      const EntryPtr& entry = found->second;
      entry->cancelled = true;
      if (entry->stage == Entry::Stage::kWaiting) {
        waiting_.erase(std::find(waiting_.begin(), waiting_.end(), entry));
        entry->stage = Entry::Stage::kEnded;  // a ticket may be cancelled twice
        ended_here.push_back(entry);
      } else if (entry->stage != Entry::Stage::kEnded) {
        elsewhere.push_back(ticket);
      }
    }
    cancels_.clear();
  }
  for (const EntryPtr& entry : ended_here) {
    finish(entry, entry->cancel_failure ? FinishReason::kError : FinishReason::kCancelled, entry->cancel_failure);
  }
  for (const Ticket ticket : elsewhere) {
    if (prefill_ != nullptr) prefill_->cancel(ticket);
    decode_->cancel(ticket);
  }
}

void Router::end_late() {
  const std::lock_guard lock(mutex_);
  for (const auto& [ticket, entry] : entries_) {
    if (entry->cancelled || !entry->request->deadline.passed()) continue;
    entry->cancelled = true;
    entry->cancel_failure =
        failure(FailureCode::kDeadline, "the request's deadline passed after {:.1f} s", seconds(Clock::now() - entry->submitted));
    cancels_.push_back(ticket);
    something_changed_ = true;
  }
}

// Starts the oldest waiting request if it can be; true if another may follow.
bool Router::dispatch_next() {
  EntryPtr entry;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return false;
    entry = waiting_.front();
  }
  Work work{.ticket = entry->ticket,
            .attempt = entry->attempt + 1,
            .age = entry->ticket,
            .request = entry->request,
            .tokens = entry->request->prompt};
  work.tokens.insert(work.tokens.end(), entry->tokens.begin(), entry->tokens.end());
  const bool generates = entry->request->max_tokens > 0;
  if (prefill_ != nullptr && !prefill_->can_accept(static_cast<int>(work.tokens.size()))) return false;
  std::shared_ptr<DecodePlace> place;
  if (generates || prefill_ == nullptr) {
    place = decode_->reserve(work);
    if (place == nullptr) return false;
  }
  {
    const std::lock_guard lock(mutex_);
    // Only this thread takes from the queue, but a preempted request may have come before this one.
    const auto at = std::find(waiting_.begin(), waiting_.end(), entry);
    waiting_.erase(at);
    entry->attempt = work.attempt;
    entry->stage = Entry::Stage::kPrefill;
    const TimePoint now = Clock::now();
    entry->timing.queued += seconds(now - entry->stage_began);
    entry->stage_began = now;
  }
  if (prefill_ == nullptr) {
    decode_->add(std::move(work), std::move(place), false);
    return true;
  }
  if (prefill_->start(work, std::move(place))) return true;
  put_back(entry);
  return false;
}

void Router::put_back(const EntryPtr& entry) {
  const std::lock_guard lock(mutex_);
  entry->stage = Entry::Stage::kWaiting;
  entry->stage_began = Clock::now();
  const auto at = std::upper_bound(waiting_.begin(), waiting_.end(), entry->ticket,
                                   [](Ticket ticket, const EntryPtr& other) { return ticket < other->ticket; });
  waiting_.insert(at, entry);
  if (entry->cancelled) {
    cancels_.push_back(entry->ticket);
    something_changed_ = true;
  }
}

Router::EntryPtr Router::find(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(ticket);
  return found == entries_.end() ? nullptr : found->second;
}

void Router::finish(const EntryPtr& entry, FinishReason reason, std::optional<Failure> error) {
  {
    const std::lock_guard lock(mutex_);
    if (entries_.erase(entry->ticket) == 0) return;
    entry->stage = Entry::Stage::kEnded;
    something_changed_ = true;
  }
  {
    const std::lock_guard lock(entry->delivery);
    if (entry->ended) return;
    entry->ended = true;
    Update update;
    update.finish = reason;
    update.error = std::move(error);
    update.cached_tokens = entry->cached_tokens;
    update.timing = entry->timing;
    if (!entry->reported_prompt) update.prompt_logprobs = std::move(entry->scores.tokens);
    entry->listener->on_update(std::move(update));
  }
  changed_.notify_one();
}

void Router::prefilled(Work work, std::shared_ptr<DecodePlace> place, int cached_tokens, PromptLogprobs logprobs, KvBytes bytes) {
  const EntryPtr entry = find(work.ticket);
  if (entry == nullptr) return;
  counters_.bytes_moved += bytes.moved;
  counters_.bytes_shared += bytes.shared;
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    if (entry->attempt != work.attempt) return;
    cancelled = entry->cancelled;
    entry->stage = Entry::Stage::kDecode;
    const TimePoint now = Clock::now();
    entry->timing.prefill += seconds(now - entry->stage_began);
    entry->stage_began = now;
    entry->timing.kv_bytes_moved += bytes.moved;
    entry->timing.kv_bytes_shared += bytes.shared;
  }
  {
    const std::lock_guard lock(entry->delivery);
    if (work.generated() == 0) {
      entry->cached_tokens = cached_tokens;
      counters_.hit_tokens += static_cast<std::uint64_t>(cached_tokens);
      if (!entry->reported_prompt) entry->scores = std::move(logprobs);
    }
  }
  if (cancelled) {
    place.reset();  // what it held is free before the caller learns of the end
    finish(entry, entry->cancel_failure ? FinishReason::kError : FinishReason::kCancelled, entry->cancel_failure);
  } else if (work.request->max_tokens == 0) {
    finish(entry, FinishReason::kLength, std::nullopt);
  } else if (place != nullptr) {
    const Ticket ticket = entry->ticket;
    decode_->add(std::move(work), std::move(place), true);
    // A cancel that came in between found the sequence in neither group.
    bool missed = false;
    {
      const std::lock_guard lock(mutex_);
      missed = entry->cancelled;
    }
    if (missed) decode_->cancel(ticket);
  }
}

void Router::generated(std::span<Generated> tokens) {
  for (Generated& one : tokens) {
    const EntryPtr entry = find(one.ticket);
    if (entry == nullptr) continue;
    {
      const std::lock_guard lock(mutex_);
      if (entry->attempt != one.attempt) continue;
      if (one.finish != FinishReason::kNone) entry->timing.decode += seconds(Clock::now() - entry->stage_began);
    }
    Update update;
    {
      const std::lock_guard lock(entry->delivery);
      if (entry->ended) continue;
      QWELL_CHECK(one.token.index == static_cast<int>(entry->tokens.size()), "ticket {}: token {} after {}", one.ticket, one.token.index,
                  entry->tokens.size());
      entry->tokens.push_back(one.token.token);
      ++counters_.generated_tokens;
      update.tokens.push_back(std::move(one.token));
      update.finish = one.finish;
      update.cached_tokens = entry->cached_tokens;
      update.timing = entry->timing;
      if (!entry->reported_prompt) {
        update.prompt_logprobs = std::move(entry->scores.tokens);
        entry->reported_prompt = true;
      }
      if (one.finish != FinishReason::kNone) entry->ended = true;
    }
    if (one.finish != FinishReason::kNone) {
      const std::lock_guard lock(mutex_);
      entries_.erase(one.ticket);
      entry->stage = Entry::Stage::kEnded;
    }
    entry->listener->on_update(std::move(update));
  }
  signal();
}

void Router::preempted(Work work) {
  const EntryPtr entry = find(work.ticket);
  if (entry == nullptr) return;
  ++counters_.preemptions;
  {
    const std::lock_guard lock(mutex_);
    if (entry->attempt != work.attempt) return;
    ++entry->timing.preemptions;
    entry->timing.decode += seconds(Clock::now() - entry->stage_began);
  }
  put_back(entry);
  signal();
}

void Router::failed(Ticket ticket, std::uint32_t attempt, const Failure& why) {
  const EntryPtr entry = find(ticket);
  if (entry == nullptr) return;
  std::optional<Failure> error = why;
  FinishReason reason = FinishReason::kError;
  {
    const std::lock_guard lock(mutex_);
    if (entry->attempt != attempt) return;
    if (why.code == FailureCode::kCancelled) {
      error = entry->cancel_failure;
      reason = error ? FinishReason::kError : FinishReason::kCancelled;
    }
  }
  finish(entry, reason, std::move(error));
}

}  // namespace qwell
