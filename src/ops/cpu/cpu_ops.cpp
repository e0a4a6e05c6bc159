// The CPU backend: cuts operations into pieces for the team and gives the pieces to the kernels of one instruction set.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/bits.h"
#include "base/check.h"
#include "device/team.h"
#include "ops/cpu/kernels.h"
#include "ops/ops.h"
#include "ops/sampling.h"

namespace qwell {
namespace {

using cpu::kLanes;
using cpu::kTileBlocks;
using cpu::kTileRows;

std::int64_t blocks_of(std::int64_t n) { return (n + kLanes - 1) / kLanes; }
std::int64_t block_bytes(DType dtype, std::int64_t k) { return dtype == DType::kBf16 ? (k + 1) / 2 * 64 : k * 64; }

const std::byte* row_of(View v, std::int64_t row) { return v.at_bytes(row * v.stride[0]); }

class CpuOps final : public Ops {
 public:
  CpuOps(Team& team, CpuIsa isa, const cpu::Kernels& kernels)
      : team_(team), isa_(isa), kernels_(kernels), scratch_(static_cast<std::size_t>(team.size())) {}

  std::string numerics_id() const override { return "cpu/" + std::string(to_string(isa_)) + "/r1"; }

  std::int64_t packed_bytes(DType compute, std::int64_t n, std::int64_t k) const override { return blocks_of(n) * block_bytes(compute, k); }
  void pack(DType compute, std::int64_t n, std::int64_t k, std::int64_t row_first, View src, void* packed) const override;

  void embed(const EmbedArgs& args) override;
  void norm(const NormArgs& args) override;
  void residual_norm(const ResidualNormArgs& args) override;
  void linear(const LinearArgs& args) override;
  void linear_leaves(const LinearLeavesArgs& args) override;
  void qk_norm_rope(const QkNormRopeArgs& args) override;
  void attention(const AttentionArgs& args) override;
  void route(const RouteArgs& args) override;
  void experts(const ExpertArgs& args) override;
  void gather(const GatherArgs& args) override;
  void sample(const SampleArgs& args) override;
  void token_logprobs(const TokenLogprobArgs& args) override;

 private:
  // Of one worker; grows to the largest need and stays.
  struct Scratch {
    std::vector<float> floats;
    SamplingScratch sampling;
    float* take(std::int64_t count) {
      if (static_cast<std::int64_t>(floats.size()) < count) floats.resize(static_cast<std::size_t>(count));
      return floats.data();
    }
  };
  struct Route {
    std::int32_t row;
    std::int32_t slot;  // row * k + i
  };

  // Calls body(i, scratch) for every i in [0, count) on whichever worker is free.
  template <class Body>
  void for_each(int count, Body&& body) {
    if (count <= 1 || team_.size() == 1) {
      for (int i = 0; i < count; ++i) body(i, scratch_[0]);
      return;
    }
    std::atomic<int> next{0};
    team_.run([&](int worker) {
      Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
      for (int i = next.fetch_add(1, std::memory_order_relaxed); i < count; i = next.fetch_add(1, std::memory_order_relaxed))
        body(i, scratch);
    });
  }
  // The same for rows in runs of `grain`.
  template <class Body>
  void for_rows(int rows, int grain, Body&& body) {
    for_each((rows + grain - 1) / grain, [&](int piece, Scratch& scratch) {
      const int end = std::min(rows, (piece + 1) * grain);
      for (int row = piece * grain; row < end; ++row) body(row, scratch);
    });
  }

  void tile(DType dtype, const cpu::TileArgs& args) const { (dtype == DType::kBf16 ? kernels_.tile_bf16 : kernels_.tile_f32)(args); }
  void store_row(const float* from, std::int64_t count, View out, std::int64_t element) const;
  const float* as_floats(View v, std::int64_t element, std::int64_t count, float* room) const;
  void run_experts(const ExpertArgs& args, int row_first, int row_count);

