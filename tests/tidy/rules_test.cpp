// The rules on a few lines of text: each finds what it is for, and leaves alone what merely looks like it.

#include "tidy/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qwell::tidy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int> lines(const std::vector<Finding>& findings) {
  std::vector<int> out;
  for (const Finding& finding : findings) out.push_back(finding.line);
  return out;
}

std::vector<std::string> texts(const std::vector<Finding>& findings) {
  std::vector<std::string> out;
  for (const Finding& finding : findings) out.push_back(finding.path + ": " + finding.what);
  return out;
}

std::vector<int> banned(std::string_view text, std::string path = "src/ops/a.cpp") {
  return lines(check_banned(parse_source(std::move(path), text)));
}
std::vector<int> state(std::string_view text) { return lines(check_state(parse_source("src/ops/a.cpp", text))); }

TEST(Source, BlanksCommentsAndLiteralsAndKeepsColumns) {
  const Source source = parse_source("a.cpp",
                                     "int a = 1'000; // rand()\n"
                                     "auto b = \"rand() \\\" rand()\" + c('\"');\n"
                                     "/* rand()\n"
                                     "   rand() */ f();\n"
                                     "auto d = R\"x(rand() )\" \n"
                                     " rand())x\" + u8\"y\";\n");
  EXPECT_THAT(source.code, ElementsAre("int a = 1'000;          ", "auto b = \"                \" + c(' ');", "         ",
                                       "             f();", "auto d = R\"            ", "         \" + u8\" \";"));
  for (std::size_t i = 0; i < source.lines.size(); ++i) EXPECT_EQ(source.lines[i].size(), source.code[i].size());
}

TEST(Source, KnowsItsModule) {
  EXPECT_EQ(parse_source("src/ops/cpu/a.h", "").module(), "ops");
  EXPECT_EQ(parse_source("src/main.cpp", "").module(), "");
  EXPECT_EQ(parse_source("tests/ops/a.cpp", "").module(), "");
}

