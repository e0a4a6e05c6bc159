#include "net/internal/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/core/string.hpp>

#include "base/check.h"
#include "base/log.h"

namespace qwell::net {
namespace {

constexpr std::size_t kReadBytes = 64U << 10;      // per read of a body; also what a body must gain to earn more time
constexpr std::size_t kHeadReadBytes = 4U << 10;   // per read otherwise: what an idle connection keeps
constexpr std::size_t kPipelineBytes = 64U << 10;  // read ahead of the request in work

// No header of ours may carry a line break into the head.
bool clean(std::string_view text) { return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

// Path and query of a target in origin form ("/a?b") or absolute form ("http://host/a?b").
void set_target(HttpRequest& request, std::string_view target) {
  if (const auto scheme = target.find("://"); !target.starts_with('/') && scheme != std::string_view::npos) {
    const auto slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  const auto mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, std::shared_ptr<IoThread> io, std::shared_ptr<const HttpServerConfig> config,
                       std::shared_ptr<const HttpHandler> handler)
    : io_(std::move(io)), socket_(std::move(socket)), config_(std::move(config)), handler_(std::move(handler)) {}

void Connection::start() {
  beast::error_code error;
  socket_.non_blocking(true, error);
  if (!error) socket_.set_option(asio::ip::tcp::no_delay(true), error);
  const auto endpoint = socket_.remote_endpoint(error);
  if (error || io_->draining()) return;  // gone before it began; the socket closes with the object
  peer_ = fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
  deadline_ = Clock::now() + config_->idle_timeout;
  io_->add(shared_from_this());
  arm_read();
}

void Connection::on_tick(TimePoint now) {
  if (state_ == State::kClosed) return;
  if (pending() > 0 && now - write_progress_ >= config_->write_timeout) {
    log::debug("{}: cut, it took nothing for {:.1f} s", peer_, seconds(now - write_progress_));
    return close();
  }
  if (state_ == State::kReading && now >= deadline_) {
    if (!parser_) return close();
    return reject(408, "the request did not arrive in time", "request_timeout");
  }
  if (state_ == State::kLingering && now >= deadline_) return close();
  if (exchange_ && exchange_->on_silence_ && now - last_output_ >= exchange_->silence_) {
    last_output_ = now;
    const auto exchange = exchange_;
    const auto callback = exchange->on_silence_;  // a copy: the call may end the answer and release it
    callback();
  }
}

void Connection::on_drain() {
  if (state_ == State::kReading && !parser_ && in_.size() == 0) close();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  state_ = State::kClosed;
  beast::error_code ignored;
  socket_.close(ignored);
  forget_body();
  io_->remove(this);
  if (const auto exchange = std::move(exchange_)) {
    io_->exchanges().fetch_sub(1, std::memory_order_relaxed);
    const auto callback = std::move(exchange->on_disconnect_);
    exchange->on_disconnect_ = nullptr;
    exchange->on_silence_ = nullptr;
    exchange->connection_ = nullptr;
    if (callback) callback();
  }
}

// ---- reading

void Connection::arm_read() {
  if (read_armed_ || state_ == State::kClosed) return;
  read_armed_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](const beast::error_code& error) {
    self->read_armed_ = false;
    if (self->state_ == State::kClosed) return;
    if (error) return self->on_peer_gone();
    self->on_readable();
  });
}

void Connection::on_readable() {
  const bool ahead = state_ != State::kReading && state_ != State::kLingering;
  // A peer that pipelines more than we hold is left alone until its turn; its loss then shows at the next write.
  if (ahead && in_.size() >= kPipelineBytes) return;
  beast::error_code error;
  const bool much = state_ == State::kLingering || (parser_ && header_done_);
  const std::size_t wanted = much ? kReadBytes : kHeadReadBytes;
  const std::size_t got = socket_.read_some(in_.prepare(wanted), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) return arm_read();
  if (error) return on_peer_gone();
  if (state_ == State::kLingering) return arm_read();  // discarded: not committed
  in_.commit(got);
  if (state_ == State::kReading) return process_input();
  arm_read();
}

void Connection::on_peer_gone() {
  // The whole answer is on its way: a peer that has closed its sending side may still read it.
  if (state_ == State::kFlushing) {
    keep_alive_ = false;
    return;
  }
  close();
}

bool Connection::begin_request() {
  // Empty lines before a request line are to be ignored (RFC 9112, 2.2).
  const auto* bytes = static_cast<const char*>(in_.data().data());
  std::size_t skip = 0;
  while (skip < in_.size() && (bytes[skip] == '\r' || bytes[skip] == '\n')) ++skip;
  in_.consume(skip);
  if (in_.size() == 0) return false;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(config_->header_bytes_max));
  parser_->body_limit(config_->body_bytes_max);
  header_done_ = false;
  body_mark_ = 0;
  deadline_ = Clock::now() + config_->read_timeout;
  return true;
}

void Connection::process_input() {
  while (state_ == State::kReading && in_.size() > 0) {
    if (!parser_ && !begin_request()) break;
    beast::error_code error;
    const auto* bytes = static_cast<const char*>(in_.data().data());
    const std::size_t used = parser_->put(in_.data(), error);
    if (!header_done_ && parser_->is_header_done()) head_.assign(bytes, used);
    in_.consume(used);
    if (error == beast::http::error::need_more) break;
    if (error) return parse_failed(error);
    if (!header_done_ && parser_->is_header_done()) {
      header_done_ = true;
      deadline_ = Clock::now() + config_->read_timeout;
      if (!check_header()) return;
    }
    if (header_done_ && !count_body()) return;
    if (parser_->is_done()) return dispatch();
  }
  if (state_ != State::kReading) return;
  if (header_done_ && parser_ && parser_->get().body().size() >= body_mark_ + kReadBytes) {
    body_mark_ = parser_->get().body().size();
    deadline_ = Clock::now() + config_->read_timeout;
  }
  arm_read();
}

bool Connection::count_body() {
  const std::size_t size = parser_->get().body().size();
  io_->body_bytes() += size - body_counted_;
  body_counted_ = size;
  if (size == 0 || io_->body_bytes() <= config_->bodies_bytes_max) return true;
  reject(503, "the server holds too many large requests; try again later", "server_overloaded");
  return false;
}

void Connection::forget_body() {
  io_->body_bytes() -= body_counted_;
  body_counted_ = 0;
}

bool Connection::check_header() {
  using beast::http::field;
  const auto& request = parser_->get();
  keep_alive_ = request.keep_alive();
  http_1_0_ = request.version() < 11;
  head_only_ = request.method() == beast::http::verb::head;
  if (request.count(field::transfer_encoding) != 0 && !beast::iequals(request[field::transfer_encoding], "chunked")) {
    reject(501, "the only transfer encoding is \"chunked\"");
    return false;
  }
  if (request.count(field::content_encoding) != 0 && !beast::iequals(request[field::content_encoding], "identity")) {
    reject(415, "compressed request bodies are not supported");
    return false;
  }
  if (const auto expect = request[field::expect]; !expect.empty()) {
    if (!beast::iequals(expect, "100-continue")) {
      reject(417, "the only expectation is \"100-continue\"");
      return false;
    }
    if (!http_1_0_ && !parser_->is_done() && in_.size() == 0) {
      if (pending() == 0) write_progress_ = Clock::now();
      out_ += "HTTP/1.1 100 Continue\r\n\r\n";
      flush();
    }
  }
  return state_ == State::kReading;
}

void Connection::parse_failed(const beast::error_code& error) {
  using Code = beast::http::error;
  keep_alive_ = false;
  if (error == Code::header_limit) {
    return reject(431, fmt::format("the request's header is larger than {} bytes", config_->header_bytes_max), "header_too_large");
  }
  if (error == Code::body_limit) {
    return reject(413, fmt::format("the request's body is larger than {} bytes", config_->body_bytes_max), "body_too_large");
  }
  reject(400, fmt::format("malformed HTTP request: {}", error.message()));
}

void Connection::reject(int status, std::string_view message, std::string_view code) {
  HttpResponse response;
  response.status = status;
  response.body = error_body(message, status >= 500 ? "server_error" : "invalid_request_error", {}, code);
  keep_alive_ = false;
  state_ = State::kHandling;
  send(std::move(response));
}

void Connection::dispatch() {
  auto message = parser_->release();
  parser_.reset();
  HttpRequest request;
  request.method = message.method_string();
  set_target(request, message.target());
  for (const auto& f : message) request.headers.push_back({lower(f.name_string()), std::string(f.value())});
  request.head = std::move(head_);
  request.body = std::move(message.body());
  request.peer = peer_;
  head_.clear();
  if (io_->draining()) keep_alive_ = false;
  state_ = State::kHandling;
  last_output_ = Clock::now();
  const auto exchange = std::make_shared<Exchange>(shared_from_this(), std::move(request));
  exchange_ = exchange;
  io_->exchanges().fetch_add(1, std::memory_order_relaxed);
  arm_read();  // to see the peer go
  try {
    (*handler_)(exchange);
  } catch (const std::exception& e) {
    log::error("{}: the handler of {} threw: {}", peer_, exchange->request_.path, e.what());
    if (exchange_ != exchange) return;
    if (state_ == State::kStreaming) return close();
    reject(500, "internal error", "internal_error");
  }
}

// ---- writing

void Connection::append_head(const HttpResponse& response, bool stream) {
  forget_body();
  if (pending() == 0) {
    out_.clear();
    out_sent_ = 0;
    write_progress_ = Clock::now();
  }
  last_output_ = Clock::now();
  QWELL_CHECK(clean(response.content_type), "content type \"{}\"", response.content_type);
  auto to = std::back_inserter(out_);
  fmt::format_to(to, "HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status, reason_phrase(response.status), io_->date());
  if (response.status != 204) fmt::format_to(to, "Content-Type: {}\r\n", response.content_type);
  if (stream && !http_1_0_) {
    out_ += "Transfer-Encoding: chunked\r\n";
  } else if (!stream && response.status != 204) {
    fmt::format_to(to, "Content-Length: {}\r\n", response.body.size());
  }
  for (const auto& h : response.headers) {
    QWELL_CHECK(clean(h.name) && clean(h.value), "header {}", h.name);
    fmt::format_to(to, "{}: {}\r\n", h.name, h.value);
  }
  if (!keep_alive_) out_ += "Connection: close\r\n";
  if (keep_alive_ && http_1_0_) out_ += "Connection: keep-alive\r\n";
  out_ += "\r\n";
}

void Connection::send(HttpResponse response) {
  if (io_->draining()) keep_alive_ = false;
  append_head(response, false);
  if (!head_only_ && response.status != 204) out_ += response.body;
  end_exchange();
}

void Connection::start_stream(HttpResponse head) {
  QWELL_CHECK(state_ == State::kHandling, "a stream begins once");
  if (http_1_0_ || io_->draining()) keep_alive_ = false;
  append_head(head, true);
  state_ = State::kStreaming;
  if (head.body.empty()) return flush();
  write_piece(head.body);
}

bool Connection::write_piece(std::string_view data) {
  if (data.empty() || head_only_) return true;
  if (pending() + data.size() > config_->stream_buffer_bytes_max) {
    log::debug("{}: cut, {} bytes wait for it", peer_, pending());
    close();
    return false;
  }
  last_output_ = Clock::now();
  if (pending() == 0) write_progress_ = last_output_;
  if (!http_1_0_) fmt::format_to(std::back_inserter(out_), "{:x}\r\n", data.size());
  out_ += data;
  if (!http_1_0_) out_ += "\r\n";
  flush();
  return state_ != State::kClosed;
}

void Connection::finish_stream(bool close_after) {
  if (close_after) keep_alive_ = false;
  if (pending() == 0) write_progress_ = Clock::now();
  if (!http_1_0_ && !head_only_) out_ += "0\r\n\r\n";
  end_exchange();
}

void Connection::end_exchange() {
  const auto self = shared_from_this();
  if (const auto exchange = std::move(exchange_)) {
    io_->exchanges().fetch_sub(1, std::memory_order_relaxed);
    exchange->connection_ = nullptr;
    exchange->on_disconnect_ = nullptr;
    exchange->on_silence_ = nullptr;
  }
  exchange_ = nullptr;
  state_ = State::kFlushing;
  flush();
}

void Connection::flush() {
  while (pending() > 0) {
    if (write_armed_) return;
    beast::error_code error;
    const std::size_t sent = socket_.write_some(asio::buffer(out_.data() + out_sent_, pending()), error);
    out_sent_ += sent;
    if (sent > 0) write_progress_ = Clock::now();
    if (error == asio::error::would_block || error == asio::error::try_again) {
      // What was sent is dropped once it is the larger part, so that each byte is moved at most once on average.
      if (out_sent_ > out_.size() / 2) {
        out_.erase(0, out_sent_);
        out_sent_ = 0;
      }
      write_armed_ = true;
      socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](const beast::error_code& failed) {
        self->write_armed_ = false;
        if (self->state_ == State::kClosed) return;
        if (failed) return self->close();
        self->flush();
      });
      return;
    }
    if (error && error != asio::error::interrupted) return close();
  }
  out_.clear();
  out_sent_ = 0;
  if (out_.capacity() > kReadBytes) out_.shrink_to_fit();
  if (state_ == State::kFlushing) on_flushed();
}

