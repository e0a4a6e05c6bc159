#pragma once
// A small blocking HTTP/1.1 client for our own commands: one request a connection, whole answers or server-sent events line by line. It
// talks to a server of ours, in clear text; it is no general client.

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace qwell {

struct HttpUrl {
  std::string host;
  int port = 80;
  std::string path;  // starts with '/'

  // "http://host:port/path"; Error otherwise.
  static HttpUrl parse(std::string_view url);
};

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// Sends `body` (empty: GET, else POST of JSON). With `on_event`, an answer of type text/event-stream is handed over event by event (the
// text after "data: "), and the answer's body stays empty; return false from it to stop reading. Failures: kUnavailable (no connection,
// broken off), kDeadline.
Result<HttpAnswer> http_request(const HttpUrl& url, std::string_view body, Duration timeout,
                                const std::vector<std::pair<std::string, std::string>>& headers = {},
                                const std::function<bool(std::string_view event)>& on_event = {});

}  // namespace qwell
