#pragma once
// The operations that models are made of. An operation is one argument struct; every backend implements all of them with the same meaning,
// and `reference` (plain loops, fp32) is the oracle.
//
// What holds for every operation:
//  - T rows are flat: any mix of prompt chunks and single decode rows. Buffers have room for rows.max; only the first *rows.count rows are
//    read and written (a captured graph serves every size up to its bucket). Zero rows are legal.
//  - "act" is the activation type: bf16, or fp32 in fp32 mode. Products accumulate in fp32. The residual stream is fp32.
//  - A row's result is a function of that row alone: not of the other rows, of their number, of the team's size, nor of a rank's share.
//    Inside a product, an output element sums its K terms in ascending order in one accumulator (the instruction set decides how pairs are
//    fused; that is part of numerics_id()).
//  - Sums over leaves (tensor/placement.h) are balanced binary trees: ((l0+l1)+(l2+l3))+..., fp32.
//  - Outputs must not overlap inputs unless said.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/page_layout.h"
#include "tensor/placement.h"
#include "tensor/view.h"

namespace qwell {

class Team;

// The largest number of rows, and where the real number is.
struct Rows {
  std::int32_t max = 0;
  const std::int32_t* count = nullptr;
};

// A weight matrix W [n, k] of out = in . W^T in the backend's own packed form, in blocks of kPackRows output rows: rows [16a, 16b) of a
// packed matrix are a packed matrix themselves.
struct LinearWeight {
  static constexpr int kPackRows = 16;

