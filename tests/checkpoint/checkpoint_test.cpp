#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "checkpoint/safetensors.h"
#include "checkpoint/support/scratch.h"

namespace qwell {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace testing_support;

std::string open_error(const std::filesystem::path& folder) {
  return error_of([&] { Checkpoint checkpoint(folder); });
}

// Two shards with an index that fits them.
struct Sharded {
  ScratchFolder folder;
  Sharded() {
    write_small(folder / "one.safetensors", {"a", "b"});
    write_small(folder / "two.safetensors", {"c"});
    index({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}});
  }
  void index(const std::vector<std::pair<std::string, std::string>>& map) { index_file(index_text(map)); }
  void index_file(std::string_view text) { write_file(folder / "model.safetensors.index.json", text); }
};

TEST(Checkpoint, ReadsOneFileOrShards) {
  Sharded sharded;
  const Checkpoint checkpoint(sharded.folder.path());
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(checkpoint.unindexed(), IsEmpty());
  EXPECT_THAT(checkpoint.stray_files(), IsEmpty());
  EXPECT_TRUE(checkpoint.has_prefix("b"));
  EXPECT_FALSE(checkpoint.has_prefix("bb"));

  const ScratchFolder single;
  EXPECT_THAT(open_error(single.path()), AllOf(HasSubstr(single.path().string()), HasSubstr("model.safetensors")));
  write_small(single / "model.safetensors", {"x"});
  EXPECT_THAT(Checkpoint(single.path()).names(), ElementsAre("x"));
}

TEST(Checkpoint, TheIndexIsTheTruth) {
  Sharded sharded;
  // Files of the same tensors beside the shards, one of them under the name of a whole checkpoint, one damaged: none is opened.
  write_small(sharded.folder / "model.safetensors", {"a", "z"}, 7);
  write_file(sharded.folder / "broken.safetensors", "no");
  const Checkpoint checkpoint(sharded.folder.path());
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(checkpoint.require("a").shape, std::vector<std::int64_t>{2});
  EXPECT_THAT(checkpoint.stray_files(), ElementsAre("broken.safetensors", "model.safetensors"));
}

TEST(Checkpoint, FindsWhatTheIndexLeavesOut) {
  Sharded sharded;
  write_small(sharded.folder / "two.safetensors", {"c", "mtp.norm.weight", "mtp.fc.weight"});
  const Checkpoint checkpoint(sharded.folder.path());
  EXPECT_THAT(checkpoint.unindexed(), ElementsAre("mtp.fc.weight", "mtp.norm.weight"));
  EXPECT_NE(checkpoint.find("mtp.fc.weight"), nullptr);
}

TEST(Checkpoint, ListsAllDifferencesBetweenIndexAndFiles) {
  Sharded sharded;
  sharded.index({{"a", "one.safetensors"},
                 {"gone", "one.safetensors"},
                 {"c", "three.safetensors"},
                 {"d", "three.safetensors"},
                 {"e", "two.safetensors"}});
  EXPECT_THAT(open_error(sharded.folder.path()),
              AllOf(HasSubstr("model.safetensors.index.json"), HasSubstr("\"three.safetensors\" is not there (tensors c, d)"),
                    HasSubstr("\"one.safetensors\" does not hold gone"), HasSubstr("\"two.safetensors\" does not hold e"),
                    HasSubstr("the index does not name b, c")));
}

TEST(Checkpoint, RefusesATensorInTwoShards) {
  Sharded sharded;
  write_small(sharded.folder / "two.safetensors", {"a", "c"});
  EXPECT_THAT(open_error(sharded.folder.path()), AllOf(HasSubstr("\"a\""), HasSubstr("one.safetensors"), HasSubstr("two.safetensors")));
  write_small(sharded.folder / "one.safetensors", {"a", "b", "x"});  // not indexed, in both
  write_small(sharded.folder / "two.safetensors", {"c", "x"});
  EXPECT_THAT(open_error(sharded.folder.path()), HasSubstr("\"x\""));
}

