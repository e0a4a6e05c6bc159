// Any bytes as a safetensors file: refused with an Error, or every tensor lies within them, has the bytes of its shape and can be read.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "checkpoint/elements.h"
#include "checkpoint/safetensors.h"

namespace {

void read_last_row(const qwell::TensorView& tensor) {
  if (tensor.shape.size() != 2 || tensor.data.empty() || tensor.shape[0] > INT32_MAX || tensor.shape[1] > INT32_MAX) return;
  const qwell::StoredMatrix matrix{
      .tensor = &tensor, .rows = static_cast<int>(tensor.shape[0]), .columns = static_cast<int>(tensor.shape[1])};
  std::vector<float> row(static_cast<std::size_t>(matrix.columns));
  try {
    read_part(matrix, {matrix.rows - 1, 1}, {0, matrix.columns}, qwell::View(row.data(), qwell::DType::kF32, {1, matrix.columns}));
  } catch (const qwell::Error&) {  // no number format of weights, or not finite
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const qwell::SafetensorsFile file(bytes, "input");
    std::size_t total = 0;
    for (const auto& [name, tensor] : file.tensors()) {
      if (tensor.data.data() < bytes.data() || tensor.data.data() + tensor.data.size() > bytes.data() + bytes.size()) std::abort();
      std::int64_t elements = 1;
      for (const std::int64_t n : tensor.shape) elements = n == 0 ? 0 : elements * n;
      if (static_cast<std::size_t>(elements * size_of(tensor.dtype)) != tensor.data.size()) std::abort();
      total += tensor.data.size();
      read_last_row(tensor);
    }
    if (8 + file.header().size() + total != size) std::abort();
  } catch (const qwell::Error&) {
  }
  return 0;
}
