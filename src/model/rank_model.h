#pragma once
// One rank's part of a model's forward pass over flat rows: any mix of prompt chunks and single decode rows. The same code runs a prefill
// rank (attention sharded by heads, replicated rows, joins over the group) and a decode rank (all heads, own rows, dispatch and combine),
// on one rank or many: the difference is in model/exchange.h.

#include <memory>
#include <vector>

#include "base/error.h"
#include "device/memory.h"
#include "group/member.h"
#include "model/weights.h"
#include "ops/ops.h"
#include "tensor/shard_map.h"

namespace qwell {

// Keys and values of all layers in one block: [layer][page][kv head][K,V][token][dim].
class KvMemory {
 public:
  KvMemory(int num_layers, int num_pages, const PageLayout& layout, const std::string& what);

  static std::size_t bytes(int num_layers, int num_pages, const PageLayout& layout) {
    return static_cast<std::size_t>(num_layers) * static_cast<std::size_t>(num_pages) * static_cast<std::size_t>(layout.page_bytes());
  }

  const PageLayout& layout() const { return layout_; }
  int num_pages() const { return num_pages_; }
  PagedKv layer(int layer) const;

 private:
  PageLayout layout_;
  int num_pages_;
  MemoryBlock block_;
};

// Called by the rank's thread in the middle of a forward pass.
class ForwardHooks {
 public:
  virtual ~ForwardHooks() = default;
  // Keys and values of this layer and step are in the pages. Other ranks may still be at work on it; when forward() returns, they are not.
  virtual void keys_written(int layer) = 0;
  // `residual` fp32 [owned rows, H] after layer `layer` (not after the final norm), -1: the embeddings; rows `owned` of the step.
  virtual void layer_done(int layer, View residual, Range owned) = 0;
};

struct ForwardStep {
  int rows = 0;                             // of this rank (distinct) or of the group (replicated)
  const std::int32_t* tokens = nullptr;     // [rows]
  const std::int32_t* positions = nullptr;  // [rows]
  SequenceRows sequences;
  const KvMemory* kv = nullptr;
  ForwardHooks* hooks = nullptr;
};

class LayerExchange;

class RankModel {
 public:
  // `rows_max` of a step and `head_rows_max` rows of logits at once, both part of the plan. `member` and `ops` belong to the rank's thread.
  RankModel(const ModelWeights& weights, Member& member, Ops& ops, int rows_max, int head_rows_max);
  ~RankModel();

  static std::size_t workspace_bytes(const ModelConfig& config, const GroupShape& shape, int rank, int head_rows_max);

  // KV heads that this rank keeps, and the layout of its pages.
  Range kv_heads() const { return kv_heads_; }
  PageLayout page_layout(int page_tokens) const;

  // The rows after the final norm: act [rows, H], valid until the next call. Failures come from the group.
  Result<View> forward(const ForwardStep& step);
  // Logits fp32 [count, V] of the rows `index` of `hidden` (act [*, H]); valid until the next call. count <= head_rows_max.
  View logits(View hidden, const std::int32_t* index, int count);

 private:
  void attention(int layer, const JoinedRows& in, const ForwardStep& step, View out);

  const ModelWeights& weights_;
  Ops& ops_;
  const int rows_max_;
  const int head_rows_max_;
  Range q_heads_;
  Range kv_heads_;
  std::unique_ptr<LayerExchange> exchange_;
  Arena workspace_;
  View qkv_, q_, attention_out_, head_in_, logits_;
  std::int32_t count_ = 0;       // real rows of the running step, where the operations read it
  std::int32_t head_count_ = 0;  // likewise of logits()
};

}  // namespace qwell
