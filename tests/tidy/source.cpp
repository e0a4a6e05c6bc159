#include "tidy/source.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/file.h"

namespace qwell::tidy {
namespace {

namespace fs = std::filesystem;

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// Blanks comments and the inside of literals. Line ends stay where they are.
class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text), out_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (starts("//")) {
        blank_to(line_end());
      } else if (starts("/*")) {
        blank_to(after("*/", at_ + 2));
      } else if (text_[at_] == '"') {
        raw() ? blank_raw() : blank_quoted('"');
      } else if (text_[at_] == '\'' && !(at_ > 0 && in_word(text_[at_ - 1]) && digit_separator())) {
        blank_quoted('\'');
      } else {
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  bool starts(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  std::size_t after(std::string_view what, std::size_t from) const {
    const std::size_t found = text_.find(what, from);
    return found == std::string_view::npos ? text_.size() : found + what.size();
  }
  // The end of a line; one that ends in a backslash goes on.
  std::size_t line_end() const {
    std::size_t end = at_;
    while (end < text_.size() && !(text_[end] == '\n' && text_[end - 1] != '\\')) ++end;
    return end;
  }
  // 1'000: the word before the quote begins with a digit. (u'x' does not.)
  bool digit_separator() const {
    std::size_t begin = at_;
    while (begin > 0 && (in_word(text_[begin - 1]) || text_[begin - 1] == '\'')) --begin;
    return std::isdigit(static_cast<unsigned char>(text_[begin])) != 0;
  }
  bool raw() const {
    if (at_ == 0 || text_[at_ - 1] != 'R') return false;
    std::size_t begin = at_ - 1;
    while (begin > 0 && in_word(text_[begin - 1])) --begin;
    constexpr std::array<std::string_view, 5> kPrefixes = {"R", "u8R", "uR", "UR", "LR"};
    return std::ranges::find(kPrefixes, text_.substr(begin, at_ - begin)) != kPrefixes.end();
  }
  void blank_raw() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return blank_to(text_.size());
    blank_to(after(")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"", open), 1);
  }
  void blank_quoted(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    blank_to(std::min(end + 1, text_.size()), 1);
  }
  // Up to `end`; the first and the last `kept` characters stay.
  void blank_to(std::size_t end, std::size_t kept = 0) {
    for (std::size_t i = at_ + kept; i + kept < end; ++i) {
      if (out_[i] != '\n') out_[i] = ' ';
    }
    at_ = end;
  }

  std::string_view text_;
  std::string out_;
  std::size_t at_ = 0;
};

bool cpp(const fs::path& path) {
  constexpr std::array<std::string_view, 5> kExtensions = {".cpp", ".h", ".inc", ".cu", ".cuh"};
  return std::ranges::find(kExtensions, path.extension().string()) != kExtensions.end();
}

bool text(const fs::path& path) {
  constexpr std::array<std::string_view, 9> kExtensions = {".cmake", ".txt", ".json", ".md", ".sh", ".py", ".toml", ".yml", ".yaml"};
  constexpr std::array<std::string_view, 4> kNames = {"Makefile", "run", ".clang-format", ".clang-tidy"};
  return cpp(path) || std::ranges::find(kExtensions, path.extension().string()) != kExtensions.end() ||
         std::ranges::find(kNames, path.filename().string()) != kNames.end();
}

void read_folder(const fs::path& root, const fs::path& folder, bool (*wanted)(const fs::path&), std::vector<Source>& out) {
  if (!fs::exists(root / folder)) return;
  for (auto it = fs::recursive_directory_iterator(root / folder); it != fs::recursive_directory_iterator(); ++it) {
    const fs::path path = it->path().lexically_relative(root);
    if (it->is_directory() && (path == "tests/data" || path.filename() == "__pycache__")) it.disable_recursion_pending();
    if (it->is_regular_file() && wanted(path)) out.push_back(parse_source(path.generic_string(), read_file(it->path())));
  }
}

void sort_by_path(std::vector<Source>& sources) { std::ranges::sort(sources, {}, &Source::path); }

std::string_view word_before(std::string_view code, std::size_t end) {
  while (end > 0 && code[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && in_word(code[begin - 1])) --begin;
  return code.substr(begin, end - begin);
}

void look_around(std::string_view code, Word& word) {
  const std::size_t begin = word.column;
  const std::string_view before = code.substr(0, begin);
  if (before.ends_with("::")) {
    const std::string_view scope = before.substr(0, begin - 2);
    word.qualifier = scope.ends_with('>') ? std::string_view(">") : word_before(scope, scope.size());
    if (word.qualifier.empty() || !scope.ends_with(word.qualifier)) word.qualifier = "::";
  } else {
    word.of_object = before.ends_with('.') || before.ends_with("->");
    constexpr std::array<std::string_view, 9> kStatements = {"return", "else", "do", "case", "throw", "and", "or", "not", "co_return"};
    const std::string_view previous = word_before(code, begin);
    word.declared = before.ends_with(' ') && !previous.empty() && std::ranges::find(kStatements, previous) == kStatements.end();
  }
  std::size_t next = begin + word.text.size();
  while (next < code.size() && code[next] == ' ') ++next;
  word.called = next < code.size() && code[next] == '(';
}

}  // namespace

bool Source::header() const { return path.ends_with(".h") || path.ends_with(".cuh"); }

std::string_view Source::module() const {
  const std::string_view view = path;
  if (!view.starts_with("src/")) return {};
  const std::size_t end = view.find('/', 4);
  return end == std::string_view::npos ? std::string_view{} : view.substr(4, end - 4);
}

bool Source::under(std::string_view folder) const { return folder.ends_with('/') ? path.starts_with(folder) : path == folder; }

Source parse_source(std::string path, std::string_view text) {
  Source source{.path = std::move(path), .lines = split_lines(text), .code = {}};
  source.code = cpp(source.path) ? split_lines(Blanker(text).run()) : source.lines;
  return source;
}

std::vector<Source> read_cpp_tree(const fs::path& root) {
  std::vector<Source> sources;
  for (const char* folder : {"src", "tests", "fuzz"}) read_folder(root, folder, cpp, sources);
  sort_by_path(sources);
  return sources;
}

std::vector<Source> read_text_tree(const fs::path& root) {
  std::vector<Source> sources;
  for (const char* folder : {"src", "tests", "fuzz", "cmake", "tools", "docs", ".ci"}) read_folder(root, folder, text, sources);
  for (const auto& entry : fs::directory_iterator(root)) {
    const fs::path name = entry.path().filename();
    if (entry.is_regular_file() && text(name)) sources.push_back(parse_source(name.generic_string(), read_file(entry.path())));
  }
  sort_by_path(sources);
  return sources;
}

std::vector<Word> words(std::string_view code) {
  std::vector<Word> found;
  for (std::size_t i = 0; i < code.size();) {
    if (!in_word(code[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < code.size() && in_word(code[end])) ++end;
    if (std::isdigit(static_cast<unsigned char>(code[i])) == 0) {
      Word& word = found.emplace_back(Word{.text = code.substr(i, end - i), .column = i});
      look_around(code, word);
    }
    i = end;
  }
  return found;
}

}  // namespace qwell::tidy
