#include "server/support/fake_generator.h"

#include <algorithm>
#include <chrono>

namespace qwell::test {

FakeGenerator::Answer say(std::string text, int batch) {
  return [text = std::move(text), batch](const GenerationRequest&) {
    Script script{.tokens = bytes_of(text), .batch = batch};
    script.tokens.push_back(kEos);
    return script;
  };
}

FakeGenerator::FakeGenerator(Answer answer) : answer_(std::move(answer)) {
  model_ = {.name = "fake", .path = "", .vocab_size = kVocabSize, .context_length_max = 4096, .stop_token_ids = {kEos, kTurnEnd}};
  thread_ = std::thread([this] { run(); });
}

FakeGenerator::~FakeGenerator() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<Generator::Ticket> FakeGenerator::submit(GenerationRequest request, std::shared_ptr<UpdateListener> listener) {
  const std::lock_guard lock(mutex_);
  if (auto valid = validate(request, model_.vocab_size, model_.context_length_max); !valid) return valid.failure();
  if (static_cast<int>(jobs_.size()) >= capacity_) return failure(FailureCode::kOverloaded, "the queue is full");
  requests_.push_back(request);
  Job job{.request = request, .listener = std::move(listener), .script = answer_(request)};
  jobs_.emplace(next_ticket_, std::move(job));
  ++submitted_;
  changed_.notify_all();
  return next_ticket_++;
}

void FakeGenerator::cancel(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(ticket);
  if (found == jobs_.end() || found->second.cancelled) return;
  found->second.cancelled = true;
  ++cancelled_;
  changed_.notify_all();
}

GeneratorStatus FakeGenerator::status() const {
  const std::lock_guard lock(mutex_);
  GeneratorStatus s;
  s.ready = ready_;
  s.reason = reason_;
  s.running = running();
  return s;
}

void FakeGenerator::set_answer(Answer answer) {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(answer);
}

void FakeGenerator::set_capacity(int requests) {
  const std::lock_guard lock(mutex_);
  capacity_ = requests;
}

void FakeGenerator::set_ready(bool ready, std::string reason) {
  const std::lock_guard lock(mutex_);
  ready_ = ready;
  reason_ = std::move(reason);
}

void FakeGenerator::release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

bool FakeGenerator::wait_until(const std::function<bool(const FakeGenerator&)>& condition) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return condition(*this); });
}

std::vector<GenerationRequest> FakeGenerator::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

// Values that a test can compute: -(1 + token % 7) / 8 for the chosen token, alternatives are the ids below it, each 0.5 worse.
TokenEvent FakeGenerator::event(const GenerationRequest& request, std::size_t index, TokenId token, int alternatives) const {
  TokenEvent e;
  e.index = static_cast<int>(index);
  e.token = token;
  if (alternatives < 0) return e;
  e.logprob = -static_cast<float>(1 + token % 7) / 8.0F;
  for (int i = 0; i < alternatives; ++i) {
    const TokenId other = (token + model_.vocab_size - i) % model_.vocab_size;
    e.top.push_back({other, e.logprob - 0.5F * static_cast<float>(i)});
  }
  (void)request;
  return e;
}

Update FakeGenerator::next_update(Job& job) {
  Update u;
  const auto& r = job.request;
  u.cached_tokens = job.script.cached_tokens;
  if (std::exchange(job.first, false) && r.prompt_logprobs >= 0) {
    for (std::size_t i = 0; i < r.prompt.size(); ++i) {
      u.prompt_logprobs.push_back(i == 0 ? std::nullopt : std::optional(event(r, i, r.prompt[i], r.prompt_logprobs)));
    }
  }
  if (job.cancelled) {
    u.finish = FinishReason::kCancelled;
    return u;
  }
  for (int i = 0; i < job.script.batch && u.finish == FinishReason::kNone; ++i) {
    if (job.script.fail_at == job.next) {
      u.finish = FinishReason::kError;
      u.error = job.script.error;
      return u;
    }
    if (job.script.hold_at == job.next && !released_) return u;
    const auto& tokens = job.script.tokens;
    const bool out = !job.script.forever && job.next >= tokens.size();
    if (out || job.next >= static_cast<std::size_t>(r.max_tokens)) {
      u.finish = FinishReason::kLength;
      return u;
    }
    const TokenId token = tokens[job.next % tokens.size()];
    u.tokens.push_back(event(r, job.next, token, r.logprobs));
    ++job.next;
    ++tokens_sent_;
    if (std::find(r.stop_token_ids.begin(), r.stop_token_ids.end(), token) != r.stop_token_ids.end()) u.finish = FinishReason::kStop;
    if (u.finish == FinishReason::kNone && job.next >= static_cast<std::size_t>(r.max_tokens)) u.finish = FinishReason::kLength;
  }
  return u;
}

void FakeGenerator::run() {
  std::unique_lock lock(mutex_);
  const auto waits = [this](const Job& job) { return job.script.hold_at == job.next && !released_ && !job.cancelled; };
  while (!stopped_) {
    bool worked = false;
    for (auto it = jobs_.begin(); it != jobs_.end() && !stopped_;) {
      Job& job = it->second;
      if (waits(job)) {
        if (!std::exchange(job.holds, true)) ++holding_;
        ++it;
        continue;
      }
      if (std::exchange(job.holds, false)) --holding_;
      worked = true;
      const Ticket ticket = it->first;
      const auto listener = job.listener;
      Update update = next_update(job);
      const bool last = update.finish != FinishReason::kNone;
      lock.unlock();  // as a real engine: a listener may cancel
      listener->on_update(std::move(update));
      lock.lock();
      it = jobs_.upper_bound(ticket);
      if (last) jobs_.erase(ticket);
    }
    changed_.notify_all();
    if (!worked)
      changed_.wait(lock, [&] {
        return stopped_ || std::any_of(jobs_.begin(), jobs_.end(), [&](auto& j) { return !waits(j.second) || !j.second.holds; });
      });
  }
}

}  // namespace qwell::test
