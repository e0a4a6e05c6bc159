#include "ops/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/sampling_rules.h"

namespace qwell {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int kSumBlock = 256;

// Blocks of kSumBlock in order, then a balanced tree over the blocks: the same bits whatever the machine's width.
float tree_sum(std::vector<float>& values) {
  std::size_t blocks = 0;
  for (std::size_t first = 0; first < values.size(); first += kSumBlock) {
    float sum = 0;
    const std::size_t end = std::min(values.size(), first + kSumBlock);
    for (std::size_t i = first; i < end; ++i) sum += values[i];
    values[blocks++] = sum;
  }
  while (blocks > 1) {
    const std::size_t half = (blocks + 1) / 2;
    for (std::size_t i = 0; i < blocks / 2; ++i) values[i] = values[2 * i] + values[2 * i + 1];
    if (blocks % 2 == 1) values[half - 1] = values[blocks - 1];
    blocks = half;
  }
  return blocks == 0 ? 0.0F : values[0];
}

// The largest of finite logits; NaN when one is NaN or +infinity.
float checked_max(const float* logits, int count) {
  float best = kMinusInfinity;
  for (int i = 0; i < count; ++i) {
    if (!(logits[i] < std::numeric_limits<float>::infinity())) return std::numeric_limits<float>::quiet_NaN();
    best = std::max(best, logits[i]);
  }
  return best;
}

// log(sum exp) of the unchanged logits.
float log_sum_exp(const float* logits, int count, float largest, std::vector<float>& exponentials) {
  exponentials.resize(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) exponentials[static_cast<std::size_t>(i)] = std::exp(logits[i] - largest);
  return largest + std::log(tree_sum(exponentials));
}

// Higher value first, then lower id.
struct Better {
  const float* values;
  bool operator()(std::int32_t a, std::int32_t b) const { return values[a] != values[b] ? values[a] > values[b] : a < b; }
};

void add_scores(const float* logits, int vocab, int num_top, float largest, SamplingScratch& scratch, SampledToken& out) {
  const float total = log_sum_exp(logits, vocab, largest, scratch.exponentials);
  out.logprob = logits[out.token] - total;
  const int top = std::min(num_top, vocab);
  if (top <= 0) return;
  auto& order = scratch.order;
  order.resize(static_cast<std::size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + top, order.end(), Better{logits});
  for (int i = 0; i < top; ++i)
    out.top.emplace_back(order[static_cast<std::size_t>(i)], logits[order[static_cast<std::size_t>(i)]] - total);
}

void apply_changes(const SampleRow& row, std::vector<float>& logits) {
  for (const LogitChange& change : row.changes) {
    if (change.token < 0 || change.token >= row.vocab) continue;
    float& logit = logits[static_cast<std::size_t>(change.token)];
    logit = changed_logit(logit, change, row);
  }
  if (row.allowed == nullptr) return;
  for (int i = 0; i < row.vocab; ++i) {
    if (!mask_allows(row, i)) logits[static_cast<std::size_t>(i)] = kMinusInfinity;
  }
}

// Sets what top_k, top_p and min_p leave out to -infinity. `logits` are distances to the largest, divided by the temperature.
void restrict_set(const SampleRow& row, std::vector<float>& logits, SamplingScratch& scratch) {
  const int vocab = row.vocab;
  const int kept_k = row.top_k > 0 ? std::min(row.top_k, vocab) : vocab;
  const bool by_k = kept_k < vocab;
  const bool by_p = row.top_p < 1.0F;
  const float least = row.min_p > 0 ? std::log(row.min_p) : kMinusInfinity;  // p >= min_p * p_max
  if (by_k || by_p) {
    auto& order = scratch.order;
    order.resize(static_cast<std::size_t>(vocab));
    std::iota(order.begin(), order.end(), 0);
    const Better better{logits.data()};
    if (by_k) std::nth_element(order.begin(), order.begin() + kept_k - 1, order.end(), better);
    std::vector<char> kept(static_cast<std::size_t>(vocab), 0);
    std::size_t count = static_cast<std::size_t>(kept_k);
    if (by_p) {
      // The distribution that top_p speaks of is the one that top_k left.
      auto& exponentials = scratch.exponentials;
      exponentials.resize(count);
      // In the order of ids, so that the sum does not depend on how the selection left them.
      std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
      for (std::size_t i = 0; i < count; ++i) exponentials[i] = std::exp(logits[static_cast<std::size_t>(order[i])]);
      const float wanted = row.top_p * tree_sum(exponentials);
      std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), better);
      float sum = 0;
      std::size_t taken = 0;
      while (taken < count && (taken == 0 || sum < wanted)) sum += std::exp(logits[static_cast<std::size_t>(order[taken++])]);
      count = taken;
    }
    for (std::size_t i = 0; i < count; ++i) kept[static_cast<std::size_t>(order[i])] = 1;
    for (int i = 0; i < vocab; ++i) {
      if (kept[static_cast<std::size_t>(i)] == 0) logits[static_cast<std::size_t>(i)] = kMinusInfinity;
    }
  }
  if (row.min_p > 0) {
    for (int i = 0; i < vocab; ++i) {
      if (logits[static_cast<std::size_t>(i)] < least) logits[static_cast<std::size_t>(i)] = kMinusInfinity;
    }
  }
}

std::int32_t best_of(const float* values, int count) {
  std::int32_t best = -1;
  float value = kMinusInfinity;
  for (int i = 0; i < count; ++i) {
    if (values[i] > value) {
      value = values[i];
      best = i;
    }
  }
  return best;
}

}  // namespace

SampledToken sample_row(const float* logits, const SampleRow& row, SamplingScratch& scratch) {
  SampledToken out;
  const float raw_largest = checked_max(logits, row.vocab);
  if (std::isnan(raw_largest) || raw_largest == kMinusInfinity) return out;
  const bool plain = row.changes.empty() && row.allowed == nullptr;
  if (plain && row.temperature == 0.0F) {
    out.token = best_of(logits, row.vocab);
  } else {
    auto& changed = scratch.logits;
    changed.assign(logits, logits + row.vocab);
    apply_changes(row, changed);
    if (row.temperature == 0.0F) {
      out.token = best_of(changed.data(), row.vocab);
    } else {
      const float largest = checked_max(changed.data(), row.vocab);
      if (std::isnan(largest) || largest == kMinusInfinity) return out;
      for (float& logit : changed) logit = (logit - largest) / row.temperature;  // never above 0, however small the temperature
      restrict_set(row, changed, scratch);
      float value = kMinusInfinity;
      for (int i = 0; i < row.vocab; ++i) {
        const float logit = changed[static_cast<std::size_t>(i)];
        if (logit == kMinusInfinity) continue;
        const float noisy = logit + gumbel_noise(row, i);
        if (noisy > value) {
          value = noisy;
          out.token = i;
        }
      }
    }
  }
  if (out.token >= 0 && row.num_logprobs >= 0) add_scores(logits, row.vocab, row.num_logprobs, raw_largest, scratch, out);
  return out;
}

SampledToken score_row(const float* logits, int vocab, std::int32_t token, int num_top, SamplingScratch& scratch) {
  SampledToken out;
  const float largest = checked_max(logits, vocab);
  out.token = token;
  if (std::isnan(largest) || largest == kMinusInfinity) {
    out.logprob = std::numeric_limits<float>::quiet_NaN();
    return out;
  }
  add_scores(logits, vocab, num_top, largest, scratch, out);
  return out;
}

}  // namespace qwell