  Team& team_;
  const CpuIsa isa_;
  const cpu::Kernels& kernels_;
  std::vector<Scratch> scratch_;
  // Of experts(): routes by expert, the inner activations and the experts' outputs by place in that order.
  std::vector<std::vector<Route>> routes_;
  std::vector<std::byte> inner_;
  std::vector<float> outputs_;
  std::vector<std::int32_t> output_of_slot_;
};

void CpuOps::pack(DType compute, std::int64_t n, std::int64_t k, std::int64_t row_first, View src, void* packed) const {
  QWELL_CHECK(row_first % kLanes == 0 && src.dense() && row_first + src.shape[0] <= n, "rows from {}, {} of {}", row_first,
              src.shape_text(), n);
  const std::int64_t step = block_bytes(compute, k);
  const std::int64_t count = src.shape[0];
  auto* base = static_cast<std::byte*>(packed) + row_first / kLanes * step;
  std::memset(base, 0, static_cast<std::size_t>(blocks_of(count) * step));
  for (std::int64_t r = 0; r < count; ++r) {
    std::byte* block = base + r / kLanes * step;
    const std::int64_t lane = r % kLanes;
    for (std::int64_t c = 0; c < k; ++c) {
      const std::int64_t i = r * k + c;
      if (compute == DType::kF32) {
        const float value = src.dtype == DType::kF32 ? src.as<float>()[i] : to_float(src.as<bf16>()[i]);
        reinterpret_cast<float*>(block)[c * kLanes + lane] = value;
      } else {
        const bf16 value = src.dtype == DType::kBf16 ? src.as<bf16>()[i] : to_bf16(src.as<float>()[i]);
        reinterpret_cast<bf16*>(block)[(c / 2 * kLanes + lane) * 2 + c % 2] = value;
      }
    }
  }
}

void CpuOps::store_row(const float* from, std::int64_t count, View out, std::int64_t element) const {
  if (out.dtype == DType::kF32) {
    std::memcpy(out.at_bytes(element), from, static_cast<std::size_t>(count) * sizeof(float));
  } else {
    kernels_.to_bf16(from, reinterpret_cast<std::uint16_t*>(out.at_bytes(element)), count);
  }
}

const float* CpuOps::as_floats(View v, std::int64_t element, std::int64_t count, float* room) const {
  if (v.dtype == DType::kF32) return v.as<float>() + element;
  kernels_.from_bf16(reinterpret_cast<const std::uint16_t*>(v.at_bytes(element)), room, count);
  return room;
}

void CpuOps::embed(const EmbedArgs& a) {
  const std::int64_t width = a.table.shape[1];
  for_rows(*a.rows.count, 16, [&](int t, Scratch&) {
    const std::int64_t from = a.tokens.as<std::int32_t>()[t] * a.table.stride[0];
    float* to = a.out.as<float>() + t * a.out.stride[0];
    if (as_floats(a.table, from, width, to) != to)
      std::memcpy(to, a.table.as<float>() + from, static_cast<std::size_t>(width) * sizeof(float));
  });
}

void CpuOps::norm(const NormArgs& a) {
  const std::int64_t width = a.in.shape[1];
  for_rows(*a.rows.count, 16, [&](int t, Scratch& scratch) {
    float* y = scratch.take(width);
    kernels_.rms_norm(a.in.as<float>() + t * a.in.stride[0], a.norm.weight.as<float>(), a.norm.zero_centered ? 1.0F : 0.0F, a.norm.eps,
                      width, y);
    store_row(y, width, a.out, t * a.out.stride[0]);
  });
}

void CpuOps::residual_norm(const ResidualNormArgs& a) {
  const std::int64_t width = a.residual.shape[1];
  const std::size_t terms = a.partials.size();
  for_rows(*a.rows.count, 16, [&](int t, Scratch& scratch) {
    float* y = scratch.take(width * static_cast<std::int64_t>(1 + terms));
    float* x = a.residual.as<float>() + t * a.residual.stride[0];
    if (terms == 1) {
      kernels_.add(x, a.partials[0].as<float>() + t * a.partials[0].stride[0], width);
    } else if (terms > 1) {
      float* sums = y + width;
      for (std::size_t p = 0; p < terms; ++p) {
        std::memcpy(sums + static_cast<std::int64_t>(p) * width, a.partials[p].as<float>() + t * a.partials[p].stride[0],
                    static_cast<std::size_t>(width) * sizeof(float));
      }
      for (std::size_t step = 1; step < terms; step *= 2) {
        for (std::size_t p = 0; p < terms; p += 2 * step) {
          kernels_.add(sums + static_cast<std::int64_t>(p) * width, sums + static_cast<std::int64_t>(p + step) * width, width);
        }
      }
      kernels_.add(x, sums, width);
    }
    kernels_.rms_norm(x, a.norm.weight.as<float>(), a.norm.zero_centered ? 1.0F : 0.0F, a.norm.eps, width, y);
    store_row(y, width, a.out, t * a.out.stride[0]);
  });
}

void CpuOps::linear(const LinearArgs& a) {
  const int rows = *a.rows.count;
  const std::int64_t step = block_bytes(a.weight.dtype, a.weight.k);
  const auto tiles = static_cast<int>((blocks_of(a.weight.n) + kTileBlocks - 1) / kTileBlocks);
  if (rows == 0) return;
  for_each(tiles, [&](int t, Scratch& scratch) {
    float* out = scratch.take(kTileRows * kTileBlocks * kLanes);
    const std::int64_t column = std::int64_t{t} * kTileBlocks * kLanes;
    const std::int64_t columns = std::min<std::int64_t>(a.weight.n - column, kTileBlocks * kLanes);
    const auto blocks = static_cast<int>(blocks_of(columns));
    for (int first = 0; first < rows; first += kTileRows) {
      const int count = std::min(kTileRows, rows - first);
      const void* in[kTileRows];
      for (int r = 0; r < count; ++r) in[r] = row_of(a.in, first + r);
      tile(a.weight.dtype,
           {in, count, static_cast<const std::byte*>(a.weight.data) + column / kLanes * step, step, blocks, a.weight.k, out});
      for (int r = 0; r < count; ++r) store_row(out + r * blocks * kLanes, columns, a.out, (first + r) * a.out.stride[0] + column);
    }
  });
}

void CpuOps::linear_leaves(const LinearLeavesArgs& a) {
  const int rows = *a.rows.count;
  if (rows == 0) return;
  const LinearWeight& one = a.leaves.front();
  const std::int64_t step = block_bytes(one.dtype, one.k);
  const auto leaves = static_cast<int>(a.leaves.size());
  const auto tiles = static_cast<int>((blocks_of(one.n) + kTileBlocks - 1) / kTileBlocks);
  constexpr int kTile = kTileRows * kTileBlocks * kLanes;
  for_each(tiles, [&](int t, Scratch& scratch) {
    float* out = scratch.take(std::int64_t{kTile} * leaves);
    const std::int64_t column = std::int64_t{t} * kTileBlocks * kLanes;
    const std::int64_t columns = std::min<std::int64_t>(one.n - column, kTileBlocks * kLanes);
    const auto blocks = static_cast<int>(blocks_of(columns));
    for (int first = 0; first < rows; first += kTileRows) {
      const int count = std::min(kTileRows, rows - first);
      for (int leaf = 0; leaf < leaves; ++leaf) {
        const void* in[kTileRows];
        for (int r = 0; r < count; ++r) in[r] = a.in.at_bytes((first + r) * a.in.stride[0] + leaf * one.k);
        tile(one.dtype, {in, count, static_cast<const std::byte*>(a.leaves[static_cast<std::size_t>(leaf)].data) + column / kLanes * step,
                         step, blocks, one.k, out + leaf * kTile});
      }
      for (int stride = 1; stride < leaves; stride *= 2) {
        for (int leaf = 0; leaf < leaves; leaf += 2 * stride)
          kernels_.add(out + leaf * kTile, out + (leaf + stride) * kTile, count * blocks * kLanes);
      }
      for (int r = 0; r < count; ++r) store_row(out + r * blocks * kLanes, columns, a.out, (first + r) * a.out.stride[0] + column);
    }
  });
}

void CpuOps::qk_norm_rope(const QkNormRopeArgs& a) {
  const std::int64_t d = a.kv.layout.head_dim;
  const int kv_heads = a.kv.layout.kv_heads;
  const std::int64_t q_step = a.gated ? 2 * d : d;
  const int half = a.rotary_dim / 2;
  std::vector<std::pair<int, int>> places;  // sequence, position
  for (int s = 0; s < a.sequences.count; ++s) {
    const int first = a.sequences.first_row[s];
    const int end = a.sequences.first_row[s + 1];
    for (int r = first; r < end; ++r) places.emplace_back(s, a.sequences.kv_length[s] - (end - first) + r - first);
  }
  for_rows(*a.rows.count, 4, [&](int t, Scratch& scratch) {
    float* x = scratch.take(2 * d);
    const float* qkv = a.qkv.as<float>() + t * a.qkv.stride[0];
    const float* angles = a.rope.as<float>() + a.positions.as<std::int32_t>()[t] * a.rope.stride[0];
    const auto [sequence, position] = places[static_cast<std::size_t>(t)];
    const auto page = a.sequences.block_table[std::int64_t{sequence} * a.sequences.blocks_max + position / a.kv.layout.page_tokens];
    const int slot = position % a.kv.layout.page_tokens;
    const View pages(a.kv.base, a.kv.layout.dtype, {1});
    const auto rotate_into = [&](const float* from, const NormWeight& norm, View out, std::int64_t to) {
      if (norm.weight.empty()) {
        std::memcpy(x, from, static_cast<std::size_t>(d) * sizeof(float));
      } else {
        kernels_.rms_norm(from, norm.weight.as<float>(), norm.zero_centered ? 1.0F : 0.0F, norm.eps, d, x);
      }
      for (int j = 0; j < half; ++j) {
        const float low = x[j];
        const float high = x[j + half];
        x[j] = low * angles[j] - high * angles[half + j];
        x[j + half] = high * angles[j] + low * angles[half + j];
      }
      store_row(x, d, out, to);
    };
    for (int h = 0; h < a.q_heads; ++h) {
      rotate_into(qkv + h * q_step, a.q_norm, a.q, t * a.q.stride[0] + h * d);
      if (a.gated) store_row(qkv + h * q_step + d, d, a.gate, t * a.gate.stride[0] + h * d);
    }
    for (int h = 0; h < kv_heads; ++h) {
      const float* k = qkv + a.q_heads * q_step + h * d;
      rotate_into(k, a.k_norm, pages, a.kv.layout.offset(page, h, false, slot));
      store_row(k + kv_heads * d, d, pages, a.kv.layout.offset(page, h, true, slot));
    }
  });
}

void CpuOps::attention(const AttentionArgs& a) {
  const std::int64_t d = a.kv.layout.head_dim;
  const int kv_heads = a.kv.layout.kv_heads;
  const int group = static_cast<int>(a.q.shape[1]) / kv_heads;
  // Query rows of a sequence that share a pass over the keys, for each kv head.
  struct Piece {
    int sequence, first_row, rows, kv_head;
  };
  const int rows_at_once = std::max(1, 32 / group);
  std::vector<Piece> pieces;
  for (int s = 0; s < a.sequences.count; ++s) {
    for (int h = 0; h < kv_heads; ++h) {
      for (int r = a.sequences.first_row[s]; r < a.sequences.first_row[s + 1]; r += rows_at_once) {
        pieces.push_back({s, r, std::min(rows_at_once, a.sequences.first_row[s + 1] - r), h});
      }
    }
  }
  std::reverse(pieces.begin(), pieces.end());  // the longest first: they end up spread over the workers
  for_each(static_cast<int>(pieces.size()), [&](int i, Scratch& scratch) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    const int vectors = piece.rows * group;
    const std::int64_t room = cpu::attend_scratch_floats(vectors, static_cast<int>(d));
    float* floats = scratch.take(room + (vectors + 1) * d);
    float* out = floats + room;
    std::vector<const void*> q(static_cast<std::size_t>(vectors));
    std::vector<std::int32_t> positions(static_cast<std::size_t>(vectors));
    const int end = a.sequences.first_row[piece.sequence + 1];
    for (int v = 0; v < vectors; ++v) {
      const int row = piece.first_row + v / group;
      q[static_cast<std::size_t>(v)] = a.q.at_bytes(row * a.q.stride[0] + (piece.kv_head * group + v % group) * d);
      positions[static_cast<std::size_t>(v)] = a.sequences.kv_length[piece.sequence] - (end - row);
    }
    const auto attend = a.kv.layout.dtype == DType::kBf16 ? kernels_.attend_bf16 : kernels_.attend_f32;
    attend({.q = q.data(),
            .positions = positions.data(),
            .rows = vectors,
            .pages = static_cast<const std::byte*>(a.kv.base) + piece.kv_head * a.kv.layout.head_bytes(),
            .page_elements = a.kv.layout.page(),
            .value_offset = a.kv.layout.plane(),
            .table = a.sequences.block_table + std::int64_t{piece.sequence} * a.sequences.blocks_max,
            .page_tokens = a.kv.layout.page_tokens,
            .head_dim = static_cast<int>(d),
            .scale = a.scale,
            .split = kAttentionSplit,
            .scratch = floats,
            .out = out});
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t row = piece.first_row + v / group;
      const std::int64_t head = piece.kv_head * group + v % group;
      if (!a.gate.empty()) {
        kernels_.sigmoid_mul(out + v * d, as_floats(a.gate, row * a.gate.stride[0] + head * d, d, out + vectors * d), d);
      }
      store_row(out + v * d, d, a.out, row * a.out.stride[0] + head * d);
    }
  });
}

