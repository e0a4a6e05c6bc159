#pragma once
// What all requests of one server share, and one request's way to answer.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"
#include "server/api_error.h"
#include "server/server.h"

namespace qwell::server {

struct Context {
  Context(ServerConfig c, Generator& g, const TextCodec& t);

  const ServerConfig config;
  Generator& generator;
  const TextCodec& codec;
  const std::vector<std::string> model_names;  // never empty
  const std::int64_t started;                  // Unix seconds
  std::atomic<bool> stopping = false;

  // Unique in this process, not guessable from another.
  std::string new_id(std::string_view prefix) const;
  std::uint64_t random64() const;

 private:
  const std::uint64_t secret_;
  mutable std::atomic<std::uint64_t> counter_ = 0;
};

std::int64_t unix_seconds();

// Use on the io thread only.
struct Call {
  std::shared_ptr<Context> context;
  std::shared_ptr<net::HttpExchange> exchange;
  std::string request_id;  // the client's, or one of ours; always echoed

  void send(int status, std::string body, std::vector<net::HttpHeader> headers = {}) const;
  void send(const ApiError& error) const;
  std::vector<net::HttpHeader> common_headers() const;
};

}  // namespace qwell::server
