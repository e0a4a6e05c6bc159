#include "server/server.h"

#include "server/internal/context.h"
#include "server/internal/routes.h"
#include "server/worker_pool.h"

namespace qwell::server {

class Server::Impl {
 public:
  Impl(ServerConfig config, Generator& generator, const TextCodec& codec)
      : context_(std::make_shared<Context>(std::move(config), generator, codec)),
        workers_(context_->config.worker_threads),
        http_(context_->config.http, [this](const std::shared_ptr<net::HttpExchange>& exchange) { handle(context_, workers_, exchange); }) {
  }

  ~Impl() { stop(Deadline::in(Duration::zero())); }

  void start() { http_.start(); }
  std::uint16_t port() const { return http_.port(); }
  net::HttpServerStats stats() const { return http_.stats(); }

  void stop(Deadline deadline) {
    context_->stopping = true;
    http_.stop(deadline);
    workers_.stop();
  }

 private:
  const std::shared_ptr<Context> context_;
  WorkerPool workers_;
  net::HttpServer http_;
};

Server::Server(ServerConfig config, Generator& generator, const TextCodec& codec)
    : impl_(std::make_unique<Impl>(std::move(config), generator, codec)) {}
Server::~Server() = default;
void Server::start() { impl_->start(); }
std::uint16_t Server::port() const { return impl_->port(); }
void Server::stop(Deadline deadline) { impl_->stop(deadline); }
net::HttpServerStats Server::stats() const { return impl_->stats(); }

}  // namespace qwell::server
