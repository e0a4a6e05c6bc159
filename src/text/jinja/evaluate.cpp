// Expressions.

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"
#include "text/jinja/print.h"

namespace qwell::jinja {

Value Interpreter::evaluate(const Expr& expr) {
  const Budget::Level level(env_.budget);
  env_.budget.charge(1);
  line_ = expr.line;
  return std::visit([this](const auto& node) { return evaluate(node); }, expr.node);
}

// New strings and lists cost by their size.
Value Interpreter::charged(Value v) {
  if (v.is(Kind::kText)) env_.budget.charge_bytes(v.text().size());
  return v;
}

Value Interpreter::evaluate(const Name& node) {
  if (const Value* const found = scope_->find(node.name)) return *found;
  if (const Value* const found = variables_.dict().find(node.name)) return *found;
  if (const auto global = find_global(node.name)) return *global;
  return undefined("'{}' is undefined", node.name);
}

Value Interpreter::evaluate(const Attribute& node) { return attribute_of(evaluate(*node.object), node.name); }

Value Interpreter::evaluate(const Subscript& node) {
  const Value object = evaluate(*node.object);
  return item_of(object, evaluate(*node.index), env_);
}

Value Interpreter::evaluate(const Slice& node) {
  const Value object = evaluate(*node.object);
  const Value start = optional(node.start);
  const Value stop = optional(node.stop);
  return slice_of(object, start, stop, optional(node.step), env_);
}

Arguments Interpreter::arguments_of(std::string_view callee, const std::vector<CallArgument>& given) {
  using Form = CallArgument::Form;
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  const auto add_named = [&](std::string name, Value value) {
    const bool there = std::any_of(named.begin(), named.end(), [&name](const auto& n) { return n.first == name; });
    if (there) raise("{}() got multiple values for keyword argument '{}'", callee, name);
    env_.budget.charge(1 + named.size());
    named.emplace_back(std::move(name), std::move(value));
  };
  for (const CallArgument& argument : given) {
    Value value = evaluate(*argument.value);
    if (argument.form == Form::kPositional) {
      positional.push_back(std::move(value));
    } else if (argument.form == Form::kNamed) {
      add_named(argument.name, std::move(value));
    } else if (argument.form == Form::kList) {
      const auto items = iterate(value, env_);
      env_.budget.charge_items(positional.size() + items->items.size());
      positional.insert(positional.end(), items->items.begin(), items->items.end());
    } else {
      if (!value.is(Kind::kDict)) raise("{}() argument after ** must be a mapping, not {}", callee, type_name(value));
      for (const auto& [key, item] : value.dict().entries()) {
        if (!key.is(Kind::kText)) raise("keywords must be strings");
        add_named(std::string(key.text().view()), item);
      }
    }
  }
  return {callee, std::move(positional), std::move(named)};
}

Value Interpreter::evaluate(const FilterUse& node) {
  const Value subject = node.subject != nullptr ? evaluate(*node.subject) : Value(*filtered_);
  if (subject.is(Kind::kText)) env_.budget.charge_bytes(subject.text().size());
  Arguments arguments = arguments_of(node.name, node.arguments);
  return charged(node.filter(subject, arguments, env_));
}

Value Interpreter::evaluate(const TestUse& node) {
  const Value subject = evaluate(*node.subject);
  Arguments arguments = arguments_of(node.name, node.arguments);
  return node.test(subject, arguments, env_);
}

Value Interpreter::evaluate(const Unary& node) {
  const Value operand = evaluate(*node.operand);
  if (node.op == UnaryOp::kNot) return !truth(operand);
  if (node.op == UnaryOp::kMinus) return negate(operand);
  if (operand.is(Kind::kUndefined)) operand.raise_undefined();
  if (!operand.is_number()) raise("bad operand type for unary +: '{}'", type_name(operand));
  return operand.is_integer() ? Value(operand.integer()) : operand;
}

Value Interpreter::evaluate(const Binary& node) {
  const Value left = evaluate(*node.left);
  const Value right = evaluate(*node.right);
  return charged(arithmetic(node.op, left, right, env_));
}

Value Interpreter::evaluate(const Logical& node) {
  Value left = evaluate(*node.left);
  return truth(left) == node.is_and ? evaluate(*node.right) : left;
}

Value Interpreter::evaluate(const Comparison& node) {
  Value left = evaluate(*node.first);
  for (const auto& [op, expr] : node.rest) {
    Value right = evaluate(*expr);
    if (!compare(op, left, right, env_.budget)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate(const Concat& node) {
  TextBuilder out;
  for (const ExprPtr& part : node.parts) append_str(out, evaluate(*part));
  return charged(out.build());
}

Value Interpreter::evaluate(const Conditional& node) {
  if (truth(evaluate(*node.condition))) return evaluate(*node.then);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise);
  return undefined("the inline if-expression evaluated to false and no else section was defined.");
}

Value Interpreter::evaluate(const ListDisplay& node) {
  std::vector<Value> items;
  for (const ExprPtr& item : node.items) items.push_back(evaluate(*item));
  return make_sequence(node.kind, std::move(items));
}

Value Interpreter::evaluate(const DictDisplay& node) {
  Dict dict;
  for (const auto& [key_expr, value_expr] : node.items) {
    const Value key = evaluate(*key_expr);
    charge_key(key, env_.budget);
    dict.set(key, evaluate(*value_expr));
  }
  return make_dict(std::move(dict));
}

Value Interpreter::evaluate(const Call& node) { return call_expression(node, nullptr); }

Value Interpreter::call_expression(const Call& node, const Value* caller) {
  if (const auto* const attribute = std::get_if<Attribute>(&node.callee->node)) {
    const Value receiver = evaluate(*attribute->object);
    if (has_method(receiver, attribute->name)) {
      Arguments arguments = arguments_of(attribute->name, node.arguments);
      if (caller != nullptr) raise("'{}' takes no caller", attribute->name);
      return charged(call_method(receiver, attribute->name, arguments, env_));
    }
    return call(attribute_of(receiver, attribute->name), arguments_of(attribute->name, node.arguments), caller);
  }
  const Value callee = evaluate(*node.callee);
  const auto* const name = std::get_if<Name>(&node.callee->node);
  const int line = line_;
  Arguments arguments = arguments_of(name != nullptr ? std::string_view(name->name) : "call", node.arguments);
  line_ = line;
  return call(callee, std::move(arguments), caller);
}

Value Interpreter::call(const Value& callee, Arguments arguments, const Value* caller) {
  switch (callee.kind()) {
    case Kind::kUndefined: callee.raise_undefined();
    case Kind::kMacro: {
      const Value keep = callee;  // the macro may replace the variable that holds it
      return call_macro(keep.macro(), std::move(arguments), caller);
    }
    case Kind::kMethod: return charged(call_method(callee.method().receiver, callee.method().name, arguments, env_));
    case Kind::kGlobal: return call_global(callee.global(), std::move(arguments));
    default: raise("'{}' object is not callable", type_name(callee));
  }
}

Value Interpreter::call_macro(const Macro& macro, Arguments arguments, const Value* caller) {
  const MacroDefinition& definition = *macro.definition;
  auto scope = std::make_shared<Scope>(macro.scope);
  std::vector<const Value*> given;
  for (const MacroParameter& parameter : definition.parameters) given.push_back(arguments.take(parameter.name));
  const std::size_t places = std::min(definition.parameters.size(), arguments.positional().size());
  if (definition.uses_varargs) {
    scope->set("varargs", make_sequence(SequenceKind::kTuple, arguments.rest(definition.name, places).positional()));
  } else if (arguments.positional().size() > places) {
    raise("macro '{}' takes not more than {} argument(s)", definition.name, definition.parameters.size());
  }
  Dict others;
  for (const auto& [name, value] : arguments.named()) {
    const auto is_parameter = [&name = name](const MacroParameter& p) { return p.name == name; };
    if (std::any_of(definition.parameters.begin(), definition.parameters.end(), is_parameter)) continue;
    if (!definition.uses_kwargs) raise("macro '{}' takes no keyword argument '{}'", definition.name, name);
    others.set(trusted(name), value);
  }
  if (definition.uses_kwargs) scope->set("kwargs", make_dict(std::move(others)));
  if (definition.uses_caller) scope->set("caller", caller != nullptr ? *caller : undefined("No caller defined"));
  if (caller != nullptr && !definition.uses_caller) raise("macro '{}' takes no caller", definition.name);

  const auto outer_scope = std::exchange(scope_, std::move(scope));
  TextBuilder out;
  TextBuilder* const outer_out = std::exchange(out_, &out);
  // No restoring on errors: they end the rendering.
  for (std::size_t i = 0; i < given.size(); ++i) {
    const MacroParameter& parameter = definition.parameters[i];
    if (given[i] != nullptr) {
      scope_->set(parameter.name, *given[i]);
    } else {
      scope_->set(parameter.name, parameter.fallback != nullptr ? evaluate(*parameter.fallback)
                                                                : undefined("parameter '{}' was not provided", parameter.name));
    }
  }
  execute(definition.body);
  out_ = outer_out;
  scope_ = outer_scope;
  return charged(out.build());
}

Value Interpreter::call_global(Global global, Arguments arguments) {
  switch (global) {
    case Global::kRange: return make_range(arguments);
    case Global::kNamespace: return make_namespace(arguments);
    case Global::kDict: return build_dict(arguments);
    case Global::kStrftimeNow: return format_now(arguments);
    case Global::kRaiseException: {
      const Value message = arguments.required("message");
      throw RenderError{FailureCode::kInvalidArgument, std::string(to_str(message).view()), true};
    }
  }
  return {};
}

Value Interpreter::make_range(Arguments& arguments) {
  const auto& given = arguments.positional();
  if (given.empty() || given.size() > 3 || !arguments.named().empty()) raise("range expected 1 to 3 arguments");
  for (const Value& v : given) {
    if (!v.is_integer()) raise("'{}' object cannot be interpreted as an integer", type_name(v));
  }
  const Int start = given.size() > 1 ? given[0].integer() : 0;
  const Int stop = given.size() > 1 ? given[1].integer() : given[0].integer();
  const Int step = given.size() > 2 ? given[2].integer() : 1;
  if (step == 0) raise("range() arg 3 must not be zero");
  constexpr Int kBound = Int{1} << 64;
  for (const Int v : {start, stop, step}) {
    if (v > kBound || v < -kBound) raise("integer result is too large");
  }
  const Int distance = step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  const Int count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  constexpr Int kRangeMax = 100'000;  // that of Jinja's sandbox
  if (count > kRangeMax) raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", static_cast<int>(kRangeMax));
  env_.budget.charge_items(static_cast<std::size_t>(count));
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(count));
  for (Int i = 0; i < count; ++i) items.emplace_back(start + i * step);
  return make_sequence(SequenceKind::kRange, std::move(items));
}

// dict(mapping or pairs, name=value...)
Value Interpreter::build_dict(Arguments& arguments) {
  Dict dict;
  if (arguments.positional().size() > 1) raise("dict expected at most 1 argument, got {}", arguments.positional().size());
  if (!arguments.positional().empty()) {
    const Value& from = arguments.positional().front();
    if (from.is(Kind::kDict)) {
      env_.budget.charge_items(from.dict().size());
      dict = from.dict();
    } else {
      const auto pairs = iterate(from, env_);
      env_.budget.charge_items(pairs->items.size());
      for (const Value& item : pairs->items) {
        const auto two = iterate(item, env_);
        if (two->items.size() != 2) raise("dictionary update sequence element has length {}; 2 is required", two->items.size());
        charge_key(two->items[0], env_.budget);
        dict.set(two->items[0], two->items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named()) dict.set(trusted(name), value);
  return make_dict(std::move(dict));
}

Value Interpreter::make_namespace(Arguments& arguments) {
  const Value attributes = build_dict(arguments);
  env_.budget.charge(32);  // they live until the end
  namespaces_.push_back(std::make_unique<Namespace>(Namespace{attributes.dict()}));
  return namespaces_.back().get();
}

Value Interpreter::format_now(Arguments& arguments) {
  const Value format = arguments.required("format");
  arguments.done();
  if (!format.is(Kind::kText)) raise("strftime() argument 1 must be str, not {}", type_name(format));
  const std::string pattern(format.text().view());
  if (pattern.size() > 256) raise("strftime_now: the format has {} bytes, at most 256 are allowed", pattern.size());
  std::tm local{};
  if (localtime_r(&env_.now, &local) == nullptr) raise("strftime_now: the time can't be told");
  std::array<char, 4096> out{};
  return trusted(std::string(out.data(), std::strftime(out.data(), out.size(), pattern.c_str(), &local)));
}

}  // namespace qwell::jinja
