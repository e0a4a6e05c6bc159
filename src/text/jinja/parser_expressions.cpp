#include <algorithm>

#include "text/jinja/parser_base.h"

namespace qwell::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData: return "text";
    case TokenKind::kBlockBegin: return "\"{%\"";
    case TokenKind::kBlockEnd: return "end of the tag";
    case TokenKind::kOutputBegin: return "\"{{\"";
    case TokenKind::kOutputEnd: return "end of the tag";
    case TokenKind::kString: return "a string";
    case TokenKind::kInteger:
    case TokenKind::kFloat: return "a number";
    case TokenKind::kEnd: return "end of the template";
    case TokenKind::kName:
    case TokenKind::kOperator: break;
  }
  return fmt::format("\"{}\"", token.text);
}

int nesting_of_arguments(const std::vector<CallArgument>& arguments) {
  int nesting = 0;
  for (const auto& argument : arguments) nesting = std::max(nesting, argument.value->nesting);
  return nesting;
}

}  // namespace

void ExpressionParser::unexpected() const { refuse(current().line, "unexpected " + describe(current())); }

bool ExpressionParser::skip_op(std::string_view op) {
  if (!at_op(op)) return false;
  advance();
  return true;
}

bool ExpressionParser::skip_word(std::string_view word) {
  if (!at_word(word)) return false;
  advance();
  return true;
}

void ExpressionParser::expect_op(std::string_view op) {
  if (!skip_op(op)) refuse(current().line, fmt::format("expected \"{}\", got {}", op, describe(current())));
}

void ExpressionParser::expect_word(std::string_view word) {
  if (!skip_word(word)) refuse(current().line, fmt::format("expected \"{}\", got {}", word, describe(current())));
}

std::string ExpressionParser::expect_name() {
  if (!at(TokenKind::kName)) refuse(current().line, "expected a name, got " + describe(current()));
  return advance().text;
}

int ExpressionParser::nesting_of(std::initializer_list<const Expr*> children) {
  int nesting = 0;
  for (const Expr* child : children) nesting = std::max(nesting, child == nullptr ? 0 : child->nesting);
  return nesting;
}

ExprPtr ExpressionParser::expression(bool with_condition) {
  const Level level(*this);
  return with_condition ? condition() : disjunction();
}

ExprPtr ExpressionParser::condition() {
  ExprPtr value = disjunction();
  while (at_word("if")) {
    const int line = advance().line;
    ExprPtr test = disjunction();
    ExprPtr otherwise;
    if (skip_word("else")) {
      const Level level(*this);
      otherwise = condition();
    }
    const int nesting = nesting_of({value.get(), test.get(), otherwise.get()});
    value = make_node(line, Conditional{std::move(test), std::move(value), std::move(otherwise)}, nesting);
  }
  return value;
}

ExprPtr ExpressionParser::disjunction() {
  ExprPtr left = conjunction();
  while (at_word("or")) {
    const int line = advance().line;
    ExprPtr right = conjunction();
    const int nesting = nesting_of({left.get(), right.get()});
    left = make_node(line, Logical{false, std::move(left), std::move(right)}, nesting);
  }
  return left;
}

ExprPtr ExpressionParser::conjunction() {
  ExprPtr left = negation();
  while (at_word("and")) {
    const int line = advance().line;
    ExprPtr right = negation();
    const int nesting = nesting_of({left.get(), right.get()});
    left = make_node(line, Logical{true, std::move(left), std::move(right)}, nesting);
  }
  return left;
}

ExprPtr ExpressionParser::negation() {
  if (!at_word("not")) return comparison();
  const Level level(*this);
  const int line = advance().line;
  ExprPtr operand = negation();
  const int nesting = operand->nesting;
  return make_node(line, Unary{UnaryOp::kNot, std::move(operand)}, nesting);
}

ExprPtr ExpressionParser::comparison() {
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {{"==", CompareOp::kEqual},        {"!=", CompareOp::kNotEqual},
                                                                    {"<=", CompareOp::kLessEqual},    {"<", CompareOp::kLess},
                                                                    {">=", CompareOp::kGreaterEqual}, {">", CompareOp::kGreater}};
  const int line = current().line;
  ExprPtr first = sum();
  int nesting = first->nesting;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
  while (true) {
    const auto* const op = std::find_if(std::begin(kOps), std::end(kOps), [this](const auto& o) { return at_op(o.first); });
    CompareOp compare = CompareOp::kIn;
    if (op != std::end(kOps)) {
      advance();
      compare = op->second;
    } else if (at_word("not") && is_word(look(), "in")) {
      advance();
      advance();
      compare = CompareOp::kNotIn;
    } else if (!skip_word("in")) {
      break;
    }
    rest.emplace_back(compare, sum());
    nesting = std::max(nesting, rest.back().second->nesting);
  }
  if (rest.empty()) return first;
  return make_node(line, Comparison{std::move(first), std::move(rest)}, nesting);
}