void Connection::on_flushed() {
  parser_.reset();
  if (keep_alive_ && !io_->draining()) {
    state_ = State::kReading;
    deadline_ = Clock::now() + config_->idle_timeout;
    if (in_.size() == 0) {
      if (in_.capacity() > kHeadReadBytes) in_.shrink_to_fit();
      return arm_read();
    }
    // Not a direct call: a long train of pipelined requests must not become a deep stack.
    asio::post(io_->context(), [self = shared_from_this()] {
      if (self->state_ == State::kReading) self->process_input();
    });
    return;
  }
  // To close at once could reset the connection and take the answer from a peer that is still sending.
  beast::error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (error) return close();
  state_ = State::kLingering;
  in_.clear();
  deadline_ = Clock::now() + config_->linger_timeout;
  arm_read();
}

// ---- the handler's side

void Exchange::send(HttpResponse response) {
  if (const auto connection = connection_) connection->send(std::move(response));
}

void Exchange::start_stream(HttpResponse head) {
  if (const auto connection = connection_) connection->start_stream(std::move(head));
}

bool Exchange::write(std::string_view data) {
  const auto connection = connection_;
  return connection && connection->write_piece(data);
}

void Exchange::finish(bool close) {
  if (const auto connection = connection_) connection->finish_stream(close);
}

void Exchange::on_disconnect(std::function<void()> callback) {
  if (connection_) on_disconnect_ = std::move(callback);
}

void Exchange::on_silence(Duration interval, std::function<void()> callback) {
  if (!connection_) return;
  silence_ = interval;
  on_silence_ = std::move(callback);
}

}  // namespace qwell::net
