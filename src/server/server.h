#pragma once
// The HTTP service: OpenAI's chat completions and completions, models, tokenize and detokenize, health, version.
//
//   GET  /health /health/ready (200 or 503)   /health/live   /version   /v1/models   /v1/models/{name}
//   POST /v1/chat/completions   /v1/completions   /tokenize   /detokenize
//
// Life of a request: its io thread (or, for a large body, a worker) parses, checks, renders and tokenises it; the choices are submitted to
// the Generator; the Generator's threads post each update to the io thread, where tokens become text and text becomes chunks. Whatever ends
// the request early (stop string, error of another choice, client gone, server stopping) cancels the tickets that are still in work.
//
// The Content-Type of a request is not looked at. Of duplicate keys in a body the last wins. A client that reads too slowly is cut
// (HttpServerConfig::stream_buffer_bytes_max, write_timeout). An error before the first output is a status; one after it is a
// `data: {"error":...}` event, then `data: [DONE]`, then the connection closes. See api_request.h for the fields.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/http_server.h"
#include "request/request.h"
#include "server/api_request.h"
#include "server/text_codec.h"

namespace qwell::server {

struct ServerConfig {
  net::HttpServerConfig http;
  // Names under which requests may ask for the model (exact match); the first is the one that is listed. Empty: ModelInfo::name.
  std::vector<std::string> served_model_names;
  // Any of these opens /v1/*, /tokenize and /detokenize ("Authorization: Bearer KEY"). Empty: open to all.
  std::vector<std::string> api_keys;
  SamplingParams defaults;  // for fields that a request does not give
  ApiLimits limits;
  Duration ping_interval = std::chrono::seconds(15);  // of silence in a stream, until a comment line is sent
  Duration request_timeout = Duration::max();         // from arrival to the last token; then 504
  int retry_after_seconds = 1;                        // told with 429
  // Bodies from this size on are parsed and tokenised by a worker thread, so that they don't hold up the streams of their io thread.
  std::size_t worker_body_bytes = 64U << 10;
  int worker_threads = 1;
};

class Server {
 public:
  // Generator and codec must outlive the server. The Generator may still call listeners after stop(); such calls do nothing.
  Server(ServerConfig config, Generator& generator, const TextCodec& codec);
  // stop() with no time left.
  ~Server();

  // Throws Error when it can't listen.
  void start();
  std::uint16_t port() const;
  // Readiness turns to 503, no new connections, requests in work may end until the deadline, the rest is cancelled and cut. Blocks.
  void stop(Deadline deadline);

  net::HttpServerStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qwell::server
