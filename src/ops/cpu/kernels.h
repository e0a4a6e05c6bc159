#pragma once
// The inner loops of the CPU backend, once per instruction set: a table of functions that CpuOps schedules. All sets compute in vectors of
// 16 lanes (AVX2 pairs two of 8) and in the same order, so a kernel's result is a function of its arguments alone.
//
// The files that are compiled for an instruction set include only this and the intrinsics: inline code of other headers, compiled for more
// than every processor has, could be the copy that the linker keeps.

#include <cstdint>

namespace qwell::cpu {

constexpr int kTileRows = 6;    // rows of a product's tile: with 4 blocks of columns 24 accumulators, of 32 registers
constexpr int kTileBlocks = 4;  // blocks of 16 columns
constexpr int kLanes = 16;      // of a vector, and rows of a packed block

// out[r][c] = sum over k of a[r][k] * w[c][k], k ascending in one accumulator per element (bf16: by pairs), for `rows` <= kTileRows rows
// given by pointers and `blocks` <= kTileBlocks packed blocks, `block_bytes` apart. out is dense [rows][blocks * 16].
struct TileArgs {
  const void* const* rows_in = nullptr;
  int rows = 0;
  const void* packed = nullptr;
  std::int64_t block_bytes = 0;
  int blocks = 0;
  std::int64_t k = 0;
  float* out = nullptr;
};

// Attention of `rows` query vectors of one kv head over one sequence's pages. Vector r has position positions[r].
struct AttendArgs {
  const void* const* q = nullptr;  // act [head_dim] each
  const std::int32_t* positions = nullptr;
  int rows = 0;
  const void* pages = nullptr;  // of the layer, of this kv head: page p at pages + p * page_elements
  std::int64_t page_elements = 0;
  std::int64_t value_offset = 0;        // elements from K to V of a page
  const std::int32_t* table = nullptr;  // page numbers
  int page_tokens = 0;
  int head_dim = 0;
  float scale = 1;
  int split = 0;             // keys of a split
  float* scratch = nullptr;  // attend_scratch_floats(rows, head_dim)
  float* out = nullptr;      // fp32 [rows][head_dim]
};

struct Kernels {
  void (*tile_bf16)(const TileArgs& args);
  void (*tile_f32)(const TileArgs& args);
  void (*attend_bf16)(const AttendArgs& args);
  void (*attend_f32)(const AttendArgs& args);
  // y = x / sqrt(mean(x^2) + eps) * (w + w_plus)
  void (*rms_norm)(const float* x, const float* w, float w_plus, float eps, std::int64_t n, float* y);
  // gate = silu(gate) * up
  void (*silu_mul)(float* gate, const float* up, std::int64_t n);
  // x *= 1 / (1 + exp(-gate))
  void (*sigmoid_mul)(float* x, const float* gate, std::int64_t n);
  // y = exp(x - shift); returns the sum
  float (*exp_shifted)(const float* x, float shift, std::int64_t n, float* y);
  // y += w * x, the product rounded before the sum
  void (*add_scaled)(float* y, const float* x, float w, std::int64_t n);
  void (*add)(float* y, const float* x, std::int64_t n);
  void (*to_bf16)(const float* x, std::uint16_t* y, std::int64_t n);
  void (*from_bf16)(const std::uint16_t* x, float* y, std::int64_t n);
};

// Floats of AttendArgs::scratch.
constexpr std::int64_t attend_scratch_floats(int rows, int head_dim) {
  return std::int64_t{rows} * (head_dim + 4) + std::int64_t{2} * kLanes * head_dim;
}

const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
const Kernels& kernels_avx512_bf16();

}  // namespace qwell::cpu