void CpuOps::route(const RouteArgs& a) {
  const auto k = static_cast<int>(a.ids.shape[1]);
  const std::int64_t experts = a.weight.n;
  const std::int64_t blocks = blocks_of(experts);
  const std::int64_t step = block_bytes(a.weight.dtype, a.weight.k);
  const int rows = *a.rows.count;
  for_each((rows + kTileRows - 1) / kTileRows, [&](int piece, Scratch& scratch) {
    const int first = piece * kTileRows;
    const int count = std::min(kTileRows, rows - first);
    constexpr int kTile = kTileRows * kTileBlocks * kLanes;
    float* z = scratch.take(kTileRows * blocks * kLanes + kTile + 2 * experts);
    float* room = z + kTileRows * blocks * kLanes;
    float* p = room + kTile;
    const void* in[kTileRows];
    for (int r = 0; r < count; ++r) in[r] = row_of(a.in, first + r);
    for (std::int64_t b = 0; b < blocks; b += kTileBlocks) {
      const auto some = static_cast<int>(std::min<std::int64_t>(kTileBlocks, blocks - b));
      tile(a.weight.dtype, {in, count, static_cast<const std::byte*>(a.weight.data) + b * step, step, some, a.weight.k, room});
      for (int r = 0; r < count; ++r) {
        std::memcpy(z + (r * blocks + b) * kLanes, room + r * some * kLanes, static_cast<std::size_t>(some) * kLanes * sizeof(float));
      }
    }
    for (int r = 0; r < count; ++r) {
      const float* own = z + r * blocks * kLanes;
      std::int32_t* ids = a.ids.as<std::int32_t>() + (first + r) * a.ids.stride[0];
      float* weights = a.weights.as<float>() + (first + r) * a.weights.stride[0];
      bool finite = true;
      float largest = own[0];
      for (std::int64_t e = 0; e < experts; ++e) {
        finite = finite && std::isfinite(own[e]);
        largest = std::max(largest, own[e]);
      }
      if (!finite) {
        for (int i = 0; i < k; ++i) {
          ids[i] = i;
          weights[i] = std::numeric_limits<float>::quiet_NaN();
        }
        continue;
      }
      float* taken = p + experts;  // scores that are still to be had
      std::memcpy(taken, own, static_cast<std::size_t>(experts) * sizeof(float));
      for (int i = 0; i < k; ++i) {
        const auto best = static_cast<std::int32_t>(std::max_element(taken, taken + experts) - taken);  // the first of equals
        ids[i] = best;
        taken[best] = -std::numeric_limits<float>::infinity();
      }
      std::sort(ids, ids + k);
      float total = kernels_.exp_shifted(own, largest, experts, p);
      if (a.renormalize) {
        total = 0;
        for (int i = 0; i < k; ++i) total += p[ids[i]];
      }
      for (int i = 0; i < k; ++i) weights[i] = p[ids[i]] / total;
    }
  });
}