  const void* data = nullptr;
  DType dtype = DType::kBf16;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// What an operation moves and computes at least; bench and planner divide by it.
struct Cost {
  double bytes_read = 0;
  double bytes_written = 0;
  double flops = 0;
};

// out[t] = table[tokens[t]]
struct EmbedArgs {
  View tokens;  // int32 [T]; each in [0, V)
  View table;   // bf16 or fp32 [V, H]
  View out;     // fp32 [T, H]
  Rows rows;
};

// One weight of RMSNorm. y = x / sqrt(mean(x^2) + eps) * w, or * (1 + w) if zero_centered. Statistics in fp32.
struct NormWeight {
  View weight;  // fp32 [H]
  float eps = 1e-6F;
  bool zero_centered = false;
};

struct NormArgs {
  View in;  // fp32 [T, H]
  NormWeight norm;
  View out;  // act [T, H]
  Rows rows;
};

// x += tree sum of the partials; then out = norm(x). The end of every exchange: done once per row by the row's owner.
struct ResidualNormArgs {
  std::vector<View> partials;  // fp32 [T, H] each, in rank order; a power of two of them, or none (norm only)
  View residual;               // fp32 [T, H], in and out
  NormWeight norm;
  View out;  // act [T, H]
  Rows rows;
};

// out = in . W^T
struct LinearArgs {
  View in;  // act [T, K]
  LinearWeight weight;
  View out;  // act or fp32 [T, N]; row stride may exceed N
  Rows rows;
};

// out = tree sum over leaves l of in[:, l*k .. (l+1)*k) . W_l^T: the output projection over the query heads of a rank.
struct LinearLeavesArgs {
  View in;                           // act [T, leaves * k]
  std::vector<LinearWeight> leaves;  // [N, k] each; a power of two of them
  View out;                          // fp32 [T, N]
  Rows rows;
};

// The sequences of a batch. Row r of sequence s stands at position kv_length[s] - (first_row[s+1] - first_row[s]) + (r - first_row[s]).
struct SequenceRows {
  std::int32_t count = 0;
  const std::int32_t* first_row = nullptr;    // [count + 1]; first_row[0] = 0
  const std::int32_t* kv_length = nullptr;    // [count], keys after this step: the rows of the step included
  const std::int32_t* block_table = nullptr;  // [count, blocks_max] page numbers; entries beyond the sequence's end are not read
  std::int32_t blocks_max = 0;
};

// Pages of one layer.
struct PagedKv {
  void* base = nullptr;  // [page][kv head][K,V][token][dim]
  PageLayout layout;
};

// Splits a row of the QKV product, normalises q and k per head (RMS over D, one weight for all heads), rotates the first rotary_dim
// elements of each (half-split), writes q to `q` and k, v to the sequence's pages at the row's position.
struct QkNormRopeArgs {
  View qkv;  // fp32 [T, (q_heads + 2 * kv_heads) * D]: q heads, k heads, v heads; with a gate: per q head D of q, then D of gate
  NormWeight q_norm, k_norm;  // weight [D]; empty weight: no norm
  View rope;                  // fp32 [positions_max, rotary_dim]: cos of the rotary_dim/2 angles, then sin
  int rotary_dim = 0;
  int q_heads = 0;
  bool gated = false;  // qkv has gates
  View positions;      // int32 [T]: of the rotation (the page slot follows from `sequences`)
  SequenceRows sequences;
  PagedKv kv;
  View q;     // act [T, q_heads, D]
  View gate;  // act [T, q_heads, D] if gated
  Rows rows;
};

// Causal attention of flat query rows over paged keys and values, also those just written: out[t] = softmax(scale q[t] K^T) V over the
// positions up to the row's own. Keys are taken in blocks of 16 by absolute position, with a running maximum per block; blocks belong to
// splits of kAttentionSplit keys by absolute position, and splits are combined in order. Query head a reads kv head a / (q_heads/kv_heads).
constexpr int kAttentionBlock = 16;
constexpr int kAttentionSplit = 512;
struct AttentionArgs {
  View q;  // act [T, q_heads, D]
  SequenceRows sequences;
  PagedKv kv;
  float scale = 1;
  View gate;  // act [T, q_heads, D] or empty: out *= sigmoid(gate)
  View out;   // act [T, q_heads, D]
  Rows rows;
};

// z = in . W^T in fp32; p = softmax(z) over all E; the k largest (by z; ties: lower index); weights p, divided by their sum if
// `renormalize`. A row with a non-finite z gets the experts 0..k-1 with weight NaN, so that the fault stays in its row.
struct RouteArgs {
  View in;              // act [T, H]
  LinearWeight weight;  // [E, H]
  bool renormalize = true;
  View ids;      // int32 [T, k], ascending in a row
  View weights;  // fp32 [T, k]
  Rows rows;
};

struct ExpertWeights {
  LinearWeight gate, up;  // [I, H]
  LinearWeight down;      // [H, I]
};

// out[t] = tree sum over the leaves of a rank's experts; in a leaf, experts in ascending order: 0 + w_e * down_e(act(silu(gate_e) * up_e)).
// Routes to experts outside [first, first + experts.size()) are skipped; a leaf without a route is +0.0.
struct ExpertArgs {
  View in;                                 // act [T, H]
  View ids;                                // int32 [T, k], ascending in a row; -1: no route
  View weights;                            // fp32 [T, k]
  std::span<const ExpertWeights> experts;  // of this rank
  int first = 0;                           // number of experts[0]; a multiple of experts_per_leaf
  int experts_per_leaf = 1;
  View out;  // fp32 [T, H]
  Rows rows;
};

// out[i] = in[index[i]]
struct GatherArgs {
  View in;     // any type [*, H]
  View index;  // int32 [R]
  View out;    // as in [R, H]
  Rows rows;   // of index
};

// One token's deviation from the model's logit, applied before sampling in this order: repetition, counts, bias.
struct LogitChange {
  std::int32_t token = 0;
  float count = 0;    // how often it stands in the answer
  bool seen = false;  // stands in prompt or answer
  float bias = 0;
};

// How one row is sampled. The token is argmax over the allowed set of (changed logit / T + Gumbel noise), the noise keyed by (seed, sample,
// position, token id) through Philox; T = 0: argmax of the changed logits, ties to the lower id. Allowed set: mask, then top_k, then top_p
// (the smallest set of most probable tokens whose sum reaches top_p, of the distribution that top_k left), then min_p (p >= min_p * p_max),
// ties by lower id, all on softmax(changed logit / T).
struct SampleRow {
  float temperature = 1, top_p = 1, min_p = 0;
  float presence_penalty = 0, frequency_penalty = 0, repetition_penalty = 1;
  std::int32_t top_k = 0;  // 0: off
  std::uint64_t seed = 0;
  std::uint32_t sample = 0;
  std::uint32_t position = 0;              // index of the token in its sequence
  std::span<const LogitChange> changes;    // ascending token ids, each once
  const std::uint32_t* allowed = nullptr;  // bit i of word i/32: token i may be chosen; null: all
  std::int32_t vocab = 0;                  // ids at and beyond it are never chosen (padding rows of the head)
  std::int32_t num_logprobs = -1;          // -1: none; n: the chosen token's and the n best
};

struct SampledToken {
  std::int32_t token = -1;  // -1: no token could be chosen (non-finite logits, or an empty allowed set)
  float logprob = 0;        // of the unchanged logits at temperature 1; with num_logprobs >= 0
  std::vector<std::pair<std::int32_t, float>> top;
};

struct SampleArgs {
  View logits;                          // fp32 [T, V], read only
  std::span<const SampleRow> requests;  // one per row
  std::span<SampledToken> out;
  Rows rows;
};

// Log-probabilities of given tokens, for prompts: the same numbers that `sample` reports.
struct TokenLogprobArgs {
  View logits;  // fp32 [T, V]
  View tokens;  // int32 [T]
  int vocab = 0;
  int num_top = 0;
  std::span<SampledToken> out;
  Rows rows;
};

Cost cost(const LinearArgs& args);
Cost cost(const LinearLeavesArgs& args);
Cost cost(const AttentionArgs& args);
Cost cost(const ExpertArgs& args);

// One rank's executor. Calls are made by the rank's thread; on a device with a stream they are queued in order.
class Ops {
 public:
  virtual ~Ops() = default;

