#include "engine/forward_run.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/bits.h"
#include "engine/rank_context.h"
#include "engine/step_batch.h"

namespace qwell {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(120);

// The rows of one step of one rank: tokens [first, end) of a sequence, or none.
struct Piece {
  int sequence = -1;
  int first = 0, end = 0;
};

// All steps of a rank; the ranks of a group have equally many.
using Schedule = std::vector<Piece>;

std::vector<Schedule> make_schedules(const std::vector<std::vector<TokenId>>& sequences, const ForwardRunOptions& options) {
  std::vector<Schedule> schedules(static_cast<std::size_t>(options.ranks));
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const int length = static_cast<int>(sequences[s].size());
    const int chunk = options.chunk > 0 ? options.chunk : length;
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      if (options.distinct_rows && s % schedules.size() != r) continue;
      for (int first = 0; first < length; first += chunk) {
        schedules[r].push_back({static_cast<int>(s), first, std::min(length, first + chunk)});
      }
    }
  }
  std::size_t steps = 0;
  for (const Schedule& schedule : schedules) steps = std::max(steps, schedule.size());
  for (Schedule& schedule : schedules) schedule.resize(steps);
  return schedules;
}

void to_floats(View row, float* out) {
  const std::int64_t n = row.shape[0];
  if (row.dtype == DType::kF32) {
    std::memcpy(out, row.data, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) out[i] = to_float(row.as<bf16>()[i]);
}

// Copies the residual stream of the rows that this rank owns to their places in the output.
class HiddenCapture final : public ForwardHooks {
 public:
  HiddenCapture(ForwardRunOutput& output, int layers, int width) : output_(output), layers_(layers), width_(width) {}

  void set(const Piece& piece) { piece_ = piece; }
  void keys_written(int) override {}
  void layer_done(int layer, View residual, Range owned) override {
    if (piece_.sequence < 0 || layer + 1 == layers_) return;  // the last one is taken after the final norm
    auto& to = output_.hidden[static_cast<std::size_t>(piece_.sequence)][static_cast<std::size_t>(layer + 1)];
    for (int i = 0; i < owned.count; ++i) to_floats(residual[i], &to[static_cast<std::size_t>((piece_.first + owned.first + i) * width_)]);
  }

 private:
  ForwardRunOutput& output_;
  const int layers_;
  const int width_;
  Piece piece_;
};

class Run {
 public:
  Run(const ModelWeights& weights, const std::vector<std::vector<TokenId>>& sequences, const ForwardRunOptions& options)
      : weights_(weights), sequences_(sequences), options_(options), schedules_(make_schedules(sequences, options)) {
    const ModelConfig& c = weights.config;
    int rows_max = 1;
    for (const auto& schedule : schedules_) {
      for (const Piece& piece : schedule) rows_max = std::max(rows_max, piece.end - piece.first);
    }
    GroupShape shape;
    shape.name = "forward group";
    shape.size = options.ranks;
    shape.rows_max = rows_max;
    shape.hidden = c.hidden_size;
    shape.act = weights.act;
    shape.distinct_rows = options.distinct_rows;
    for (int l = 0; l < c.num_layers; ++l) shape.experts_per_token = std::max(shape.experts_per_token, mlp_experts_per_token(c, l));
    window_ = make_local_window(shape);
    for (const auto& sequence : sequences) {
      output_.logits.emplace_back(sequence.size() * static_cast<std::size_t>(c.vocab_size));
      output_.hidden.emplace_back();
      if (!options.hidden) continue;
      output_.hidden.back().assign(static_cast<std::size_t>(c.num_layers) + 1,
                                   std::vector<float>(sequence.size() * static_cast<std::size_t>(c.hidden_size)));
    }
  }

  Result<ForwardRunOutput> run() {
    std::vector<std::thread> threads;
    std::vector<Result<void>> results(static_cast<std::size_t>(options_.ranks));
    for (int r = 0; r < options_.ranks; ++r) {
      threads.emplace_back([this, r, &results] { results[static_cast<std::size_t>(r)] = drive(r); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) {
      if (!result) return result.failure();
    }
    return std::move(output_);
  }

 private:
  Result<void> drive(int r) {
    const ModelConfig& c = weights_.config;
    RankContext rank(weights_, window_, r, options_.threads, 5, options_.isa, kDeadline);
    std::size_t longest = 0;
    for (const auto& sequence : sequences_) longest = std::max(longest, sequence.size());
    const PageLayout layout = rank.model.page_layout(options_.page_tokens);
    const int pages = layout.pages_for(static_cast<std::int64_t>(longest));
    const KvMemory kv(c.num_layers, pages, layout, "pages");
    // Not in order, so that a mistake in the use of block tables shows.
    std::vector<std::int32_t> table(static_cast<std::size_t>(pages));
    std::iota(table.rbegin(), table.rend(), 0);

    HiddenCapture capture(output_, c.num_layers, c.hidden_size);
    StepBatch batch;
    std::uint64_t step = 0;
    for (const Piece& piece : schedules_[static_cast<std::size_t>(r)]) {
      batch.clear();
      if (piece.sequence >= 0) batch.add(sequences_[static_cast<std::size_t>(piece.sequence)], piece.first, piece.end, table);
      capture.set(piece);
      rank.member.begin_step(++step);
      auto hidden = rank.model.forward(batch.step(kv, options_.hidden ? &capture : nullptr));
      if (!hidden) return hidden.failure();
      if (piece.sequence >= 0) keep(rank, *hidden, piece, r);
    }
    return {};
  }

  // Replicated rows: the first rank has them all, and so keeps them.
  void keep(RankContext& rank, View hidden, const Piece& piece, int r) {
    if (!options_.distinct_rows && r != 0) return;
    const ModelConfig& c = weights_.config;
    const auto s = static_cast<std::size_t>(piece.sequence);
    std::vector<std::int32_t> index;
    for (int first = piece.first; first < piece.end; first += RankContext::kHeadRows) {
      const int count = std::min(piece.end - first, RankContext::kHeadRows);
      index.resize(static_cast<std::size_t>(count));
      std::iota(index.begin(), index.end(), first - piece.first);
      const View logits = rank.model.logits(hidden, index.data(), count);
      for (int i = 0; i < count; ++i) {
        to_floats(logits[i], &output_.logits[s][static_cast<std::size_t>(first + i) * static_cast<std::size_t>(c.vocab_size)]);
      }
    }
    if (!options_.hidden) return;
    for (int p = piece.first; p < piece.end; ++p) {
      to_floats(hidden[p - piece.first], &output_.hidden[s].back()[static_cast<std::size_t>(p) * static_cast<std::size_t>(c.hidden_size)]);
    }
  }

  const ModelWeights& weights_;
  const std::vector<std::vector<TokenId>>& sequences_;
  const ForwardRunOptions& options_;
  const std::vector<Schedule> schedules_;
  std::shared_ptr<GroupWindow> window_;
  ForwardRunOutput output_;
};

}  // namespace

Result<ForwardRunOutput> run_forward(const ModelWeights& weights, const std::vector<std::vector<TokenId>>& sequences,
                                     const ForwardRunOptions& options) {
  return Run(weights, sequences, options).run();
}

}  // namespace qwell
