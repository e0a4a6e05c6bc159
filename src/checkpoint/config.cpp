#include "checkpoint/config.h"

#include <algorithm>

#include "base/file.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/internal/duplicate_names.h"
#include "checkpoint/internal/quant_config.h"

namespace qwell {
namespace {

constexpr std::int64_t kDimensionMax = 1 << 24;
constexpr int kExpertsMax = 1 << 20;  // of all layers together: bounds the lists of what a configuration wants
constexpr std::size_t kConfigBytesMax = std::size_t{16} << 20;

ModelFamily family_of(const ConfigFields& fields, const std::string& type) {
  if (type == "qwen3") return ModelFamily::kQwen3;
  if (type == "qwen3_moe") return ModelFamily::kQwen3Moe;
  if (type == "qwen3_next") return ModelFamily::kQwen3Next;
  if (type == "qwen3_5" || type == "qwen3_5_text") return ModelFamily::kQwen35;
  if (type == "qwen3_5_moe" || type == "qwen3_5_moe_text") return ModelFamily::kQwen35Moe;
  fields.wrong("model_type", "one of qwen3, qwen3_moe, qwen3_next, qwen3_5, qwen3_5_text, qwen3_5_moe, qwen3_5_moe_text");
}

bool is_moe(ModelFamily f) { return f == ModelFamily::kQwen3Moe || f == ModelFamily::kQwen3Next || f == ModelFamily::kQwen35Moe; }
bool is_hybrid(ModelFamily f) { return f != ModelFamily::kQwen3 && f != ModelFamily::kQwen3Moe; }

void sort_unique(std::vector<std::int32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

int dimension(const ConfigFields& fields, std::string_view name) {
  return static_cast<int>(fields.required_integer(name, 1, kDimensionMax));
}

// The rows of a projection, heads * head size, are a dimension too.
void check_product(const ConfigFields& fields, std::string_view heads_name, int heads, std::string_view size_name, int size) {
  if (std::int64_t{heads} * size > kDimensionMax)
    fields.wrong(heads_name, fmt::format("at most {} / {}, {},", kDimensionMax, size_name, size));
}

// One value under two names; both may be there if they agree.
int dimension_of_two(const ConfigFields& fields, std::string_view name, std::string_view other) {
  const auto a = fields.integer(name, 1, kDimensionMax);
  const auto b = fields.integer(other, 1, kDimensionMax);
  if (!a && !b) fields.missing(name, fmt::format("an integer (or {})", other));
  if (a && b && *a != *b) fields.wrong(name, fmt::format("the value of {}, {},", other, *b));
  return static_cast<int>(a ? *a : *b);
}

// `type` is the older name of `rope_type`. An object that scales and does not say how would be ignored: refused.
std::string rope_kind(const ConfigFields& scaling) {
  const auto kind = scaling.text("rope_type");
  const auto old = scaling.text("type");
  if (kind && old && *kind != *old) scaling.wrong("rope_type", fmt::format("the value of type, \"{}\",", *old));
  if (!kind && !old && scaling.has("factor")) scaling.missing("rope_type", "\"yarn\" (or no factor)");
  return kind.value_or(old.value_or("default"));
}

// The object that says how positions are scaled: rope_parameters or, in the older spelling and as an addition by hand, rope_scaling.
std::optional<ConfigFields> parse_rope_scaling(const ConfigFields& fields, const std::optional<ConfigFields>& parameters) {
  const auto scaling = fields.object("rope_scaling");
  if (!scaling || !parameters) return parameters ? parameters : scaling;
  if (rope_kind(*parameters) == "default") return scaling;
  if (rope_kind(*scaling) != "default" && *fields.find("rope_scaling") != *fields.find("rope_parameters")) {
    fields.wrong("rope_scaling", "nothing beside another scaling in rope_parameters");
  }
  return parameters;
}

// The rotary settings: rope_parameters, or rope_theta with rope_scaling and partial_rotary_factor beside it.
RopeConfig parse_rope(const ConfigFields& fields, int head_dim, int max_positions, double partial_default) {
  RopeConfig rope;
  const auto parameters = fields.object("rope_parameters");
  const auto scaling = parse_rope_scaling(fields, parameters);
  const auto theta_of = [](const ConfigFields& f) { return f.number("rope_theta", 1, 1e12, true); };
  auto theta = parameters ? theta_of(*parameters) : std::nullopt;
  const auto outer_theta = theta_of(fields);
  if (theta && outer_theta && *theta != *outer_theta) fields.wrong("rope_theta", fmt::format("rope_parameters.rope_theta, {},", *theta));
  if (!theta) theta = outer_theta;
  if (!theta) fields.missing(parameters ? "rope_parameters.rope_theta" : "rope_theta", "a number");
  rope.theta = *theta;

  auto partial = fields.number("partial_rotary_factor", 0, 1, true);
  if (parameters && parameters->has("partial_rotary_factor")) partial = parameters->number("partial_rotary_factor", 0, 1, true);
  rope.rotary_dim = static_cast<int>(head_dim * partial.value_or(partial_default));
  if (rope.rotary_dim < 2 || rope.rotary_dim % 2 != 0) {
    fail("{}: {}partial_rotary_factor {}: of head_dim {} it leaves {} rotated elements, an even number from 2 is wanted", fields.file(),
         fields.prefix(), partial.value_or(partial_default), head_dim, rope.rotary_dim);
  }
  if (!scaling) return rope;
  const std::string kind = rope_kind(*scaling);
  if (kind == "default") return rope;
  if (kind != "yarn") scaling->wrong(scaling->has("rope_type") ? "rope_type" : "type", "\"default\" or \"yarn\"");
  rope.kind = RopeConfig::Kind::kYarn;
  const auto factor = scaling->number("factor", 1, 1e6);
  if (!factor) scaling->missing("factor", "a number from 1");
  rope.factor = *factor;
  rope.original_max_position =
      static_cast<int>(scaling->integer("original_max_position_embeddings", 1, kDimensionMax).value_or(max_positions));
  rope.beta_fast = scaling->number("beta_fast", 0, 1e6, true).value_or(32);
  rope.beta_slow = scaling->number("beta_slow", 0, 1e6, true).value_or(1);
  if (rope.beta_fast <= rope.beta_slow) scaling->wrong("beta_fast", fmt::format("a number above beta_slow, {},", rope.beta_slow));
  rope.attention_factor = scaling->number("attention_factor", 0, 1e6, true).value_or(0);
  rope.mscale = scaling->number("mscale", 0, 1e6).value_or(0);
  rope.mscale_all_dim = scaling->number("mscale_all_dim", 0, 1e6).value_or(0);
  rope.truncate = scaling->boolean("truncate").value_or(true);
  return rope;
}

void parse_mlp(const ConfigFields& fields, ModelConfig& c) {
  if (is_moe(c.family)) {
    c.num_experts = dimension_of_two(fields, "num_experts", "num_local_experts");
    if (c.num_experts > kExpertsMax / c.num_layers) {
      fields.wrong(fields.has("num_experts") ? "num_experts" : "num_local_experts",
                   fmt::format("at most {} in {} layers together", kExpertsMax, c.num_layers));
    }
    c.experts_per_token = dimension(fields, "num_experts_per_tok");
    if (c.experts_per_token > c.num_experts) fields.wrong("num_experts_per_tok", fmt::format("at most num_experts, {},", c.num_experts));
    c.moe_intermediate_size = dimension(fields, "moe_intermediate_size");
    // Absent: the newer families always renormalise, the class of qwen3_moe does not.
    c.norm_topk_prob = fields.boolean("norm_topk_prob").value_or(c.family != ModelFamily::kQwen3Moe);
    c.decoder_sparse_step = static_cast<int>(fields.integer("decoder_sparse_step", 1, kDimensionMax).value_or(1));
    c.mlp_only_layers = fields.ids("mlp_only_layers", "a list of layer numbers");
    for (const int layer : c.mlp_only_layers) {
      if (layer >= c.num_layers) fields.wrong("mlp_only_layers", fmt::format("layers below num_hidden_layers, {},", c.num_layers));
    }
    sort_unique(c.mlp_only_layers);
    c.shared_expert_intermediate_size = static_cast<int>(fields.integer("shared_expert_intermediate_size", 0, kDimensionMax).value_or(0));
    if (is_hybrid(c.family) && c.shared_expert_intermediate_size == 0) fields.missing("shared_expert_intermediate_size", "an integer");
  }
  c.intermediate_size = static_cast<int>(fields.integer("intermediate_size", 1, kDimensionMax).value_or(0));
  bool has_dense_layer = false;
  for (int l = 0; l < c.num_layers; ++l) has_dense_layer = has_dense_layer || !c.layer_is_moe(l);
  if (has_dense_layer && c.intermediate_size == 0) fields.missing("intermediate_size", "an integer");
}

void parse_layer_kinds(const ConfigFields& fields, ModelConfig& c) {
  c.layer_kinds.assign(static_cast<std::size_t>(c.num_layers), LayerKind::kFullAttention);
  if (const json::value* types = fields.find("layer_types")) {
    if (!types->is_array() || static_cast<int>(types->get_array().size()) != c.num_layers) {
      fields.wrong("layer_types", fmt::format("a list of num_hidden_layers, {}, names", c.num_layers));
    }
    for (std::size_t l = 0; l < c.layer_kinds.size(); ++l) {
      const json::value& name = types->get_array()[l];
      if (name == "linear_attention") {
        c.layer_kinds[l] = LayerKind::kLinearAttention;
      } else if (name != "full_attention") {
        fields.wrong("layer_types", "\"full_attention\" or \"linear_attention\" for every layer");
      }
    }
  } else if (is_hybrid(c.family)) {
    const auto interval = fields.integer("full_attention_interval", 1, kDimensionMax);
    if (!interval) fields.missing("layer_types", "a list of layer kinds (or full_attention_interval)");
    for (int l = 0; l < c.num_layers; ++l) {
      if ((l + 1) % *interval != 0) c.layer_kinds[static_cast<std::size_t>(l)] = LayerKind::kLinearAttention;
    }
  }
  const bool linear = std::find(c.layer_kinds.begin(), c.layer_kinds.end(), LayerKind::kLinearAttention) != c.layer_kinds.end();
  if (!linear) return;
  if (!is_hybrid(c.family)) fields.wrong("layer_types", "only \"full_attention\" for this model_type");
  c.linear_num_key_heads = dimension(fields, "linear_num_key_heads");
  c.linear_num_value_heads = dimension(fields, "linear_num_value_heads");
  c.linear_key_head_dim = dimension(fields, "linear_key_head_dim");
  c.linear_value_head_dim = dimension(fields, "linear_value_head_dim");
  c.linear_conv_kernel = dimension(fields, "linear_conv_kernel_dim");
  check_product(fields, "linear_num_key_heads", c.linear_num_key_heads, "linear_key_head_dim", c.linear_key_head_dim);
  check_product(fields, "linear_num_value_heads", c.linear_num_value_heads, "linear_value_head_dim", c.linear_value_head_dim);
  if (c.linear_num_value_heads % c.linear_num_key_heads != 0) {
    fields.wrong("linear_num_value_heads", fmt::format("a multiple of linear_num_key_heads, {},", c.linear_num_key_heads));
  }
}

DType parse_dtype(const ConfigFields& fields) {
  const auto a = fields.text("dtype");
  const auto b = fields.text("torch_dtype");
  if (a && b && *a != *b) fields.wrong("dtype", fmt::format("the value of torch_dtype, \"{}\",", *b));
  const std::string name = a.value_or(b.value_or("bfloat16"));
  if (name == "bfloat16") return DType::kBf16;
  if (name == "float32") return DType::kF32;
  if (name == "float16") return DType::kF16;
  fields.wrong(a ? "dtype" : "torch_dtype", "\"bfloat16\", \"float16\" or \"float32\"");
}

// A wrapper's settings of the language model belong into text_config; those beside it would be read by nobody.
void check_outer_rope(const ConfigFields& outer, const ConfigFields& fields) {
  for (const std::string_view name : {"rope_scaling", "rope_parameters", "rope_theta"}) {
    const json::value* there = outer.find(name);
    const json::value* here = fields.find(name);
    if (there != nullptr && (here == nullptr || *there != *here)) outer.wrong(name, "it within text_config");
  }
}

// The positions that a model can take. A scaling given by hand extends what max_position_embeddings says.
int parse_positions(const ConfigFields& fields, const RopeConfig& rope, int max_positions) {
  if (rope.kind == RopeConfig::Kind::kDefault) return max_positions;
  const double scaled = rope.factor * rope.original_max_position;
  if (scaled > kDimensionMax) {
    fail("{}: {}rope scaling: factor {} of {} positions, at most {} positions are wanted", fields.file(), fields.prefix(), rope.factor,
         rope.original_max_position, kDimensionMax);
  }
  return std::max(max_positions, static_cast<int>(scaled));
}

std::vector<std::int32_t> parse_eos_ids(const ConfigFields& fields, int vocab_size) {
  auto ids = fields.ids("eos_token_id");
  for (const std::int32_t id : ids) {
    if (id >= vocab_size) fields.wrong("eos_token_id", fmt::format("ids below vocab_size, {},", vocab_size));
  }
  return ids;
}

ModelConfig parse_model(const ConfigFields& outer, const ConfigFields& fields, ModelFamily family) {
  ModelConfig c;
  c.family = family;
  c.zero_centered_norms = is_hybrid(family);
  c.attention_output_gate = fields.boolean("attn_output_gate").value_or(is_hybrid(family));
  if (c.attention_output_gate && !is_hybrid(family)) fields.wrong("attn_output_gate", "false for this model_type");
  c.num_layers = static_cast<int>(fields.required_integer("num_hidden_layers", 1, 4096));
  c.hidden_size = dimension(fields, "hidden_size");
  c.num_heads = dimension(fields, "num_attention_heads");
  c.num_kv_heads = static_cast<int>(fields.integer("num_key_value_heads", 1, kDimensionMax).value_or(c.num_heads));
  if (c.num_heads % c.num_kv_heads != 0)
    fields.wrong("num_attention_heads", fmt::format("a multiple of num_key_value_heads, {},", c.num_kv_heads));
  const auto head_dim = fields.integer("head_dim", 1, 4096);
  if (!head_dim && c.hidden_size % c.num_heads != 0) fields.missing("head_dim", "an integer");
  c.head_dim = static_cast<int>(head_dim.value_or(c.hidden_size / c.num_heads));
  check_product(fields, "num_attention_heads", c.num_heads, "head_dim", c.head_dim);
  c.vocab_size = dimension(fields, "vocab_size");
  c.max_position_embeddings = dimension(fields, "max_position_embeddings");
  c.rms_norm_eps = static_cast<float>(fields.number("rms_norm_eps", 0, 1, true).value_or(1e-6));
  const auto tied = fields.boolean("tie_word_embeddings");
  c.tie_word_embeddings = tied.value_or(outer.boolean("tie_word_embeddings").value_or(false));
  if (&outer != &fields) check_outer_rope(outer, fields);
  c.rope = parse_rope(fields, c.head_dim, c.max_position_embeddings, is_hybrid(family) ? 0.25 : 1.0);  // the default of the family's class
  c.max_position_embeddings = parse_positions(fields, c.rope, c.max_position_embeddings);
  parse_layer_kinds(fields, c);
  parse_mlp(fields, c);
  const std::string activation = fields.text("hidden_act").value_or("silu");
  if (activation != "silu") fields.wrong("hidden_act", "\"silu\"");
  if (fields.boolean("attention_bias").value_or(false)) fields.wrong("attention_bias", "false");
  if (fields.boolean("use_sliding_window").value_or(false)) fields.wrong("use_sliding_window", "false");
  const auto mtp = fields.integer("mtp_num_hidden_layers", 0, 64);
  const auto nextn = fields.integer("num_nextn_predict_layers", 0, 64);
  if (mtp && nextn && *mtp != *nextn)
    fields.wrong("mtp_num_hidden_layers", fmt::format("the value of num_nextn_predict_layers, {},", *nextn));
  c.mtp_layers = static_cast<int>(mtp ? *mtp : nextn.value_or(0));
  c.eos_ids = parse_eos_ids(fields, c.vocab_size);
  const auto outer_ids = parse_eos_ids(outer, c.vocab_size);
  c.eos_ids.insert(c.eos_ids.end(), outer_ids.begin(), outer_ids.end());
  sort_unique(c.eos_ids);
  c.dtype = parse_dtype(fields.has("dtype") || fields.has("torch_dtype") ? fields : outer);
  if (const auto quant = (outer.has("quantization_config") ? outer : fields).object("quantization_config"))
    c.quant = parse_quant_config(*quant);
  return c;
}

}  // namespace

std::string_view to_string(ModelFamily family) {
  switch (family) {
    case ModelFamily::kQwen3: return "qwen3";
    case ModelFamily::kQwen3Moe: return "qwen3_moe";
    case ModelFamily::kQwen3Next: return "qwen3_next";
    case ModelFamily::kQwen35: return "qwen3_5";
    case ModelFamily::kQwen35Moe: return "qwen3_5_moe";
  }
  return "unknown";
}

bool ModelConfig::layer_is_moe(int layer) const {
  return num_experts > 0 && (layer + 1) % decoder_sparse_step == 0 &&
         std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
}

ModelConfig parse_config(std::string_view json_text, const std::string& file) {
  const json::value value = parse_json_file(json_text, file);
  if (!value.is_object()) fail("{}: an object is wanted", file);
  refuse_duplicate_names(json_text, file);
  const ConfigFields outer(value.get_object(), file);
  const auto inner = outer.object("text_config");
  const ConfigFields& fields = inner ? *inner : outer;
  const auto type = outer.text("model_type");
  if (!type) outer.missing("model_type", "a string");
  const ModelFamily family = family_of(outer, *type);
  if (inner) {
    const auto inner_type = inner->text("model_type");
    if (inner_type && family_of(*inner, *inner_type) != family) inner->wrong("model_type", fmt::format("the family of \"{}\"", *type));
  }
  return parse_model(outer, fields, family);
}

ModelConfig load_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  ModelConfig config = parse_config(read_file(path, kConfigBytesMax), path.string());
  const auto quant_path = folder / "hf_quant_config.json";  // of ModelOpt; older releases say it nowhere else
  std::error_code error;
  if (config.quant.method == QuantMethod::kNone && std::filesystem::exists(quant_path, error)) {
    config.quant = parse_hf_quant_config(read_file(quant_path, kConfigBytesMax), quant_path.string());
  }
  return config;
}

}  // namespace qwell
