#pragma once
// How an engine is laid out: what the user may say, what follows from it and from the model, and the memory that it will take.

#include <string>

#include "base/clock.h"
#include "device/memory.h"
#include "group/member.h"
#include "model/weights.h"
#include "ops/ops.h"

namespace qwell {

struct EngineOptions {
  int prefill_ranks = 1;             // TP = EP of the prefill group
  int decode_ranks = 1;              // DP = EP of the decode group
  bool disaggregated = true;         // false: the decode group runs prompts too, and there is no prefill group
  int page_tokens = 16;              // of the decode ranks; 16, 32, 64 or 128
  int prefill_page_tokens = 0;       // of the prefill group; 0: as the decode ranks
  int max_model_len = 0;             // 0: the model's, at most kDefaultModelLen
  int max_num_seqs = 32;             // sequences in work per decode rank
  int max_num_batched_tokens = 512;  // rows of a step
  std::size_t kv_bytes = 0;          // all page pools together; 0: from the sizes above, at most a quarter of the free memory
  int max_waiting = 1024;            // requests in the router
  bool prefix_caching = true;
  DType act = DType::kBf16;
  int threads = 0;  // CPU threads of all ranks together; 0: all cores
  CpuIsa isa = CpuIsa::kAvx2;
  Duration step_deadline = std::chrono::seconds(60);      // of a wait between ranks
  Duration session_deadline = std::chrono::seconds(300);  // of a transfer

  static constexpr int kDefaultModelLen = 32768;
};

// The options with everything decided. Error names the option, its value and what is possible.
struct EngineLayout {
  EngineOptions options;
  int max_model_len = 0;
  int prefill_threads = 1;  // per rank
  int decode_threads = 1;
  int spin_us = 0;
  bool shared_pool = false;  // prefill and decode use the same pages: one prefill rank, equal layouts
  GroupShape prefill_shape, decode_shape;
  PageLayout decode_layout;  // of every decode rank
  int prefill_pages = 0;     // of the prefill group; 0 where the pool is shared or there is no prefill group
  int decode_pages = 0;      // of each decode rank; of all where the pool is shared
  int pools = 0;             // page pools on the decode side
};

// Rows of logits computed at once.
constexpr int kHeadRowsMax = 64;

EngineLayout resolve(const EngineOptions& options, const ModelConfig& config);

// Layout of the pages of rank `rank` of the prefill group.
PageLayout prefill_layout(const EngineLayout& layout, const ModelConfig& config, int rank);

// All lines; needs no weights to be loaded.
MemoryPlan memory_plan(const EngineLayout& layout, const ModelConfig& config, const Ops& ops);

}  // namespace qwell
