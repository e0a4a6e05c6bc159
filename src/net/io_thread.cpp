#include "net/internal/io_thread.h"

#include <boost/asio/post.hpp>
#include <ctime>

#include "net/internal/connection.h"

namespace qwell::net {
namespace {

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

}  // namespace

void IoThread::start() {
  date_ = http_date();
  arm_tick();
  thread_ = std::thread([this] { context_.run(); });
}

void IoThread::join() {
  if (thread_.joinable()) thread_.join();
}

bool IoThread::post(std::function<void()> task) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    wake = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  if (wake) asio::post(context_, [this] { run_tasks(); });
  return true;
}

void IoThread::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) {
    task();
    task = nullptr;
  }
}

void IoThread::add(std::shared_ptr<Connection> connection) {
  Connection* const key = connection.get();
  connections_.emplace(key, std::move(connection));
  connection_count_.store(static_cast<int>(connections_.size()), std::memory_order_relaxed);
}

void IoThread::remove(Connection* connection) {
  connections_.erase(connection);
  connection_count_.store(static_cast<int>(connections_.size()), std::memory_order_relaxed);
}

std::vector<std::shared_ptr<Connection>> IoThread::all() const {
  std::vector<std::shared_ptr<Connection>> all;
  all.reserve(connections_.size());
  for (const auto& [key, connection] : connections_) all.push_back(connection);
  return all;
}

void IoThread::drain() {
  draining_ = true;
  for (const auto& connection : all()) connection->on_drain();
}

void IoThread::shut_down() {
  draining_ = true;
  for (const auto& connection : all()) connection->close();
  std::vector<std::function<void()>> dropped;  // destroyed without the lock: a task's destructor may post
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(tasks_);
  }
  timer_.cancel();
  work_.reset();
}

void IoThread::arm_tick() {
  timer_.expires_after(tick_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) on_tick();
  });
}

void IoThread::on_tick() {
  if (!work_) return;
  date_ = http_date();
  const TimePoint now = Clock::now();
  for (const auto& connection : all()) connection->on_tick(now);
  arm_tick();
}

}  // namespace qwell::net
