#include "server/internal/routes.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/log.h"
#include "server/internal/generation.h"
#include "server/internal/prepare.h"

namespace qwell::server {
namespace {

constexpr std::size_t kRequestIdBytes = 256;

// Time depends on the length of `given` only.
bool equal_in_constant_time(std::string_view secret, std::string_view given) {
  unsigned difference = secret.size() == given.size() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char c = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned>(static_cast<unsigned char>(c) ^ static_cast<unsigned char>(given[i]));
  }
  return difference == 0;
}

// The header's value with the white space after it, which HTTP parsers take away: "Bearer KEY " is not the key.
bool ends_in_space(std::string_view head, std::string_view value) {
  const auto at = head.find(value);
  const auto after = at == std::string_view::npos ? std::string_view() : head.substr(at + value.size());
  return after.starts_with(' ') || after.starts_with('\t');
}

bool authorised(const Context& context, const net::HttpRequest& request) {
  const auto& keys = context.config.api_keys;
  if (keys.empty()) return true;
  const std::string_view value = request.header("authorization");
  constexpr std::string_view kScheme = "bearer ";
  const bool bearer = value.size() > kScheme.size() && std::equal(kScheme.begin(), kScheme.end(), value.begin(), [](char a, char b) {
                        return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b);
                      });
  if (!bearer || ends_in_space(request.head, value)) return false;
  bool found = false;
  for (const auto& key : keys) found = equal_in_constant_time(key, value.substr(kScheme.size())) || found;
  return found;
}

void get_live(const Call& call) { call.send(200, R"({"status":"ok"})"); }

void get_ready(const Call& call) {
  if (call.context->stopping) return call.send({503, "the server is stopping", "service_unavailable_error", "", "not_ready"});
  const GeneratorStatus status = call.context->generator.status();
  if (status.ready) return call.send(200, R"({"status":"ok"})");
  call.send({503, status.reason.empty() ? "the model is not ready" : status.reason, "service_unavailable_error", "", "not_ready"});
}

void get_version(const Call& call) { call.send(200, JsonWriter().begin_object().field("version", QWELL_VERSION).end_object().text()); }

void write_model(JsonWriter& w, const Context& context, const std::string& name) {
  w.begin_object().field("id", name).field("object", "model").field("created", context.started).field("owned_by", "qwell");
  w.field("root", context.model_names.front()).key("parent").null();
  w.field("max_model_len", context.generator.model().context_length_max).end_object();
}

void get_models(const Call& call) {
  JsonWriter w;
  w.begin_object().field("object", "list").key("data").begin_array();
  for (const auto& name : call.context->model_names) write_model(w, *call.context, name);
  w.end_array().end_object();
  call.send(200, std::move(w).text());
}

void get_model(const Call& call, const std::string& name) {
  const auto model = resolve_model(*call.context, true, name);
  if (const auto* const error = std::get_if<ApiError>(&model)) return call.send(*error);
  JsonWriter w;
  write_model(w, *call.context, name);
  call.send(200, std::move(w).text());
}

// ---- tokenize, detokenize: pure functions from body to answer, so that they can run on any thread

using Answer = std::variant<std::string, ApiError>;

Answer tokenize(const Context& context, std::string_view body) {
  const auto parsed = parse_json(body);
  if (!parsed) return to_api_error(parsed.failure());
  const auto request = parse_tokenize_request(*parsed, {context.config.limits, context.config.defaults});
  if (!request) return to_api_error(request.failure());
  const auto model = resolve_model(context, request->has_model, request->model);
  if (const auto* const error = std::get_if<ApiError>(&model)) return *error;
  const auto* const chat = std::get_if<ChatInput>(&request->input);
  const auto ids = chat != nullptr ? context.codec.encode_chat(*chat)
                                   : context.codec.encode(std::get<std::string>(request->input), request->add_special_tokens);
  if (!ids) {
    Failure failure = ids.failure();
    if (failure.param.empty()) failure.param = chat != nullptr ? "messages" : "prompt";
    return to_api_error(failure);
  }
  JsonWriter w;
  w.begin_object().field("count", static_cast<std::int64_t>(ids->size()));
  w.field("max_model_len", context.generator.model().context_length_max).key("tokens").begin_array();
  for (const TokenId id : *ids) w.value(id);
  w.end_array().key("token_strs");
  if (request->return_token_strs) {
    w.begin_array();
    for (const TokenId id : *ids) w.value(context.codec.token_bytes(id));
    w.end_array();
  } else {
    w.null();
  }
  w.end_object();
  return std::move(w).text();
}

Answer detokenize(const Context& context, std::string_view body) {
  const auto parsed = parse_json(body);
  if (!parsed) return to_api_error(parsed.failure());
  const auto request = parse_detokenize_request(*parsed);
  if (!request) return to_api_error(request.failure());
  const auto model = resolve_model(context, request->has_model, request->model);
  if (const auto* const error = std::get_if<ApiError>(&model)) return *error;
  const int vocab_size = context.generator.model().vocab_size;
  for (const TokenId id : request->tokens) {
    if (id >= vocab_size) return invalid_request("tokens", fmt::format("tokens names token {}, the vocabulary has {}", id, vocab_size));
  }
  return JsonWriter().begin_object().field("prompt", context.codec.decode(request->tokens, false)).end_object().text();
}

