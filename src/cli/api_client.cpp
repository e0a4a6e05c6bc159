#include "cli/api_client.h"

#include <optional>

#include "base/json.h"
#include "net/http_client.h"

namespace qwell {
namespace {

double number(const json::object& object, std::string_view name) {
  const json::value* v = object.if_contains(name);
  if (v == nullptr || !v->is_number()) return 0;
  return v->to_number<double>();
}

void take_usage(const json::object& usage, ChatReply& reply) {
  reply.prompt_tokens = static_cast<int>(number(usage, "prompt_tokens"));
  reply.completion_tokens = static_cast<int>(number(usage, "completion_tokens"));
  if (const auto* details = usage.if_contains("prompt_tokens_details"); details != nullptr && details->is_object()) {
    reply.cached_tokens = static_cast<int>(number(details->get_object(), "cached_tokens"));
  }
  const auto* timings = usage.if_contains("timings");
  if (timings == nullptr || !timings->is_object()) return;
  const json::object& t = timings->get_object();
  reply.queued = number(t, "queued_s");
  reply.prefill = number(t, "prefill_s");
  reply.transfer = number(t, "transfer_s");
  reply.decode = number(t, "decode_s");
  reply.kv_bytes_moved = static_cast<std::int64_t>(number(t, "kv_bytes_moved"));
  reply.kv_bytes_shared = static_cast<std::int64_t>(number(t, "kv_bytes_shared"));
}

std::string error_text(const json::value& value) {
  const json::object* object = value.if_object();
  const json::value* error = object == nullptr ? nullptr : object->if_contains("error");
  if (error == nullptr || !error->is_object()) return {};
  const json::value* message = error->get_object().if_contains("message");
  return message != nullptr && message->is_string() ? std::string(message->get_string()) : std::string("an error without a message");
}

std::string request_body(const std::vector<ChatMessage>& messages, int max_tokens, const std::string& sampling) {
  JsonWriter w;
  w.begin_object().key("messages").begin_array();
  for (const ChatMessage& m : messages) w.begin_object().field("role", m.role).field("content", m.content).end_object();
  w.end_array().field("max_tokens", max_tokens).field("stream", true);
  w.key("stream_options").begin_object().field("include_usage", true).end_object();
  w.end_object();
  std::string body = w.text();
  if (!sampling.empty()) body.insert(body.size() - 1, "," + sampling);
  return body;
}

}  // namespace

Result<ChatReply> ApiClient::chat(const std::vector<ChatMessage>& messages, int max_tokens, const std::string& sampling,
                                  const std::function<void(const std::string&)>& on_text) const {
  std::vector<std::pair<std::string, std::string>> headers;
  if (!api_key_.empty()) headers.emplace_back("Authorization", "Bearer " + api_key_);
  ChatReply reply;
  std::optional<Failure> trouble;
  const TimePoint start = Clock::now();
  const auto on_event = [&](std::string_view event) {
    if (event == "[DONE]") return false;
    auto parsed = parse_json(event);
    if (!parsed || !parsed->is_object()) {
      trouble = failure(FailureCode::kInternal, "the server sent an event that is no JSON object");
      return false;
    }
    if (const std::string error = error_text(*parsed); !error.empty()) {
      trouble = Failure{FailureCode::kInternal, error, {}};
      return true;
    }
    const json::object& chunk = parsed->as_object();
    if (const auto* usage = chunk.if_contains("usage"); usage != nullptr && usage->is_object()) take_usage(usage->get_object(), reply);
    const auto* choices = chunk.if_contains("choices");
    if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return true;
    const json::object* choice = choices->get_array()[0].if_object();
    if (choice == nullptr) return true;
    if (const auto* reason = choice->if_contains("finish_reason"); reason != nullptr && reason->is_string()) {
      reply.finish_reason = std::string(reason->get_string());
    }
    const auto* delta = choice->if_contains("delta");
    const auto* content = delta != nullptr && delta->is_object() ? delta->get_object().if_contains("content") : nullptr;
    if (content == nullptr || !content->is_string() || content->get_string().empty()) return true;
    if (reply.text.empty()) reply.first_token_seconds = seconds(Clock::now() - start);
    const std::string piece(content->get_string());
    reply.text += piece;
    if (on_text) on_text(piece);
    return true;
  };
  auto answer = http_request(HttpUrl::parse(base_url_ + "/v1/chat/completions"), request_body(messages, max_tokens, sampling),
                             std::chrono::minutes(10), headers, on_event);
  if (!answer) return answer.failure();
  if (trouble) return *trouble;
  if (answer->status != 200) {
    auto parsed = parse_json(answer->body);
    return failure(FailureCode::kInternal, "status {}: {}", answer->status, parsed ? error_text(*parsed) : answer->body);
  }
  reply.total_seconds = seconds(Clock::now() - start);
  return reply;
}

int ApiClient::get_status(const std::string& path) const {
  auto answer = http_request(HttpUrl::parse(base_url_ + path), {}, std::chrono::seconds(5));
  return answer ? answer->status : 0;
}

}  // namespace qwell
