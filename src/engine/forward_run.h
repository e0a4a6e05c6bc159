#pragma once
// A plain forward pass over whole sequences, without scheduling: what `qwell logits` and the parity tests run. Any number of ranks, either
// form of exchange, any chunking and page size; the results may not depend on them.

#include <vector>

#include "base/error.h"
#include "model/weights.h"
#include "request/request.h"

namespace qwell {

struct ForwardRunOptions {
  int ranks = 1;
  bool distinct_rows = false;  // sequences are dealt to the ranks; else all ranks work on each
  int chunk = 0;               // rows of a step; 0: the whole sequence
  int page_tokens = 16;
  bool hidden = false;  // also the stream after each layer
  int threads = 1;      // per rank
  CpuIsa isa = CpuIsa::kAvx2;
};

struct ForwardRunOutput {
  // Per sequence: fp32 [T, V].
  std::vector<std::vector<float>> logits;
  // Per sequence and i: fp32 [T, H]; hidden[s][0] is the embedding, [i] the stream after layer i, the last one is after the final norm.
  std::vector<std::vector<std::vector<float>>> hidden;
};

Result<ForwardRunOutput> run_forward(const ModelWeights& weights, const std::vector<std::vector<TokenId>>& sequences,
                                     const ForwardRunOptions& options);

}  // namespace qwell
