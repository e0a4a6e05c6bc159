#include "net/http_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "net/internal/connection.h"
#include "net/internal/io_thread.h"

namespace qwell::net {
namespace {

using asio::ip::tcp;

constexpr int kBacklog = 4096;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // after EMFILE and the like
constexpr auto kStopPoll = std::chrono::milliseconds(5);

// Fine enough for the shortest timeout, never more often than every 5 ms.
Duration tick_of(const HttpServerConfig& config) {
  const Duration shortest = std::min({config.read_timeout, config.idle_timeout, config.write_timeout, config.linger_timeout});
  return std::clamp<Duration>(shortest / 4, std::chrono::milliseconds(5), std::chrono::milliseconds(100));
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerConfig config, HttpHandler handler)
      : config_(std::make_shared<const HttpServerConfig>(std::move(config))),
        handler_(std::make_shared<const HttpHandler>(std::move(handler))) {
    if (config_->io_threads < 1) fail("the HTTP server needs at least one io thread, got {}", config_->io_threads);
  }

  ~Impl() { stop(Deadline::in(Duration::zero())); }

  void start() {
    QWELL_CHECK(threads_.empty(), "a server starts once");
    std::signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < config_->io_threads; ++i) threads_.push_back(std::make_shared<IoThread>(tick_of(*config_)));
    try {
      listen();
    } catch (const boost::system::system_error& e) {
      acceptor_.reset();  // before its context
      threads_.clear();
      fail("can't listen on {}:{}: {}", config_->host, config_->port, e.code().message());
    }
    accept();
    for (const auto& thread : threads_) thread->start();
  }

  std::uint16_t port() const { return port_; }

  void stop(Deadline deadline) {
    if (threads_.empty() || stopped_.exchange(true)) return;
    threads_[0]->post([this] {
      beast::error_code ignored;
      acceptor_->close(ignored);
      pause_->cancel();
    });
    for (const auto& thread : threads_) thread->post([t = thread.get()] { t->drain(); });
    while (stats().connections > 0 && !deadline.passed()) std::this_thread::sleep_for(kStopPoll);
    for (const auto& thread : threads_) thread->post([t = thread.get()] { t->shut_down(); });
    for (const auto& thread : threads_) thread->join();
    acceptor_.reset();
    pause_.reset();
  }

  HttpServerStats stats() const {
    HttpServerStats sum;
    for (const auto& thread : threads_) {
      sum.connections += thread->connections();
      sum.exchanges += thread->exchanges().load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  void listen() {
    auto& context = threads_[0]->context();
    beast::error_code error;
    tcp::endpoint endpoint(asio::ip::make_address(config_->host, error), config_->port);
    if (error) {
      tcp::resolver resolver(context);
      endpoint = resolver.resolve(config_->host, std::to_string(config_->port), tcp::resolver::passive).begin()->endpoint();
    }
    acceptor_ = std::make_unique<tcp::acceptor>(context);
    acceptor_->open(endpoint.protocol());
    acceptor_->set_option(tcp::acceptor::reuse_address(true));
    acceptor_->bind(endpoint);
    acceptor_->listen(kBacklog);
    port_ = acceptor_->local_endpoint().port();
    pause_ = std::make_unique<asio::steady_timer>(context);
  }

  // Runs on the first thread (and once before it starts).
  void accept() {
    const auto thread = threads_[next_++ % threads_.size()];
    acceptor_->async_accept(thread->context(), [this, thread](const beast::error_code& error, tcp::socket socket) {
      if (!acceptor_->is_open()) return;
      if (error) {
        if (error != asio::error::connection_aborted) log::warn("accept: {}", error.message());
        pause_->expires_after(kAcceptPause);
        pause_->async_wait([this](const beast::error_code& cancelled) {
          if (!cancelled && acceptor_->is_open()) accept();
        });
        return;
      }
      if (stats().connections < config_->connections_max) {
        auto connection = std::make_shared<Connection>(std::move(socket), thread, config_, handler_);
        thread->post([connection = std::move(connection)] { connection->start(); });
      }
      accept();
    });
  }

  const std::shared_ptr<const HttpServerConfig> config_;
  const std::shared_ptr<const HttpHandler> handler_;
  std::vector<std::shared_ptr<IoThread>> threads_;
  std::unique_ptr<tcp::acceptor> acceptor_;
  std::unique_ptr<asio::steady_timer> pause_;
  std::size_t next_ = 0;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopped_ = false;
};

HttpServer::HttpServer(HttpServerConfig config, HttpHandler handler)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(handler))) {}
HttpServer::~HttpServer() = default;
void HttpServer::start() { impl_->start(); }
std::uint16_t HttpServer::port() const { return impl_->port(); }
void HttpServer::stop(Deadline deadline) { impl_->stop(deadline); }
HttpServerStats HttpServer::stats() const { return impl_->stats(); }

}  // namespace qwell::net
