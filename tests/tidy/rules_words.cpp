// Rules about single words and lines.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "tidy/rules.h"

namespace qwell::tidy {
namespace {

enum class Form {
  kCall,  // of the C library or of std, not a member and not a declaration
  kStd,   // std::word, called or not
  kWord,  // the word alone
};

struct Ban {
  std::string_view word;
  Form form;
  std::string_view instead;
  std::vector<std::string_view> allowed = {};  // folders and files; tests and fuzz targets are held only to what `everywhere` says
  bool everywhere = false;
};

const std::string_view kNumbers = "use std::from_chars, which tells an error from a zero";
const std::string_view kRandom = "use base/random.h: the same numbers on every machine";
const std::string_view kWaiting = "wait for the event, with a Deadline (condition variable, futex, timer)";
const std::string_view kOutput = "return text, or use base/log.h: standard output belongs to the commands";
const std::string_view kStrings = "use std::string, std::string_view and fmt::format";

const std::vector<Ban>& bans() {
  static const std::vector<Ban> kBans = {
      {"strcpy", Form::kCall, kStrings, {}, true},
      {"strncpy", Form::kCall, kStrings, {}, true},
      {"strcat", Form::kCall, kStrings, {}, true},
      {"strtok", Form::kCall, kStrings, {}, true},
      {"gets", Form::kCall, kStrings, {}, true},
      {"sprintf", Form::kCall, kStrings, {}, true},
      {"snprintf", Form::kCall, kStrings, {}, true},
      {"vsprintf", Form::kCall, kStrings, {}, true},
      {"atoi", Form::kCall, kNumbers, {}, true},
      {"atol", Form::kCall, kNumbers, {}, true},
      {"atof", Form::kCall, kNumbers, {}, true},
      {"stoi", Form::kStd, kNumbers},
      {"stol", Form::kStd, kNumbers},
      {"stof", Form::kStd, kNumbers},
      {"stod", Form::kStd, kNumbers},
      {"rand", Form::kCall, kRandom, {}, true},
      {"srand", Form::kCall, kRandom, {}, true},
      {"mt19937", Form::kStd, kRandom, {}, true},
      {"mt19937_64", Form::kStd, kRandom, {}, true},
      {"default_random_engine", Form::kStd, kRandom, {}, true},
      {"random_device", Form::kStd, kRandom, {"src/server/context.cpp"}, true},  // ids of answers must differ from run to run
      {"system", Form::kCall, "start a program by fork and exec with its arguments apart, or do without", {}, true},
      {"popen", Form::kCall, "start a program by fork and exec with its arguments apart, or do without", {"tests/cli/"}, true},
      {"sleep", Form::kCall, kWaiting, {}, true},
      {"usleep", Form::kCall, kWaiting, {}, true},
      {"nanosleep", Form::kCall, kWaiting, {}, true},
      {"sleep_for", Form::kWord, kWaiting, {"src/net/http_server.cpp"}},  // stopping polls its counters
      {"sleep_until", Form::kWord, kWaiting},
      {"cout", Form::kStd, kOutput, {"src/cli/", "src/bench/"}},
      {"cerr", Form::kStd, kOutput, {"src/cli/", "src/bench/"}},
      {"endl", Form::kStd, "write '\\n': endl also flushes", {}, true},
      {"printf", Form::kCall, kOutput, {"src/cli/", "src/bench/"}},
      {"fprintf", Form::kCall, kOutput, {"src/cli/", "src/bench/"}},
      {"puts", Form::kCall, kOutput, {"src/cli/", "src/bench/"}},
      {"assert", Form::kCall, "use QWELL_CHECK, which prints the values and is there in every build", {}, true},
      {"getenv", Form::kCall, "cli reads the environment and hands values down", {"src/cli/"}},
      {"setenv", Form::kCall, "hand the value in", {}, true},
      {"abort",
       Form::kCall,
       "use QWELL_CHECK for a bug, a Failure or an Error for the rest",
       {"src/base/check.cpp", "src/group/cpu/link.cpp"}},
      {"exit", Form::kCall, "return from main, so that what is open is closed", {"src/cli/"}},
      {"_exit", Form::kCall, "return from main, so that what is open is closed", {"src/cli/"}},
      {"detach", Form::kWord, "join the thread", {}, true},
      {"async", Form::kStd, "own the thread, and join it", {}, true},
      {"regex", Form::kStd, "write a scanner: std::regex recurses with its input", {}, true},
      {"thread_local", Form::kWord, "make it a member of the object that the thread drives"},
      {"goto", Form::kWord, "write a function that returns"},
      {"malloc", Form::kCall, "use a container or std::unique_ptr", {}, true},
      {"calloc", Form::kCall, "use a container or std::unique_ptr", {}, true},
      {"realloc", Form::kCall, "use a container or std::unique_ptr", {}, true},
      {"free", Form::kCall, "use a container or std::unique_ptr", {}, true},
  };
  return kBans;
}

bool matches(const Ban& ban, const Word& word) {
  if (ban.word != word.text) return false;
  const bool of_std = word.qualifier == "std";
  switch (ban.form) {
    case Form::kWord: return true;
    case Form::kStd: return of_std;
    case Form::kCall:
      return word.called && !word.of_object && !word.declared && (of_std || word.qualifier == "::" || word.qualifier.empty());
  }
  return false;
}

bool allowed(const Ban& ban, const Source& source) {
  if (!ban.everywhere && !source.under("src/")) return true;
  return std::ranges::any_of(ban.allowed, [&](std::string_view folder) { return source.under(folder); });
}

std::string squeezed(std::string_view code) {
  std::string out;
  std::ranges::copy_if(code, std::back_inserter(out), [](char c) { return c != ' '; });
  return out;
}

// What takes more than one word to see.
void check_phrases(const Source& source, std::size_t index, std::vector<Finding>& out) {
  const int line = static_cast<int>(index) + 1;
  const std::string code = squeezed(source.code[index]);
  if (source.header() && code.starts_with("usingnamespace")) {
    out.push_back({source.path, line, "using namespace in a header", "name what you need, in the .cpp"});
  }
  if (code.find("catch(...)") != std::string::npos) {
    out.push_back({source.path, line, "catch (...)",
                   "catch what you expect, as const std::exception&; the rest is a bug that should end the process"});
  }
  const bool conditional = code.starts_with("#if") || code.starts_with("#el");
  if (conditional && (source.under("src/model/") || source.under("src/engine/"))) {
    out.push_back({source.path, line, "a preprocessor condition",
                   "choose the device once, where a rank is made, behind the interface of ops or group"});
  }
  if (source.lines[index].find("NO"
                               "LINT") != std::string::npos) {
    out.push_back({source.path, line, "a silenced warning of clang-tidy",
                   "write it so that there is none, or turn the check off in .clang-tidy with a reason"});
  }
}

std::size_t characters(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// `what` at a place where no longer word or path goes on to its left.
bool begins_in(std::string_view line, std::string_view what, bool whole_word) {
  for (std::size_t at = line.find(what); at != std::string_view::npos; at = line.find(what, at + 1)) {
    const char before = at == 0 ? ' ' : line[at - 1];
    const char after = at + what.size() < line.size() ? line[at + what.size()] : ' ';
    if (in_word(before) || (!whole_word && (before == '.' || before == '/' || before == '}' || before == '-'))) continue;
    if (!whole_word || !in_word(after)) return true;
  }
  return false;
}

}  // namespace

std::vector<Finding> check_banned(const Source& source) {
  std::vector<Finding> out;
  for (std::size_t i = 0; i < source.code.size(); ++i) {
    check_phrases(source, i, out);
    for (const Word& word : words(source.code[i])) {
      for (const Ban& ban : bans()) {
        if (!matches(ban, word) || allowed(ban, source)) continue;
        out.push_back({source.path, static_cast<int>(i) + 1, fmt::format("{}", ban.word), std::string(ban.instead)});
      }
    }
  }
  return out;
}

std::vector<Finding> check_header(const Source& source) {
  if (!source.header()) return {};
  std::vector<Finding> out;
  bool once = false;
  for (std::size_t i = 0; i < source.code.size(); ++i) {
    const bool code = source.code[i].find_first_not_of(' ') != std::string::npos;
    const bool comment = !code && source.lines[i].find_first_not_of(' ') != std::string::npos;
    if (comment) break;
    if (!code) continue;
    if (!once && source.code[i].starts_with("#pragma once")) {
      once = true;
      continue;
    }
    out.push_back(
        {source.path, static_cast<int>(i) + 1, "code before the header's opening comment", "say in a line or two what the header is for"});
    break;
  }
  if (std::ranges::none_of(source.code, [](const std::string& line) { return line.starts_with("#pragma once"); })) {
    out.push_back({source.path, 1, "no #pragma once", "begin the header with it"});
  }
  return out;
}

std::vector<Finding> check_lengths(const Source& source) {
  constexpr std::size_t kColumnsMax = 140;
  constexpr std::size_t kLinesMax = 700;
  std::vector<Finding> out;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::size_t columns = characters(source.lines[i]);
    if (columns > kColumnsMax) {
      out.push_back(
          {source.path, static_cast<int>(i) + 1, fmt::format("{} columns", columns), fmt::format("break the line at {}", kColumnsMax)});
    }
  }
  if (source.lines.size() > kLinesMax) {
    out.push_back(
        {source.path, static_cast<int>(kLinesMax) + 1, fmt::format("{} lines", source.lines.size()), "split the file by meaning"});
  }
  return out;
}

std::vector<Finding> check_text(const Source& source) {
  // Written in two pieces, so that this file passes.
  constexpr std::array<std::string_view, 4> kNotes = {
      "TO"
      "DO",
      "FIX"
      "ME",
      "XX"
      "X",
      "HA"
      "CK"};
  constexpr std::array<std::string_view, 5> kPaths = {
      "/ho"
      "me/",
      "/ro"
      "ot/",
      "/Us"
      "ers/",
      "/wo"
      "rk/",
      "/works"
      "pace"};
  std::vector<Finding> out;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    for (const std::string_view note : kNotes) {
      if (begins_in(source.lines[i], note, true)) {
        out.push_back({source.path, static_cast<int>(i) + 1, std::string(note), "do it, or file an issue"});
      }
    }
    for (const std::string_view path : kPaths) {
      if (begins_in(source.lines[i], path, false)) {
        out.push_back({source.path, static_cast<int>(i) + 1, fmt::format("the path {}", path),
                       "name it from the root of the project, or take it as a flag"});
      }
    }
  }
  return out;
}

}  // namespace qwell::tidy
