#pragma once
// Which request goes where.

#include "server/internal/context.h"
#include "server/worker_pool.h"

namespace qwell::server {

// Checks id, path, method and key, then answers or begins the work.
void handle(const std::shared_ptr<Context>& context, WorkerPool& workers, const std::shared_ptr<net::HttpExchange>& exchange);

}  // namespace qwell::server
