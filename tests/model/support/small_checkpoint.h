#pragma once
// A small checkpoint in memory, made by hand from the names and shapes of the released files; to be changed and written.

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/file.h"
#include "base/random.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/support/scratch.h"

namespace qwell::testing_support {

// Every dimension differs from every other. Layer 0 has experts, layer 1 a dense MLP.
inline constexpr std::string_view kSmallConfig = R"({"model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 48,
  "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 37, "max_position_embeddings": 64, "rope_theta": 10000,
  "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "mlp_only_layers": [1], "intermediate_size": 40,
  "norm_topk_prob": true, "tie_word_embeddings": false})";

struct SmallTensor {
  DType dtype = DType::kBf16;
  std::vector<std::int64_t> shape;
  std::string bytes;

  const bf16* values() const { return reinterpret_cast<const bf16*>(bytes.data()); }
};

class SmallCheckpoint {
 public:
  std::map<std::string, SmallTensor> tensors;
  std::string config_text{kSmallConfig};

  explicit SmallCheckpoint(std::uint64_t seed = 1) : random_(seed) {
    add("model.embed_tokens.weight", {37, 48});
    add("lm_head.weight", {37, 48});
    add("model.norm.weight", {48});
    for (const std::string at : {"model.layers.0.", "model.layers.1."}) {
      add(at + "input_layernorm.weight", {48});
      add(at + "post_attention_layernorm.weight", {48});
      add(at + "self_attn.q_norm.weight", {16});
      add(at + "self_attn.k_norm.weight", {16});
      add(at + "self_attn.q_proj.weight", {128, 48});
      add(at + "self_attn.k_proj.weight", {32, 48});
      add(at + "self_attn.v_proj.weight", {32, 48});
      add(at + "self_attn.o_proj.weight", {48, 128});
    }
    add("model.layers.0.mlp.gate.weight", {5, 48});
    for (int e = 0; e < 5; ++e) add_mlp(fmt::format("model.layers.0.mlp.experts.{}.", e), 24);
    add_mlp("model.layers.1.mlp.", 40);
  }

  // bf16, random and finite.
  void add(const std::string& name, std::vector<std::int64_t> shape) {
    std::size_t elements = 1;
    for (const std::int64_t n : shape) elements *= static_cast<std::size_t>(n);
    std::string bytes;
    for (std::size_t i = 0; i < elements; ++i) {
      const bf16 value = to_bf16(random_.uniform() - 0.5F);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    tensors[name] = {DType::kBf16, std::move(shape), std::move(bytes)};
  }

  // Experts of layer 0 as two tensors: [E, 2I, H], gate's rows first, and [E, H, I].
  void fuse() {
    SmallTensor gate_up{DType::kBf16, {5, 48, 48}, {}}, down{DType::kBf16, {5, 48, 24}, {}};
    for (int e = 0; e < 5; ++e) {
      const std::string at = fmt::format("model.layers.0.mlp.experts.{}.", e);
      gate_up.bytes += tensors.at(at + "gate_proj.weight").bytes + tensors.at(at + "up_proj.weight").bytes;
      down.bytes += tensors.at(at + "down_proj.weight").bytes;
      for (const char* name : {"gate_proj", "up_proj", "down_proj"}) tensors.erase(at + name + ".weight");
    }
    tensors["model.layers.0.mlp.experts.gate_up_proj"] = std::move(gate_up);
    tensors["model.layers.0.mlp.experts.down_proj"] = std::move(down);
  }

  // The same bytes under another shape, cut or filled up with zeros.
  void reshape(const std::string& name, std::vector<std::int64_t> shape) {
    SmallTensor& t = tensors.at(name);
    t.shape = std::move(shape);
    std::size_t bytes = static_cast<std::size_t>(size_of(t.dtype));
    for (const std::int64_t n : t.shape) bytes *= static_cast<std::size_t>(n);
    t.bytes.resize(bytes, '\0');
  }

  ModelConfig config() const { return parse_config(config_text, "config.json"); }

  void write(const std::filesystem::path& folder) const {
    std::vector<TensorToWrite> list;
    for (const auto& [name, t] : tensors) list.push_back({name, t.dtype, t.shape, as_span(t.bytes)});
    write_safetensors(folder / "model.safetensors", list);
    write_file(folder / "config.json", config_text);
  }

 private:
  void add_mlp(const std::string& at, std::int64_t width) {
    add(at + "gate_proj.weight", {width, 48});
    add(at + "up_proj.weight", {width, 48});
    add(at + "down_proj.weight", {48, width});
  }

  Random random_;
};

}  // namespace qwell::testing_support
