#pragma once
// Parts of stored matrices as numbers to compute with.

#include "checkpoint/safetensors.h"
#include "tensor/placement.h"
#include "tensor/view.h"

namespace qwell {

// A matrix in a file, plain or in blocks of 128x128 with a scale each (FP8: value = e4m3 * scale). `offset` is the first element of the
// matrix in `tensor`, for tensors that hold several.
struct StoredMatrix {
  const TensorView* tensor = nullptr;
  const TensorView* scales = nullptr;  // null: none
  std::int64_t offset = 0;
  int rows = 0, columns = 0;
};

// Copies a part to `out`, dense [rows.count, columns.count] bf16 or fp32. From bf16 to bf16 the bits are kept. Error: a dtype that is no
// number format of weights.
void read_part(const StoredMatrix& matrix, Range rows, Range columns, View out);

}  // namespace qwell
