// The tests of `is`.

#include <map>

#include "text/jinja/builtins.h"
#include "text/jinja/operations.h"
#include "text/jinja/print.h"
#include "text/jinja/text_functions.h"

namespace qwell::jinja {
namespace {

template <bool condition(const Value&)>
bool simple(const Value& v, Arguments& a, Environment&) {
  a.done();
  return condition(v);
}

bool is_defined(const Value& v) { return !v.is(Kind::kUndefined); }
bool is_undefined(const Value& v) { return v.is(Kind::kUndefined); }
bool is_none(const Value& v) { return v.is(Kind::kNone); }
bool is_boolean(const Value& v) { return v.is(Kind::kBool); }
bool is_true(const Value& v) { return v.is(Kind::kBool) && v.boolean(); }
bool is_false(const Value& v) { return v.is(Kind::kBool) && !v.boolean(); }
bool is_integer(const Value& v) { return v.is(Kind::kInt); }
bool is_float(const Value& v) { return v.is(Kind::kFloat); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is(Kind::kText); }
bool is_mapping(const Value& v) { return v.is(Kind::kDict); }
bool is_escaped(const Value&) { return false; }
// Undefined can be called, and only fails then.
bool is_callable(const Value& v) { return v.is(Kind::kMacro) || v.is(Kind::kMethod) || v.is(Kind::kGlobal) || v.is(Kind::kUndefined); }
bool is_lower(const Value& v) { return is_cased_as(to_str(v), Case::kLower); }
bool is_upper(const Value& v) { return is_cased_as(to_str(v), Case::kUpper); }

bool is_iterable(const Value& v) {
  return v.is(Kind::kUndefined) || v.is(Kind::kText) || v.is(Kind::kSequence) || v.is(Kind::kDict) || v.is(Kind::kLoop);
}

// What has a length and can be indexed. Undefined counts: it has both, and only fails when used.
bool is_sequence(const Value& v) {
  if (v.is(Kind::kSequence)) {
    const SequenceKind kind = v.sequence().kind;
    return kind == SequenceKind::kList || kind == SequenceKind::kTuple || kind == SequenceKind::kRange;
  }
  return v.is(Kind::kUndefined) || v.is(Kind::kText) || v.is(Kind::kDict);
}

template <CompareOp op>
bool compared(const Value& v, Arguments& a, Environment& env) {
  const Value other = a.required("other");
  a.done();
  return compare(op, v, other, env.budget);
}

bool same_as(const Value& v, Arguments& a, Environment&) {
  const Value other = a.required("other");
  a.done();
  return v.same(other);
}

bool divides(const Value& v, const Value& by, Environment& env) {
  return equal(arithmetic(BinaryOp::kModulo, v, by, env), Int{0}, env.budget);
}

bool divisible_by(const Value& v, Arguments& a, Environment& env) {
  const Value by = a.required("num");
  a.done();
  return divides(v, by, env);
}

bool is_even(const Value& v, Arguments& a, Environment& env) {
  a.done();
  return divides(v, Int{2}, env);
}

bool is_odd(const Value& v, Arguments& a, Environment& env) {
  a.done();
  return equal(arithmetic(BinaryOp::kModulo, v, Int{2}, env), Int{1}, env.budget);
}

bool is_filter(const Value& v, Arguments& a, Environment&) {
  a.done();
  return v.is(Kind::kText) && find_filter(v.text().view()) != nullptr;
}

bool is_test(const Value& v, Arguments& a, Environment&) {
  a.done();
  return v.is(Kind::kText) && find_test(v.text().view()) != nullptr;
}

}  // namespace

Test* find_test(std::string_view name) {
  static const std::map<std::string_view, Test*> kTests = {{"defined", simple<is_defined>},
                                                           {"undefined", simple<is_undefined>},
                                                           {"none", simple<is_none>},
                                                           {"boolean", simple<is_boolean>},
                                                           {"true", simple<is_true>},
                                                           {"false", simple<is_false>},
                                                           {"integer", simple<is_integer>},
                                                           {"float", simple<is_float>},
                                                           {"number", simple<is_number>},
                                                           {"string", simple<is_string>},
                                                           {"mapping", simple<is_mapping>},
                                                           {"sequence", simple<is_sequence>},
                                                           {"iterable", simple<is_iterable>},
                                                           {"callable", simple<is_callable>},
                                                           {"escaped", simple<is_escaped>},
                                                           {"lower", simple<is_lower>},
                                                           {"upper", simple<is_upper>},
                                                           {"sameas", same_as},
                                                           {"divisibleby", divisible_by},
                                                           {"even", is_even},
                                                           {"odd", is_odd},
                                                           {"filter", is_filter},
                                                           {"test", is_test},
                                                           {"in", compared<CompareOp::kIn>},
                                                           {"eq", compared<CompareOp::kEqual>},
                                                           {"equalto", compared<CompareOp::kEqual>},
                                                           {"==", compared<CompareOp::kEqual>},
                                                           {"ne", compared<CompareOp::kNotEqual>},
                                                           {"!=", compared<CompareOp::kNotEqual>},
                                                           {"lt", compared<CompareOp::kLess>},
                                                           {"lessthan", compared<CompareOp::kLess>},
                                                           {"<", compared<CompareOp::kLess>},
                                                           {"le", compared<CompareOp::kLessEqual>},
                                                           {"<=", compared<CompareOp::kLessEqual>},
                                                           {"gt", compared<CompareOp::kGreater>},
                                                           {"greaterthan", compared<CompareOp::kGreater>},
                                                           {">", compared<CompareOp::kGreater>},
                                                           {"ge", compared<CompareOp::kGreaterEqual>},
                                                           {">=", compared<CompareOp::kGreaterEqual>}};
  const auto found = kTests.find(name);
  return found == kTests.end() ? nullptr : found->second;
}

}  // namespace qwell::jinja
