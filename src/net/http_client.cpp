#include "net/http_client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

namespace qwell {
namespace {

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  Socket& operator=(Socket&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Failure broken(const HttpUrl& url, const char* what) {
  return failure(FailureCode::kUnavailable, "{}:{}: {}: {}", url.host, url.port, what, std::strerror(errno));
}

bool wait_for(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left()).count();
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 1 << 30)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

Result<Socket> connect_to(const HttpUrl& url) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found); error != 0) {
    return failure(FailureCode::kUnavailable, "{}: {}", url.host, ::gai_strerror(error));
  }
  Failure last = failure(FailureCode::kUnavailable, "{}: no address", url.host);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (socket.get() >= 0 && ::connect(socket.get(), a->ai_addr, a->ai_addrlen) == 0) {
      ::freeaddrinfo(found);
      return socket;
    }
    last = broken(url, "connect");
  }
  ::freeaddrinfo(found);
  return last;
}

Result<void> send_all(const HttpUrl& url, int fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EINTR) {
      continue;
    } else if (errno != EAGAIN || !wait_for(fd, POLLOUT, deadline)) {
      return broken(url, "send");
    }
  }
  return {};
}

// The bytes of an answer as they come: header, then body with the chunking taken off.
class AnswerReader {
 public:
  AnswerReader(const HttpUrl& url, int fd, Deadline deadline) : url_(url), fd_(fd), deadline_(deadline) {}

  Result<void> read_header() {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      auto more = fill();
      if (!more) return more.failure();
      if (!*more) return failure(FailureCode::kUnavailable, "{}:{}: the connection ended before an answer", url_.host, url_.port);
    }
    const std::string header = lower(buffer_.substr(0, end + 2));
    buffer_.erase(0, end + 4);
    if (header.size() < 12 || header.compare(0, 7, "http/1.") != 0) {
      return failure(FailureCode::kUnavailable, "{}:{}: not an HTTP answer", url_.host, url_.port);
    }
    std::from_chars(header.data() + 9, header.data() + 12, status);
    chunked_ = header.find("\r\ntransfer-encoding: chunked\r\n") != std::string::npos;
    events = header.find("\r\ncontent-type: text/event-stream") != std::string::npos;
    if (const auto at = header.find("\r\ncontent-length: "); at != std::string::npos) {
      std::size_t length = 0;
      std::from_chars(header.data() + at + 18, header.data() + header.size(), length);
      left_ = length;
    }
    return {};
  }

  // The next piece of the body; empty at its end.
  Result<std::string> next() {
    for (;;) {
      if (chunked_ && left_.value_or(0) == 0) {
        if (left_.has_value()) drop_line_end_ = true;
        auto size = chunk_size();
        if (!size) return size.failure();
        left_ = *size;
        if (*size == 0) return std::string();
      }
      if (!chunked_ && left_ == std::size_t{0}) return std::string();
      if (!buffer_.empty()) {
        const std::size_t count = std::min(buffer_.size(), left_.value_or(buffer_.size()));
        std::string piece = buffer_.substr(0, count);
        buffer_.erase(0, count);
        if (left_) *left_ -= count;
        return piece;
      }
      auto more = fill();
      if (!more) return more.failure();
      if (!*more) {
        if (!left_) return std::string();  // no length given: the body ends with the connection
        return failure(FailureCode::kUnavailable, "{}:{}: the connection ended in mid-answer", url_.host, url_.port);
      }
    }
  }

  int status = 0;
  bool events = false;

 private:
  static std::string lower(std::string text) {
    for (char& c : text) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
  }

  // False at the end of the stream.
  Result<bool> fill() {
    std::array<char, 16384> bytes;
    for (;;) {
      if (!wait_for(fd_, POLLIN, deadline_)) return failure(FailureCode::kDeadline, "{}:{}: no answer in time", url_.host, url_.port);
      const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return broken(url_, "receive");
      buffer_.append(bytes.data(), static_cast<std::size_t>(count));
      return count > 0;
    }
  }

  Result<std::size_t> chunk_size() {
    const std::size_t skip = drop_line_end_ ? 2 : 0;
    std::size_t end = 0;
    while (buffer_.size() < skip || (end = buffer_.find("\r\n", skip)) == std::string::npos) {
      auto more = fill();
      if (!more) return more.failure();
      if (!*more) return failure(FailureCode::kUnavailable, "{}:{}: the connection ended in mid-answer", url_.host, url_.port);
    }
    std::size_t size = 0;
    std::from_chars(buffer_.data() + skip, buffer_.data() + end, size, 16);
    buffer_.erase(0, end + 2);
    return size;
  }

  const HttpUrl& url_;
  const int fd_;
  const Deadline deadline_;
  std::string buffer_;
  bool chunked_ = false;
  bool drop_line_end_ = false;
  std::optional<std::size_t> left_;  // of the body, or of the chunk
};

// Cuts a stream of bytes into the data of server-sent events.
class EventCutter {
 public:
  // False when the receiver wants no more.
  bool add(std::string_view bytes, const std::function<bool(std::string_view)>& on_event) {
    buffer_ += bytes;
    std::size_t end = 0;
    while ((end = buffer_.find('\n')) != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.rfind("data: ", 0) == 0 && !on_event(std::string_view(line).substr(6))) return false;
    }
    return true;
  }

 private:
  std::string buffer_;
};

}  // namespace

HttpUrl HttpUrl::parse(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (url.substr(0, kScheme.size()) != kScheme) fail("URL \"{}\": http://HOST:PORT is wanted", url);
  const std::string_view rest = url.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  HttpUrl parsed;
  parsed.path = slash == std::string_view::npos ? "/" : std::string(rest.substr(slash));
  const std::size_t colon = authority.rfind(':');
  parsed.host = std::string(authority.substr(0, colon));
  if (colon != std::string_view::npos) {
    const std::string_view port = authority.substr(colon + 1);
    const auto result = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
    if (result.ec != std::errc() || result.ptr != port.data() + port.size() || parsed.port < 1 || parsed.port > 65535) {
      fail("URL \"{}\": port \"{}\"", url, port);
    }
  }
  if (parsed.host.empty()) fail("URL \"{}\": no host", url);
  return parsed;
}

Result<HttpAnswer> http_request(const HttpUrl& url, std::string_view body, Duration timeout,
                                const std::vector<std::pair<std::string, std::string>>& headers,
                                const std::function<bool(std::string_view event)>& on_event) {
  const Deadline deadline = Deadline::in(timeout);
  auto socket = connect_to(url);
  if (!socket) return socket.failure();
  std::string request =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n", body.empty() ? "GET" : "POST", url.path, url.host, url.port);
  for (const auto& [name, value] : headers) request += fmt::format("{}: {}\r\n", name, value);
  if (!body.empty()) request += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  request += "\r\n";
  request += body;
  if (auto sent = send_all(url, socket->get(), request, deadline); !sent) return sent.failure();

  AnswerReader reader(url, socket->get(), deadline);
  if (auto header = reader.read_header(); !header) return header.failure();
  HttpAnswer answer{reader.status, {}};
  EventCutter events;
  for (;;) {
    auto piece = reader.next();
    if (!piece) return piece.failure();
    if (piece->empty()) return answer;
    if (!reader.events || !on_event) {
      answer.body += *piece;
    } else if (!events.add(*piece, on_event)) {
      return answer;
    }
  }
}

}  // namespace qwell