TEST(Banned, CallsOfTheLibraryOnly) {
  EXPECT_THAT(banned("x = atoi(s);\nstd::atoi(s);\n::atoi(s);\nreturn atoi(s);"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(banned("int atoi(const char* s);\nlink.abort(why);\nlink->abort(why);\nvoid Link::abort(int x) {}\nSlots<int>::free(3);\nint "
                     "free = 3;\n"),
              IsEmpty());
  EXPECT_THAT(banned("// rand()\nf(\"rand()\");\nstatic_assert(a);\noperand(3);"), IsEmpty());
}

TEST(Banned, WordsOfStd) {
  EXPECT_THAT(banned("std::cout << 1;\nout.cout << 1;\nstd::this_thread::sleep_for(d);\nthread.detach();"), ElementsAre(1, 3, 4));
  EXPECT_THAT(banned("std::cout << 1;", "src/cli/a.cpp"), IsEmpty());
  EXPECT_THAT(banned("std::cout << 1;", "tests/ops/a.cpp"), IsEmpty());
  EXPECT_THAT(banned("std::getenv(\"A\");\n::_exit(1);"), ElementsAre(1, 2));
  EXPECT_THAT(banned("std::mt19937 r;", "tests/ops/a.cpp"), ElementsAre(1));
}

TEST(Banned, Phrases) {
  EXPECT_THAT(banned("#pragma once\nusing namespace std;\n", "src/ops/a.h"), ElementsAre(2));
  EXPECT_THAT(banned("using namespace std::literals;\n"), IsEmpty());
  EXPECT_THAT(banned("} catch (...) {\n} catch (const Error& e) {\n"), ElementsAre(1));
  EXPECT_THAT(banned("#ifdef A\n#include <x>\n#else\n#endif\n", "src/model/a.cpp"), ElementsAre(1, 3));
  EXPECT_THAT(banned("#ifdef A\n#endif\n", "src/ops/a.cpp"), IsEmpty());
  EXPECT_THAT(banned("f();  // NO"
                     "LINT(x)\n"),
              ElementsAre(1));
}

TEST(State, FindsWhatOutlivesACall) {
  EXPECT_THAT(state("namespace a {\nint n;\nstd::atomic<int> m{0};\nstatic std::mutex l;\nint k = f(3);\n}\n"), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(state("void f() {\n  static int calls = 0;\n  if (x) { static std::vector<int> v{1, 2}; }\n}\n"), ElementsAre(2, 3));
  EXPECT_THAT(state("class A {\n  static int count;\n  static inline std::atomic<int> n{0};\n  int own = 0;\n};\nint A::count = 0;\n"),
              ElementsAre(2, 3, 6));
  EXPECT_THAT(state("struct A { int x; } a;\nenum class B { kC } b;\nstd::array t = {1,\n 2};\n"), ElementsAre(1, 2, 3));
}

TEST(State, LeavesConstantsTypesAndFunctionsAlone) {
  EXPECT_THAT(state("constexpr int kA = 3;\nconst std::map<int, int> kB = {{1, 2}};\nstatic int f(int x = 3);\nint g(A a = {}) { return 1; "
                    "}\nint h();\n"),
              IsEmpty());
  EXPECT_THAT(state("using A = int;\nenum class B : int { kC = 1, kD };\nstruct E { int n = 0; A m{}; };\nclass F;\ntemplate <class T> "
                    "class G { T t; };\nextern int q;\n"),
              IsEmpty());
  EXPECT_THAT(state("A::A() : a_{1}, b_(2), c_{3} { g(); }\nA::~A() = default;\nbool operator==(const A& a, const A& b) { return true; "
                    "}\nvoid next();\n"),
              IsEmpty());
  EXPECT_THAT(state("void f() {\n  static const std::map<int, int> kA = {{1, 2}};\n  int x = 0;\n  g([&] { int y = 3; h(y); }, A{1});\n  "
                    "for (int i = 0; i < 3; ++i) x = i;\n}\n"),
              IsEmpty());
  EXPECT_THAT(state("#define A(x) \\\n  int x = 3;\nextern \"C\" {\nint f(void);\n}\nTEST(A, B) { int x = 0; }\n"), IsEmpty());
}

TEST(Headers, BeginWithOnceAndAComment) {
  const auto check = [](std::string_view text) { return lines(check_header(parse_source("src/a/a.h", text))); };
  EXPECT_THAT(check("#pragma once\n// What it is.\n\n#include <x>\n"), IsEmpty());
  EXPECT_THAT(check("// What it is.\n#pragma once\n"), IsEmpty());
  EXPECT_THAT(check("#pragma once\n\n#include <x>\n// Late.\n"), ElementsAre(3));
  EXPECT_THAT(check("// No guard.\nint x();\n"), ElementsAre(1));
  EXPECT_THAT(check_header(parse_source("src/a/a.cpp", "int x;\n")), IsEmpty());
}

TEST(Lengths, CountCharactersNotBytes) {
  const auto check = [](const std::string& text) { return lines(check_lengths(parse_source("src/a/a.cpp", text))); };
  std::string accents;
  for (int i = 0; i < 140; ++i) accents += "\u00e9";
  EXPECT_THAT(check(accents + "\n" + std::string(140, 'x')), IsEmpty());
  EXPECT_THAT(check("\n" + std::string(141, 'x')), ElementsAre(2));
  std::string many;
  for (int i = 0; i < 700; ++i) many += "x\n";
  EXPECT_THAT(check(many), IsEmpty());
  EXPECT_THAT(check(many + "x\n"), ElementsAre(701));
}

TEST(Text, NotesAndForeignPaths) {
  const auto check = [](const std::string& text) { return lines(check_text(parse_source("tools/a.sh", text))); };
  const std::string note(4, 'X');  // the one note that is also part of mktemp's patterns: one letter less counts
  EXPECT_THAT(check("# " + note + "\n# " + note.substr(1) + ": later\n(" + note.substr(1) + ")\n"), ElementsAre(2, 3));
  const std::string home = std::string("/ho") + "me/";  // in pieces, so that this file passes
  EXPECT_THAT(check("cd " + home + "me\nx=\"" + home + "y\"\n$x" + home + "\n." + home + "\n#include \"engine" + home + "a.h\"\n"),
              ElementsAre(1, 2));
}

TEST(Includes, FollowTheTable) {
  const std::vector<Source> tree = {
      parse_source("src/base/a.h", "#include \"ops/b.h\"\n#include <boost/json/value.hpp>\n"),
      parse_source("src/ops/b.h",
                   "#include \"base/a.h\"\n//#include \"model/c.h\"\n#include <boost/json/value.hpp>\n#include \"ops/nowhere.h\"\n#include "
                   "\"../base/a.h\"\n"),
      parse_source("src/model/c.h", "#include \"ops/b.h\"\n#include \"base/internal/d.h\"\n"),
      parse_source("src/base/internal/d.h", "#include <vector>\n"),
      parse_source("src/other/e.h", ""),
      parse_source("src/main.cpp", "#include \"model/c.h\"\n"),
      parse_source("tests/base/a_test.cpp", "#include \"model/c.h\"\n"),
  };
  EXPECT_THAT(texts(check_includes(tree)),
              ElementsAre("src/base/a.h: base includes ops/b.h", "src/ops/b.h: <boost/json/value.hpp> in ops; it belongs to base",
                          "src/ops/b.h: \"ops/nowhere.h\" is no file under src/", "src/ops/b.h: \"../base/a.h\" is no file under src/",
                          "src/model/c.h: model includes base/internal/d.h, internal to base",
                          "src/other/e.h: src/other is not in the table of modules"));
}

TEST(Includes, TableHasNoCycle) {
  std::set<std::string_view> lower;
  for (const Module& module : module_table()) {
    for (const std::string_view name : module.may_include) EXPECT_TRUE(lower.contains(name)) << module.name << " may include " << name;
    lower.insert(module.name);
  }
}

TEST(Cmake, ModulesAreReadAndCompared) {
  const auto modules = modules_in_cmake(
      "# qwell_module(x)\nqwell_module(base PACKAGES a::b)\nqwell_module(ops DEPENDS base\n  tensor PACKAGES c)\nqwell_module(tensor "
      "DEPENDS ops)\n");
  EXPECT_EQ(modules.size(), 3U);
  EXPECT_EQ(modules.at("ops"), (std::set<std::string>{"base", "tensor"}));
  EXPECT_EQ(modules.at("base"), std::set<std::string>{});
  const std::vector<Source> tree = {parse_source("src/tensor/a.h", "#include \"ops/b.h\"\n#include \"base/c.h\"\n")};
  EXPECT_THAT(texts(check_modules_in_cmake(tree, modules)),
              ElementsAre("CMakeLists.txt: tensor depends on ops",
                          "src/tensor/a.h: tensor includes base, which its line in CMakeLists.txt does not name"));
}

TEST(DeadFiles, AreThoseThatNothingBuilds) {
  const Targets targets{.modules = {"base"}, .tests = {"base"}, .fuzz = {"config"}};
  const std::vector<Source> tree = {
      parse_source("src/base/a.cpp", "#include \"base/a.h\"\n#include \"base/b.h\"\n#include \"base/k.inc\"\n"),
      parse_source("src/base/a.h", ""),
      parse_source("src/base/b.h", ""),
      parse_source("src/base/k.inc", ""),
      parse_source("src/lost/c.cpp", ""),
      parse_source("src/main.cpp", ""),
      parse_source("tests/base/deep/a.cpp", ""),
      parse_source("tests/lost/a.cpp", "#include \"support/s.h\"\n"),
      parse_source("tests/support/s.h", ""),
      parse_source("fuzz/fuzz_config.cpp", ""),
      parse_source("fuzz/fuzz_lost.cpp", ""),
  };
  EXPECT_THAT(texts(check_dead_files(tree, targets)),
              ElementsAre("src/base/a.h: nobody includes it", "src/lost/c.cpp: no target builds it",
                          "tests/lost/a.cpp: no target builds it", "fuzz/fuzz_lost.cpp: no target builds it"));
}

}  // namespace
}  // namespace qwell::tidy
