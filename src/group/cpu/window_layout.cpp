#include "group/cpu/window_layout.h"

#include <bit>
#include <type_traits>

#include "base/error.h"

namespace qwell {
namespace group {
namespace {

static_assert(std::is_trivial_v<ControlBlock> && std::is_standard_layout_v<ControlBlock>);

constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// Hands out offsets in order, each on a line of its own.
class Plan {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t at = next_;
    next_ += round_up(bytes, kLine);
    return at;
  }
  std::size_t take(std::size_t rows, std::size_t columns, DType dtype) {
    return take(rows * columns * static_cast<std::size_t>(size_of(dtype)));
  }
  RowBuffers take_rows(const GroupShape& shape, std::size_t rows) {
    const auto k = static_cast<std::size_t>(shape.experts_per_token);
    return {.rows = take(rows, static_cast<std::size_t>(shape.hidden), shape.act),
            .ids = take(rows, k, DType::kI32),
            .weights = take(rows, k, DType::kF32)};
  }
  std::size_t end() const { return next_; }

 private:
  std::size_t next_ = 0;
};

}  // namespace

void check_shape(const GroupShape& s) {
  if (s.size < 1 || s.size > kRanksMax || !std::has_single_bit(static_cast<unsigned>(s.size))) {
    fail("{}: size {}, wanted a power of two of at most {} ranks", s.name, s.size, kRanksMax);
  }
  if (s.rows_max < 0) fail("{}: rows_max {}, wanted 0 or more", s.name, s.rows_max);
  if (s.hidden < 1) fail("{}: hidden {}, wanted 1 or more", s.name, s.hidden);
  if (s.experts_per_token < 0) fail("{}: experts_per_token {}, wanted 0 or more", s.name, s.experts_per_token);
  if (s.act != DType::kBf16 && s.act != DType::kF32) fail("{}: act {}, wanted BF16 or F32", s.name, to_string(s.act));
  if (s.order_bytes_max > (std::size_t{1} << 31)) fail("{}: order_bytes_max {}, wanted at most 2 GiB", s.name, s.order_bytes_max);
}

WindowLayout::WindowLayout(const GroupShape& shape) {
  check_shape(shape);
  const auto rows = static_cast<std::size_t>(shape.rows_max);
  const auto hidden = static_cast<std::size_t>(shape.hidden);
  Plan plan;
  plan.take(sizeof(ControlBlock));
  if (shape.distinct_rows) {
    const std::size_t received_max = static_cast<std::size_t>(shape.size) * rows;
    outbox = plan.take_rows(shape, rows);
    received = plan.take_rows(shape, received_max);
    sums = plan.take(received_max, hidden, DType::kF32);
  } else {
    partial = plan.take(rows, hidden, DType::kF32);
    for (RowBuffers& buffers : joined) buffers = plan.take_rows(shape, rows);
  }
  for (std::size_t& at : order) at = plan.take(shape.order_bytes_max);
  half_bytes = round_up(plan.end(), kPage);
}

}  // namespace group

std::size_t GroupShape::window_bytes() const { return group::WindowLayout(*this).bytes(); }

}  // namespace qwell
