#include "model/weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>

#include "base/check.h"
#include "base/error.h"
#include "device/team.h"

namespace qwell {
namespace {

// A dense MLP is cut into blocks of whole 128s or 16s where its width allows it, else of single columns.
int dense_blocks_of(int width) { return leaf_count(width % 128 == 0 ? width / 128 : width % 16 == 0 ? width / 16 : width); }

// Rows read and packed at a time: bounds the buffer of one task.
constexpr int kRowsAtOnce = 256;

// A part of a source matrix and where it goes.
struct Task {
  WeightKey key;
  Range rows, columns;
  void* packed = nullptr;  // a packed matrix [n, k], from row `packed_row` on; or a plain one where n is 0
  std::int64_t n = 0, k = 0;
  int packed_row = 0;
  DType dtype = DType::kBf16;
};

// Lays out all weights in order. Without an arena it only counts; with one it also notes what is to be read.
class Builder {
 public:
  Builder(const ModelConfig& config, DType act, const Ops& ops, Arena* arena) : config_(config), act_(act), ops_(ops), arena_(arena) {}

  std::size_t bytes() const { return bytes_; }
  const std::vector<Task>& tasks() const { return tasks_; }

  void build(ModelWeights& w, int positions_max) {
    const ModelConfig& c = config_;
    w.embedding = plain(act_, {WeightKind::kEmbedding}, c.vocab_size, c.hidden_size);
    w.head = packed({{{WeightKind::kHead}, {0, c.vocab_size}, {0, c.hidden_size}}});
    w.final_norm = norm({WeightKind::kFinalNorm}, c.hidden_size);
    w.rotary_dim = c.rope.rotary_dim;
    w.rope = View(take(static_cast<std::size_t>(positions_max) * static_cast<std::size_t>(c.rope.rotary_dim) * sizeof(float)), DType::kF32,
                  {positions_max, c.rope.rotary_dim});
    for (int l = 0; l < c.num_layers; ++l) w.layers.push_back(layer(l));
  }

 private:
  struct Part {
    WeightKey key;
    Range rows, columns;
  };

  std::byte* take(std::size_t bytes) {
    bytes_ += Arena::padded(bytes);
    return arena_ != nullptr ? arena_->take(bytes) : nullptr;
  }

  View plain(DType dtype, const WeightKey& key, int rows, int columns) {
    std::byte* data = take(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns * size_of(dtype)));
    for (int first = 0; first < rows; first += kRowsAtOnce) {
      const Range some{first, std::min(kRowsAtOnce, rows - first)};
      void* to = data == nullptr ? nullptr : data + std::int64_t{first} * columns * size_of(dtype);
      tasks_.push_back({.key = key, .rows = some, .columns = {0, columns}, .packed = to, .dtype = dtype});
    }
    return View(data, dtype, {rows, columns});
  }

  NormWeight norm(const WeightKey& key, int width) {
    View weight = plain(DType::kF32, key, 1, width);
    return {.weight = View(weight.data, DType::kF32, {width}), .eps = config_.rms_norm_eps, .zero_centered = config_.zero_centered_norms};
  }

  // The parts one below the other; all but the last a multiple of the packing's rows.
  LinearWeight packed(const std::vector<Part>& parts) {
    std::int64_t n = 0;
    for (const Part& part : parts) n += part.rows.count;
    const std::int64_t k = parts.front().columns.count;
    std::byte* data = take(static_cast<std::size_t>(ops_.packed_bytes(act_, n, k)));
    int row = 0;
    for (const Part& part : parts) {
      QWELL_CHECK(row % LinearWeight::kPackRows == 0, "part at row {}", row);
      for (int first = 0; first < part.rows.count; first += kRowsAtOnce) {
        const Range some{part.rows.first + first, std::min(kRowsAtOnce, part.rows.count - first)};
        tasks_.push_back({.key = part.key,
                          .rows = some,
                          .columns = part.columns,
                          .packed = data,
                          .n = n,
                          .k = k,
                          .packed_row = row + first,
                          .dtype = act_});
      }
      row += part.rows.count;
    }
    return {.data = data, .dtype = act_, .n = n, .k = k};
  }

  LayerWeights layer(int l) {
    const ModelConfig& c = config_;
    const Range hidden{0, c.hidden_size};
    LayerWeights w;
    w.input_norm = norm({WeightKind::kInputNorm, l}, c.hidden_size);
    w.post_attention_norm = norm({WeightKind::kPostNorm, l}, c.hidden_size);
    w.q_norm = norm({WeightKind::kQNorm, l}, c.head_dim);
    w.k_norm = norm({WeightKind::kKNorm, l}, c.head_dim);
    w.qkv = packed({{{WeightKind::kQ, l}, {0, c.num_heads * c.head_dim}, hidden},
                    {{WeightKind::kK, l}, {0, c.num_kv_heads * c.head_dim}, hidden},
                    {{WeightKind::kV, l}, {0, c.num_kv_heads * c.head_dim}, hidden}});
    const int leaves = leaf_count(c.num_heads);
    const int leaf_columns = c.num_heads / leaves * c.head_dim;
    for (int leaf = 0; leaf < leaves; ++leaf) {
      w.output_leaves.push_back(packed({{{WeightKind::kOutput, l}, hidden, {leaf * leaf_columns, leaf_columns}}}));
    }
    w.mlp = mlp(l);
    return w;
  }

