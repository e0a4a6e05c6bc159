// Shared memory of processes.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "group/support/scenarios.h"

namespace qwell::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

bool exists(const std::string& name) {
  const int fd = ::shm_open(name.c_str(), O_RDONLY, 0);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

TEST(SharedWindow, AttachingNamesTheFieldThatDiffers) {
  const GroupShape shape = replicated_shape(2);
  const std::string name = fresh_name();
  const auto window = create_shared_window(shape, name);
  EXPECT_NE(attach_shared_window(shape, name)->rank_base(1), nullptr);
  const auto differs = [&](auto change) {
    GroupShape other = shape;
    change(other);
    return error_of([&] { attach_shared_window(other, name); });
  };
  EXPECT_THAT(differs([](GroupShape& s) { s.size = 4; }), AllOf(HasSubstr(name), HasSubstr("size is 2, wanted 4")));
  EXPECT_THAT(differs([](GroupShape& s) { s.rows_max = 38; }), HasSubstr("rows_max is 37, wanted 38"));
  EXPECT_THAT(differs([](GroupShape& s) { s.hidden = 64; }), HasSubstr("hidden is 72, wanted 64"));
  EXPECT_THAT(differs([](GroupShape& s) { s.experts_per_token = 8; }), HasSubstr("experts_per_token is 3, wanted 8"));
  EXPECT_THAT(differs([](GroupShape& s) { s.act = DType::kF32; }), HasSubstr("act is"));
  EXPECT_THAT(differs([](GroupShape& s) { s.distinct_rows = true; }), HasSubstr("distinct_rows is 0, wanted 1"));
  EXPECT_THAT(differs([](GroupShape& s) { s.order_bytes_max = 999; }), HasSubstr("order_bytes_max is 1000, wanted 999"));
  EXPECT_EQ(differs([](GroupShape& s) { s.name = "called otherwise"; }), "no error");
}

TEST(SharedWindow, NamesAreTakenAndGivenBack) {
  const GroupShape shape = distinct_shape(2);
  const std::string name = fresh_name();
  EXPECT_THAT(error_of([&] { attach_shared_window(shape, name); }), AllOf(HasSubstr(name), HasSubstr("cannot open")));
  auto window = create_shared_window(shape, name);
  EXPECT_TRUE(exists(name));
  EXPECT_THAT(error_of([&] { create_shared_window(shape, name); }), AllOf(HasSubstr(name), HasSubstr("cannot create")));
  EXPECT_TRUE(exists(name));  // the refused one did not take the name along
  ChildProcess child([&] {
    window.reset();  // a fork's copy of the creator
    return std::string(exists(name) ? "" : "the name is gone");
  });
  EXPECT_EQ(child.result(), "");
  const auto attached = attach_shared_window(shape, name);
  window.reset();
  EXPECT_FALSE(exists(name));
  attached->rank_base(1)[shape.window_bytes() - 1] = std::byte{1};  // still mapped
  for (const std::string bad : {"", "/", "no-slash", "/a/b"}) {
    EXPECT_THAT(error_of([&] { create_shared_window(shape, bad); }), HasSubstr("shared memory name"));
  }
}

TEST(SharedWindow, ForeignMemoryIsRefused) {
  const std::string name = fresh_name();
  const int fd = ::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  ASSERT_GE(fd, 0);
  const GroupShape shape = replicated_shape(2);
  EXPECT_THAT(error_of([&] { attach_shared_window(shape, name); }), HasSubstr("0 bytes, wanted a header"));
  ASSERT_EQ(::ftruncate(fd, 1 << 20), 0);
  EXPECT_THAT(error_of([&] { attach_shared_window(shape, name); }), HasSubstr("magic is 0"));
  ::close(fd);
  ::shm_unlink(name.c_str());
}

TEST(SharedWindow, ATruncatedWindowIsRefused) {
  const GroupShape shape = replicated_shape(2);
  const std::string name = fresh_name();
  const auto window = create_shared_window(shape, name);
  const int fd = ::shm_open(name.c_str(), O_RDWR, 0);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 8192), 0);
  EXPECT_THAT(error_of([&] { attach_shared_window(shape, name); }), HasSubstr("8192 bytes, wanted"));
  ::close(fd);
}

