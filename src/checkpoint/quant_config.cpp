#include "checkpoint/internal/quant_config.h"

#include <algorithm>

namespace qwell {
namespace {

constexpr int kFp8Block = 128;
constexpr int kMxGroup = 32;
constexpr int kNvfp4Group = 16;

// Spelled by one producer; compared whole, for one name may be part of another.
struct Spelling {
  std::string_view name;
  QuantMethod method;
};
constexpr Spelling kModelOpt[] = {{"MXFP8", QuantMethod::kMxfp8},
                                  {"NVFP4", QuantMethod::kNvfp4},
                                  {"W4A16_NVFP4", QuantMethod::kNvfp4},
                                  {"MIXED_PRECISION", QuantMethod::kMixed}};
constexpr Spelling kCompressedTensors[] = {{"mxfp8-quantized", QuantMethod::kMxfp8},
                                           {"mxfp4-pack-quantized", QuantMethod::kMxfp4},
                                           {"nvfp4-pack-quantized", QuantMethod::kNvfp4},
                                           {"mixed-precision", QuantMethod::kMixed}};

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return text;
}

QuantMethod method_named(const ConfigFields& fields, std::string_view field, std::span<const Spelling> spellings, bool any_case) {
  const auto seen = fields.text(field);
  std::string known;
  for (const Spelling& s : spellings) {
    if (seen && (any_case ? upper(*seen) : *seen) == s.name) return s.method;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", s.name);
  }
  if (!seen) fields.missing(field, "one of " + known);
  fields.wrong(field, "one of " + known);
}

QuantConfig grouped(QuantMethod method) {
  switch (method) {
    case QuantMethod::kMxfp8:
    case QuantMethod::kMxfp4: return {method, 1, kMxGroup};
    case QuantMethod::kNvfp4: return {method, 1, kNvfp4Group};
    default: return {method, 0, 0};
  }
}

QuantConfig blocked(const ConfigFields& fields, QuantMethod method, int rows, int columns) {
  const json::value* block = fields.find("weight_block_size");
  const std::string wanted = fmt::format("[{}, {}]", rows, columns);
  if (block == nullptr) fields.missing("weight_block_size", wanted);
  if (*block != json::value{rows, columns}) fields.wrong("weight_block_size", wanted);
  return {method, rows, columns};
}

QuantConfig parse_model_opt(const ConfigFields& fields) {
  const QuantConfig quant = grouped(method_named(fields, "quant_algo", kModelOpt, true));
  const auto group = fields.integer("group_size", 1, 1 << 24);
  if (group && quant.block_columns != 0 && *group != quant.block_columns)
    fields.wrong("group_size", fmt::format("{}", quant.block_columns));
  return quant;
}

}  // namespace

std::string_view to_string(QuantMethod method) {
  switch (method) {
    case QuantMethod::kNone: return "none";
    case QuantMethod::kFp8Block: return "FP8";
    case QuantMethod::kMxfp8: return "MXFP8";
    case QuantMethod::kMxfp4: return "MXFP4";
    case QuantMethod::kNvfp4: return "NVFP4";
    case QuantMethod::kMixed: return "mixed precision";
  }
  return "unknown";
}

QuantConfig parse_quant_config(const ConfigFields& fields) {
  const auto method = fields.text("quant_method");
  if (!method) fields.missing("quant_method", "a string");
  if (*method == "fp8") {
    if (fields.text("fmt").value_or("e4m3") != "e4m3") fields.wrong("fmt", "\"e4m3\"");
    return blocked(fields, QuantMethod::kFp8Block, kFp8Block, kFp8Block);
  }
  if (*method == "mxfp8") return blocked(fields, QuantMethod::kMxfp8, 1, kMxGroup);
  if (*method == "modelopt") return parse_model_opt(fields);
  if (*method == "compressed-tensors") return grouped(method_named(fields, "format", kCompressedTensors, false));
  fields.wrong("quant_method", "one of \"fp8\", \"mxfp8\", \"modelopt\", \"compressed-tensors\"");
}

QuantConfig parse_hf_quant_config(std::string_view json_text, const std::string& file) {
  const json::value value = parse_json_file(json_text, file);
  if (!value.is_object()) fail("{}: an object is wanted", file);
  const auto quant = ConfigFields(value.get_object(), file).object("quantization");
  if (!quant || !quant->has("quant_algo")) return {};  // only the KV cache's format, which is ours to choose
  return parse_model_opt(*quant);
}

}  // namespace qwell
