#include <algorithm>
#include <set>

#include "server/internal/parse.h"

namespace qwell::server {
namespace {

// A list of parts: the text parts, joined by line breaks (what text-only templates of the ecosystem are given).
Result<std::string> join_parts(const json::array& parts) {
  std::string text;
  bool first = true;
  for (const auto& part : parts) {
    if (!part.is_object()) return failure(FailureCode::kInvalidArgument, "a content part must be an object, got {}", kind_name(part));
    FieldReader reader(part.get_object());
    const std::string type = reader.string("type");
    if (!reader.ok() || type.empty()) return failure(FailureCode::kInvalidArgument, "a content part needs a type");
    if (type == "image_url" || type == "input_audio" || type == "video_url" || type == "file") {
      return failure(FailureCode::kInvalidArgument, "this model takes text only, got a content part of type \"{}\"", type);
    }
    if (type != "text" && type != "refusal") return failure(FailureCode::kInvalidArgument, "unknown content part type \"{}\"", type);
    if (reader.find(type) == nullptr)
      return failure(FailureCode::kInvalidArgument, "a content part of type \"{0}\" needs the field \"{0}\"", type);
    if (!first) text += '\n';
    first = false;
    text += reader.string(type);
    if (!reader.ok()) return reader.failure();
  }
  return text;
}

Result<std::string> parse_content(const json::value* content, bool may_be_absent) {
  if (content == nullptr || content->is_null()) {
    if (may_be_absent) return std::string();
    return failure(FailureCode::kInvalidArgument, "content is missing");
  }
  if (content->is_string()) return std::string(content->get_string());
  if (content->is_array()) return join_parts(content->get_array());
  return failure(FailureCode::kInvalidArgument, "content must be a string or a list of parts, got {}", kind_name(*content));
}

Result<void> check_tool_calls(const json::value& calls) {
  if (!calls.is_array()) return failure(FailureCode::kInvalidArgument, "tool_calls must be an array, got {}", kind_name(calls));
  for (const auto& call : calls.get_array()) {
    const auto* const function = call.is_object() ? call.get_object().if_contains("function") : nullptr;
    const auto* const name = function != nullptr && function->is_object() ? function->get_object().if_contains("name") : nullptr;
    if (name == nullptr || !name->is_string()) return failure(FailureCode::kInvalidArgument, "a tool call needs function.name");
  }
  return {};
}

// One message as templates want it: role and string content, no null fields.
Result<json::object> normalise_message(const json::value& value) {
  static const std::set<std::string_view> kRoles = {"system", "developer", "user", "assistant", "tool", "function"};
  if (!value.is_object()) return failure(FailureCode::kInvalidArgument, "must be an object, got {}", kind_name(value));
  const auto& object = value.get_object();
  FieldReader reader(object);
  std::string role = reader.string("role");
  if (!reader.ok()) return reader.failure();
  if (!kRoles.contains(role)) {
    return failure(FailureCode::kInvalidArgument, "role must be system, developer, user, assistant or tool, got \"{}\"", role);
  }
  auto content = parse_content(object.if_contains("content"), role == "assistant");
  if (!content) return content.failure();
  if (const auto* const calls = reader.find("tool_calls")) {
    if (auto checked = check_tool_calls(*calls); !checked) return checked.failure();
  }
  if (role == "developer") role = "system";  // the newer name; templates know the older
  if (role == "function") role = "tool";
  json::object message;
  message["role"] = role;
  message["content"] = *content;
  for (const auto& item : object) {
    if (item.key() == "role" || item.key() == "content" || item.value().is_null()) continue;
    message[item.key()] = item.value();
  }
  return message;
}

void parse_messages(FieldReader& reader, ChatInput& out) {
  const auto* const messages = reader.array("messages");
  if (messages == nullptr) return reader.fail("messages", "messages is missing");
  if (messages->empty()) return reader.fail("messages", "messages must not be empty");
  for (const auto& value : *messages) {
    auto message = normalise_message(value);
    if (!message) return reader.fail("messages", fmt::format("messages[{}]: {}", out.messages.size(), message.failure().message));
    out.messages.emplace_back(std::move(*message));
  }
}

bool is_function_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), allowed);
}

void parse_tools(FieldReader& reader, const ApiLimits& limits, ChatInput& out) {
  const auto* const tools = reader.array("tools");
  if (tools == nullptr) return;
  if (tools->size() > static_cast<std::size_t>(limits.tools_max)) {
    return reader.fail("tools", fmt::format("at most {} tools are allowed, got {}", limits.tools_max, tools->size()));
  }
  std::set<std::string> names;
  for (const auto& tool : *tools) {
    const auto* const function = tool.is_object() ? tool.get_object().if_contains("function") : nullptr;
    const auto* const name = function != nullptr && function->is_object() ? function->get_object().if_contains("name") : nullptr;
    if (name == nullptr || !name->is_string()) return reader.fail("tools", fmt::format("tools[{}] needs function.name", out.tools.size()));
    const std::string text(name->get_string());
    if (!is_function_name(text)) {
      return reader.fail("tools",
                         fmt::format("tools[{}]: a function's name has 1 to 64 letters, digits, '_', '-' or '.'", out.tools.size()));
    }
    if (!names.insert(text).second) return reader.fail("tools", fmt::format("two tools have the name \"{}\"", text));
    out.tools.push_back(tool);
  }
}

void parse_tool_choice(FieldReader& reader) {
  for (const char* const field : {"tool_choice", "function_call"}) {
    const auto* const choice = reader.find(field);
    if (choice == nullptr) continue;
    if (choice->is_string() && (choice->get_string() == "auto" || choice->get_string() == "none")) continue;
    reader.fail(field, fmt::format("{} must be \"auto\" or \"none\"; forced tool calls are not supported by this server", field));
  }
}

}  // namespace

ChatInput parse_chat_input(FieldReader& reader, const ApiLimits& limits) {
  ChatInput out;
  parse_messages(reader, out);
  parse_tools(reader, limits, out);
  parse_tool_choice(reader);
  out.continue_final_message = reader.boolean("continue_final_message", false);
  out.add_generation_prompt = reader.boolean("add_generation_prompt", !out.continue_final_message);
  if (out.continue_final_message && out.add_generation_prompt) {
    reader.fail("continue_final_message", "continue_final_message and add_generation_prompt exclude each other");
  }
  if (reader.ok() && out.continue_final_message && out.messages.back().as_object().at("role").as_string() != "assistant") {
    reader.fail("continue_final_message", "continue_final_message needs a last message of the assistant");
  }
  if (const auto* const kwargs = reader.object("chat_template_kwargs")) out.template_kwargs = *kwargs;
  return out;
}

Result<ChatRequest> parse_chat_request(const json::value& body, const ApiOptions& options) {
  const auto object = object_of(body);
  if (!object) return object.failure();
  FieldReader reader(**object);
  ChatRequest out;
  out.options = parse_generation_options(reader, options);
  if (out.options.max_tokens == 0) {
    reader.fail(reader.find("max_completion_tokens") != nullptr ? "max_completion_tokens" : "max_tokens",
                "at least one token must be allowed");
  }
  out.chat = parse_chat_input(reader, options.limits);
  const bool logprobs = reader.boolean("logprobs", false);
  const auto top = reader.integer("top_logprobs", 0, options.limits.logprobs_max);
  if (top.value_or(0) > 0 && !logprobs) reader.fail("top_logprobs", "top_logprobs needs logprobs: true");
  if (logprobs) out.options.logprobs = static_cast<int>(top.value_or(0));
  if (!reader.ok()) return reader.failure();
  return out;
}

}  // namespace qwell::server
