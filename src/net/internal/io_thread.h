#pragma once
// One thread with one io_context and the connections that live on it.

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"

namespace qwell::net {

namespace asio = boost::asio;

class Connection;

// Held by its server and by each of its connections: an exchange that outlives the server still finds a (closed) mailbox.
class IoThread {
 public:
  explicit IoThread(Duration tick) : tick_(tick), context_(1), work_(asio::make_work_guard(context_)), timer_(context_) {}

  void start();
  void join();

  asio::io_context& context() { return context_; }

  // Any thread. Tasks run in order; many tasks cost one wake-up. False, and the task is dropped, after close_mailbox().
  bool post(std::function<void()> task);

  // The rest: on this thread only.
  void add(std::shared_ptr<Connection> connection);
  void remove(Connection* connection);
  void drain();      // idle connections close now, the others after their answer
  void shut_down();  // cuts every connection, closes the mailbox; the thread ends
  bool draining() const { return draining_; }
  std::size_t& body_bytes() { return body_bytes_; }  // of requests that are not answered yet
  const std::string& date() const { return date_; }  // for the Date header; as old as a tick

  // Any thread.
  int connections() const { return connection_count_.load(std::memory_order_relaxed); }
  std::atomic<int>& exchanges() { return exchange_count_; }

 private:
  void run_tasks();
  void arm_tick();
  void on_tick();
  std::vector<std::shared_ptr<Connection>> all() const;

  const Duration tick_;
  asio::io_context context_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  asio::steady_timer timer_;
  std::thread thread_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::string date_;
  bool draining_ = false;
  std::size_t body_bytes_ = 0;
  std::atomic<int> connection_count_ = 0;
  std::atomic<int> exchange_count_ = 0;

  std::mutex mutex_;  // guards the two below
  std::vector<std::function<void()>> tasks_;
  bool closed_ = false;
};

}  // namespace qwell::net
