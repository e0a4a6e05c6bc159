#include "server/internal/context.h"

#include <chrono>
#include <random>

#include "base/random.h"

namespace qwell::server {
namespace {

std::uint64_t entropy() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

std::vector<std::string> names_of(const ServerConfig& config, const Generator& generator) {
  if (!config.served_model_names.empty()) return config.served_model_names;
  return {generator.model().name};
}

}  // namespace

Context::Context(ServerConfig c, Generator& g, const TextCodec& t)
    : config(std::move(c)), generator(g), codec(t), model_names(names_of(config, g)), started(unix_seconds()), secret_(entropy()) {}

std::uint64_t Context::random64() const { return Random(secret_, counter_.fetch_add(1, std::memory_order_relaxed)).bits64(); }

std::string Context::new_id(std::string_view prefix) const {
  Random random(secret_, counter_.fetch_add(1, std::memory_order_relaxed));
  const std::uint64_t high = random.bits64();
  return fmt::format("{}-{:016x}{:016x}", prefix, high, random.bits64());
}

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<net::HttpHeader> Call::common_headers() const { return {{"X-Request-Id", request_id}}; }

void Call::send(int status, std::string body, std::vector<net::HttpHeader> headers) const {
  net::HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  response.headers = common_headers();
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  exchange->send(std::move(response));
}

void Call::send(const ApiError& error) const {
  std::vector<net::HttpHeader> headers;
  if (error.status == 429) headers.push_back({"Retry-After", std::to_string(context->config.retry_after_seconds)});
  if (error.status == 401) headers.push_back({"WWW-Authenticate", "Bearer"});
  send(error.status, body_of(error), std::move(headers));
}

}  // namespace qwell::server
