#pragma once
// Every operation as plain loops: the oracle of the other backends. Sums are formed in fp64 and rounded once, packed weights are plain
// row-major matrices.

#include "ops/ops.h"

namespace qwell::reference {

void embed(const EmbedArgs& args);
void norm(const NormArgs& args);
void residual_norm(const ResidualNormArgs& args);
void qk_norm_rope(const QkNormRopeArgs& args);
void gather(const GatherArgs& args);

std::int64_t packed_bytes(DType compute, std::int64_t n, std::int64_t k);
void pack(DType compute, std::int64_t n, std::int64_t k, std::int64_t row_first, View src, void* packed);
void linear(const LinearArgs& args);
void linear_leaves(const LinearLeavesArgs& args);
void route(const RouteArgs& args);
void experts(const ExpertArgs& args);

void attention(const AttentionArgs& args);

void sample(const SampleArgs& args);
void token_logprobs(const TokenLogprobArgs& args);

}  // namespace qwell::reference
