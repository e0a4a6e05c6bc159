// Sampling by full sorts.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/checks.h"
#include "ops/element.h"
#include "ops/reference/reference.h"
#include "ops/sampling_rules.h"

namespace qwell::reference {
namespace {

struct Candidate {
  std::int32_t token = 0;
  double z = 0;  // changed logit, then (its distance to the largest one) / T
  double p = 0;
};

bool better(const Candidate& a, const Candidate& b) { return a.z != b.z ? a.z > b.z : a.token < b.token; }

bool finite(const float* z, int vocab) {
  return std::all_of(z, z + vocab, [](float v) { return std::isfinite(v); });
}

double log_sum_exp(const float* z, int vocab) {
  const double largest = *std::max_element(z, z + vocab);
  double sum = 0;
  for (int i = 0; i < vocab; ++i) sum += std::exp(z[i] - largest);
  return largest + std::log(sum);
}

void add_logprobs(const float* z, int vocab, int num_top, SampledToken& out) {
  const double total = log_sum_exp(z, vocab);
  out.logprob = static_cast<float>(z[out.token] - total);
  std::vector<Candidate> all;
  for (int i = 0; i < vocab; ++i) all.push_back({i, z[i], 0});
  std::sort(all.begin(), all.end(), better);
  for (int i = 0; i < std::min(num_top, vocab); ++i) {
    const Candidate& c = all[static_cast<std::size_t>(i)];
    out.top.emplace_back(c.token, static_cast<float>(c.z - total));
  }
}

// The tokens that the mask leaves, best first, with their changed logits.
std::vector<Candidate> candidates(const float* z, const SampleRow& row) {
  std::vector<float> changed(z, z + row.vocab);
  for (const LogitChange& c : row.changes) {
    if (c.token >= 0 && c.token < row.vocab) changed[static_cast<std::size_t>(c.token)] = changed_logit(z[c.token], c, row);
  }
  std::vector<Candidate> all;
  for (std::int32_t i = 0; i < row.vocab; ++i) {
    const float v = changed[static_cast<std::size_t>(i)];
    if (mask_allows(row, i) && v != -std::numeric_limits<float>::infinity()) all.push_back({i, v, 0});
  }
  std::sort(all.begin(), all.end(), better);
  return all;
}

// Cuts the list, best first, down to what top_k, top_p and min_p leave; at least one.
void cut(std::vector<Candidate>& all, const SampleRow& row) {
  std::size_t count = all.size();
  if (row.top_k > 0) count = std::min(count, static_cast<std::size_t>(row.top_k));
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) total += all[i].p = std::exp(all[i].z);
  for (std::size_t i = 0; i < count; ++i) all[i].p /= total;
  double sum = 0;
  for (std::size_t i = 0; i < count && row.top_p < 1; ++i) {
    sum += all[i].p;
    if (sum >= row.top_p) count = i + 1;
  }
  while (count > 1 && all[count - 1].p < double{row.min_p} * all.front().p) --count;
  all.resize(count);
}

std::int32_t choose(const float* z, const SampleRow& row) {
  std::vector<Candidate> all = candidates(z, row);
  if (all.empty() || std::any_of(all.begin(), all.end(), [](const Candidate& c) { return !std::isfinite(c.z); })) return -1;
  if (row.temperature <= 0) return all.front().token;
  const auto largest = static_cast<float>(all.front().z);
  for (Candidate& c : all) c.z = (static_cast<float>(c.z) - largest) / row.temperature;
  cut(all, row);
  for (Candidate& c : all) c.z = static_cast<float>(c.z) + gumbel_noise(row, c.token);
  return std::min_element(all.begin(), all.end(), better)->token;
}

}  // namespace

void sample(const SampleArgs& args) {
  const int rows = checked_rows(args);
  for (int t = 0; t < rows; ++t) {
    const SampleRow& row = args.requests[static_cast<std::size_t>(t)];
    const auto* z = static_cast<const float*>(row_data(args.logits, t));
    SampledToken& out = args.out[static_cast<std::size_t>(t)];
    out = {};
    if (!finite(z, row.vocab)) continue;
    out.token = choose(z, row);
    if (out.token >= 0 && row.num_logprobs >= 0) add_logprobs(z, row.vocab, row.num_logprobs, out);
  }
}

void token_logprobs(const TokenLogprobArgs& args) {
  const int rows = checked_rows(args);
  for (int t = 0; t < rows; ++t) {
    const auto* z = static_cast<const float*>(row_data(args.logits, t));
    const std::int32_t token = args.tokens.as<const std::int32_t>()[t];
    SampledToken& out = args.out[static_cast<std::size_t>(t)];
    out = {};
    if (token < 0 || token >= args.vocab || !finite(z, args.vocab)) continue;
    out.token = token;
    add_logprobs(z, args.vocab, args.num_top, out);
  }
}

}  // namespace qwell::reference
