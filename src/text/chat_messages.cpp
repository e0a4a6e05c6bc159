#include "text/chat_messages.h"

#include <algorithm>

namespace qwell {
namespace {

Failure wrong(std::string message) { return Failure{FailureCode::kInvalidArgument, std::move(message), "messages"}; }

// The text of a part, or why there is none.
Result<std::string> text_of_part(const json::value& part, const std::string& where) {
  if (!part.is_object()) return wrong(where + ": a content part must be an object");
  const auto* const type = part.get_object().if_contains("type");
  if (type == nullptr || !type->is_string()) return wrong(where + ": a content part needs a \"type\"");
  const std::string name(type->get_string());
  const bool is_text = name == "text" || name == "refusal";
  if (!is_text) {
    const bool is_medium = name.starts_with("image") || name.starts_with("video") || name.starts_with("audio") || name == "input_audio" ||
                           name == "input_image" || name == "file";
    return wrong(is_medium ? fmt::format("{}: this model takes text only, got a part of type \"{}\"", where, name)
                           : fmt::format("{}: unknown content part type \"{}\"", where, name));
  }
  const auto* const text = part.get_object().if_contains(name);
  if (text == nullptr || !text->is_string())
    return wrong(fmt::format("{}: a part of type \"{}\" needs the string \"{}\"", where, name, name));
  return std::string(text->get_string());
}

Result<json::value> prepare_content(const json::value* content, const std::string& where, bool keep_parts) {
  if (content == nullptr || content->is_null()) return json::value("");
  if (content->is_string()) return *content;
  if (!content->is_array()) return wrong(where + ".content must be a string, null or a list of parts");
  std::string joined;
  json::array parts;
  for (const auto& part : content->get_array()) {
    auto text = text_of_part(part, fmt::format("{}.content[{}]", where, parts.size()));
    if (!text) return text.failure();
    if (!parts.empty()) joined += '\n';
    joined += *text;
    parts.emplace_back(json::object{{"type", "text"}, {"text", *text}});
  }
  if (keep_parts && !parts.empty()) return json::value(std::move(parts));
  return json::value(joined);
}

void parse_arguments(json::object& function) {
  auto* const arguments = function.if_contains("arguments");
  if (arguments == nullptr || !arguments->is_string()) return;
  const std::string_view text = arguments->get_string();
  if (text.empty()) {
    *arguments = json::object();
    return;
  }
  auto parsed = parse_json(text);
  if (parsed && parsed->is_object()) *arguments = std::move(*parsed);
}

Result<void> prepare_tool_calls(json::object& message, const std::string& where) {
  auto* const calls = message.if_contains("tool_calls");
  if (calls == nullptr || calls->is_null()) return {};
  if (!calls->is_array()) return wrong(where + ".tool_calls must be a list");
  for (std::size_t i = 0; i < calls->get_array().size(); ++i) {
    auto& call = calls->get_array()[i];
    if (!call.is_object()) return wrong(fmt::format("{}.tool_calls[{}] must be an object", where, i));
    auto* const function = call.get_object().if_contains("function");
    parse_arguments(function != nullptr && function->is_object() ? function->get_object() : call.get_object());
  }
  return {};
}

}  // namespace

Result<json::array> prepare_messages(const json::array& messages, bool keep_parts) {
  json::array out;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    if (!messages[i].is_object()) return wrong(where + " must be an object");
    json::object message = messages[i].get_object();
    const auto* const role = message.if_contains("role");
    if (role == nullptr || !role->is_string()) return wrong(where + " needs a \"role\"");
    auto content = prepare_content(message.if_contains("content"), where, keep_parts);
    if (!content) return content.failure();
    message["content"] = std::move(*content);
    if (auto calls = prepare_tool_calls(message, where); !calls) return calls.failure();
    out.emplace_back(std::move(message));
  }
  return out;
}

void append_to_content(json::value& message, std::string_view text) {
  auto& content = message.as_object().at("content");
  auto& last = content.is_array() ? content.get_array().back().as_object().at("text") : content;
  last.as_string().append(text);
}

bool mentions(const json::value& v, std::string_view text) {
  if (v.is_string()) return std::string_view(v.get_string()).find(text) != std::string_view::npos;
  if (v.is_array())
    return std::any_of(v.get_array().begin(), v.get_array().end(), [text](const auto& item) { return mentions(item, text); });
  if (!v.is_object()) return false;
  return std::any_of(v.get_object().begin(), v.get_object().end(), [text](const auto& item) {
    return std::string_view(item.key()).find(text) != std::string_view::npos || mentions(item.value(), text);
  });
}

}  // namespace qwell
