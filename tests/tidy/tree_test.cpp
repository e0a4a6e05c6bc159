// The tree, held to the rules. A finding prints file and line, what is there, and what to do instead.

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tidy/rules.h"

namespace qwell::tidy {
namespace {

const std::filesystem::path kRoot = QWELL_SOURCE_DIR;

// The sources are read once for all tests of this file.
class Tree : public testing::Test {
 protected:
  static const std::vector<Source>& cpp() {
    static const std::vector<Source> kSources = read_cpp_tree(kRoot);
    return kSources;
  }

  static void expect_none(const std::vector<Finding>& findings) {
    for (const Finding& f : findings) ADD_FAILURE_AT(f.path.c_str(), f.line) << f.what << "\n  instead: " << f.instead;
  }

  // A rule about single files, on those under `folder`.
  static void hold(std::vector<Finding> (*rule)(const Source&), std::string_view folder = "") {
    int files = 0;
    for (const Source& source : cpp()) {
      if (!source.path.starts_with(folder)) continue;
      ++files;
      expect_none(rule(source));
    }
    EXPECT_GT(files, 0) << "no file under " << kRoot << "/" << folder;
  }
};

TEST_F(Tree, IncludesFollowTheTableOfModules) { expect_none(check_includes(cpp())); }

TEST_F(Tree, CmakeNamesTheModulesThatAreIncluded) {
  const auto modules = modules_in_cmake(read_file(kRoot / "CMakeLists.txt"));
  EXPECT_GT(modules.size(), 1U);
  expect_none(check_modules_in_cmake(cpp(), modules));
}

TEST_F(Tree, EveryFileIsBuilt) {
  Targets targets{.modules = {},
                  .tests = names_in_cmake(read_file(kRoot / "tests/CMakeLists.txt"), "qwell_test"),
                  .fuzz = names_in_cmake(read_file(kRoot / "fuzz/CMakeLists.txt"), "qwell_fuzz")};
  for (const auto& [name, depends] : modules_in_cmake(read_file(kRoot / "CMakeLists.txt"))) targets.modules.insert(name);
  expect_none(check_dead_files(cpp(), targets));
}

TEST_F(Tree, HasNoBannedCalls) { hold(check_banned); }
TEST_F(Tree, HasNoMutableGlobals) { hold(check_state, "src/"); }
TEST_F(Tree, HeadersSayWhatTheyAreFor) { hold(check_header); }
TEST_F(Tree, LinesAndFilesAreShort) { hold(check_lengths); }

TEST_F(Tree, TextsHaveNoNotesAndNoForeignPaths) {
  const auto texts = read_text_tree(kRoot);
  EXPECT_GT(texts.size(), cpp().size());
  for (const Source& source : texts) expect_none(check_text(source));
}

}  // namespace
}  // namespace qwell::tidy
