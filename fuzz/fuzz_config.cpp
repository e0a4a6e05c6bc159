// Any text as config.json, generation_config.json and hf_quant_config.json: refused with an Error, or numbers that make sense.

#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/internal/quant_config.h"

namespace {

void check(const qwell::ModelConfig& c) {
  const bool sound = c.num_heads % c.num_kv_heads == 0 && static_cast<int>(c.layer_kinds.size()) == c.num_layers &&
                     c.experts_per_token <= c.num_experts && c.rope.rotary_dim <= c.head_dim && c.rope.rotary_dim % 2 == 0 &&
                     c.max_position_embeddings > 0;
  if (!sound || !std::isfinite(rope_attention_factor(c.rope))) std::abort();
  for (const double f : rope_inverse_frequencies(c.rope)) {
    if (!std::isfinite(f)) std::abort();
  }
  for (const std::int32_t id : c.eos_ids) {
    if (id < 0 || id >= c.vocab_size) std::abort();
  }
}

template <class Parse>
void attempt(Parse&& parse) {
  try {
    parse();
  } catch (const qwell::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  attempt([&] { check(qwell::parse_config(text, "config.json")); });
  attempt([&] { qwell::parse_generation_config(text, "generation_config.json"); });
  attempt([&] { qwell::parse_hf_quant_config(text, "hf_quant_config.json"); });
  return 0;
}
