#include "text/jinja/parser.h"

#include "text/jinja/parser_base.h"

namespace qwell::jinja {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block whole() {
    Block block = body({});
    check_called_names();
    return block;
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  // Statements up to a tag that begins with one of the words, which becomes current; with no words, up to the template's end.
  Block body(Words end_words);
  // The same, and the tag itself is passed; only for tags that consist of one word.
  Block body_until(std::string_view end_word);
  // The same for a block whose output is a value: break and continue can't leave it.
  Block captured_body(std::string_view end_word);
  void statement(Block& out);
  void end_tag();

  void if_statement(Block& out, int line);
  void for_statement(Block& out, int line);
  void set_statement(Block& out, int line);
  void macro_statement(Block& out, int line);
  void call_statement(Block& out, int line);
  void filter_statement(Block& out, int line);
  void with_statement(Block& out, int line);
  void loop_control(Block& out, int line, bool is_break);
  std::vector<MacroParameter> macro_parameters();
  Target target(bool with_attributes);
  Target single_target(bool with_attributes);

  int loops_ = 0;
};

void Parser::end_tag() {
  if (!at(TokenKind::kBlockEnd)) unexpected();
  advance();
}

Block Parser::body(Words end_words) {
  const Level level(*this);
  Block out;
  while (!at(TokenKind::kEnd)) {
    const int line = current().line;
    if (at(TokenKind::kData)) {
      out.push_back({line, Data{Text(advance().text, true)}});
    } else if (at(TokenKind::kOutputBegin)) {
      advance();
      out.push_back({line, Output{tuple()}});
      if (!at(TokenKind::kOutputEnd)) unexpected();
      advance();
    } else {
      advance();  // the beginning of a block's tag
      for (const std::string_view word : end_words) {
        if (at_word(word)) return out;
      }
      statement(out);
    }
  }
  if (end_words.size() != 0) refuse(current().line, fmt::format("the template ends where \"{}\" is missing", *(end_words.end() - 1)));
  return out;
}

Block Parser::body_until(std::string_view end_word) {
  Block out = body({end_word});
  advance();
  end_tag();
  return out;
}

Block Parser::captured_body(std::string_view end_word) {
  const int loops = std::exchange(loops_, 0);
  Block out = body_until(end_word);
  loops_ = loops;
  return out;
}

void Parser::statement(Block& out) {
  const int line = current().line;
  const std::string tag = expect_name();
  if (tag == "if") return if_statement(out, line);
  if (tag == "for") return for_statement(out, line);
  if (tag == "set") return set_statement(out, line);
  if (tag == "macro") return macro_statement(out, line);
  if (tag == "call") return call_statement(out, line);
  if (tag == "filter") return filter_statement(out, line);
  if (tag == "with") return with_statement(out, line);
  if (tag == "break" || tag == "continue") return loop_control(out, line, tag == "break");
  if (tag == "generation") {  // marks what an assistant wrote, for training; here it is only its content
    end_tag();
    Block inner = body_until("endgeneration");
    out.push_back({line, With{{}, std::move(inner)}});
    return;
  }
  refuse(line, fmt::format("unsupported tag \"{}\"", tag));
}

void Parser::loop_control(Block& out, int line, bool is_break) {
  if (loops_ == 0) refuse(line, fmt::format("\"{}\" outside of a loop", is_break ? "break" : "continue"));
  end_tag();
  if (is_break) {
    out.push_back({line, Break{}});
  } else {
    out.push_back({line, Continue{}});
  }
}

void Parser::if_statement(Block& out, int line) {
  If result;
  while (true) {
    ExprPtr condition = tuple(false);
    end_tag();
    result.branches.emplace_back(std::move(condition), body({"elif", "else", "endif"}));
    const std::string word = advance().text;
    if (word == "elif") continue;
    if (word == "else") {
      end_tag();
      result.otherwise = body_until("endif");
    } else {
      end_tag();
    }
    break;
  }
  out.push_back({line, std::move(result)});
}

Target Parser::single_target(bool with_attributes) {
  if (skip_op("(")) {
    Target inner = target(with_attributes);
    expect_op(")");
    return inner;
  }
  Target result;
  const int line = current().line;
  result.name = expect_name();
  for (const char* const constant : {"true", "false", "none", "True", "False", "None"}) {
    if (result.name == constant) refuse(line, fmt::format("can't assign to \"{}\"", constant));
  }
  if (with_attributes && skip_op(".")) {
    result.attribute = expect_name();
    attribute_names_.insert(result.attribute);
  } else {
    defined_names_.insert(result.name);
  }
  return result;
}

Target Parser::target(bool with_attributes) {
  const Level level(*this);
  Target first = single_target(with_attributes);
  if (!at_op(",")) return first;
  Target result;
  result.parts.push_back(std::move(first));
  while (skip_op(",")) {
    if (!at(TokenKind::kName) && !at_op("(")) break;
    if (at_word("in")) break;
    result.parts.push_back(single_target(with_attributes));
  }
  return result;
}

void Parser::for_statement(Block& out, int line) {
  For result;
  result.target = target(false);
  expect_word("in");
  result.items = tuple(false);
  if (skip_word("if")) result.condition = expression();
  if (at_word("recursive")) refuse(line, "unsupported recursive loop");
  end_tag();
  ++loops_;
  result.body = body({"else", "endfor"});
  --loops_;
  const bool has_else = advance().text == "else";
  end_tag();
  if (has_else) result.otherwise = body_until("endfor");
  out.push_back({line, std::move(result)});
}

void Parser::set_statement(Block& out, int line) {
  Target to = target(true);
  if (skip_op("=")) {
    ExprPtr value = tuple();
    end_tag();
    out.push_back({line, Set{std::move(to), std::move(value)}});
    return;
  }
  ExprPtr filters = filter_chain(nullptr, false);
  end_tag();
  out.push_back({line, SetBlock{std::move(to), std::move(filters), captured_body("endset")}});
}

std::vector<MacroParameter> Parser::macro_parameters() {
  std::vector<MacroParameter> parameters;
  expect_op("(");
  while (!at_op(")")) {
    if (!parameters.empty()) expect_op(",");
    if (at_op(")")) break;
    MacroParameter parameter;
    const int line = current().line;
    parameter.name = expect_name();
    defined_names_.insert(parameter.name);
    if (skip_op("=")) {
      parameter.fallback = expression();
    } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
      refuse(line, "a parameter without a default follows one with a default");
    }
    parameters.push_back(std::move(parameter));
  }
  expect_op(")");
  return parameters;
}

