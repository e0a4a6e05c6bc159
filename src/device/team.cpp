#include "device/team.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/check.h"

namespace qwell {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins for at most `spin`, then sleeps, until `value` is no longer `old`.
std::uint32_t await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old, std::chrono::microseconds spin) {
  constexpr int kSpinsPerClock = 64;  // reading the clock costs about as much as one pause
  std::uint32_t now = value.load(std::memory_order_acquire);
  if (now != old) return now;
  if (spin.count() > 0) {
    const auto end = std::chrono::steady_clock::now() + spin;
    do {
      for (int i = 0; i < kSpinsPerClock; ++i) {
        now = value.load(std::memory_order_acquire);
        if (now != old) return now;
        pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  while ((now = value.load(std::memory_order_acquire)) == old) value.wait(old, std::memory_order_acquire);
  return now;
}

}  // namespace

// A round: the caller writes `work` and `pending`, then raises `round` (release); a worker sees the new number (acquire), works, and lowers
// `pending` (acq_rel). The caller waits for 0 (acquire). `work` is only read between these two, so it needs no lock. A cache line each for
// what different threads write.
struct Team::State {
  alignas(64) std::atomic<std::uint32_t> round{0};
  const std::function<void(int)>* work = nullptr;
  bool stop = false;
  alignas(64) std::atomic<std::uint32_t> pending{0};
  alignas(64) std::atomic<int> next{0};  // of for_each
  std::chrono::microseconds spin{};
  std::vector<std::thread> threads;

  void serve(int worker) {
    std::uint32_t seen = 0;
    while (true) {
      seen = await_change(round, seen, spin);
      if (stop) return;
      (*work)(worker);
      if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) pending.notify_one();
    }
  }

  void start_round() {
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }
};

Team::Team(int threads, int spin_us) : state_(std::make_unique<State>()) {
  QWELL_CHECK(threads >= 1 && spin_us >= 0, "{} threads, spin {} us", threads, spin_us);
  state_->spin = std::chrono::microseconds(spin_us);
  state_->threads.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) {
    state_->threads.emplace_back([state = state_.get(), worker] { state->serve(worker); });
  }
}

Team::~Team() {
  state_->stop = true;
  state_->start_round();
  for (std::thread& thread : state_->threads) thread.join();
}

int Team::size() const { return static_cast<int>(state_->threads.size()) + 1; }

void Team::run(const std::function<void(int worker)>& work) {
  if (state_->threads.empty()) {
    work(0);
    return;
  }
  State& s = *state_;
  s.work = &work;
  s.pending.store(static_cast<std::uint32_t>(s.threads.size()), std::memory_order_relaxed);
  s.start_round();
  work(0);
  std::uint32_t left = s.pending.load(std::memory_order_acquire);
  while (left != 0) left = await_change(s.pending, left, s.spin);
}

void Team::for_each(int count, const std::function<void(int i)>& body) {
  if (count <= 1 || state_->threads.empty()) {
    for (int i = 0; i < count; ++i) body(i);
    return;
  }
  State& s = *state_;
  s.next.store(0, std::memory_order_relaxed);
  run([&s, count, &body](int) {
    for (int i = s.next.fetch_add(1, std::memory_order_relaxed); i < count; i = s.next.fetch_add(1, std::memory_order_relaxed)) body(i);
  });
}

}  // namespace qwell
