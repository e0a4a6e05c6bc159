#pragma once
// Time. One monotonic clock for durations and deadlines; components that wait take a Deadline, and the simulator gives them its own clock.

#include <chrono>
#include <cstdint>

namespace qwell {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

inline double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

// A point in time after which a wait must have ended.
class Deadline {
 public:
  static Deadline in(Duration d) { return Deadline(Clock::now() + d); }
  static Deadline never() { return Deadline(TimePoint::max()); }
  explicit Deadline(TimePoint at) : at_(at) {}

  TimePoint at() const { return at_; }
  bool passed() const { return at_ != TimePoint::max() && Clock::now() >= at_; }
  // Time left, never negative; Duration::max() for never().
  Duration left() const {
    if (at_ == TimePoint::max()) return Duration::max();
    const auto now = Clock::now();
    return now >= at_ ? Duration::zero() : at_ - now;
  }

 private:
  TimePoint at_;
};

}  // namespace qwell