bool ExpressionParser::binary_operator(std::initializer_list<std::pair<std::string_view, BinaryOp>> ops, BinaryOp& op) {
  for (const auto& [text, value] : ops) {
    if (!skip_op(text)) continue;
    op = value;
    return true;
  }
  return false;
}

ExprPtr ExpressionParser::sum() {
  const int line = current().line;
  ExprPtr left = concatenation();
  BinaryOp op{};
  while (binary_operator({{"+", BinaryOp::kAdd}, {"-", BinaryOp::kSubtract}}, op)) {
    ExprPtr right = concatenation();
    const int nesting = nesting_of({left.get(), right.get()});
    left = make_node(line, Binary{op, std::move(left), std::move(right)}, nesting);
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  const int line = current().line;
  ExprPtr first = product();
  if (!at_op("~")) return first;
  int nesting = first->nesting;
  std::vector<ExprPtr> parts;
  parts.push_back(std::move(first));
  while (skip_op("~")) {
    parts.push_back(product());
    nesting = std::max(nesting, parts.back()->nesting);
  }
  return make_node(line, Concat{std::move(parts)}, nesting);
}

ExprPtr ExpressionParser::product() {
  const int line = current().line;
  ExprPtr left = power();
  BinaryOp op{};
  while (binary_operator({{"*", BinaryOp::kMultiply}, {"/", BinaryOp::kDivide}, {"//", BinaryOp::kFloorDivide}, {"%", BinaryOp::kModulo}},
                         op)) {
    ExprPtr right = power();
    const int nesting = nesting_of({left.get(), right.get()});
    left = make_node(line, Binary{op, std::move(left), std::move(right)}, nesting);
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  const int line = current().line;
  ExprPtr left = unary(true);
  while (skip_op("**")) {  // groups to the left, unlike in Python
    ExprPtr right = unary(true);
    const int nesting = nesting_of({left.get(), right.get()});
    left = make_node(line, Binary{BinaryOp::kPower, std::move(left), std::move(right)}, nesting);
  }
  return left;
}

// What follows a sign belongs to the sign's result: -x|abs is (-x)|abs.
ExprPtr ExpressionParser::unary(bool with_filter) {
  const Level level(*this);
  const int line = current().line;
  ExprPtr expr;
  if (at_op("-") || at_op("+")) {
    const UnaryOp op = advance().text == "-" ? UnaryOp::kMinus : UnaryOp::kPlus;
    ExprPtr operand = unary(false);
    const int nesting = operand->nesting;
    expr = make_node(line, Unary{op, std::move(operand)}, nesting);
  } else {
    expr = primary();
  }
  expr = postfix(std::move(expr));
  if (!with_filter) return expr;
  while (true) {
    if (at_op("|")) {
      expr = filter_chain(std::move(expr), false);
    } else if (at_word("is")) {
      expr = test(std::move(expr));
    } else if (at_op("(")) {
      expr = call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::kName: return name_or_constant();
    case TokenKind::kString: {
      std::string text;
      while (at(TokenKind::kString)) text += advance().text;
      return literal(token.line, trusted(std::move(text)));
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat: advance(); return literal(token.line, token.number);
    default: break;
  }
  if (at_op("[")) return list_display();
  if (at_op("{")) return dict_display();
  if (!skip_op("(")) unexpected();
  ExprPtr inner = tuple(true, true);
  expect_op(")");
  return inner;
}

ExprPtr ExpressionParser::name_or_constant() {
  const Token& token = advance();
  if (token.text == "true" || token.text == "True") return literal(token.line, true);
  if (token.text == "false" || token.text == "False") return literal(token.line, false);
  if (token.text == "none" || token.text == "None") return literal(token.line, {});
  if (!open_macros_.empty()) {
    if (token.text == "varargs") open_macros_.back()->uses_varargs = true;
    if (token.text == "kwargs") open_macros_.back()->uses_kwargs = true;
    if (token.text == "caller") open_macros_.back()->uses_caller = true;
  }
  return make(token.line, Name{token.text}, {});
}

bool ExpressionParser::at_tuple_end() const { return at(TokenKind::kOutputEnd) || at(TokenKind::kBlockEnd) || at_op(")"); }

ExprPtr ExpressionParser::tuple(bool with_condition, bool may_be_empty) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  int nesting = 0;
  bool is_tuple = false;
  while (!at_tuple_end()) {
    items.push_back(expression(with_condition));
    nesting = std::max(nesting, items.back()->nesting);
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return std::move(items.front());
  if (items.empty() && !may_be_empty) refuse(line, "expected an expression, got " + describe(current()));
  return make_node(line, ListDisplay{SequenceKind::kTuple, std::move(items)}, nesting);
}

ExprPtr ExpressionParser::list_display() {
  const int line = advance().line;
  std::vector<ExprPtr> items;
  int nesting = 0;
  while (!at_op("]")) {
    if (!items.empty()) expect_op(",");
    if (at_op("]")) break;
    items.push_back(expression());
    nesting = std::max(nesting, items.back()->nesting);
  }
  expect_op("]");
  return make_node(line, ListDisplay{SequenceKind::kList, std::move(items)}, nesting);
}

ExprPtr ExpressionParser::dict_display() {
  const int line = advance().line;
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
  int nesting = 0;
  while (!at_op("}")) {
    if (!items.empty()) expect_op(",");
    if (at_op("}")) break;
    if (at(TokenKind::kString)) attribute_names_.insert(current().text);
    ExprPtr key = expression();
    expect_op(":");
    ExprPtr value = expression();
    nesting = std::max(nesting, nesting_of({key.get(), value.get()}));
    items.emplace_back(std::move(key), std::move(value));
  }
  expect_op("}");
  return make_node(line, DictDisplay{std::move(items)}, nesting);
}

ExprPtr ExpressionParser::postfix(ExprPtr expr) {
  while (true) {
    if (at_op(".") || at_op("[")) {
      expr = subscript(std::move(expr));
    } else if (at_op("(")) {
      expr = call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr object) {
  const int line = current().line;
  const int nesting = object->nesting;
  if (skip_op(".")) {
    if (at(TokenKind::kInteger)) return make_node(line, Subscript{std::move(object), literal(line, advance().number)}, nesting);
    std::string name = expect_name();
    return make_node(line, Attribute{std::move(object), std::move(name)}, nesting);
  }
  expect_op("[");
  if (skip_op(":")) return slice(std::move(object), nullptr);
  ExprPtr index = expression();
  if (skip_op(":")) return slice(std::move(object), std::move(index));
  if (at_op(",")) {
    std::vector<ExprPtr> items;
    int inner = index->nesting;
    items.push_back(std::move(index));
    while (skip_op(",")) {
      if (at_op(":")) refuse(line, "unsupported slice in several dimensions");
      items.push_back(expression());
      inner = std::max(inner, items.back()->nesting);
    }
    index = make_node(line, ListDisplay{SequenceKind::kTuple, std::move(items)}, inner);
  }
  expect_op("]");
  const int both = std::max(nesting, index->nesting);
  return make_node(line, Subscript{std::move(object), std::move(index)}, both);
}

// Behind the first colon.
ExprPtr ExpressionParser::slice(ExprPtr object, ExprPtr start) {
  const int line = current().line;
  ExprPtr stop;
  ExprPtr step;
  if (!at_op(":") && !at_op("]")) stop = expression();
  if (skip_op(":") && !at_op("]")) step = expression();
  expect_op("]");
  const int nesting = nesting_of({object.get(), start.get(), stop.get(), step.get()});
  return make_node(line, Slice{std::move(object), std::move(start), std::move(stop), std::move(step)}, nesting);
}

std::vector<CallArgument> ExpressionParser::call_arguments() {
  using Form = CallArgument::Form;
  expect_op("(");
  std::vector<CallArgument> arguments;
  Form last = Form::kPositional;
  while (!at_op(")")) {
    if (!arguments.empty()) expect_op(",");
    if (at_op(")")) break;
    const int line = current().line;
    CallArgument argument;
    if (skip_op("*")) {
      argument.form = Form::kList;
    } else if (skip_op("**")) {
      argument.form = Form::kDict;
    } else if (at(TokenKind::kName) && is_op(look(), "=")) {
      argument.form = Form::kNamed;
      argument.name = advance().text;
      attribute_names_.insert(argument.name);
      advance();
    }
    const bool in_order = argument.form == Form::kPositional ? last == Form::kPositional
                          : argument.form == Form::kNamed    ? last != Form::kDict
                          : argument.form == Form::kList     ? last == Form::kPositional || last == Form::kNamed
                                                             : last != Form::kDict;
    if (!in_order) refuse(line, "arguments of a call are out of order");
    last = argument.form;
    argument.value = expression();
    arguments.push_back(std::move(argument));
  }
  expect_op(")");
  return arguments;
}

ExprPtr ExpressionParser::call(ExprPtr callee) {
  const int line = current().line;
  if (const auto* const name = std::get_if<Name>(&callee->node)) called_names_.emplace_back(line, name->name);
  if (const auto* const attribute = std::get_if<Attribute>(&callee->node)) called_attributes_.emplace_back(line, attribute->name);
  auto arguments = call_arguments();
  const int nesting = std::max(callee->nesting, nesting_of_arguments(arguments));
  return make_node(line, Call{std::move(callee), std::move(arguments)}, nesting);
}

// map, select and the like name a filter or a test themselves.
void ExpressionParser::check_named_function(int line, const std::string& filter, const std::vector<CallArgument>& arguments) const {
  const bool is_map = filter == "map";
  const bool by_attribute = filter == "selectattr" || filter == "rejectattr";
  if (!is_map && !by_attribute && filter != "select" && filter != "reject") return;
  const std::size_t place = by_attribute ? 1 : 0;
  if (arguments.size() <= place || arguments[place].form != CallArgument::Form::kPositional) return;
  const auto* const given = std::get_if<Literal>(&arguments[place].value->node);
  if (given == nullptr || !given->value.is(Kind::kText)) return;
  const std::string_view name = given->value.text().view();
  if (is_map && find_filter(name) == nullptr) refuse(line, fmt::format("unsupported filter \"{}\"", name));
  if (!is_map && find_test(name) == nullptr) refuse(line, fmt::format("unsupported test \"{}\"", name));
}

ExprPtr ExpressionParser::filter_chain(ExprPtr subject, bool at_name) {
  while (at_name || skip_op("|")) {
    at_name = false;
    const int line = current().line;
    std::string name = expect_name();
    while (skip_op(".")) name += "." + expect_name();
    Filter* const filter = find_filter(name);
    if (filter == nullptr) refuse(line, fmt::format("unsupported filter \"{}\"", name));
    std::vector<CallArgument> arguments;
    if (at_op("(")) arguments = call_arguments();
    check_named_function(line, name, arguments);
    const int nesting = std::max(nesting_of({subject.get()}), nesting_of_arguments(arguments));
    subject = make_node(line, FilterUse{std::move(subject), std::move(name), filter, std::move(arguments)}, nesting);
  }
  return subject;
}

ExprPtr ExpressionParser::test(ExprPtr subject) {
  const int line = advance().line;
  const bool negated = skip_word("not");
  std::string name = expect_name();
  while (skip_op(".")) name += "." + expect_name();
  Test* const found = find_test(name);
  if (found == nullptr) refuse(line, fmt::format("unsupported test \"{}\"", name));
  std::vector<CallArgument> arguments;
  const bool value_follows = at(TokenKind::kString) || at(TokenKind::kInteger) || at(TokenKind::kFloat) || at_op("[") || at_op("{") ||
                             (at(TokenKind::kName) && !at_word("else") && !at_word("or") && !at_word("and"));
  if (at_op("(")) {
    arguments = call_arguments();
  } else if (value_follows) {
    if (at_word("is")) refuse(line, "tests can't be chained with \"is\"");
    arguments.push_back({CallArgument::Form::kPositional, "", postfix(primary())});
  }
  const int nesting = std::max(subject->nesting, nesting_of_arguments(arguments));
  ExprPtr result = make_node(line, TestUse{std::move(subject), std::move(name), found, std::move(arguments)}, nesting);
  if (!negated) return result;
  const int inner = result->nesting;
  return make_node(line, Unary{UnaryOp::kNot, std::move(result)}, inner);
}

void ExpressionParser::check_called_names() const {
  for (const auto& [line, name] : called_names_) {
    if (find_global(name) || defined_names_.contains(name) || name == "caller") continue;
    refuse(line, fmt::format("unsupported function \"{}\"", name));
  }
  for (const auto& [line, name] : called_attributes_) {
    if (!is_method(name) && !attribute_names_.contains(name)) refuse(line, fmt::format("unsupported method \"{}\"", name));
  }
}

}  // namespace qwell::jinja
