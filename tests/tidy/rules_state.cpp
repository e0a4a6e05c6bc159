// The rule about variables that outlive a call. It follows braces and knows what each pair encloses; it is no parser.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tidy/rules.h"

namespace qwell::tidy {
namespace {

enum class Scope { kNamespace, kType, kBody };

// State that there is for a reason. Nothing else belongs here.
struct Allowed {
  std::string_view path;
  std::string_view name;
  std::string_view reason;
};
constexpr std::array<Allowed, 0> kAllowed = {};  // nothing so far

bool has(const std::vector<Word>& statement, std::initializer_list<std::string_view> any) {
  return std::ranges::any_of(statement, [&](const Word& word) { return std::ranges::find(any, word.text) != any.end(); });
}

class StateScan {
 public:
  explicit StateScan(const Source& source) : source_(source) {}

  std::vector<Finding> run() {
    bool continued = false;  // a line of a macro that goes on
    for (std::size_t i = 0; i < source_.code.size(); ++i) {
      const std::string& line = source_.code[i];
      const std::size_t first = line.find_first_not_of(' ');
      const bool directive = continued || (first != std::string::npos && line[first] == '#');
      continued = directive && line.ends_with('\\');
      if (directive) continue;
      for (const char c : line) take(c, static_cast<int>(i) + 1);
      statement_ += ' ';
    }
    return std::move(out_);
  }

 private:
  void take(char c, int line) {
    if (c == '{') {
      open(line);
    } else if (c == '}') {
      close();
    } else if (c == ';') {
      if (parentheses_ == 0) end_statement();
    } else {
      if (c == '(') ++parentheses_;
      if (c == ')') --parentheses_;
      if (statement_.find_first_not_of(' ') == std::string::npos) line_ = line;
      statement_ += c;
    }
  }

  Scope scope() const { return scopes_.empty() ? Scope::kNamespace : scopes_.back().scope; }

  void open(int line) {
    const Scope outer = scope();
    const std::vector<Word> head = words(statement_);
    Scope inner = Scope::kBody;
    if (outer == Scope::kNamespace && (has(head, {"namespace"}) || (head.size() == 1 && head[0].text == "extern"))) {
      inner = Scope::kNamespace;
    } else if (statement_.find('(') == std::string::npos && statement_.find('=') == std::string::npos &&
               has(head, {"class", "struct", "union"})) {
      inner = Scope::kType;
    }
    // A function or a namespace ends its statement with the brace; after a type or an initialiser it goes on to ';'.
    const bool ends = inner == Scope::kNamespace || (inner == Scope::kBody && !initialiser());
    scopes_.push_back({inner, ends ? std::string{} : statement_ + "{}", line_, parentheses_});
    statement_.clear();
    parentheses_ = 0;
    line_ = line;
  }

  // `std::atomic<int> n{`, `x = {`, but not `void f() {` nor `else {`.
  bool initialiser() const {
    const std::size_t first = statement_.find_first_not_of(' ');
    if (first == std::string::npos || statement_[first] == ',') return false;  // "," goes on with a constructor's members
    if (parentheses_ > 0) return true;
    const std::vector<Word> head = words(statement_);
    if (scope() == Scope::kBody) return has(head, {"static"});
    return !has(head, {"operator"}) && (statement_.find('(') == std::string::npos || statement_.find('=') < statement_.find('('));
  }

  void close() {
    if (scopes_.empty()) return;
    statement_ = std::move(scopes_.back().statement);
    line_ = scopes_.back().line;
    parentheses_ = scopes_.back().parentheses;
    scopes_.pop_back();
  }

  void end_statement() {
    judge(words(statement_));
    statement_.clear();
  }

  void judge(const std::vector<Word>& statement) {
    if (statement.empty() || has(statement, {"const", "constexpr", "consteval", "using", "typedef", "friend", "static_assert", "extern",
                                             "operator", "namespace"}))
      return;
    const bool fixed = has(statement, {"static", "thread_local"});
    if (scope() != Scope::kNamespace && !fixed) return;
    // A type, or an enumeration, without a variable after it: struct A; struct A {}; enum class B : int {};
    const bool type = has(statement, {"class", "struct", "union", "enum"});
    if (type && statement_.find('=') == std::string::npos && (statement_.find("{}") == std::string::npos || statement_.ends_with("{}")))
      return;
    if (has(statement, {"template", "concept", "requires"}) && !fixed) return;
    const std::size_t value = std::min(statement_.find('='), statement_.find('{'));
    if (statement_.find('(') < value) return;  // declares a function
    std::string_view name;
    for (const Word& word : statement) {
      if (word.column < value) name = word.text;
    }
    if (std::ranges::any_of(kAllowed, [&](const Allowed& a) { return source_.path == a.path && name == a.name; })) return;
    out_.push_back({source_.path, line_, fmt::format("the variable {} outlives the call and can change", name),
                    "make it a member of an object that its users are given, or const"});
  }

  struct Open {
    Scope scope;
    std::string statement;  // what goes on after the closing brace
    int line;
    int parentheses;
  };

  const Source& source_;
  std::vector<Open> scopes_;
  std::string statement_;
  int line_ = 1;
  int parentheses_ = 0;
  std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> check_state(const Source& source) { return StateScan(source).run(); }

}  // namespace qwell::tidy
