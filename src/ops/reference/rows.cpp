// Operations of one row at a time: embedding, norms, rotation, gathering.

#include <cmath>
#include <cstring>
#include <vector>

#include "ops/checks.h"
#include "ops/element.h"
#include "ops/reference/reference.h"

namespace qwell::reference {
namespace {

// y = x / sqrt(mean(x^2) + eps) * w. May work in place.
void norm_row(const float* x, std::int64_t n, const NormWeight& norm, float* y) {
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) squares += double{x[i]} * x[i];
  const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(n) + norm.eps);
  for (std::int64_t i = 0; i < n; ++i) {
    const double w = norm.weight.as<const float>()[i];
    y[i] = static_cast<float>(x[i] * inverse * (norm.zero_centered ? 1.0 + w : w));
  }
}

void norm_row_to(const float* x, std::int64_t n, const NormWeight& norm, const View& out, int row) {
  std::vector<float> y(static_cast<std::size_t>(n));
  norm_row(x, n, norm, y.data());
  for (std::int64_t i = 0; i < n; ++i) store_element(row_data(out, row), out.dtype, i, y[static_cast<std::size_t>(i)]);
}

// Rotates the first `dim` elements of a head, half-split: element j pairs with j + dim/2.
void rotate(float* x, int dim, const float* cos_sin) {
  const int half = dim / 2;
  for (int j = 0; j < half; ++j) {
    const double c = cos_sin[j], s = cos_sin[half + j];
    const double a = x[j], b = x[j + half];
    x[j] = static_cast<float>(a * c - b * s);
    x[j + half] = static_cast<float>(b * c + a * s);
  }
}

}  // namespace

void embed(const EmbedArgs& args) {
  const int rows = checked_rows(args);
  for (int t = 0; t < rows; ++t) {
    const std::int32_t token = args.tokens.as<const std::int32_t>()[t];
    QWELL_CHECK(token >= 0 && token < args.table.shape[0], "token {} of {}", token, args.table.shape[0]);
    auto* out = static_cast<float*>(row_data(args.out, t));
    for (std::int64_t i = 0; i < args.table.shape[1]; ++i) out[i] = load_element(row_data(args.table, token), args.table.dtype, i);
  }
}

void norm(const NormArgs& args) {
  const int rows = checked_rows(args);
  for (int t = 0; t < rows; ++t) {
    norm_row_to(static_cast<const float*>(row_data(args.in, t)), args.in.shape[1], args.norm, args.out, t);
  }
}

void residual_norm(const ResidualNormArgs& args) {
  const int rows = checked_rows(args);
  for (int t = 0; t < rows; ++t) {
    const std::int64_t columns = args.residual.shape[1];
    auto* residual = static_cast<float*>(row_data(args.residual, t));
    for (std::int64_t i = 0; i < columns && !args.partials.empty(); ++i) {
      std::vector<float> terms;
      for (const View& partial : args.partials) terms.push_back(static_cast<const float*>(row_data(partial, t))[i]);
      for (; terms.size() > 1; terms.resize(terms.size() / 2)) {
        for (std::size_t j = 0; j < terms.size() / 2; ++j) terms[j] = terms[2 * j] + terms[2 * j + 1];
      }
      residual[i] += terms.front();
    }
    norm_row_to(residual, columns, args.norm, args.out, t);
  }
}

void qk_norm_rope(const QkNormRopeArgs& args) {
  if (checked_rows(args) == 0) return;
  const PageLayout& layout = args.kv.layout;
  const int d = layout.head_dim;
  const int q_columns = args.gated ? 2 * d : d;
  for_each_row(args.sequences, [&](int t, RowPlace place) {
    const auto* row = static_cast<const float*>(row_data(args.qkv, t));
    const std::int32_t position = args.positions.as<const std::int32_t>()[t];
    QWELL_CHECK(args.rotary_dim == 0 || (position >= 0 && position < args.rope.shape[0]), "position {} of {}", position,
                args.rotary_dim == 0 ? 0 : args.rope.shape[0]);
    const auto finish = [&](const float* head, const NormWeight& norm) {
      std::vector<float> x(head, head + d);
      if (!norm.weight.empty()) norm_row(x.data(), d, norm, x.data());
      if (args.rotary_dim > 0) rotate(x.data(), args.rotary_dim, static_cast<const float*>(row_data(args.rope, position)));
      return x;
    };
    for (int a = 0; a < args.q_heads; ++a) {
      const std::vector<float> x = finish(row + a * q_columns, args.q_norm);
      for (int i = 0; i < d; ++i) {
        store_element(row_data(args.q, t), args.q.dtype, a * d + i, x[static_cast<std::size_t>(i)]);
        if (args.gated) store_element(row_data(args.gate, t), args.gate.dtype, a * d + i, row[a * q_columns + d + i]);
      }
    }
    const float* keys = row + args.q_heads * q_columns;
    const float* values = keys + layout.kv_heads * d;
    for (int h = 0; h < layout.kv_heads; ++h) {
      const std::vector<float> x = finish(keys + h * d, args.k_norm);
      const std::int64_t key = kv_offset(args.sequences, layout, place.sequence, h, false, place.position);
      const std::int64_t value = kv_offset(args.sequences, layout, place.sequence, h, true, place.position);
      for (int i = 0; i < d; ++i) {
        store_element(args.kv.base, layout.dtype, key + i, x[static_cast<std::size_t>(i)]);
        store_element(args.kv.base, layout.dtype, value + i, values[h * d + i]);
      }
    }
  });
}

void gather(const GatherArgs& args) {
  const int rows = checked_rows(args);
  for (int i = 0; i < rows; ++i) {
    const std::int32_t row = args.index.as<const std::int32_t>()[i];
    QWELL_CHECK(row >= 0 && row < args.in.shape[0], "row {} of {}", row, args.in.shape[0]);
    std::memcpy(row_data(args.out, i), row_data(args.in, row), static_cast<std::size_t>(args.in.shape[1] * size_of(args.in.dtype)));
  }
}

}  // namespace qwell::reference
