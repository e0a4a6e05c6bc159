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

// Error that names file and tensor: a dtype that is no number format of weights, FP8 without scales or with scales of another shape or
// dtype than one F32 or BF16 number for each 128x128 block, [ceil(rows / 128), ceil(columns / 128)].
void check_readable(const StoredMatrix& matrix);

// Copies a part to `out`, dense [rows.count, columns.count] bf16 or fp32. Where the dtypes are equal the bits are kept; to bf16 values are
// rounded to nearest, ties to even. Error: as check_readable, and a value that is not finite in the type of `out` (FP8: after scaling).
void read_part(const StoredMatrix& matrix, Range rows, Range columns, View out);

}  // namespace qwell
