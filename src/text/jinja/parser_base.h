#pragma once
// What the parser of expressions and the parser of statements share.

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace qwell::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, std::string_view name, const Limits& limits)
      : name_(name), limits_(limits), tokens_(tokenize(source, name)) {}

 protected:
  // One more level of recursion, while the object lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.level_ > parser_.limits_.nesting_max) parser_.refuse_nesting(parser_.current().line);
    }
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  [[noreturn]] void refuse(int line, const std::string& message) const { fail("{}:{}: {}", name_, line, message); }
  [[noreturn]] void refuse_nesting(int line) const { refuse(line, fmt::format("nested deeper than the limit of {}", limits_.nesting_max)); }
  [[noreturn]] void unexpected() const;

  const Token& current() const { return tokens_[next_]; }
  const Token& look(std::size_t ahead = 1) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }
  const Token& advance() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }
  bool at(TokenKind kind) const { return current().kind == kind; }
  static bool is_op(const Token& token, std::string_view op) { return token.kind == TokenKind::kOperator && token.text == op; }
  static bool is_word(const Token& token, std::string_view word) { return token.kind == TokenKind::kName && token.text == word; }
  bool at_op(std::string_view op) const { return is_op(current(), op); }
  bool at_word(std::string_view word) const { return is_word(current(), word); }
  bool skip_op(std::string_view op);
  bool skip_word(std::string_view word);
  void expect_op(std::string_view op);
  void expect_word(std::string_view word);
  std::string expect_name();

  ExprPtr expression(bool with_condition = true);
  // One expression, or several with commas between them as a tuple. `end_word` ends it as well.
  ExprPtr tuple(bool with_condition = true, bool may_be_empty = false);
  ExprPtr filter_chain(ExprPtr subject, bool at_name);
  ExprPtr postfix(ExprPtr expr);
  ExprPtr primary();
  std::vector<CallArgument> call_arguments();
  ExprPtr literal(int line, Value value) { return make(line, Literal{std::move(value)}, {}); }

  template <class Node>
  ExprPtr make(int line, Node node, std::initializer_list<const Expr*> children) {
    return make_node(line, std::move(node), nesting_of(children));
  }
  template <class Node>
  ExprPtr make_node(int line, Node node, int nesting) {
    if (nesting + 1 > limits_.nesting_max) refuse_nesting(line);
    return std::make_unique<const Expr>(Expr{line, nesting + 1, std::move(node)});
  }
  static int nesting_of(std::initializer_list<const Expr*> children);

  // Refuses calls of names that nothing defines.
  void check_called_names() const;

  std::set<std::string, std::less<>> defined_names_;    // names that the template assigns
  std::set<std::string, std::less<>> attribute_names_;  // names that an attribute may have got from the template
  std::vector<MacroDefinition*> open_macros_;           // the macros that are being parsed, the innermost last

 private:
  ExprPtr condition();
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter);
  ExprPtr name_or_constant();
  ExprPtr list_display();
  ExprPtr dict_display();
  ExprPtr subscript(ExprPtr object);
  ExprPtr slice(ExprPtr object, ExprPtr start);
  ExprPtr call(ExprPtr callee);
  ExprPtr test(ExprPtr subject);
  bool at_tuple_end() const;
  bool binary_operator(std::initializer_list<std::pair<std::string_view, BinaryOp>> ops, BinaryOp& op);
  void check_named_function(int line, const std::string& filter, const std::vector<CallArgument>& arguments) const;

  std::string name_;
  Limits limits_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  int level_ = 0;
  std::vector<std::pair<int, std::string>> called_names_;
  std::vector<std::pair<int, std::string>> called_attributes_;
};

}  // namespace qwell::jinja
