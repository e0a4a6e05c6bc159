#include "tensor/page_layout.h"

#include <fmt/format.h>

namespace qwell {

std::string PageLayout::text() const {
  return fmt::format("v{} {} tokens={} kv_heads={} head_dim={}", kFormatVersion, to_string(dtype), page_tokens, kv_heads, head_dim);
}

}  // namespace qwell