void CpuOps::experts(const ExpertArgs& a) {
  // So many rows at once: their outputs, one for each route, stay within the caches' reach.
  constexpr int kRowsAtOnce = 512;
  for (int first = 0; first < *a.rows.count; first += kRowsAtOnce) run_experts(a, first, std::min(kRowsAtOnce, *a.rows.count - first));
}

void CpuOps::run_experts(const ExpertArgs& a, int row_first, int row_count) {
  const auto k = static_cast<int>(a.ids.shape[1]);
  const auto count = static_cast<int>(a.experts.size());
  const std::int64_t hidden = a.in.shape[1];
  const std::int64_t width = count > 0 ? a.experts[0].gate.n : 0;
  // Routes by expert; an expert's rows ascend.
  routes_.resize(static_cast<std::size_t>(count));
  for (auto& routes : routes_) routes.clear();
  output_of_slot_.assign(static_cast<std::size_t>(row_count * k), -1);
  for (int r = 0; r < row_count; ++r) {
    const std::int32_t* ids = a.ids.as<std::int32_t>() + (row_first + r) * a.ids.stride[0];
    for (int i = 0; i < k; ++i) {
      const int e = ids[i] - a.first;
      if (ids[i] >= 0 && e >= 0 && e < count) routes_[static_cast<std::size_t>(e)].push_back({row_first + r, r * k + i});
    }
  }
  struct Piece {
    int expert, rows, place;  // the expert's rows; their place in the order of all routes
    std::int64_t block;
  };
  constexpr int kGateBlocks = kTileBlocks / 2;
  std::vector<Piece> inner_pieces;
  std::vector<Piece> outer_pieces;
  int routes = 0;
  for (int e = 0; e < count; ++e) {
    const auto rows = static_cast<int>(routes_[static_cast<std::size_t>(e)].size());
    for (int r = 0; r < rows; ++r)
      output_of_slot_[static_cast<std::size_t>(routes_[static_cast<std::size_t>(e)][static_cast<std::size_t>(r)].slot)] = routes + r;
    for (std::int64_t b = 0; rows > 0 && b < blocks_of(width); b += kGateBlocks) inner_pieces.push_back({e, rows, routes, b});
    for (std::int64_t b = 0; rows > 0 && b < blocks_of(hidden); b += kTileBlocks) outer_pieces.push_back({e, rows, routes, b});
    routes += rows;
  }
  const std::int64_t inner_step = (width * size_of(a.in.dtype) + 63) / 64 * 64;
  if (inner_.size() < static_cast<std::size_t>(routes * inner_step)) inner_.resize(static_cast<std::size_t>(routes * inner_step));
  if (outputs_.size() < static_cast<std::size_t>(routes * hidden)) outputs_.resize(static_cast<std::size_t>(routes * hidden));

  for_each(static_cast<int>(inner_pieces.size()), [&](int i, Scratch& scratch) {
    const Piece& piece = inner_pieces[static_cast<std::size_t>(i)];
    const ExpertWeights& expert = a.experts[static_cast<std::size_t>(piece.expert)];
    const auto& rows = routes_[static_cast<std::size_t>(piece.expert)];
    constexpr int kTile = kTileRows * kGateBlocks * kLanes;
    float* gate = scratch.take(2 * kTile);
    float* up = gate + kTile;
    const std::int64_t step = block_bytes(expert.gate.dtype, expert.gate.k);
    const std::int64_t columns = std::min<std::int64_t>(width - piece.block * kLanes, kGateBlocks * kLanes);
    const auto blocks = static_cast<int>(blocks_of(columns));
    for (int first = 0; first < piece.rows; first += kTileRows) {
      const int some = std::min(kTileRows, piece.rows - first);
      const void* in[kTileRows];
      for (int r = 0; r < some; ++r) in[r] = row_of(a.in, rows[static_cast<std::size_t>(first + r)].row);
      tile(expert.gate.dtype,
           {in, some, static_cast<const std::byte*>(expert.gate.data) + piece.block * step, step, blocks, expert.gate.k, gate});
      tile(expert.up.dtype, {in, some, static_cast<const std::byte*>(expert.up.data) + piece.block * step, step, blocks, expert.up.k, up});
      kernels_.silu_mul(gate, up, some * blocks * kLanes);
      for (int r = 0; r < some; ++r) {
        const View to(inner_.data() + (piece.place + first + r) * inner_step, a.in.dtype, {width});
        store_row(gate + r * blocks * kLanes, columns, to, piece.block * kLanes);
      }
    }
  });

  for_each(static_cast<int>(outer_pieces.size()), [&](int i, Scratch& scratch) {
    const Piece& piece = outer_pieces[static_cast<std::size_t>(i)];
    const LinearWeight& weight = a.experts[static_cast<std::size_t>(piece.expert)].down;
    float* out = scratch.take(kTileRows * kTileBlocks * kLanes);
    const std::int64_t step = block_bytes(weight.dtype, weight.k);
    const std::int64_t column = piece.block * kLanes;
    const std::int64_t columns = std::min<std::int64_t>(hidden - column, kTileBlocks * kLanes);
    const auto blocks = static_cast<int>(blocks_of(columns));
    for (int first = 0; first < piece.rows; first += kTileRows) {
      const int some = std::min(kTileRows, piece.rows - first);
      const void* in[kTileRows];
      for (int r = 0; r < some; ++r) in[r] = inner_.data() + (piece.place + first + r) * inner_step;
      tile(weight.dtype, {in, some, static_cast<const std::byte*>(weight.data) + piece.block * step, step, blocks, weight.k, out});
      for (int r = 0; r < some; ++r) {
        std::memcpy(outputs_.data() + (piece.place + first + r) * hidden + column, out + r * blocks * kLanes,
                    static_cast<std::size_t>(columns) * sizeof(float));
      }
    }
  });

  // A row's routes in order of experts, leaf by leaf; then the tree over leaves.
  const int leaves = count / a.experts_per_leaf;
  for_rows(row_count, 4, [&](int r, Scratch& scratch) {
    float* sums = scratch.take(leaves * hidden);
    std::memset(sums, 0, static_cast<std::size_t>(leaves * hidden) * sizeof(float));
    const std::int32_t* ids = a.ids.as<std::int32_t>() + (row_first + r) * a.ids.stride[0];
    const float* weights = a.weights.as<float>() + (row_first + r) * a.weights.stride[0];
    for (int i = 0; i < k; ++i) {
      const std::int32_t place = output_of_slot_[static_cast<std::size_t>(r * k + i)];
      if (place < 0) continue;
      kernels_.add_scaled(sums + (ids[i] - a.first) / a.experts_per_leaf * hidden, outputs_.data() + place * hidden, weights[i], hidden);
    }
    for (int stride = 1; stride < leaves; stride *= 2) {
      for (int leaf = 0; leaf < leaves; leaf += 2 * stride) kernels_.add(sums + leaf * hidden, sums + (leaf + stride) * hidden, hidden);
    }
    std::memcpy(a.out.as<float>() + (row_first + r) * a.out.stride[0], sums, static_cast<std::size_t>(hidden) * sizeof(float));
  });
}

