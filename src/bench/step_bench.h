#pragma once
// How fast one rank runs a model's steps: prefill of a prompt, decode of a batch at a context, with head and greedy sampling. Weights may
// be random: only their shapes matter for speed.

#include <string>
#include <vector>

#include "model/weights.h"
#include "ops/ops.h"

namespace qwell {

struct StepBenchOptions {
  int prefill_tokens = 512;
  int chunk = 512;  // rows of a prefill step
  std::vector<int> batches = {1, 8};
  int context = 512;  // keys of every sequence when decoding begins
  int decode_steps = 32;
  int repeats = 3;
  int threads = 0;
  CpuIsa isa = CpuIsa::kAvx2;
};

struct StepFigure {
  std::string what;      // "prefill 512", "decode 8 x 512"
  double median_ms = 0;  // of a prefill, or of one decode step
  double least_ms = 0, most_ms = 0;
  double tokens_per_second = 0;     // at the median
  double weight_gb_per_second = 0;  // bytes of weights that a step must read, over the median; 0 for prefill
};

// Bytes of weights that a decode step of `rows` rows reads at least: attention, router and head once, and the experts that so many rows
// touch when routes are uniform.
double decode_weight_bytes(const ModelConfig& config, DType act, int rows);

std::vector<StepFigure> bench_steps(const ModelWeights& weights, const StepBenchOptions& options);

}  // namespace qwell
