#pragma once
// The rules that the tree is held to. Each is a function from sources to findings, so that it can be tried on a few lines of text.

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidy/source.h"

namespace qwell::tidy {

// Modules from the lowest to the highest. A module includes itself and those named, all of them above it here.
struct Module {
  std::string_view name;
  std::set<std::string_view> may_include;
};
std::span<const Module> module_table();

// The modules of a CMakeLists.txt, by its qwell_module(NAME DEPENDS ... [PACKAGES ...]) lines, and the test programs, by qwell_test(NAME
// ...).
std::map<std::string, std::set<std::string>> modules_in_cmake(std::string_view cmake);
std::set<std::string> names_in_cmake(std::string_view cmake, std::string_view function);

// Includes of src/: a module that the table does not allow, a library that belongs behind another module, a file that is not there, another
// module's internal/ folder, a relative path.
std::vector<Finding> check_includes(std::span<const Source> tree);

// CMakeLists.txt links exactly what is included, within the table.
std::vector<Finding> check_modules_in_cmake(std::span<const Source> tree, const std::map<std::string, std::set<std::string>>& modules);

// Files that no target builds and headers that nobody but their own .cpp includes.
struct Targets {
  std::set<std::string> modules, tests, fuzz;
};
std::vector<Finding> check_dead_files(std::span<const Source> tree, const Targets& targets);

// Calls and words that the project does without, each with what to use instead and where it is allowed.
std::vector<Finding> check_banned(const Source& source);

// Variables that outlive a call and can change: at namespace scope, static in a function or in a class. A heuristic: what declares with
// parentheses (std::mutex m(...)) passes as a function.
std::vector<Finding> check_state(const Source& source);

// Headers: #pragma once, and a comment that says what the header is for before its first line of code.
std::vector<Finding> check_header(const Source& source);

// Lines of at most 140 characters, files of at most 700 lines. C++ only.
std::vector<Finding> check_lengths(const Source& source);

// Of every text: notes to oneself, paths of somebody's machine.
std::vector<Finding> check_text(const Source& source);

}  // namespace qwell::tidy
