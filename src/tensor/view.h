#pragma once
// A block of numbers somewhere: pointer, type, shape, strides. Owns nothing; copying it copies the description.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace qwell {

struct View {
  static constexpr int kRankMax = 4;

  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<std::int64_t, kRankMax> shape{};
  std::array<std::int64_t, kRankMax> stride{};  // in elements

  View() = default;
  // Dense, row-major.
  View(void* data_in, DType dtype_in, std::initializer_list<std::int64_t> shape_in);

  bool empty() const { return data == nullptr; }
  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * size_of(dtype); }  // of the elements, not of the extent of a strided view
  bool dense() const;

  // Rows [first, first + count) of the first dimension.
  View rows(std::int64_t first, std::int64_t count) const;
  // Index `i` of the first dimension, which falls away.
  View operator[](std::int64_t i) const;

  template <class T>
  T* as() const {
    QWELL_CHECK(sizeof(T) == static_cast<std::size_t>(size_of(dtype)), "element of {} bytes read as {}", size_of(dtype), sizeof(T));
    return static_cast<T*>(data);
  }
  std::byte* at_bytes(std::int64_t element_offset) const { return static_cast<std::byte*>(data) + element_offset * size_of(dtype); }

  std::string shape_text() const;  // "[3, 256]"
};

}  // namespace qwell
