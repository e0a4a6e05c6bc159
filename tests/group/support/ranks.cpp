#include "group/support/ranks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/random.h"

namespace qwell::testing {

GroupShape replicated_shape(int size, int rows_max) {
  GroupShape shape;
  shape.name = "prefill group 3";
  shape.size = size;
  shape.rows_max = rows_max;
  shape.hidden = 72;
  shape.experts_per_token = 3;
  shape.order_bytes_max = 1000;
  return shape;
}

GroupShape distinct_shape(int size, int rows_max) {
  GroupShape shape = replicated_shape(size, rows_max);
  shape.name = "decode group 1";
  shape.distinct_rows = true;
  return shape;
}

TestRank::TestRank(std::shared_ptr<GroupWindow> window, int rank, Duration deadline)
    : ops(make_reference_ops()), member(std::move(window), rank, *ops, deadline) {}

std::vector<std::string> on_threads(int ranks, const std::function<std::string(int rank)>& body) {
  std::vector<std::string> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { results[static_cast<std::size_t>(r)] = body(r); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

void run_threads(const GroupShape& shape, const Scenario& scenario) {
  const auto window = make_local_window(shape);
  const auto results = on_threads(shape.size, [&](int r) {
    TestRank rank(window, r);
    return scenario(rank.member);
  });
  for (std::size_t r = 0; r < results.size(); ++r) EXPECT_EQ(results[r], "") << "rank " << r << " of " << shape.size;
}

void run_processes(const GroupShape& shape, const Scenario& scenario) {
  const std::string name = fresh_name();
  const auto window = create_shared_window(shape, name);
  std::vector<ChildProcess> children;
  for (int r = 0; r < shape.size; ++r) {
    children.emplace_back([&, r] {
      TestRank rank(attach_shared_window(shape, name), r);
      return scenario(rank.member);
    });
  }
  for (std::size_t r = 0; r < children.size(); ++r) EXPECT_EQ(children[r].result(), "") << "rank " << r << " of " << shape.size;
}

ChildProcess::ChildProcess(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) fail("pipe: {}", std::strerror(errno));
  pid_ = ::fork();
  if (pid_ < 0) fail("fork: {}", std::strerror(errno));
  if (pid_ > 0) {
    ::close(ends[1]);
    pipe_ = ends[0];
    return;
  }
  ::close(ends[0]);
  std::string text;
  try {
    text = body();
  } catch (const std::exception& e) {
    text = e.what();
  }
  const bool written = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::_exit(written ? 0 : 1);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)), pipe_(std::exchange(other.pipe_, -1)) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    kill();
    ::waitpid(pid_, nullptr, 0);
  }
  if (pipe_ >= 0) ::close(pipe_);
}

void ChildProcess::kill() { ::kill(pid_, SIGKILL); }

std::string ChildProcess::result() {
  std::string text;
  char buffer[512];
  for (ssize_t n = 0; (n = ::read(pipe_, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {} {}", WTERMSIG(status), text);
  if (WEXITSTATUS(status) != 0) return fmt::format("exit status {} {}", WEXITSTATUS(status), text);
  return text;
}

std::string fresh_name() {
  static std::atomic<int> next{0};
  return fmt::format("/qwell-test-{}-{}", ::getpid(), next++);
}

std::string compare_bits(const char* what, View seen, View wanted) {
  if (seen.dtype != wanted.dtype || seen.rank != wanted.rank || seen.shape != wanted.shape) {
    return fmt::format("{}: {} {}, wanted {} {}", what, to_string(seen.dtype), seen.shape_text(), to_string(wanted.dtype),
                       wanted.shape_text());
  }
  const std::int64_t row_bytes = seen.shape[1] * size_of(seen.dtype);
  for (std::int64_t t = 0; t < seen.shape[0]; ++t) {
    for (std::int64_t i = 0; i < row_bytes; ++i) {
      if (seen[t].at_bytes(0)[i] != wanted[t].at_bytes(0)[i])
        return fmt::format("{}: row {} differs in column {}", what, t, i / size_of(seen.dtype));
    }
  }
  return {};
}

void fill(View v, std::uint64_t seed, std::uint64_t stream) {
  Random random(seed, stream);
  for (std::int64_t t = 0; t < v.shape[0]; ++t) {
    for (std::int64_t i = 0; i < v.shape[1]; ++i) {
      const float value = std::ldexp(random.normal(), random.range(-6, 6));
      if (v.dtype == DType::kBf16) {
        v[t].as<bf16>()[i] = to_bf16(value);
      } else {
        v[t].as<float>()[i] = value;
      }
    }
  }
}

}  // namespace qwell::testing
