#include "ops/ops.h"

#include <algorithm>

#include "base/error.h"

namespace qwell {
namespace {

double bytes_of(const LinearWeight& w) {
  return static_cast<double>(w.n) * static_cast<double>(w.k) * static_cast<double>(size_of(w.dtype));
}
double flops_of(const LinearWeight& w, double rows) { return 2 * rows * static_cast<double>(w.n) * static_cast<double>(w.k); }
double rows_of(const Rows& rows) { return *rows.count; }
double row_bytes(const View& v) { return static_cast<double>(v.elements() / std::max<std::int64_t>(v.shape[0], 1) * size_of(v.dtype)); }

}  // namespace

Cost cost(const LinearArgs& args) {
  const double rows = rows_of(args.rows);
  return {bytes_of(args.weight) + rows * row_bytes(args.in), rows * row_bytes(args.out), flops_of(args.weight, rows)};
}

Cost cost(const LinearLeavesArgs& args) {
  const double rows = rows_of(args.rows);
  Cost sum{rows * row_bytes(args.in), rows * row_bytes(args.out), 0};
  for (const LinearWeight& leaf : args.leaves) {
    sum.bytes_read += bytes_of(leaf);
    sum.flops += flops_of(leaf, rows);
  }
  return sum;
}

Cost cost(const AttentionArgs& args) {
  const double rows = rows_of(args.rows);
  const PageLayout& layout = args.kv.layout;
  const double dim = layout.head_dim;
  Cost sum{rows * row_bytes(args.q), rows * row_bytes(args.out), 0};
  for (int s = 0; s < args.sequences.count; ++s) {
    const double n = args.sequences.first_row[s + 1] - args.sequences.first_row[s];
    if (n == 0) continue;
    const double keys = args.sequences.kv_length[s];
    const double visible = n * keys - n * (n - 1) / 2;  // (row, key) pairs
    sum.bytes_read += 2 * keys * layout.kv_heads * dim * static_cast<double>(size_of(layout.dtype));
    sum.flops += 4 * visible * static_cast<double>(args.q.shape[1]) * dim;
  }
  return sum;
}

Cost cost(const ExpertArgs& args) {
  const int rows = *args.rows.count;
  const std::int64_t k = rows > 0 ? args.ids.shape[1] : 0;
  std::vector<int> routes(args.experts.size(), 0);
  for (int t = 0; t < rows; ++t) {
    const auto* ids = reinterpret_cast<const std::int32_t*>(args.ids.at_bytes(t * args.ids.stride[0]));
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t e = std::int64_t{ids[j]} - args.first;
      if (e >= 0 && e < static_cast<std::int64_t>(args.experts.size())) ++routes[static_cast<std::size_t>(e)];
    }
  }
  Cost sum{rows * (rows > 0 ? row_bytes(args.in) : 0), rows * (rows > 0 ? row_bytes(args.out) : 0), 0};
  for (std::size_t e = 0; e < routes.size(); ++e) {
    if (routes[e] == 0) continue;
    for (const LinearWeight* w : {&args.experts[e].gate, &args.experts[e].up, &args.experts[e].down}) {
      sum.bytes_read += bytes_of(*w);
      sum.flops += flops_of(*w, routes[e]);
    }
  }
  return sum;
}

std::string_view to_string(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx2: return "avx2";
    case CpuIsa::kAvx512: return "avx512";
    case CpuIsa::kAvx512Bf16: return "avx512_bf16";
  }
  return "?";
}

std::vector<CpuIsa> cpu_isas() {
  std::vector<CpuIsa> isas;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return isas;
  isas.push_back(CpuIsa::kAvx2);
  // What the AVX-512 paths are compiled for (module.cmake): every server processor with AVX-512 since Skylake has these.
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512dq")) {
    return isas;
  }
  isas.push_back(CpuIsa::kAvx512);
  if (__builtin_cpu_supports("avx512bf16")) isas.push_back(CpuIsa::kAvx512Bf16);
  return isas;
}

CpuIsa select_cpu_isa(const char* forced) {
  const std::vector<CpuIsa> isas = cpu_isas();
  if (isas.empty()) fail("this processor has no AVX2 with FMA");
  if (forced == nullptr || *forced == 0) return isas.back();
  std::string names;
  for (const CpuIsa isa : isas) {
    if (to_string(isa) == forced) return isa;
    names += (names.empty() ? "" : ", ") + std::string(to_string(isa));
  }
  fail("QWELL_CPU_ISA: \"{}\", this processor has {}", forced, names);
}

}  // namespace qwell