// ---- work on a body: here if it is small, else on a worker and back

// A throw of the work would be a fault of ours; it ends this request only.
template <class Outcome>
Outcome guarded(const std::function<Outcome()>& work) {
  try {
    return work();
  } catch (const std::exception& e) {
    return to_api_error(failure(FailureCode::kInternal, "a request's preparation threw: {}", e.what()));
  }
}

template <class Outcome>
void with_body(const Call& call, WorkerPool& workers, Outcome (*work)(const Context&, std::string_view),
               void (*then)(const Call&, Outcome)) {
  const auto run = [call, work, body = std::make_shared<std::string>(std::move(call.exchange->request().body))]() -> Outcome {
    return work(*call.context, *body);
  };
  if (call.exchange->request().body.size() < call.context->config.worker_body_bytes) return then(call, guarded<Outcome>(run));
  workers.post([call, run, then] {
    const auto outcome = std::make_shared<Outcome>(guarded<Outcome>(run));
    call.exchange->post([call, outcome, then] { then(call, std::move(*outcome)); });
  });
}

void answer(const Call& call, Answer outcome) {
  if (const auto* const error = std::get_if<ApiError>(&outcome)) return call.send(*error);
  call.send(200, std::get<std::string>(std::move(outcome)));
}

void generate(const Call& call, Prepared prepared) {
  if (!call.exchange->open()) return;  // the client left while a worker had its body
  if (const auto* const error = std::get_if<ApiError>(&prepared)) return call.send(*error);
  std::make_shared<Generation>(call, std::get<Job>(std::move(prepared)))->start();
}

// ---- the table

struct Route {
  std::string_view path;
  std::string_view method;
  bool needs_key;
  void (*run)(const Call&, WorkerPool&);
};

constexpr std::array kRoutes = {
    Route{"/health", "GET", false, [](const Call& c, WorkerPool&) { get_ready(c); }},
    Route{"/health/ready", "GET", false, [](const Call& c, WorkerPool&) { get_ready(c); }},
    Route{"/health/live", "GET", false, [](const Call& c, WorkerPool&) { get_live(c); }},
    Route{"/version", "GET", false, [](const Call& c, WorkerPool&) { get_version(c); }},
    Route{"/v1/models", "GET", true, [](const Call& c, WorkerPool&) { get_models(c); }},
    Route{"/v1/chat/completions", "POST", true, [](const Call& c, WorkerPool& w) { with_body<Prepared>(c, w, prepare_chat, generate); }},
    Route{"/v1/completions", "POST", true, [](const Call& c, WorkerPool& w) { with_body<Prepared>(c, w, prepare_completion, generate); }},
    Route{"/tokenize", "POST", true, [](const Call& c, WorkerPool& w) { with_body<Answer>(c, w, tokenize, answer); }},
    Route{"/detokenize", "POST", true, [](const Call& c, WorkerPool& w) { with_body<Answer>(c, w, detokenize, answer); }},
};

// %XX decoded, as far as it is sound.
std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    out.push_back(escape ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i]);
    if (escape) i += 2;
  }
  return out;
}

void method_not_allowed(const Call& call, std::string_view allow) {
  const ApiError error{405, fmt::format("this path takes {}", allow), "invalid_request_error", "", "method_not_allowed"};
  call.send(405, body_of(error), {{"Allow", std::string(allow)}});
}

// HEAD is answered as GET; the connection leaves the body out.
bool method_matches(std::string_view wanted, std::string_view method) { return method == wanted || (wanted == "GET" && method == "HEAD"); }

void send_options(const Call& call, std::string_view allow) { call.send(204, "", {{"Allow", std::string(allow)}}); }

void route(const Call& call, WorkerPool& workers) {
  const auto& request = call.exchange->request();
  constexpr std::string_view kModels = "/v1/models/";
  const bool one_model = request.path.starts_with(kModels) && request.path.size() > kModels.size();
  const auto* const found = std::find_if(kRoutes.begin(), kRoutes.end(), [&](const Route& r) { return r.path == request.path; });
  if (found == kRoutes.end() && !one_model)
    return call.send(not_found(fmt::format("there is no {} here", request.path.substr(0, 256)), "path_not_found"));
  const std::string_view wanted = one_model ? std::string_view("GET") : found->method;
  const std::string_view allow = wanted == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  if (request.method == "OPTIONS") return send_options(call, allow);
  if (!method_matches(wanted, request.method)) return method_not_allowed(call, allow);
  if ((one_model || found->needs_key) && !authorised(*call.context, request)) {
    return call.send({401, "the API key is missing or wrong", "authentication_error", "", "invalid_api_key"});
  }
  if (one_model) return get_model(call, percent_decoded(std::string_view(request.path).substr(kModels.size())));
  found->run(call, workers);
}

}  // namespace

void handle(const std::shared_ptr<Context>& context, WorkerPool& workers, const std::shared_ptr<net::HttpExchange>& exchange) {
  const std::string_view given = exchange->request().header("x-request-id");
  const bool clean = std::all_of(given.begin(), given.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  const std::string id = given.empty() || !clean ? context->new_id("req") : std::string(given.substr(0, kRequestIdBytes));
  const Call call{context, exchange, id};
  if (!clean) return call.send(invalid_request("X-Request-Id", "X-Request-Id must be printable ASCII"));
  route(call, workers);
}

}  // namespace qwell::server
