#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/checks.h"
#include "ops/element.h"
#include "ops/reference/reference.h"

namespace qwell::reference {

void attention(const AttentionArgs& args) {
  if (checked_rows(args) == 0) return;
  const PageLayout& layout = args.kv.layout;
  const int d = layout.head_dim;
  const int heads = static_cast<int>(args.q.shape[1]);
  const int group = heads / layout.kv_heads;
  const auto element = [&](const View& v, int t, int i) { return double{load_element(row_data(v, t), v.dtype, i)}; };
  for_each_row(args.sequences, [&](int t, RowPlace place) {
    for (int a = 0; a < heads; ++a) {
      const auto cached = [&](bool value, int position, int i) {
        return double{
            load_element(args.kv.base, layout.dtype, kv_offset(args.sequences, layout, place.sequence, a / group, value, position) + i)};
      };
      std::vector<double> scores(static_cast<std::size_t>(place.position) + 1);
      for (int s = 0; s <= place.position; ++s) {
        double score = 0;
        for (int i = 0; i < d; ++i) score += element(args.q, t, a * d + i) * cached(false, s, i);
        scores[static_cast<std::size_t>(s)] = score * args.scale;
      }
      const double largest = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      std::vector<double> sum(static_cast<std::size_t>(d), 0.0);
      for (int s = 0; s <= place.position; ++s) {
        const double p = std::exp(scores[static_cast<std::size_t>(s)] - largest);
        total += p;
        for (int i = 0; i < d; ++i) sum[static_cast<std::size_t>(i)] += p * cached(true, s, i);
      }
      for (int i = 0; i < d; ++i) {
        double v = sum[static_cast<std::size_t>(i)] / total;
        if (!args.gate.empty()) v /= 1.0 + std::exp(-element(args.gate, t, a * d + i));
        store_element(row_data(args.out, t), args.out.dtype, a * d + i, static_cast<float>(v));
      }
    }
  });
}

}  // namespace qwell::reference
