#pragma once
// Pages of keys and values: [layer][page][kv head][K,V][token][dim]. Heads first, tokens contiguous, K beside V, so that one head of one
// page is one contiguous piece: what a transfer writes, and what a shard of the heads is made of. One struct for kernels, handshake, shard
// map and metrics.

#include <cstdint>
#include <string>

#include "tensor/dtype.h"

namespace qwell {

struct PageLayout {
  static constexpr int kFormatVersion = 1;

  DType dtype = DType::kBf16;
  int page_tokens = 16;  // a multiple of 16: attention's blocks of keys never straddle a page
  int kv_heads = 1;      // of this shard
  int head_dim = 64;

  bool operator==(const PageLayout&) const = default;

  // Elements.
  std::int64_t plane() const { return std::int64_t{page_tokens} * head_dim; }  // K or V of one head of one page
  std::int64_t head() const { return 2 * plane(); }
  std::int64_t page() const { return head() * kv_heads; }
  std::int64_t offset(std::int64_t page_index, int kv_head, bool value, int token) const {
    return page_index * page() + kv_head * head() + (value ? plane() : 0) + std::int64_t{token} * head_dim;
  }
  // Bytes.
  std::int64_t head_bytes() const { return head() * size_of(dtype); }
  std::int64_t page_bytes() const { return page() * size_of(dtype); }

  int pages_for(std::int64_t tokens) const { return static_cast<int>((tokens + page_tokens - 1) / page_tokens); }

  std::string text() const;  // for logs and handshakes: "v1 BF16 tokens=16 kv_heads=4 head_dim=64"
};

}  // namespace qwell
