#include "text/chat_template.h"

#include <algorithm>

#include "base/file.h"
#include "text/chat_messages.h"
#include "text/jinja/text_functions.h"
#include "text/unicode.h"

namespace qwell {
namespace {

constexpr std::size_t kConfigBytesMax = std::size_t{64} << 20;
constexpr std::string_view kOwnVariables[] = {"messages", "tools", "add_generation_prompt", "continue_final_message"};

Failure invalid(std::string message, std::string param) {
  return Failure{FailureCode::kInvalidArgument, std::move(message), std::move(param)};
}

std::vector<PromptSegment> segments_of(const jinja::Text& text, std::size_t end) {
  std::vector<PromptSegment> out;
  text.for_each_run_in(0, end, [&out](std::string_view bytes, bool trusted) { out.push_back({std::string(bytes), trusted}); });
  return out;
}

// Where the last message's content ends in a rendering that has `mark` and a space behind it. A template that strips content has eaten
// the space; then white space at the end of the content goes as well. Nothing when the mark is not there.
std::optional<std::size_t> content_end(std::string_view text, std::string_view mark) {
  const std::size_t found = text.rfind(mark);
  if (found == std::string_view::npos) return std::nullopt;
  if (text.substr(found + mark.size()).starts_with(' ')) return found;
  const jinja::Text before(std::string(text.substr(0, found)), true);
  return jinja::strip(before, jinja::Sides::kRight).size();
}

// A word that no string of the messages contains.
std::string unused_mark(const json::array& messages) {
  std::string mark = "CONTINUE_FINAL_MESSAGE_TAG";
  while (std::any_of(messages.begin(), messages.end(), [&mark](const json::value& message) { return mentions(message, mark); }))
    mark += "_X";
  return mark;
}

}  // namespace

ChatTemplate ChatTemplate::load(const std::filesystem::path& folder) {
  const auto config_path = folder / "tokenizer_config.json";
  const auto file_path = folder / "chat_template.jinja";
  json::value config;
  if (std::filesystem::exists(config_path)) config = parse_json_file(read_file(config_path, kConfigBytesMax), config_path.string());
  if (std::filesystem::exists(file_path)) {
    return from_text(read_file(file_path, jinja::Limits{}.template_bytes_max), config, file_path.string());
  }
  ChatTemplate out;
  if (config.is_null()) return out;
  if (!config.is_object()) fail("{}: must be an object", config_path.string());
  out.read_special_tokens(config.get_object());
  if (const auto* const given = config.get_object().if_contains("chat_template")) {
    out.read_templates(*given, config_path.string() + ": chat_template");
  }
  return out;
}

ChatTemplate ChatTemplate::from_text(std::string_view source, const json::value& tokenizer_config, std::string_view name) {
  ChatTemplate out;
  if (tokenizer_config.is_object()) out.read_special_tokens(tokenizer_config.get_object());
  if (!source.empty()) out.plain_ = out.make_variant(source, std::string(name));
  return out;
}

void ChatTemplate::read_templates(const json::value& given, const std::string& name) {
  if (given.is_null()) return;
  if (given.is_string()) {
    if (!given.get_string().empty()) plain_ = make_variant(given.get_string(), name);
    return;
  }
  if (!given.is_array()) fail("{}: must be a string or a list of {{name, template}}", name);
  if (given.get_array().empty()) return;
  for (const auto& item : given.get_array()) {
    const auto* const object = item.if_object();
    const auto* const key = object != nullptr ? object->if_contains("name") : nullptr;
    const auto* const source = object != nullptr ? object->if_contains("template") : nullptr;
    if (key == nullptr || !key->is_string() || source == nullptr || !source->is_string()) {
      fail("{}: every item of the list must have the strings \"name\" and \"template\"", name);
    }
    const std::string_view which = key->get_string();
    if (which == "default") plain_ = make_variant(source->get_string(), name + " \"default\"");
    if (which == "tool_use") with_tools_ = make_variant(source->get_string(), name + " \"tool_use\"");
  }
  if (!plain_) fail("{}: the list has no template named \"default\"", name);
}

void ChatTemplate::read_special_tokens(const json::object& config) {
  for (const char* const name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto* value = config.if_contains(name);
    if (value != nullptr && value->is_object()) value = value->get_object().if_contains("content");
    if (value != nullptr && value->is_string()) special_tokens_.emplace_back(name, std::string(value->get_string()));
  }
}

ChatTemplate::Variant ChatTemplate::make_variant(std::string_view source, const std::string& name) const {
  Variant variant{jinja::Template::parse(source, name), false};
  // Two parts that the template prints without Python's brackets: it knows lists.
  const json::array parts = {json::object{{"type", "text"}, {"text", "first part"}},
                             json::object{{"type", "text"}, {"text", "second part"}}};
  const auto rendered = run(variant, {json::object{{"role", "user"}, {"content", parts}}}, {});
  if (!rendered) return variant;
  const std::string_view text = rendered->view();
  const bool has_texts = text.find("first part") != std::string_view::npos && text.find("second part") != std::string_view::npos;
  variant.takes_parts = has_texts && text.find("[{") == std::string_view::npos;
  return variant;
}

Result<jinja::Text> ChatTemplate::run(const Variant& variant, const json::array& messages, const ChatRenderOptions& options) const {
  jinja::Dict variables;
  const auto set = [&variables](std::string_view name, jinja::Value value) {
    variables.set(jinja::trusted(std::string(name)), std::move(value));
  };
  for (const auto& [name, token] : special_tokens_) {
    set(name, valid_utf8(token) ? jinja::trusted(token) : jinja::from_json(json::value(token), true));
  }
  try {
    for (const auto& item : options.kwargs) set(item.key(), jinja::from_json(item.value(), false));
    const bool has_tools = options.tools.is_array() && !options.tools.get_array().empty();
    set("tools", has_tools ? jinja::from_json(options.tools, false) : jinja::Value());
    set("messages", jinja::from_json(messages, false));
  } catch (const jinja::RenderError& error) {
    return Failure{error.code, "the request " + error.message, "messages"};
  }
  if (!options.kwargs.contains("documents")) set("documents", {});
  set("add_generation_prompt", options.add_generation_prompt);
  const jinja::Value dict = jinja::make_dict(std::move(variables));
  return variant.code.render(dict, options.now != 0 ? options.now : std::time(nullptr));
}

Result<std::vector<PromptSegment>> ChatTemplate::render(const json::array& messages, const ChatRenderOptions& options) const {
  if (!plain_) return invalid("this model has no chat template; completions work without one", "messages");
  if (options.continue_final_message && options.add_generation_prompt) {
    return invalid("continue_final_message and add_generation_prompt exclude each other", "continue_final_message");
  }
  if (options.continue_final_message && messages.empty()) {
    return invalid("continue_final_message needs a message to continue", "continue_final_message");
  }
  if (!options.tools.is_null() && !options.tools.is_array()) return invalid("tools must be a list", "tools");
  for (const std::string_view name : kOwnVariables) {
    if (options.kwargs.contains(name)) {
      return invalid(fmt::format("chat_template_kwargs can't have \"{}\": it is a field of the request", name), "chat_template_kwargs");
    }
  }
  const bool has_tools = options.tools.is_array() && !options.tools.get_array().empty();
  const Variant& variant = has_tools && with_tools_ ? *with_tools_ : *plain_;
  auto prepared = prepare_messages(messages, variant.takes_parts);
  if (!prepared) return prepared.failure();
  std::string mark;
  if (options.continue_final_message) {
    mark = unused_mark(*prepared);
    append_to_content(prepared->back(), mark + " ");
  }
  auto text = run(variant, *prepared, options);
  if (!text) return text.failure();
  if (!options.continue_final_message) return segments_of(*text, text->size());
  const auto end = content_end(text->view(), mark);
  if (!end) {
    return invalid("continue_final_message: the last message's content does not appear in the prompt that the chat template makes",
                   "continue_final_message");
  }
  return segments_of(*text, *end);
}

std::string join_segments(const std::vector<PromptSegment>& segments) {
  std::string out;
  for (const auto& segment : segments) out += segment.text;
  return out;
}

}  // namespace qwell
