#include <algorithm>

#include "base/file.h"
#include "checkpoint/config.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/internal/duplicate_names.h"

namespace qwell {
namespace {

constexpr std::size_t kConfigBytesMax = std::size_t{16} << 20;

}  // namespace

GenerationDefaults parse_generation_config(std::string_view json_text, const std::string& file) {
  const json::value value = parse_json_file(json_text, file);
  if (!value.is_object()) fail("{}: an object is wanted", file);
  refuse_duplicate_names(json_text, file);
  const ConfigFields fields(value.get_object(), file);
  GenerationDefaults d;
  d.temperature = static_cast<float>(fields.number("temperature", 0, 100).value_or(1));
  d.top_p = static_cast<float>(fields.number("top_p", 0, 1, true).value_or(1));
  d.top_k = static_cast<int>(fields.integer("top_k", -1, INT32_MAX).value_or(0));
  d.top_k = std::max(d.top_k, 0);
  d.min_p = static_cast<float>(fields.number("min_p", 0, 1).value_or(0));
  d.repetition_penalty = static_cast<float>(fields.number("repetition_penalty", 0, 1e6, true).value_or(1));
  d.do_sample = fields.boolean("do_sample").value_or(true);
  d.eos_ids = fields.ids("eos_token_id");
  return d;
}

GenerationDefaults load_generation_config(const std::filesystem::path& folder) {
  const auto path = folder / "generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return {};  // with an error, reading names it
  return parse_generation_config(read_file(path, kConfigBytesMax), path.string());
}

std::vector<std::int32_t> stop_ids(const ModelConfig& config, const GenerationDefaults& defaults, std::span<const std::int32_t> others) {
  std::vector<std::int32_t> ids = config.eos_ids;
  ids.insert(ids.end(), defaults.eos_ids.begin(), defaults.eos_ids.end());
  ids.insert(ids.end(), others.begin(), others.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace qwell
