#include "group/cpu/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace qwell::group {

void write_cell(Cell& cell, std::uint64_t tag, std::uint64_t value, std::uint64_t extra) {
  std::atomic_ref(cell.value).store(value, std::memory_order_relaxed);
  std::atomic_ref(cell.extra).store(extra, std::memory_order_relaxed);
  store(cell.tag, tag);
}

WaitPolicy WaitPolicy::choose(int ranks, int cores) {
  // About twice the cost of falling asleep and being woken: a longer spin wins little, and takes the core from other threads (the rank's
  // own team, another group of this machine); a shorter one would sleep in most joins of few rows.
  if (ranks <= cores) return {.spin = std::chrono::microseconds(20), .yields = 0};
  return {.spin = Duration::zero(), .yields = 4};
}

Deadline deadline_in(Duration d) {
  const TimePoint now = Clock::now();
  return d >= TimePoint::max() - now ? Deadline::never() : Deadline(now + d);
}

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void yield_core() { ::sched_yield(); }

void futex_wait(std::uint32_t& word, std::uint32_t value, const Deadline& deadline) {
  // The absolute form: steady_clock is CLOCK_MONOTONIC, and a sleep that starts late does not end late.
  timespec at{};
  const bool limited = deadline.at() != TimePoint::max();
  if (limited) {
    const auto since = std::max(deadline.at().time_since_epoch(), Duration::zero());
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(since);
    at.tv_sec = static_cast<time_t>(whole.count());
    at.tv_nsec = static_cast<long>(std::chrono::duration_cast<std::chrono::nanoseconds>(since - whole).count());
  }
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, value, limited ? &at : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
}

namespace {

// A waiter that is woken without cause looks again; so a word that changed in between needs no care here.
void wake_from(std::uint32_t& word) {
  store(word, std::uint32_t{0});
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void ring(ControlBlock& sleeper, int rank) {
  const std::uint32_t sleeps_for = load(sleeper.sleeping);
  if (sleeps_for == static_cast<std::uint32_t>(rank + 1) || sleeps_for == kSleepsForAny) wake_from(sleeper.sleeping);
}

void ring_always(ControlBlock& sleeper) {
  if (load(sleeper.sleeping) != 0) wake_from(sleeper.sleeping);
}

}  // namespace qwell::group
