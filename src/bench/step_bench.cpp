#include "bench/step_bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "engine/rank_context.h"
#include "engine/step_batch.h"

namespace qwell {
namespace {

constexpr int kPageTokens = 16;

StepFigure figure_of(std::string what, std::vector<double> seconds_each, double tokens_per_step, double weight_bytes) {
  std::sort(seconds_each.begin(), seconds_each.end());
  const double median = seconds_each[seconds_each.size() / 2];
  return {.what = std::move(what),
          .median_ms = median * 1e3,
          .least_ms = seconds_each.front() * 1e3,
          .most_ms = seconds_each.back() * 1e3,
          .tokens_per_second = tokens_per_step / median,
          .weight_gb_per_second = weight_bytes / median / 1e9};
}

// One rank with pages for all sequences of the largest batch.
class Bench {
 public:
  Bench(const ModelWeights& weights, const StepBenchOptions& options)
      : weights_(weights),
        options_(options),
        rank_(weights, make_local_window(shape()), 0, threads(), 200, options.isa, std::chrono::seconds(60)),
        layout_(rank_.model.page_layout(kPageTokens)),
        pages_per_sequence_(
            layout_.pages_for(std::max(options.prefill_tokens, options.context + options.decode_steps * (options.repeats + 1)))),
        kv_(weights.config.num_layers, pages_per_sequence_ * most_sequences(), layout_, "pages") {}

  StepFigure prefill() {
    const std::vector<TokenId> tokens = random_tokens(options_.prefill_tokens);
    std::vector<double> times;
    for (int r = 0; r <= options_.repeats; ++r) {
      const TimePoint start = Clock::now();
      for (int first = 0; first < options_.prefill_tokens; first += options_.chunk) {
        batch_.clear();
        batch_.add(tokens, first, std::min(options_.prefill_tokens, first + options_.chunk), table(0));
        step({batch_.rows() - 1});
      }
      if (r > 0) times.push_back(seconds(Clock::now() - start));  // the first warms up
    }
    return figure_of(fmt::format("prefill {}", options_.prefill_tokens), std::move(times), options_.prefill_tokens, 0);
  }

  StepFigure decode(int sequences) {
    std::vector<std::vector<TokenId>> tokens;
    std::vector<std::int32_t> rows(static_cast<std::size_t>(sequences));
    std::iota(rows.begin(), rows.end(), 0);
    const int length = options_.context + options_.decode_steps * (options_.repeats + 1);
    for (int s = 0; s < sequences; ++s) tokens.push_back(random_tokens(length));
    std::vector<double> times;
    // What stands in the pages before does not matter for speed.
    for (int position = options_.context; position < length; ++position) {
      const TimePoint start = Clock::now();
      batch_.clear();
      for (int s = 0; s < sequences; ++s) batch_.add(tokens[static_cast<std::size_t>(s)], position - 1, position, table(s));
      step(rows);
      if (position >= options_.context + options_.decode_steps) times.push_back(seconds(Clock::now() - start));
    }
    return figure_of(fmt::format("decode {} x {}", sequences, options_.context), std::move(times), sequences,
                     decode_weight_bytes(weights_.config, weights_.act, sequences));
  }

 private:
  GroupShape shape() const {
    GroupShape shape;
    shape.name = "bench";
    shape.rows_max = std::max(options_.chunk, most_sequences());
    shape.hidden = weights_.config.hidden_size;
    shape.act = weights_.act;
    shape.distinct_rows = true;
    for (int l = 0; l < weights_.config.num_layers; ++l) {
      shape.experts_per_token = std::max(shape.experts_per_token, mlp_experts_per_token(weights_.config, l));
    }
    return shape;
  }
  int threads() const {
    return options_.threads > 0 ? options_.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  int most_sequences() const { return std::max(1, *std::max_element(options_.batches.begin(), options_.batches.end())); }

  std::vector<TokenId> random_tokens(int count) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(count));
    for (TokenId& t : tokens) t = static_cast<TokenId>(random_.below(static_cast<std::uint32_t>(weights_.config.vocab_size)));
    return tokens;
  }
  std::vector<std::int32_t> table(int sequence) const {
    std::vector<std::int32_t> pages(static_cast<std::size_t>(pages_per_sequence_));
    std::iota(pages.begin(), pages.end(), sequence * pages_per_sequence_);
    return pages;
  }

  // Forward pass, head and greedy sampling of the rows `index`.
  void step(const std::vector<std::int32_t>& index) {
    rank_.member.begin_step(++step_number_);
    auto hidden = rank_.model.forward(batch_.step(kv_, nullptr));
    if (!hidden) fail("{}", hidden.failure().message);
    for (std::size_t first = 0; first < index.size(); first += RankContext::kHeadRows) {
      const auto count = static_cast<std::int32_t>(std::min<std::size_t>(index.size() - first, RankContext::kHeadRows));
      const View logits = rank_.model.logits(*hidden, index.data() + first, count);
      const std::vector<SampleRow> rows(static_cast<std::size_t>(count), {.temperature = 0, .vocab = weights_.config.vocab_size});
      std::vector<SampledToken> tokens(static_cast<std::size_t>(count));
      rank_.ops->sample({.logits = logits, .requests = rows, .out = tokens, .rows = {count, &count}});
    }
  }

  const ModelWeights& weights_;
  const StepBenchOptions& options_;
  Random random_{42};
  RankContext rank_;
  PageLayout layout_;
  int pages_per_sequence_;
  KvMemory kv_;
  StepBatch batch_;
  std::uint64_t step_number_ = 0;
};

}  // namespace

double decode_weight_bytes(const ModelConfig& c, DType act, int rows) {
  double elements = static_cast<double>(c.vocab_size) * c.hidden_size;  // the head; embeddings are single rows
  for (int l = 0; l < c.num_layers; ++l) {
    elements += static_cast<double>(c.hidden_size) * c.head_dim * (2.0 * c.num_heads + 2.0 * c.num_kv_heads);
    if (mlp_routed(c, l)) {
      const double touched = c.num_experts * (1.0 - std::pow(1.0 - static_cast<double>(c.experts_per_token) / c.num_experts, rows));
      elements += static_cast<double>(c.num_experts) * c.hidden_size + touched * 3.0 * c.hidden_size * c.moe_intermediate_size;
    } else {
      elements += 3.0 * c.hidden_size * c.intermediate_size;
    }
  }
  return elements * static_cast<double>(size_of(act));
}

std::vector<StepFigure> bench_steps(const ModelWeights& weights, const StepBenchOptions& options) {
  Bench bench(weights, options);
  std::vector<StepFigure> figures;
  if (options.prefill_tokens > 0) figures.push_back(bench.prefill());
  for (const int batch : options.batches) figures.push_back(bench.decode(batch));
  return figures;
}

}  // namespace qwell
