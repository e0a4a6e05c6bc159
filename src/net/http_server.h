#pragma once
// An HTTP/1.1 server: limits, timeouts, keep-alive, pipelining, streams with bounded buffers, disconnects seen while streaming.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "net/http.h"

namespace qwell::net {

struct HttpServerConfig {
  std::string host = "127.0.0.1";            // an address, or a name that resolves to one
  std::uint16_t port = 0;                    // 0: the system chooses
  int io_threads = 1;                        // each owns the connections that are given to it
  std::size_t header_bytes_max = 16U << 10;  // more: 431
  std::size_t body_bytes_max = 16U << 20;    // more: 413
  // Of bodies read and not yet answered, over all connections of one io thread; a body that goes beyond it: 503.
  std::size_t bodies_bytes_max = 1U << 30;
  std::size_t stream_buffer_bytes_max = 1U << 20;  // of a stream's output that its reader has not taken; more: cut
  int connections_max = 8192;                      // further ones are closed at once
  // A request's header must be whole in this time from its first byte, and its body must come at 64 KiB in this time: else 408.
  Duration read_timeout = std::chrono::seconds(15);
  Duration idle_timeout = std::chrono::seconds(75);   // between requests
  Duration write_timeout = std::chrono::seconds(10);  // without any progress while output waits: cut
  Duration linger_timeout = std::chrono::seconds(2);  // for the peer to read the last answer before the socket is closed
};

struct HttpServerStats {
  int connections = 0;  // open now
  int exchanges = 0;    // requests handed to the handler whose answer has not ended
};

class HttpServer {
 public:
  // The handler is called on the io threads, one call at a time per connection, several at once.
  HttpServer(HttpServerConfig config, HttpHandler handler);
  // stop() with no time left.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Binds and begins to serve. Throws Error that names host and port. Makes the process ignore SIGPIPE.
  void start();
  // The port that was bound.
  std::uint16_t port() const;
  // Stops accepting, closes idle connections, lets requests in work end until the deadline, cuts the rest, joins the threads.
  // Not to be called on an io thread. A second call does nothing.
  void stop(Deadline deadline);

  HttpServerStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qwell::net
