#include "base/check.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace qwell {

void check_failed(const char* file, int line, const char* condition, std::string_view values) {
  fmt::print(stderr, "{}:{}: check failed: {} ({})\n", file, line, condition, values);
  std::fflush(stderr);
  std::abort();
}

}  // namespace qwell
