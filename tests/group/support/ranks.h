#pragma once
// Ranks for tests: threads of this process, or processes that share memory. A rank's part of a test is a function of its member that
// returns what was wrong, or nothing; so the same scenario runs in both.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "group/member.h"

namespace qwell::testing {

constexpr Duration kDeadline = std::chrono::seconds(20);  // of waits that end by a signal
constexpr Duration kShort = std::chrono::milliseconds(100);

GroupShape replicated_shape(int size, int rows_max = 37);
GroupShape distinct_shape(int size, int rows_max = 19);

// What one rank of a test consists of.
struct TestRank {
  TestRank(std::shared_ptr<GroupWindow> window, int rank, Duration deadline = kDeadline);
  std::unique_ptr<Ops> ops;
  Member member;
};

// Runs body(rank) on a thread each; the texts by rank.
std::vector<std::string> on_threads(int ranks, const std::function<std::string(int rank)>& body);

// Runs scenario(member) of every rank of a fresh group; fails the test with what any rank reported.
using Scenario = std::function<std::string(Member&)>;
void run_threads(const GroupShape& shape, const Scenario& scenario);
void run_processes(const GroupShape& shape, const Scenario& scenario);

// A process that runs body() and nothing after it. Call while this process has one thread.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<std::string()>& body);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ChildProcess(ChildProcess&& other) noexcept;

  // What body() returned, or how the process died.
  std::string result();
  void kill();

 private:
  int pid_ = -1;
  int pipe_ = -1;
};

// A name of shared memory that no other test uses.
std::string fresh_name();

// "" if equal; else the first place where they differ.
std::string compare_bits(const char* what, View seen, View wanted);

// A matrix with memory of its own.
class Matrix {
 public:
  Matrix(DType dtype, std::int64_t rows, std::int64_t columns)
      : bytes_(static_cast<std::size_t>(rows * columns * size_of(dtype)) + 64), dtype_(dtype), rows_(rows), columns_(columns) {}
  View view() { return View(bytes_.data(), dtype_, {rows_, columns_}); }
  View rows(std::int64_t first, std::int64_t count) { return view().rows(first, count); }

 private:
  std::vector<std::byte> bytes_;
  DType dtype_;
  std::int64_t rows_, columns_;
};

// Normal numbers of very different sizes, so that the order of a sum shows in its bits.
void fill(View v, std::uint64_t seed, std::uint64_t stream);

}  // namespace qwell::testing
