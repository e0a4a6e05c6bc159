#pragma once
// Waiting for words in shared memory: a short spin, a few yields, then sleep on a futex, always with a deadline.
//
// Sleep protocol. A waiter states whom it sleeps for in its `sleeping` word, looks once more, and sleeps while the word is unchanged. A
// writer stores its cell and then looks at the word; if it is meant, it sets the word to 0 and wakes. All four accesses are sequentially
// consistent, so either the waiter's second look finds the cell or the writer finds the word: no wake-up is lost. A writer that is not
// meant does not wake, so that a rank that needs all peers is not woken by each. Nothing is held while asleep: a killed process leaves no
// lock behind.

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "group/cpu/window_layout.h"

namespace qwell::group {

template <class T>
T load(const T& word) {
  static_assert(std::atomic_ref<T>::is_always_lock_free);
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_seq_cst);
}
template <class T>
void store(T& word, T value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_seq_cst);
}

// Stores a cell; its value and extra are visible to who sees the tag, like everything written before.
void write_cell(Cell& cell, std::uint64_t tag, std::uint64_t value, std::uint64_t extra);

struct WaitPolicy {
  Duration spin = Duration::zero();  // looking without giving up the core
  int yields = 0;                    // then: looking, each time after the other threads of the core had their turn

  // Spinning is for groups that have a core for every rank; otherwise the core is what the awaited rank needs.
  static WaitPolicy choose(int ranks, int cores);
};

// Like Deadline::in, without overflow for very long durations.
Deadline deadline_in(Duration d);

void pause_core();
void yield_core();
// Sleeps while word == value, until woken or the deadline; may return early.
void futex_wait(std::uint32_t& word, std::uint32_t value, const Deadline& deadline);
// Wakes the rank with this control block if it sleeps for `rank` or for any.
void ring(ControlBlock& sleeper, int rank);
// Wakes it whatever it sleeps for.
void ring_always(ControlBlock& sleeper);

// Waits until ready() returns true; false when the deadline passed before. `sleeps_for`: see ControlBlock::sleeping.
template <class Ready>
bool wait_until(ControlBlock& own, std::uint32_t sleeps_for, const WaitPolicy& policy, const Deadline& deadline, const Ready& ready) {
  if (ready()) return true;
  constexpr int kLooksPerClock = 32;
  for (const Deadline spun = Deadline::in(policy.spin); !spun.passed();) {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (ready()) return true;
      pause_core();
    }
  }
  for (int i = 0; i < policy.yields; ++i) {
    yield_core();
    if (ready()) return true;
  }
  for (;;) {
    store(own.sleeping, sleeps_for);
    const bool done = ready();
    if (done || deadline.passed()) {
      store(own.sleeping, std::uint32_t{0});
      return done;
    }
    futex_wait(own.sleeping, sleeps_for, deadline);
  }
}

}  // namespace qwell::group