TEST(Checkpoint, RefusesDamagedIndexes) {
  Sharded sharded;
  const std::pair<const char*, const char*> cases[] = {
      {"", "JSON"},
      {"[]", "weight_map"},
      {"{}", "weight_map"},
      {R"({"weight_map": []})", "weight_map"},
      {R"({"weight_map": {}})", "no tensor"},
      {R"({"weight_map": {"a": 3}})", "\"a\""},
      {R"({"weight_map": {"a": "one.safetensors", "a": "two.safetensors"}})", "twice"},
      {R"({"weight_map": {"a": "../one.safetensors"}})", "../one.safetensors"},
      {R"({"weight_map": {"a": "/etc/passwd"}})", "/etc/passwd"},
      {R"({"weight_map": {"a": "sub/one.safetensors"}})", "plain file name"},
      {R"({"weight_map": {"a": "..\\one.safetensors"}})", "plain file name"},
      {R"({"weight_map": {"a": "one.safetensors\u0000.txt"}})", "plain file name"},
      {R"({"weight_map": {"a": ".."}})", "plain file name"},
      {R"({"weight_map": {"a": "."}})", "plain file name"},
      {R"({"weight_map": {"a": ""}})", "plain file name"},
  };
  for (const auto& [text, word] : cases) {
    sharded.index_file(text);
    EXPECT_THAT(open_error(sharded.folder.path()), AllOf(HasSubstr("model.safetensors.index.json"), HasSubstr(word))) << text;
  }
  sharded.index({{"a", std::string(5000, 'n')}});
  EXPECT_THAT(open_error(sharded.folder.path()), HasSubstr("is not there"));
}

TEST(Checkpoint, RefusesLinksOutOfTheFolder) {
  Sharded sharded;
  const ScratchFolder elsewhere;
  const auto shard = sharded.folder / "two.safetensors";
  std::filesystem::rename(shard, sharded.folder / "real.bin");
  std::filesystem::create_symlink("real.bin", shard);
  EXPECT_EQ(open_error(sharded.folder.path()), "");
  std::filesystem::rename(sharded.folder / "real.bin", elsewhere / "real.bin");
  std::filesystem::remove(shard);
  std::filesystem::create_symlink(elsewhere / "real.bin", shard);
  EXPECT_THAT(open_error(sharded.folder.path()), AllOf(HasSubstr("two.safetensors"), HasSubstr("link"), HasSubstr("real.bin")));
  std::filesystem::remove(elsewhere / "real.bin");
  EXPECT_THAT(open_error(sharded.folder.path()), HasSubstr("two.safetensors"));

  // A folder whose name begins like ours is another folder; a link to our folder is our folder.
  const std::filesystem::path beside = sharded.folder.path().string() + "x";
  std::filesystem::create_directory(beside);
  write_small(beside / "two.safetensors", {"c"});
  std::filesystem::remove(shard);
  std::filesystem::create_symlink(beside / "two.safetensors", shard);
  EXPECT_THAT(open_error(sharded.folder.path()), HasSubstr("out of the folder"));
  std::filesystem::remove(shard);
  std::filesystem::copy_file(beside / "two.safetensors", shard);
  std::filesystem::remove_all(beside);
  std::filesystem::create_directory_symlink(sharded.folder.path(), elsewhere / "link");
  EXPECT_EQ(open_error(elsewhere / "link"), "");
}

// REPO/snapshots/REVISION/FILE -> ../../blobs/HASH: how downloaded models lie on most machines.
TEST(Checkpoint, FollowsLinksOfADownloadCache) {
  const ScratchFolder cache;
  const auto snapshot = cache / "models--a--b" / "snapshots" / "0123abc";
  const auto blobs = cache / "models--a--b" / "blobs";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(blobs);
  std::filesystem::create_directories(cache / "models--c--d" / "blobs");
  write_small(blobs / "h1", {"a"});
  write_file(blobs / "h2", index_text({{"a", "one.safetensors"}}));
  write_file(blobs / "h3", "{}");
  std::filesystem::create_symlink("../../blobs/h1", snapshot / "one.safetensors");
  std::filesystem::create_symlink("../../blobs/h2", snapshot / "model.safetensors.index.json");
  std::filesystem::create_symlink("../../blobs/h3", snapshot / "config.json");
  const Checkpoint checkpoint(snapshot);
  EXPECT_THAT(checkpoint.names(), ElementsAre("a"));
  EXPECT_EQ(checkpoint.digest().size(), 32U);

  // Another model's blobs are another's; and a folder of another name has no blobs.
  write_small(cache / "models--c--d" / "blobs" / "h1", {"a"});
  std::filesystem::remove(snapshot / "one.safetensors");
  std::filesystem::create_symlink("../../../models--c--d/blobs/h1", snapshot / "one.safetensors");
  EXPECT_THAT(open_error(snapshot), AllOf(HasSubstr("one.safetensors"), HasSubstr("out of the folder")));
  const auto other = cache / "models--a--b" / "revisions" / "0123abc";
  std::filesystem::create_directories(other);
  std::filesystem::create_symlink("../../blobs/h1", other / "model.safetensors");
  EXPECT_THAT(open_error(other), HasSubstr("out of the folder"));
}

