#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace qwell {

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1), last_(Clock::now()) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::show(int done, int total) {
  if (!terminal_ || total <= 0) return;
  const TimePoint now = Clock::now();
  if (done < total && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(static_cast<long>(kWidth) * done / total);
  fmt::print(stderr, "\r{} [{}{}] {}/{}\033[K", what_, std::string(static_cast<std::size_t>(filled), '#'),
             std::string(static_cast<std::size_t>(kWidth - filled), '.'), done, total);
  std::fflush(stderr);
}

}  // namespace qwell
