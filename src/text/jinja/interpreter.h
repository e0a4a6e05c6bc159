#pragma once
// Runs a parsed template once. Raises RenderError.

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"

namespace qwell::jinja {

// Variables of one block that has its own; a lookup goes on in the blocks around it.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> outer) : outer_(std::move(outer)) {}
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
  void clear();  // this scope and those around it

 private:
  std::shared_ptr<Scope> outer_;
  std::vector<std::pair<std::string_view, Value>> variables_;  // names are those of the tree
};

struct Macro {
  const MacroDefinition* definition = nullptr;
  std::shared_ptr<Scope> scope;  // where it was defined
};

class Interpreter {
 public:
  // `variables` is a dict; it and the block outlive the interpreter.
  Interpreter(const Block& block, const Value& variables, const Limits& limits, std::time_t now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Text run();
  // The line that was evaluated last.
  int line() const { return line_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Flow execute(const Block& block);
  Flow execute(const Data& node);
  Flow execute(const Output& node);
  Flow execute(const If& node);
  Flow execute(const For& node);
  Flow execute(const Set& node);
  Flow execute(const SetBlock& node);
  Flow execute(const FilterBlock& node);
  Flow execute(const DefineMacro& node);
  Flow execute(const CallBlock& node);
  Flow execute(const With& node);
  Flow execute(const Break&) { return Flow::kBreak; }
  Flow execute(const Continue&) { return Flow::kContinue; }
  std::shared_ptr<const Sequence> loop_items(const For& node);
  // A block's output as text; the block has a scope of its own.
  Text capture(const Block& block);
  void assign(const Target& target, const Value& value);
  void emit(const Text& text);

  Value evaluate(const Expr& expr);
  Value evaluate(const Literal& node) { return node.value; }
  Value evaluate(const Name& node);
  Value evaluate(const Attribute& node);
  Value evaluate(const Subscript& node);
  Value evaluate(const Slice& node);
  Value evaluate(const Call& node);
  Value evaluate(const FilterUse& node);
  Value evaluate(const TestUse& node);
  Value evaluate(const Unary& node);
  Value evaluate(const Binary& node);
  Value evaluate(const Logical& node);
  Value evaluate(const Comparison& node);
  Value evaluate(const Concat& node);
  Value evaluate(const Conditional& node);
  Value evaluate(const ListDisplay& node);
  Value evaluate(const DictDisplay& node);
  Value optional(const ExprPtr& expr) { return expr == nullptr ? Value() : evaluate(*expr); }
  // A chain of filters whose head has no subject, on `text`.
  Value filter_text(const Expr& chain, const Text& text);
  Arguments arguments_of(std::string_view callee, const std::vector<CallArgument>& given);

  Value call(const Value& callee, Arguments arguments, const Value* caller);
  Value call_expression(const Call& node, const Value* caller);
  Value call_global(Global global, Arguments arguments);
  Value call_macro(const Macro& macro, Arguments arguments, const Value* caller);
  Value make_range(Arguments& arguments);
  Value make_namespace(Arguments& arguments);
  Value build_dict(Arguments& arguments);
  Value format_now(Arguments& arguments);
  Value charged(Value v);

  const Block& block_;
  const Value& variables_;
  Environment env_;
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
  const Text* filtered_ = nullptr;  // the subject of the chain's head, while filter_text runs
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> captured_;  // by macros; emptied at the end, since both hold each other
  int line_ = 1;
};

}  // namespace qwell::jinja
