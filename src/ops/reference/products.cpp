// Products with weight matrices: linear, routing, experts.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/checks.h"
#include "ops/element.h"
#include "ops/reference/reference.h"

namespace qwell::reference {
namespace {

// Column n of x . W^T; x has w.k elements from `first` on.
float dot(const void* x, DType dtype, std::int64_t first, const LinearWeight& w, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < w.k; ++i) sum += double{load_element(x, dtype, first + i)} * load_element(w.data, w.dtype, n * w.k + i);
  return static_cast<float>(sum);
}

float tree_sum(std::vector<float> leaves) {
  for (; leaves.size() > 1; leaves.resize(leaves.size() / 2)) {
    for (std::size_t j = 0; j < leaves.size() / 2; ++j) leaves[j] = leaves[2 * j] + leaves[2 * j + 1];
  }
  return leaves.front();
}

// One expert's contribution before its weight: down(act(silu(gate) * up)).
std::vector<float> expert_row(const ExpertWeights& e, const void* x, DType act) {
  std::vector<float> inner(static_cast<std::size_t>(e.gate.n));
  for (std::int64_t i = 0; i < e.gate.n; ++i) {
    const double g = dot(x, act, 0, e.gate, i);
    const double u = dot(x, act, 0, e.up, i);
    inner[static_cast<std::size_t>(i)] = rounded(act, static_cast<float>(g / (1.0 + std::exp(-g)) * u));
  }
  std::vector<float> out(static_cast<std::size_t>(e.down.n));
  for (std::int64_t n = 0; n < e.down.n; ++n) out[static_cast<std::size_t>(n)] = dot(inner.data(), DType::kF32, 0, e.down, n);
  return out;
}

}  // namespace

std::int64_t packed_bytes(DType compute, std::int64_t n, std::int64_t k) { return n * k * size_of(compute); }

void pack(DType compute, std::int64_t n, std::int64_t k, std::int64_t row_first, View src, void* packed) {
  check_pack(compute, n, k, row_first, src);
  for (std::int64_t r = 0; r < src.shape[0]; ++r) {
    for (std::int64_t i = 0; i < k; ++i) {
      store_element(packed, compute, (row_first + r) * k + i, load_element(row_data(src, r), src.dtype, i));
    }
  }
}

void linear(const LinearArgs& args) {
  const int rows = checked_rows(args);
  for (int t = 0; t < rows; ++t) {
    for (std::int64_t n = 0; n < args.weight.n; ++n) {
      store_element(row_data(args.out, t), args.out.dtype, n, dot(row_data(args.in, t), args.in.dtype, 0, args.weight, n));
    }
  }
}

void linear_leaves(const LinearLeavesArgs& args) {
  const int rows = checked_rows(args);
  for (int t = 0; t < rows; ++t) {
    for (std::int64_t n = 0; n < args.out.shape[1]; ++n) {
      std::vector<float> leaves;
      std::int64_t first = 0;
      for (const LinearWeight& leaf : args.leaves) {
        leaves.push_back(dot(row_data(args.in, t), args.in.dtype, first, leaf, n));
        first += leaf.k;
      }
      static_cast<float*>(row_data(args.out, t))[n] = tree_sum(std::move(leaves));
    }
  }
}

void route(const RouteArgs& args) {
  const int rows = checked_rows(args);
  for (int t = 0; t < rows; ++t) {
    const auto experts = static_cast<std::size_t>(args.weight.n);
    const auto k = static_cast<std::size_t>(args.ids.shape[1]);
    auto* ids = static_cast<std::int32_t*>(row_data(args.ids, t));
    auto* weights = static_cast<float*>(row_data(args.weights, t));
    std::vector<float> z(experts);
    for (std::size_t e = 0; e < experts; ++e) {
      z[e] = dot(row_data(args.in, t), args.in.dtype, 0, args.weight, static_cast<std::int64_t>(e));
    }
    if (!std::all_of(z.begin(), z.end(), [](float v) { return std::isfinite(v); })) {
      for (std::size_t j = 0; j < k; ++j) ids[j] = static_cast<std::int32_t>(j), weights[j] = std::nanf("");
      continue;
    }
    const double largest = *std::max_element(z.begin(), z.end());
    double total = 0;
    for (const float v : z) total += std::exp(v - largest);
    std::vector<std::int32_t> order(experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return z[static_cast<std::size_t>(a)] > z[static_cast<std::size_t>(b)]; });
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
    double chosen = 0;
    for (std::size_t j = 0; j < k; ++j) chosen += std::exp(z[static_cast<std::size_t>(order[j])] - largest);
    for (std::size_t j = 0; j < k; ++j) {
      ids[j] = order[j];
      weights[j] = static_cast<float>(std::exp(z[static_cast<std::size_t>(order[j])] - largest) / (args.renormalize ? chosen : total));
    }
  }
}

void experts(const ExpertArgs& args) {
  const int rows = checked_rows(args);
  const std::size_t per_leaf = static_cast<std::size_t>(args.experts_per_leaf);
  for (int t = 0; t < rows; ++t) {
    const auto* ids = static_cast<const std::int32_t*>(row_data(args.ids, t));
    const auto* weights = static_cast<const float*>(row_data(args.weights, t));
    const auto columns = static_cast<std::size_t>(args.out.shape[1]);
    std::vector<std::vector<float>> leaves(args.experts.size() / per_leaf, std::vector<float>(columns, 0.0F));
    for (std::int64_t j = 0; j < args.ids.shape[1]; ++j) {
      const std::int64_t e = std::int64_t{ids[j]} - args.first;
      if (e < 0 || e >= static_cast<std::int64_t>(args.experts.size())) continue;
      const auto local = static_cast<std::size_t>(e);
      const std::vector<float> out = expert_row(args.experts[local], row_data(args.in, t), args.in.dtype);
      for (std::size_t n = 0; n < columns; ++n) leaves[local / per_leaf][n] += weights[j] * out[n];
    }
    for (std::size_t n = 0; n < columns; ++n) {
      std::vector<float> terms;
      for (const std::vector<float>& leaf : leaves) terms.push_back(leaf[n]);
      static_cast<float*>(row_data(args.out, t))[n] = tree_sum(std::move(terms));
    }
  }
}

}  // namespace qwell::reference
