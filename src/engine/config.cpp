#include "engine/config.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "base/error.h"
#include "model/rank_model.h"
#include "tensor/shard_map.h"

namespace qwell {
namespace {

void check_ranks(const char* option, int ranks, const ModelConfig& config, bool shares_attention) {
  if (ranks < 1 || !std::has_single_bit(static_cast<unsigned>(ranks))) {
    fail("{} {}: a power of two is wanted", option, ranks);
  }
  int most = kLeavesMax;
  for (int layer = 0; layer < config.num_layers; ++layer) most = std::min(most, leaf_count(mlp_blocks(config, layer)));
  if (shares_attention) {
    most = std::min(most, leaf_count(config.num_heads));
    if (ranks <= most && ranks > config.num_kv_heads && ranks % config.num_kv_heads != 0) {
      fail("{} {}: {} KV heads can't be shared by so many ranks", option, ranks, config.num_kv_heads);
    }
    if (ranks <= most && ranks <= config.num_kv_heads && config.num_kv_heads % ranks != 0) {
      fail("{} {}: {} KV heads can't be split into so many parts", option, ranks, config.num_kv_heads);
    }
  }
  if (ranks > most) fail("{} {}: this model's heads and experts can be shared by at most {} ranks", option, ranks, most);
}

void check_page_tokens(const char* option, int tokens) {
  if (tokens != 16 && tokens != 32 && tokens != 64 && tokens != 128) fail("{} {}: 16, 32, 64 or 128 is wanted", option, tokens);
}

// Pages that hold every sequence at its longest, within the budget; Error when not even one sequence fits.
int pages_within(std::size_t bytes, std::size_t page_bytes, int wanted, int least, const char* what) {
  const auto affordable = static_cast<int>(std::min<std::size_t>(bytes / page_bytes, 1U << 30));
  const int pages = std::min(wanted, affordable);
  if (pages < least) {
    fail("{} in {}: one sequence of the full length needs {} pages, {} fit; raise --kv-cache-memory or lower --max-model-len", what,
         bytes_text(static_cast<double>(bytes)), least, pages);
  }
  return pages;
}

}  // namespace

PageLayout prefill_layout(const EngineLayout& layout, const ModelConfig& config, int rank) {
  PageLayout pages = layout.decode_layout;
  pages.page_tokens = layout.options.prefill_page_tokens;
  pages.kv_heads = kv_heads_of(config.num_kv_heads, rank, layout.options.prefill_ranks).count;
  return pages;
}

EngineLayout resolve(const EngineOptions& given, const ModelConfig& config) {
  EngineLayout layout;
  layout.options = given;
  EngineOptions& o = layout.options;
  check_ranks("--decode-ranks", o.decode_ranks, config, false);
  if (o.disaggregated) check_ranks("--prefill-ranks", o.prefill_ranks, config, true);
  if (!o.disaggregated) o.prefill_ranks = 0;
  check_page_tokens("--block-size", o.page_tokens);
  if (o.prefill_page_tokens == 0) o.prefill_page_tokens = o.page_tokens;
  check_page_tokens("--prefill-block-size", o.prefill_page_tokens);
  if (o.max_num_seqs < 1) fail("--max-num-seqs {}: at least 1 is wanted", o.max_num_seqs);
  if (o.max_num_batched_tokens < o.max_num_seqs) {
    fail("--max-num-batched-tokens {}: at least --max-num-seqs ({}) is wanted", o.max_num_batched_tokens, o.max_num_seqs);
  }
  if (o.max_model_len < 0 || o.max_model_len > config.max_position_embeddings) {
    fail("--max-model-len {}: the model's max_position_embeddings is {}", o.max_model_len, config.max_position_embeddings);
  }
  layout.max_model_len = o.max_model_len > 0 ? o.max_model_len : std::min(config.max_position_embeddings, EngineOptions::kDefaultModelLen);

  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = o.threads > 0 ? o.threads : cores;
  // The two groups take turns more than they overlap on a small machine: each is given all threads.
  layout.prefill_threads = o.disaggregated ? std::max(1, threads / o.prefill_ranks) : 1;
  layout.decode_threads = std::max(1, threads / o.decode_ranks);
  const int all = o.prefill_ranks * layout.prefill_threads + o.decode_ranks * layout.decode_threads;
  layout.spin_us = all <= cores ? 50 : 5;

  layout.decode_layout = {.dtype = o.act, .page_tokens = o.page_tokens, .kv_heads = config.num_kv_heads, .head_dim = config.head_dim};
  layout.shared_pool = o.disaggregated && o.prefill_ranks == 1 && o.prefill_page_tokens == o.page_tokens;
  layout.pools = layout.shared_pool ? 1 : o.decode_ranks;

  int experts_per_token = 0;
  for (int l = 0; l < config.num_layers; ++l) experts_per_token = std::max(experts_per_token, mlp_experts_per_token(config, l));
  const GroupShape common{.hidden = config.hidden_size, .experts_per_token = experts_per_token, .act = o.act};
  layout.decode_shape = common;
  layout.decode_shape.name = "decode group";
  layout.decode_shape.size = o.decode_ranks;
  layout.decode_shape.rows_max = o.disaggregated ? o.max_num_seqs : o.max_num_batched_tokens;
  layout.decode_shape.distinct_rows = true;
  layout.prefill_shape = common;
  layout.prefill_shape.name = "prefill group";
  layout.prefill_shape.size = std::max(1, o.prefill_ranks);
  layout.prefill_shape.rows_max = o.max_num_batched_tokens;

  // One share of the budget for each pool: the prefill group's holds prompts for a short time, but also the cached prefixes.
  const bool prefill_pool = o.disaggregated && !layout.shared_pool;
  const std::size_t budget = o.kv_bytes > 0 ? o.kv_bytes : available_bytes() / 4;
  const std::size_t share = budget / static_cast<std::size_t>(layout.pools + (prefill_pool ? 1 : 0));
  const auto layers = static_cast<std::size_t>(config.num_layers);
  const int longest = layout.decode_layout.pages_for(layout.max_model_len);
  const int ranks_per_pool = layout.shared_pool ? o.decode_ranks : 1;
  layout.decode_pages = pages_within(share, layers * static_cast<std::size_t>(layout.decode_layout.page_bytes()),
                                     std::max(longest, longest * std::min(o.max_num_seqs, 8)) * ranks_per_pool, longest, "decode pages");
  if (prefill_pool) {
    std::size_t page_bytes = 0;  // over all ranks: heads may be replicated
    for (int rank = 0; rank < o.prefill_ranks; ++rank)
      page_bytes += static_cast<std::size_t>(prefill_layout(layout, config, rank).page_bytes());
    const int longest_prefill = (layout.max_model_len + o.prefill_page_tokens - 1) / o.prefill_page_tokens;
    layout.prefill_pages = pages_within(share, layers * page_bytes, longest_prefill * 4, longest_prefill, "prefill pages");
  }
  return layout;
}

MemoryPlan memory_plan(const EngineLayout& layout, const ModelConfig& config, const Ops& ops) {
  MemoryPlan plan;
  const EngineOptions& o = layout.options;
  const auto layers = config.num_layers;
  plan.add("weights", weights_bytes(config, o.act, ops, layout.max_model_len));
  const auto add_group = [&](const GroupShape& shape) {
    plan.add(shape.name + ": exchange windows", static_cast<std::size_t>(shape.size) * shape.window_bytes());
    std::size_t workspaces = 0;
    for (int rank = 0; rank < shape.size; ++rank) workspaces += RankModel::workspace_bytes(config, shape, rank, kHeadRowsMax);
    plan.add(shape.name + ": workspaces", workspaces);
  };
  if (o.disaggregated) {
    add_group(layout.prefill_shape);
    std::size_t pages = 0;
    for (int rank = 0; rank < o.prefill_ranks; ++rank) {
      pages += KvMemory::bytes(layers, layout.prefill_pages, prefill_layout(layout, config, rank));
    }
    if (!layout.shared_pool) plan.add("prefill group: pages", pages);
  }
  add_group(layout.decode_shape);
  plan.add(layout.shared_pool ? "pages of both groups" : "decode group: pages",
           static_cast<std::size_t>(layout.pools) * KvMemory::bytes(layers, layout.decode_pages, layout.decode_layout));
  return plan;
}

}  // namespace qwell