TEST(Checkpoint, NamesTheDamagedShard) {
  Sharded sharded;
  const std::string whole = read_file(sharded.folder / "two.safetensors");
  write_file(sharded.folder / "two.safetensors", std::string_view(whole).substr(0, whole.size() - 1));
  EXPECT_THAT(open_error(sharded.folder.path()), AllOf(HasSubstr("two.safetensors"), HasSubstr("\"c\"")));
}

TEST(Checkpoint, RequireSaysWhatTheConfigurationWants) {
  Sharded sharded;
  const Checkpoint checkpoint(sharded.folder.path());
  EXPECT_EQ(checkpoint.require("a", {{"hidden_size", 2}}).name, "a");
  EXPECT_THAT(error_of([&] {
                checkpoint.require("a", {{"moe_intermediate_size", 1536}, {"hidden_size", 2048}});
              }),
              HasSubstr("one.safetensors: tensor \"a\": shape [2], config.json wants [moe_intermediate_size=1536, hidden_size=2048]"));
  EXPECT_THAT(error_of([&] { checkpoint.require("a", {{"hidden_size", 3}}); }), HasSubstr("[hidden_size=3]"));
  EXPECT_THAT(error_of([&] { checkpoint.require("nobody", {{"hidden_size", 3}}); }), AllOf(HasSubstr("\"nobody\""), HasSubstr("missing")));
}

TEST(Checkpoint, KnowsWhatNobodyTook) {
  Sharded sharded;
  const Checkpoint checkpoint(sharded.folder.path());
  EXPECT_THAT(checkpoint.unconsumed(), ElementsAre("a", "b", "c"));
  checkpoint.find("a");
  checkpoint.require("b");
  EXPECT_EQ(checkpoint.take("d"), nullptr);
  EXPECT_THAT(checkpoint.unconsumed(), ElementsAre("a", "c"));
  checkpoint.take("c");
  checkpoint.require("a", {{"", 2}});
  EXPECT_THAT(checkpoint.unconsumed(), IsEmpty());
}

TEST(Checkpoint, ManyThreadsTake) {
  const ScratchFolder folder;
  std::vector<std::string> names;
  for (int i = 0; i < 64; ++i) names.push_back(fmt::format("t{}", i));
  write_small(folder / "model.safetensors", names);
  const Checkpoint checkpoint(folder.path());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < names.size(); i += 3) checkpoint.require(names[i]);  // some are taken by two
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(checkpoint.unconsumed(), IsEmpty());
}

TEST(Checkpoint, DigestIsOfTheContents) {
  Sharded sharded;
  write_file(sharded.folder / "config.json", "{}");
  const auto digest = [](const ScratchFolder& folder) { return Checkpoint(folder.path()).digest(); };
  const std::string before = digest(sharded.folder);
  EXPECT_EQ(before.size(), 32U);
  EXPECT_EQ(digest(sharded.folder), before);
  write_small(sharded.folder / "stray.safetensors", {"a"});
  EXPECT_EQ(digest(sharded.folder), before);

  const ScratchFolder copy;
  for (const auto& entry : std::filesystem::directory_iterator(sharded.folder.path()))
    std::filesystem::copy(entry.path(), copy / entry.path().filename().string());
  EXPECT_EQ(digest(copy), before);
  write_file(copy / "config.json", "{ }");
  EXPECT_NE(digest(copy), before);
  write_file(copy / "config.json", "{}");
  std::string bytes = read_file(copy / "two.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(copy / "two.safetensors", bytes);
  EXPECT_NE(digest(copy), before);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  bytes[bytes.find("\"c\"") + 1] = 'd';  // another name over the same bytes
  write_file(copy / "two.safetensors", bytes);
  sharded.index({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"d", "two.safetensors"}});
  std::filesystem::copy_file(sharded.folder / "model.safetensors.index.json", copy / "model.safetensors.index.json",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(digest(copy), before);
}

TEST(Checkpoint, DigestsOfFixturesDiffer) {
  EXPECT_NE(Checkpoint(fixture("qwen3-moe-a")).digest(), Checkpoint(fixture("qwen3-moe-long-a")).digest());
}

}  // namespace
}  // namespace qwell
