#pragma once
// What a template and a rendering may cost, and the error that ends a rendering from within.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace qwell::jinja {

struct Limits {
  std::size_t template_bytes_max = std::size_t{1} << 20;
  int nesting_max = 150;                 // of blocks, and of operations in one expression, in the template's text
  int recursion_max = 600;               // of evaluation: nesting times nested calls of macros
  std::uint64_t steps_max = 20'000'000;  // operations; copying and comparing count by size
  std::size_t output_bytes_max = std::size_t{64} << 20;
};

// Lists in lists in lists; also what JSON may bring.
inline constexpr int kValueNestingMax = 100;
// The longest string that an operation may make, and the longest list.
inline constexpr std::size_t kTextBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kListItemsMax = std::size_t{1} << 20;

// Thrown inside a rendering only; Template::render turns it into a Failure.
struct RenderError {
  FailureCode code = FailureCode::kInvalidArgument;
  std::string message;
  bool by_template = false;  // raise_exception: the message is the template's own
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw RenderError{FailureCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

[[noreturn]] inline void raise_limit(const char* limit, std::uint64_t max) {
  throw RenderError{FailureCode::kTooLarge, fmt::format("exceeds the limit of {} ({})", limit, max)};
}

// What is left of a rendering's limits.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void charge(std::uint64_t steps) {
    used_ += steps;
    if (used_ > limits_.steps_max) raise_limit("evaluation steps", limits_.steps_max);
  }
  // Work on so many bytes of text.
  void charge_bytes(std::size_t bytes) { charge(1 + bytes / 32); }
  void charge_items(std::size_t items) {
    if (items > kListItemsMax) raise_limit("items in a list", kListItemsMax);
    charge(1 + items);
  }
  const Limits& limits() const { return limits_; }

  // One more level of evaluation, while the object lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.level_ > budget_.limits_.recursion_max) {
        --budget_.level_;
        raise_limit("recursion", static_cast<std::uint64_t>(budget_.limits_.recursion_max));
      }
    }
    ~Level() { --budget_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  std::uint64_t used_ = 0;
  int level_ = 0;
};

}  // namespace qwell::jinja
