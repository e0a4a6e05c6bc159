#include "ops/checks.h"

#include <bit>

#include "base/check.h"

namespace qwell {
namespace {

int real_rows(const Rows& rows) {
  QWELL_CHECK(rows.count != nullptr, "no row count");
  QWELL_CHECK(*rows.count >= 0 && *rows.count <= rows.max, "{} rows of at most {}", *rows.count, rows.max);
  return *rows.count;
}

bool is_act(DType dtype) { return dtype == DType::kBf16 || dtype == DType::kF32; }

// A [rows, columns] buffer of the given type with dense rows.
void check_matrix(const char* name, const View& v, DType dtype, std::int64_t rows, std::int64_t columns) {
  QWELL_CHECK(!v.empty() && v.dtype == dtype && v.rank == 2 && v.shape[0] >= rows && v.shape[1] == columns, "{}: {} {}, wanted {} [{}, {}]",
              name, to_string(v.dtype), v.shape_text(), to_string(dtype), rows, columns);
  QWELL_CHECK((v.shape[1] <= 1 || v.stride[1] == 1) && (v.stride[0] >= columns || v.shape[0] <= 1), "{}: rows are not dense", name);
}

void check_vector(const char* name, const View& v, DType dtype, std::int64_t rows) {
  QWELL_CHECK(!v.empty() && v.dtype == dtype && v.rank == 1 && v.shape[0] >= rows && (v.shape[0] <= 1 || v.stride[0] == 1),
              "{}: {} {}, wanted {} [{}]", name, to_string(v.dtype), v.shape_text(), to_string(dtype), rows);
}

// [rows, heads, dim] with the heads of a row dense.
void check_heads(const char* name, const View& v, DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t dim) {
  QWELL_CHECK(!v.empty() && v.dtype == dtype && v.rank == 3 && v.shape[0] >= rows && v.shape[1] == heads && v.shape[2] == dim,
              "{}: {} {}, wanted {} [{}, {}, {}]", name, to_string(v.dtype), v.shape_text(), to_string(dtype), rows, heads, dim);
  QWELL_CHECK((dim <= 1 || v.stride[2] == 1) && (heads <= 1 || v.stride[1] == dim), "{}: heads are not dense", name);
}

void check_act(const char* name, const View& v) { QWELL_CHECK(is_act(v.dtype), "{}: activations of type {}", name, to_string(v.dtype)); }

void check_norm(const char* name, const NormWeight& norm, std::int64_t columns) { check_vector(name, norm.weight, DType::kF32, columns); }

void check_weight(const char* name, const LinearWeight& w, DType dtype, std::int64_t n, std::int64_t k) {
  QWELL_CHECK(w.data != nullptr && w.dtype == dtype && w.n == n && w.k == k, "{}: {} [{}, {}], wanted {} [{}, {}]", name,
              to_string(w.dtype), w.n, w.k, to_string(dtype), n, k);
}

void check_sequences(const SequenceRows& s, int rows) {
  QWELL_CHECK(s.count > 0 && s.first_row[0] == 0 && s.first_row[s.count] == rows, "{} sequences of {} rows, wanted {}", s.count,
              s.count > 0 ? s.first_row[s.count] : 0, rows);
}

void check_kv(const PagedKv& kv, const SequenceRows& s) {
  const PageLayout& layout = kv.layout;
  QWELL_CHECK(is_act(layout.dtype) && layout.page_tokens > 0 && layout.page_tokens % kAttentionBlock == 0, "pages {}", layout.text());
  for (int i = 0; i < s.count; ++i) {
    const int rows = s.first_row[i + 1] - s.first_row[i];
    QWELL_CHECK(rows >= 0 && s.kv_length[i] >= rows && layout.pages_for(s.kv_length[i]) <= s.blocks_max,
                "sequence {}: {} rows, {} keys, {} pages of {}", i, rows, s.kv_length[i], s.blocks_max, layout.page_tokens);
  }
}

}  // namespace

int checked_rows(const EmbedArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  check_vector("tokens", args.tokens, DType::kI32, rows);
  check_act("table", args.table);
  check_matrix("out", args.out, DType::kF32, rows, args.table.shape[1]);
  return rows;
}

int checked_rows(const NormArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  check_matrix("in", args.in, DType::kF32, rows, args.in.shape[1]);
  check_norm("norm", args.norm, args.in.shape[1]);
  check_act("out", args.out);
  check_matrix("out", args.out, args.out.dtype, rows, args.in.shape[1]);
  return rows;
}

int checked_rows(const ResidualNormArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  const std::int64_t columns = args.residual.shape[1];
  QWELL_CHECK(args.partials.size() <= kLeavesMax && (args.partials.empty() || std::has_single_bit(args.partials.size())), "{} partial sums",
              args.partials.size());
  check_matrix("residual", args.residual, DType::kF32, rows, columns);
  for (const View& partial : args.partials) check_matrix("partial", partial, DType::kF32, rows, columns);
  check_norm("norm", args.norm, columns);
  check_act("out", args.out);
  check_matrix("out", args.out, args.out.dtype, rows, columns);
  return rows;
}

int checked_rows(const LinearArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  check_act("in", args.in);
  check_matrix("in", args.in, args.in.dtype, rows, args.weight.k);
  check_weight("weight", args.weight, args.in.dtype, args.weight.n, args.weight.k);
  QWELL_CHECK(args.out.dtype == DType::kF32 || args.out.dtype == args.in.dtype, "out of type {}", to_string(args.out.dtype));
  check_matrix("out", args.out, args.out.dtype, rows, args.weight.n);
  return rows;
}

int checked_rows(const LinearLeavesArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  QWELL_CHECK(std::has_single_bit(args.leaves.size()) && args.leaves.size() <= kLeavesMax, "{} leaves", args.leaves.size());
  const LinearWeight& first = args.leaves.front();
  check_act("in", args.in);
  check_matrix("in", args.in, args.in.dtype, rows, first.k * static_cast<std::int64_t>(args.leaves.size()));
  for (const LinearWeight& leaf : args.leaves) check_weight("leaf", leaf, args.in.dtype, first.n, first.k);
  check_matrix("out", args.out, DType::kF32, rows, first.n);
  return rows;
}

int checked_rows(const QkNormRopeArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  const PageLayout& layout = args.kv.layout;
  const int d = layout.head_dim;
  check_sequences(args.sequences, rows);
  check_kv(args.kv, args.sequences);
  const std::int64_t columns = (std::int64_t{args.q_heads} * (args.gated ? 2 : 1) + 2 * layout.kv_heads) * d;
  check_matrix("qkv", args.qkv, DType::kF32, rows, columns);
  for (const NormWeight* norm : {&args.q_norm, &args.k_norm}) {
    if (!norm->weight.empty()) check_norm("norm of heads", *norm, d);
  }
  QWELL_CHECK(args.rotary_dim >= 0 && args.rotary_dim <= d && args.rotary_dim % 2 == 0, "rotary dimension {} of {}", args.rotary_dim, d);
  if (args.rotary_dim > 0) check_matrix("rope", args.rope, DType::kF32, 0, args.rotary_dim);
  check_vector("positions", args.positions, DType::kI32, rows);
  check_act("q", args.q);
  check_heads("q", args.q, args.q.dtype, rows, args.q_heads, d);
  if (args.gated) check_heads("gate", args.gate, args.q.dtype, rows, args.q_heads, d);
  return rows;
}

int checked_rows(const AttentionArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  const PageLayout& layout = args.kv.layout;
  const std::int64_t heads = args.q.shape[1];
  check_sequences(args.sequences, rows);
  check_kv(args.kv, args.sequences);
  QWELL_CHECK(args.q.dtype == layout.dtype && heads > 0 && heads % layout.kv_heads == 0, "q {} {} over pages {}", to_string(args.q.dtype),
              args.q.shape_text(), layout.text());
  check_heads("q", args.q, args.q.dtype, rows, heads, layout.head_dim);
  check_heads("out", args.out, args.q.dtype, rows, heads, layout.head_dim);
  if (!args.gate.empty()) check_heads("gate", args.gate, args.q.dtype, rows, heads, layout.head_dim);
  return rows;
}

int checked_rows(const RouteArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  const std::int64_t k = args.ids.shape[1];
  check_act("in", args.in);
  check_matrix("in", args.in, args.in.dtype, rows, args.weight.k);
  check_weight("weight", args.weight, args.in.dtype, args.weight.n, args.weight.k);
  QWELL_CHECK(k >= 1 && k <= args.weight.n, "the best {} of {} experts", k, args.weight.n);
  check_matrix("ids", args.ids, DType::kI32, rows, k);
  check_matrix("weights", args.weights, DType::kF32, rows, k);
  return rows;
}

int checked_rows(const ExpertArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  QWELL_CHECK(!args.experts.empty() && args.experts_per_leaf > 0 && args.first % args.experts_per_leaf == 0 &&
                  args.experts.size() % static_cast<std::size_t>(args.experts_per_leaf) == 0,
              "experts {}+{}, {} per leaf", args.first, args.experts.size(), args.experts_per_leaf);
  const std::size_t leaves = args.experts.size() / static_cast<std::size_t>(args.experts_per_leaf);
  QWELL_CHECK(std::has_single_bit(leaves) && leaves <= kLeavesMax, "{} leaves", leaves);
  const LinearWeight& gate = args.experts.front().gate;
  check_act("in", args.in);
  check_matrix("in", args.in, args.in.dtype, rows, gate.k);
  for (const ExpertWeights& e : args.experts) {
    check_weight("gate", e.gate, args.in.dtype, gate.n, gate.k);
    check_weight("up", e.up, args.in.dtype, gate.n, gate.k);
    check_weight("down", e.down, args.in.dtype, gate.k, gate.n);
  }
  check_matrix("ids", args.ids, DType::kI32, rows, args.ids.shape[1]);
  check_matrix("weights", args.weights, DType::kF32, rows, args.ids.shape[1]);
  check_matrix("out", args.out, DType::kF32, rows, gate.k);
  return rows;
}

int checked_rows(const GatherArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  check_vector("index", args.index, DType::kI32, rows);
  check_matrix("in", args.in, args.in.dtype, 0, args.in.shape[1]);
  check_matrix("out", args.out, args.in.dtype, rows, args.in.shape[1]);
  return rows;
}

int checked_rows(const SampleArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  check_matrix("logits", args.logits, DType::kF32, rows, args.logits.shape[1]);
  const auto n = static_cast<std::size_t>(rows);
  QWELL_CHECK(args.requests.size() >= n && args.out.size() >= n, "{} requests, {} results for {} rows", args.requests.size(),
              args.out.size(), rows);
  for (const SampleRow& row : args.requests.first(n)) {
    QWELL_CHECK(row.vocab >= 0 && row.vocab <= args.logits.shape[1], "vocabulary {} of {} logits", row.vocab, args.logits.shape[1]);
  }
  return rows;
}

int checked_rows(const TokenLogprobArgs& args) {
  const int rows = real_rows(args.rows);
  if (rows == 0) return 0;
  check_matrix("logits", args.logits, DType::kF32, rows, args.logits.shape[1]);
  check_vector("tokens", args.tokens, DType::kI32, rows);
  QWELL_CHECK(args.out.size() >= static_cast<std::size_t>(rows), "{} results for {} rows", args.out.size(), rows);
  QWELL_CHECK(args.vocab > 0 && args.vocab <= args.logits.shape[1], "vocabulary {} of {} logits", args.vocab, args.logits.shape[1]);
  return rows;
}

void check_pack(DType compute, std::int64_t n, std::int64_t k, std::int64_t row_first, const View& src) {
  QWELL_CHECK(is_act(compute) && is_act(src.dtype), "packing {} from {}", to_string(compute), to_string(src.dtype));
  QWELL_CHECK(src.rank == 2 && src.shape[1] == k && (src.shape[1] <= 1 || src.stride[1] == 1), "packing {} into [{}, {}]", src.shape_text(),
              n, k);
  const std::int64_t end = row_first + src.shape[0];
  QWELL_CHECK(row_first >= 0 && row_first % LinearWeight::kPackRows == 0 && end <= n && (end == n || end % LinearWeight::kPackRows == 0),
              "rows {} to {} of {}", row_first, end, n);
}

}  // namespace qwell
