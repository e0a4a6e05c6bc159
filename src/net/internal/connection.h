#pragma once
// One accepted socket: reads requests one after the other, hands each to the handler, writes the answers. All on its io thread.

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_server.h"
#include "net/internal/io_thread.h"

namespace qwell::net {

namespace beast = boost::beast;

// A string body that grows with what comes, whatever length was announced.
struct GrowingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, beast::error_code& ec) { ec = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, beast::error_code& ec) {
      ec = {};
      std::size_t total = 0;
      for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers); ++it) {
        const asio::const_buffer piece = *it;
        body_.append(static_cast<const char*>(piece.data()), piece.size());
        total += piece.size();
      }
      return total;
    }
    void finish(beast::error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

class Exchange;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::ip::tcp::socket socket, std::shared_ptr<IoThread> io, std::shared_ptr<const HttpServerConfig> config,
             std::shared_ptr<const HttpHandler> handler);

  void start();
  void on_tick(TimePoint now);
  void on_drain();
  // Closes the socket now; an answer that has not ended is told to its on_disconnect.
  void close();

 private:
  friend class Exchange;
  using Parser = beast::http::request_parser<GrowingBody>;

  // kReading: waits for or reads a request. kHandling: the handler has it. kStreaming: a stream has begun. kFlushing: the whole answer is
  // in out_. kLingering: we have sent our last byte and wait for the peer to close.
  enum class State { kReading, kHandling, kStreaming, kFlushing, kLingering, kClosed };

  void arm_read();
  void on_readable();
  void on_peer_gone();
  void process_input();
  bool count_body();  // false: too many bytes in all, answered with an error
  void forget_body();
  bool begin_request();
  bool check_header();  // false: answered with an error
  void parse_failed(const beast::error_code& error);
  void dispatch();
  void reject(int status, std::string_view message, std::string_view code = {});

  void send(HttpResponse response);
  void start_stream(HttpResponse head);
  bool write_piece(std::string_view data);
  void finish_stream(bool close_after);
  void append_head(const HttpResponse& response, bool stream);
  void end_exchange();  // the answer is complete in out_
  void flush();
  void on_flushed();
  std::size_t pending() const { return out_.size() - out_sent_; }

  const std::shared_ptr<IoThread> io_;  // first: the socket must go before its context
  asio::ip::tcp::socket socket_;
  const std::shared_ptr<const HttpServerConfig> config_;
  const std::shared_ptr<const HttpHandler> handler_;

  State state_ = State::kReading;
  bool read_armed_ = false;
  bool write_armed_ = false;
  beast::flat_buffer in_;
  std::string peer_;

  std::optional<Parser> parser_;  // of the request that is being read
  std::string head_;              // its head, as it came
  std::size_t body_mark_ = 0;     // body bytes at the last extension of deadline_
  std::size_t body_counted_ = 0;  // in the io thread's sum
  bool header_done_ = false;
  TimePoint deadline_;  // for the peer's next bytes, in kReading and kLingering

  std::shared_ptr<Exchange> exchange_;  // set in kHandling and kStreaming
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;  // the request was HEAD
  std::string out_;
  std::size_t out_sent_ = 0;
  TimePoint write_progress_;  // when the peer last took something, or out_ last became non-empty
  TimePoint last_output_;
};

// The handler's view of one request on a connection.
class Exchange final : public HttpExchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)), io_(connection_->io_), request_(std::move(request)) {}

  HttpRequest& request() override { return request_; }
  void post(std::function<void()> task) override { io_->post(std::move(task)); }
  void send(HttpResponse response) override;
  void start_stream(HttpResponse head) override;
  bool write(std::string_view data) override;
  void finish(bool close) override;
  bool open() const override { return connection_ != nullptr; }
  void on_disconnect(std::function<void()> callback) override;
  void on_silence(Duration interval, std::function<void()> callback) override;

 private:
  friend class Connection;

  std::shared_ptr<Connection> connection_;  // null once the answer has ended or the peer is gone
  const std::shared_ptr<IoThread> io_;
  HttpRequest request_;
  std::function<void()> on_disconnect_;
  std::function<void()> on_silence_;
  Duration silence_ = Duration::max();
};

}  // namespace qwell::net