void CpuOps::gather(const GatherArgs& a) {
  const auto bytes = static_cast<std::size_t>(a.in.shape[1] * size_of(a.in.dtype));
  for (int i = 0; i < *a.rows.count; ++i)
    std::memcpy(a.out.at_bytes(i * a.out.stride[0]), row_of(a.in, a.index.as<std::int32_t>()[i]), bytes);
}

void CpuOps::sample(const SampleArgs& a) {
  for_each(*a.rows.count, [&](int t, Scratch& scratch) {
    a.out[static_cast<std::size_t>(t)] =
        sample_row(a.logits.as<float>() + t * a.logits.stride[0], a.requests[static_cast<std::size_t>(t)], scratch.sampling);
  });
}

void CpuOps::token_logprobs(const TokenLogprobArgs& a) {
  for_each(*a.rows.count, [&](int t, Scratch& scratch) {
    a.out[static_cast<std::size_t>(t)] =
        score_row(a.logits.as<float>() + t * a.logits.stride[0], a.vocab, a.tokens.as<std::int32_t>()[t], a.num_top, scratch.sampling);
  });
}

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(Team& team, CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx2: return std::make_unique<CpuOps>(team, isa, cpu::kernels_avx2());
    case CpuIsa::kAvx512: return std::make_unique<CpuOps>(team, isa, cpu::kernels_avx512());
    case CpuIsa::kAvx512Bf16: return std::make_unique<CpuOps>(team, isa, cpu::kernels_avx512_bf16());
  }
  return nullptr;
}

}  // namespace qwell
