#pragma once
// Checks of the program's own invariants. A failed check is a bug: it prints the condition, the place and the values given, and ends the
// process. Never use it for input (that is an Error or a Failure).

#include <fmt/format.h>

#include <string_view>

namespace qwell {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view values);
}

// QWELL_CHECK(row < rows, "row {} of {}", row, rows);
#define QWELL_CHECK(condition, ...)                                                      \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      ::qwell::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                    \
  } while (false)
