#pragma once
// A small blocking HTTP client over a raw socket on loopback, which also says what no decent client would. Reads give up after 20 s.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace qwell::test {

struct ClientResponse {
  int status = 0;                              // 0: the connection ended before a whole response
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  bool has(const std::string& name) const { return headers.contains(name); }
  json::value parsed() const {
    auto value = parse_json(body);
    EXPECT_TRUE(value) << body;
    return value ? std::move(value).value() : json::value();
  }
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool connected() const { return connected_; }

  // False when the peer would not take it all.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // The connection is reset instead of closed in order.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }

  // The head and the body of the next response. `head_only`: an answer to HEAD.
  ClientResponse read(bool head_only = false) {
    ClientResponse response = read_head();
    if (response.status == 0 || head_only || response.status == 204) return response;
    if (response.has("transfer-encoding")) {
      while (auto piece = read_chunk()) response.body += *piece;
    } else if (response.has("content-length")) {
      const auto length = static_cast<std::size_t>(std::stoul(response.headers["content-length"]));
      while (in_.size() < length && fill()) {
      }
      if (in_.size() < length) response.status = 0;
      response.body = in_.substr(0, length);
      in_.erase(0, std::min(length, in_.size()));
    } else {
      while (fill()) {
      }
      response.body = std::exchange(in_, {});
    }
    return response;
  }

  ClientResponse read_head() {
    ClientResponse response;
    std::size_t end = 0;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill()) return response;
    }
    std::string_view head = std::string_view(in_).substr(0, end);
    bool first = true;
    while (!head.empty()) {
      const auto stop = head.find("\r\n");
      const std::string_view line = head.substr(0, stop);
      head = stop == std::string_view::npos ? std::string_view() : head.substr(stop + 2);
      if (std::exchange(first, false)) {
        response.status = line.size() > 12 ? std::stoi(std::string(line.substr(9, 3))) : 0;
        continue;
      }
      const auto colon = line.find(':');
      std::string name(line.substr(0, colon));
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      response.headers[name] = colon + 2 <= line.size() ? std::string(line.substr(colon + 2)) : "";
    }
    in_.erase(0, end + 4);
    return response;
  }

  // Nothing after the last chunk, or when the connection ended.
  std::optional<std::string> read_chunk() {
    std::size_t end = 0;
    while ((end = in_.find("\r\n")) == std::string::npos) {
      if (!fill()) return std::nullopt;
    }
    const auto length = static_cast<std::size_t>(std::stoul(in_.substr(0, end), nullptr, 16));
    while (in_.size() < end + 2 + length + 2) {
      if (!fill()) return std::nullopt;
    }
    std::string piece = in_.substr(end + 2, length);
    in_.erase(0, end + 2 + length + 2);
    if (length == 0) {
      stream_ended_ = true;
      return std::nullopt;
    }
    return piece;
  }
  // The last chunk was seen.
  bool stream_ended() const { return stream_ended_; }

  // The next server-sent event's data, or a comment with its colon; nothing at the end.
  std::optional<std::string> read_event() {
    std::size_t end = 0;
    while ((end = events_.find("\n\n")) == std::string::npos) {
      auto piece = read_chunk();
      if (!piece) return std::nullopt;
      events_ += *piece;
    }
    std::string event = events_.substr(0, end);
    events_.erase(0, end + 2);
    if (event.starts_with("data: ")) event.erase(0, 6);
    return event;
  }
  std::vector<std::string> read_events() {
    std::vector<std::string> events;
    while (auto event = read_event()) events.push_back(std::move(*event));
    return events;
  }

  // True when the peer closes (or resets) without another byte.
  bool read_end() { return in_.empty() && !fill() && ended_; }

  ClientResponse request(const std::string& method, const std::string& target, const std::string& body = {},
                         const std::string& headers = {}) {
    send(format(method, target, body, headers));
    return read(method == "HEAD");
  }

  // `headers`: whole lines with their line breaks.
  static std::string format(const std::string& method, const std::string& target, const std::string& body = {},
                            const std::string& headers = {}) {
    std::string out = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers;
    if (!body.empty() || method == "POST") out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return out + "\r\n" + body;
  }

 private:
  bool fill() {
    char buffer[16384];
    const auto n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n <= 0) {
      ended_ = n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
      return false;
    }
    in_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }

  int fd_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  bool stream_ended_ = false;
  std::string in_;
  std::string events_;
};

}  // namespace qwell::test