TEST(Shape, ImpossibleShapesAreRefused) {
  const auto refused = [](auto change) {
    GroupShape shape = replicated_shape(2);
    change(shape);
    return error_of([&] { make_local_window(shape); });
  };
  EXPECT_THAT(refused([](GroupShape& s) { s.size = 3; }), HasSubstr("size 3"));
  EXPECT_THAT(refused([](GroupShape& s) { s.size = 0; }), HasSubstr("size 0"));
  EXPECT_THAT(refused([](GroupShape& s) { s.size = 32; }), HasSubstr("size 32"));
  EXPECT_THAT(refused([](GroupShape& s) { s.rows_max = -1; }), HasSubstr("rows_max -1"));
  EXPECT_THAT(refused([](GroupShape& s) { s.hidden = 0; }), HasSubstr("hidden 0"));
  EXPECT_THAT(refused([](GroupShape& s) { s.experts_per_token = -2; }), HasSubstr("experts_per_token -2"));
  EXPECT_THAT(refused([](GroupShape& s) { s.act = DType::kE4m3; }), HasSubstr("act F8_E4M3"));
  EXPECT_EQ(refused([](GroupShape& s) { s.rows_max = 0; }), "no error");
  const auto window = make_local_window(replicated_shape(2));
  EXPECT_THAT(error_of([&] { TestRank rank(window, 2); }), HasSubstr("rank 2"));
}

TEST(Processes, AKilledOneIsNoticedAndReplaced) {
  const GroupShape shape = distinct_shape(2);
  const std::string name = fresh_name();
  const auto window = create_shared_window(shape, name);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const auto announce_ready = [&] { return ::write(ready[1], "r", 1) == 1; };
  const auto survive = [&]() -> std::string {
    TestRank rank(attach_shared_window(shape, name), 0, 10 * kShort);
    std::string wrong = dispatch_steps(rank.member, {.seed = 4, .steps = 3});
    if (!wrong.empty()) return wrong;
    rank.member.begin_step(4);
    const auto failed = rank.member.dispatch({}, {}, {}, Placement{48, 2, 0});
    if (failed) return "dispatched to a dead rank";
    if (failed.failure().message.find("for rank 1: expected dispatch (incarnation 0, step 4") == std::string::npos)
      return failed.failure().message;
    if (!announce_ready()) return "pipe";
    TestRank again(attach_shared_window(shape, name), 0);
    again.member.reincarnate(1);
    return dispatch_steps(again.member, {.seed = 4, .first_step = 4, .steps = 3});
  };
  ChildProcess survivor(survive);
  ChildProcess victim([&]() -> std::string {
    TestRank rank(attach_shared_window(shape, name), 1);
    std::string wrong = dispatch_steps(rank.member, {.seed = 4, .steps = 3});
    if (!wrong.empty() || !announce_ready()) return wrong;
    return rank.member.await_announced(99, std::chrono::hours(1)) ? "announced" : "woken";
  });
  char seen[2];
  ASSERT_EQ(::read(ready[0], seen, 1), 1);
  victim.kill();
  EXPECT_THAT(victim.result(), HasSubstr("killed by signal 9"));
  ASSERT_EQ(::read(ready[0], seen, 1), 1);
  ChildProcess replacement([&]() -> std::string {
    TestRank rank(attach_shared_window(shape, name), 1);
    rank.member.reincarnate(1);
    return dispatch_steps(rank.member, {.seed = 4, .first_step = 4, .steps = 3});
  });
  EXPECT_EQ(replacement.result(), "");
  EXPECT_EQ(survivor.result(), "");
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace qwell::testing
