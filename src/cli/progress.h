#pragma once
// A progress bar on standard error; silent when that is no terminal.

#include <string>

#include "base/clock.h"

namespace qwell {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();  // leaves the line clean
  void show(int done, int total);

 private:
  const std::string what_;
  const bool terminal_;
  bool shown_ = false;
  TimePoint last_;
};

}  // namespace qwell