void Parser::macro_statement(Block& out, int line) {
  auto macro = std::make_unique<MacroDefinition>();
  macro->name = expect_name();
  defined_names_.insert(macro->name);
  open_macros_.push_back(macro.get());
  macro->parameters = macro_parameters();
  end_tag();
  macro->body = captured_body("endmacro");
  open_macros_.pop_back();
  out.push_back({line, DefineMacro{std::move(macro)}});
}

void Parser::call_statement(Block& out, int line) {
  auto caller = std::make_unique<MacroDefinition>();
  caller->name = "caller";
  open_macros_.push_back(caller.get());
  if (at_op("(")) caller->parameters = macro_parameters();
  open_macros_.pop_back();
  ExprPtr call = postfix(primary());
  if (!std::holds_alternative<Call>(call->node)) refuse(line, "expected a call");
  end_tag();
  open_macros_.push_back(caller.get());
  caller->body = captured_body("endcall");
  open_macros_.pop_back();
  out.push_back({line, CallBlock{std::move(caller), std::move(call)}});
}

void Parser::filter_statement(Block& out, int line) {
  ExprPtr filters = filter_chain(nullptr, true);
  end_tag();
  out.push_back({line, FilterBlock{std::move(filters), captured_body("endfilter")}});
}

void Parser::with_statement(Block& out, int line) {
  With result;
  while (!at(TokenKind::kBlockEnd)) {
    if (!result.assignments.empty()) expect_op(",");
    Target to = single_target(false);
    expect_op("=");
    result.assignments.emplace_back(std::move(to), expression());
  }
  end_tag();
  result.body = body_until("endwith");
  out.push_back({line, std::move(result)});
}

}  // namespace

Block parse(std::string_view source, std::string_view name, const Limits& limits) {
  if (source.size() > limits.template_bytes_max) {
    fail("{}: the template has {} bytes, the limit is {}", name, source.size(), limits.template_bytes_max);
  }
  return Parser(source, name, limits).whole();
}

}  // namespace qwell::jinja