  MlpWeights mlp(int l) {
    const ModelConfig& c = config_;
    const Range hidden{0, c.hidden_size};
    MlpWeights w;
    w.routed = mlp_routed(c, l);
    w.experts_per_token = mlp_experts_per_token(c, l);
    if (w.routed) {
      w.router = {.weight = packed({{{WeightKind::kRouter, l}, {0, c.num_experts}, hidden}}),
                  .experts_per_token = c.experts_per_token,
                  .renormalize = c.norm_topk_prob};
    }
    const int blocks = mlp_blocks(c, l);
    const int width = w.routed ? c.moe_intermediate_size : c.intermediate_size / blocks;
    for (int b = 0; b < blocks; ++b) {
      const int expert = w.routed ? b : -1;
      const Range columns{w.routed ? 0 : b * width, width};
      w.experts.push_back({.gate = packed({{{WeightKind::kGate, l, expert}, columns, hidden}}),
                           .up = packed({{{WeightKind::kUp, l, expert}, columns, hidden}}),
                           .down = packed({{{WeightKind::kDown, l, expert}, hidden, columns}})});
    }
    return w;
  }

  const ModelConfig& config_;
  const DType act_;
  const Ops& ops_;
  Arena* arena_;
  std::size_t bytes_ = 0;
  std::vector<Task> tasks_;
};

void fill_rope(const ModelConfig& config, View rope) {
  const std::vector<double> frequencies = rope_inverse_frequencies(config.rope);
  const double factor = rope_attention_factor(config.rope);
  const auto half = static_cast<std::int64_t>(frequencies.size());
  for (std::int64_t p = 0; p < rope.shape[0]; ++p) {
    auto* row = rope.as<float>() + p * rope.stride[0];
    for (std::int64_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(p) * frequencies[static_cast<std::size_t>(j)];
      row[j] = static_cast<float>(std::cos(angle) * factor);
      row[half + j] = static_cast<float>(std::sin(angle) * factor);
    }
  }
}

void run_task(const Task& task, WeightSource& source, const Ops& ops) {
  if (task.n == 0) {
    source.read(task.key, task.rows, task.columns, View(task.packed, task.dtype, {task.rows.count, task.columns.count}));
    return;
  }
  std::vector<std::byte> buffer(static_cast<std::size_t>(task.rows.count) *
                                static_cast<std::size_t>(task.columns.count * size_of(task.dtype)));
  const View block(buffer.data(), task.dtype, {task.rows.count, task.columns.count});
  source.read(task.key, task.rows, task.columns, block);
  ops.pack(task.dtype, task.n, task.k, task.packed_row, block, task.packed);
}

}  // namespace

void check_supported(const ModelConfig& config) {
  if (config.family != ModelFamily::kQwen3 && config.family != ModelFamily::kQwen3Moe) {
    fail("model_type {}: this version runs qwen3 and qwen3_moe", to_string(config.family));
  }
  if (config.head_dim % LinearWeight::kPackRows != 0) {
    fail("head_dim {}: a multiple of {} is wanted", config.head_dim, static_cast<int>(LinearWeight::kPackRows));
  }
}

bool mlp_routed(const ModelConfig& config, int layer) { return config.layer_is_moe(layer); }

int mlp_blocks(const ModelConfig& config, int layer) {
  return mlp_routed(config, layer) ? config.num_experts : dense_blocks_of(config.intermediate_size);
}

int mlp_experts_per_token(const ModelConfig& config, int layer) {
  return mlp_routed(config, layer) ? config.experts_per_token : mlp_blocks(config, layer);
}

std::size_t weights_bytes(const ModelConfig& config, DType act, const Ops& ops, int positions_max) {
  check_supported(config);
  Builder builder(config, act, ops, nullptr);
  ModelWeights counted;
  builder.build(counted, positions_max);
  return builder.bytes();
}

ModelWeights load_weights(const ModelConfig& config, WeightSource& source, DType act, const Ops& ops, Team& team, int positions_max,
                          const std::function<void(int done, int total)>& progress) {
  const std::size_t bytes = weights_bytes(config, act, ops, positions_max);
  ModelWeights weights;
  weights.config = config;
  weights.act = act;
  weights.numerics_id = fmt::format("{}/{}", ops.numerics_id(), to_string(act));
  weights.memory = Arena(bytes, "weights");
  Builder builder(config, act, ops, &weights.memory);
  builder.build(weights, positions_max);
  fill_rope(config, weights.rope);

  const std::vector<Task>& tasks = builder.tasks();
  const int total = static_cast<int>(tasks.size());
  std::atomic<bool> failed{false};
  std::atomic<int> done{0};
  std::mutex mutex;
  std::exception_ptr first_error;
  team.for_each(total, [&](int i) {
    if (failed) return;
    try {
      run_task(tasks[static_cast<std::size_t>(i)], source, ops);
      const int now = ++done;
      if (progress && (now % 64 == 0 || now == total)) {
        const std::lock_guard lock(mutex);
        progress(now, total);
      }
    } catch (const Error&) {
      const std::lock_guard lock(mutex);
      if (!failed.exchange(true)) first_error = std::current_exception();
    }
  });
  if (first_error) std::rethrow_exception(first_error);
  return weights;
}

}  // namespace qwell
