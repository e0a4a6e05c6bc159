#pragma once
// A parsed template. Names of filters and tests are resolved: what is unknown was refused by the parser.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/builtins.h"
#include "text/jinja/value.h"

namespace qwell::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct CallArgument {
  enum class Form { kPositional, kNamed, kList, kDict };  // x, name=x, *x, **x
  Form form = Form::kPositional;
  std::string name;
  ExprPtr value;
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct Attribute {  // object.name
  ExprPtr object;
  std::string name;
};
struct Subscript {  // object[index]
  ExprPtr object;
  ExprPtr index;
};
struct Slice {  // object[start:stop:step]; each may be absent
  ExprPtr object;
  ExprPtr start;
  ExprPtr stop;
  ExprPtr step;
};
struct Call {
  ExprPtr callee;
  std::vector<CallArgument> arguments;
};
struct FilterUse {
  ExprPtr subject;  // null at the head of a chain that is given text: {% filter ... %}, {% set x | ... %}
  std::string name;
  Filter* filter;
  std::vector<CallArgument> arguments;
};
struct TestUse {
  ExprPtr subject;
  std::string name;
  Test* test;
  std::vector<CallArgument> arguments;
};
enum class UnaryOp { kNot, kMinus, kPlus };
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Binary {
  BinaryOp op;
  ExprPtr left;
  ExprPtr right;
};
struct Logical {  // and, or: one of the operands, as in Python
  bool is_and;
  ExprPtr left;
  ExprPtr right;
};
enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
struct Comparison {  // a < b < c is a < b and b < c
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct Concat {  // a ~ b ~ c
  std::vector<ExprPtr> parts;
};
struct Conditional {
  ExprPtr condition;
  ExprPtr then;
  ExprPtr otherwise;  // null: undefined
};
struct ListDisplay {
  SequenceKind kind;  // list or tuple
  std::vector<ExprPtr> items;
};
struct DictDisplay {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};

struct Expr {
  int line;
  int nesting;  // 1 for a leaf
  std::variant<Literal, Name, Attribute, Subscript, Slice, Call, FilterUse, TestUse, Unary, Binary, Logical, Comparison, Concat,
               Conditional, ListDisplay, DictDisplay>
      node;
};

struct Statement;
using Block = std::vector<Statement>;

// What an assignment or a loop assigns to: a name, an attribute of a namespace, or several of them.
struct Target {
  std::string name;       // empty: `parts`
  std::string attribute;  // empty: the name itself
  std::vector<Target> parts;
};

struct Data {  // text between the tags
  Text text;
};
struct Output {  // {{ }}
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExprPtr items;
  ExprPtr condition;  // null: none
  Block body;
  Block otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr filters;  // null: none
  Block body;
};
struct FilterBlock {
  ExprPtr filters;
  Block body;
};
struct MacroParameter {
  std::string name;
  ExprPtr fallback;  // null: undefined where it is not given
};
struct MacroDefinition {
  std::string name;
  std::vector<MacroParameter> parameters;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
  Block body;
};
struct DefineMacro {
  std::unique_ptr<const MacroDefinition> macro;
};
struct CallBlock {  // {% call(parameters) callee(arguments) %} body {% endcall %}
  std::unique_ptr<const MacroDefinition> caller;
  ExprPtr call;  // its node is a Call
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Data, Output, If, For, Set, SetBlock, FilterBlock, DefineMacro, CallBlock, With, Break, Continue> node;
};

}  // namespace qwell::jinja