  // What decides the bits of every result: backend, instruction set, kernel revision.
  virtual std::string numerics_id() const = 0;

  // Packed weights. `compute` is bf16 or fp32. Packing takes any block of kPackRows-aligned rows [row_first, row_first + src.shape[0]) of W
  // from a dense [*, k] bf16 or fp32 source, so that a large matrix streams through a small buffer; the last block may be short.
  virtual std::int64_t packed_bytes(DType compute, std::int64_t n, std::int64_t k) const = 0;
  virtual void pack(DType compute, std::int64_t n, std::int64_t k, std::int64_t row_first, View src, void* packed) const = 0;

  virtual void embed(const EmbedArgs& args) = 0;
  virtual void norm(const NormArgs& args) = 0;
  virtual void residual_norm(const ResidualNormArgs& args) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  virtual void linear_leaves(const LinearLeavesArgs& args) = 0;
  virtual void qk_norm_rope(const QkNormRopeArgs& args) = 0;
  virtual void attention(const AttentionArgs& args) = 0;
  virtual void route(const RouteArgs& args) = 0;
  virtual void experts(const ExpertArgs& args) = 0;
  virtual void gather(const GatherArgs& args) = 0;
  virtual void sample(const SampleArgs& args) = 0;
  virtual void token_logprobs(const TokenLogprobArgs& args) = 0;
};

std::unique_ptr<Ops> make_reference_ops();

enum class CpuIsa { kAvx2, kAvx512, kAvx512Bf16 };
std::string_view to_string(CpuIsa isa);
// What this processor can run, best last. Empty on a processor without AVX2 and FMA.
std::vector<CpuIsa> cpu_isas();
// The best one, or the one that the environment variable QWELL_CPU_ISA names (avx2, avx512, avx512_bf16); Error if the processor lacks it.
CpuIsa select_cpu_isa(const char* forced);
std::unique_ptr<Ops> make_cpu_ops(Team& team, CpuIsa isa);

}  // namespace qwell
