#pragma once
// What an HTTP/1.1 server hands to its handler, and how the handler answers. No sockets in sight.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace qwell::net {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;               // as sent, "GET"
  std::string path;                 // of the target, up to '?'; not percent-decoded
  std::string query;                // after '?', or empty
  std::vector<HttpHeader> headers;  // names in lower case, in order, without white space around the values
  std::string head;                 // request line and header lines as they came; for those who must see a value's white space
  std::string body;                 // de-chunked
  std::string peer;                 // "address:port"

  // The value of the first header of that (lower-case) name, or empty.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers;  // besides Content-Type, Content-Length, Connection, Date. No CR or LF anywhere (checked)
  std::string body;
};

// The body that the ecosystem agrees on: {"error":{"message","type","param","code"}}. Empty param and code become null.
std::string error_body(std::string_view message, std::string_view type, std::string_view param = {}, std::string_view code = {});

// "Bad Request" for 400; "Unknown" for a number without a name.
std::string_view reason_phrase(int status);

// One request and its answer. The answer is either one send(), or start_stream(), write()s and finish().
//
// Threads: the handler runs on the connection's io thread, and everything here but post() may be called on that thread only. Other threads
// post() a task. Once the peer is gone all calls do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // May be moved from by the handler.
  virtual HttpRequest& request() = 0;

  // Any thread. Runs the task on the connection's io thread, in the order of the calls; drops it when the server has stopped.
  virtual void post(std::function<void()> task) = 0;

  virtual void send(HttpResponse response) = 0;

  // Sends the head; `head.body`, if any, is the first piece. Chunked, or up to the connection's end for HTTP/1.0.
  virtual void start_stream(HttpResponse head) = 0;
  // False when the peer is gone, also because of this write: output that waits for a slow reader is bounded (stream_buffer_bytes_max), and
  // a connection that exceeds the bound is cut.
  virtual bool write(std::string_view data) = 0;
  // Ends the stream. `close`: and then the connection, as after an error.
  virtual void finish(bool close = false) = 0;

  // Neither answered to the end nor cut.
  virtual bool open() const = 0;

  // Called once when the peer goes before the answer has ended: closed, half-closed (nobody who streams does that; a closed socket looks
  // the same), reset, too slow, or cut by the server's stop. Released when the answer ends.
  virtual void on_disconnect(std::function<void()> callback) = 0;
  // Called whenever nothing was written for `interval`, until the answer ends.
  virtual void on_silence(Duration interval, std::function<void()> callback) = 0;
};

using HttpHandler = std::function<void(const std::shared_ptr<HttpExchange>&)>;

}  // namespace qwell::net
