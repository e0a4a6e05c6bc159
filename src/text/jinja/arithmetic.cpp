#include <cmath>
#include <limits>

#include "text/jinja/operations.h"
#include "text/jinja/text_format.h"

namespace qwell::jinja {
namespace {

std::string_view symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd: return "+";
    case BinaryOp::kSubtract: return "-";
    case BinaryOp::kMultiply: return "*";
    case BinaryOp::kDivide: return "/";
    case BinaryOp::kFloorDivide: return "//";
    case BinaryOp::kModulo: return "%";
    case BinaryOp::kPower: return "** or pow()";
  }
  return "?";
}

[[noreturn]] void raise_overflow() { raise("integer result is too large"); }

Int checked_multiply(Int a, Int b) {
  Int out = 0;
  if (__builtin_mul_overflow(a, b, &out)) raise_overflow();
  return out;
}

Int floor_divide(Int a, Int b) {
  if (b == 0) raise("integer division or modulo by zero");
  if (b == -1) return checked_multiply(a, b);
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Int floor_modulo(Int a, Int b) {
  if (b == 0) raise("integer division or modulo by zero");
  if (b == -1) return 0;
  const Int rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value integer_power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) raise("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  Int result = 1;
  while (true) {
    if (exponent % 2 != 0) result = checked_multiply(result, base);
    exponent /= 2;
    if (exponent == 0) return result;
    base = base == 1 || base == 0 ? base : checked_multiply(base, base);
  }
}

Value integer_arithmetic(BinaryOp op, Int a, Int b) {
  Int out = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &out)) raise_overflow();
      return out;
    case BinaryOp::kSubtract:
      if (__builtin_sub_overflow(a, b, &out)) raise_overflow();
      return out;
    case BinaryOp::kMultiply: return checked_multiply(a, b);
    case BinaryOp::kDivide:
      if (b == 0) raise("division by zero");
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case BinaryOp::kFloorDivide: return floor_divide(a, b);
    case BinaryOp::kModulo: return floor_modulo(a, b);
    case BinaryOp::kPower: return integer_power(a, b);
  }
  return {};
}

double float_modulo(double a, double b) {
  if (b == 0.0) raise("float modulo by zero");
  const double rest = std::fmod(a, b);
  if (rest == 0.0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double float_floor_divide(double a, double b) {
  if (b == 0.0) raise("float floor division by zero");
  const double rest = float_modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0.0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

double float_power(double a, double b) {
  if (a == 0.0 && b < 0) raise("0.0 cannot be raised to a negative power");
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) raise("the power of a negative number with a fraction is not real");
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) raise("(34, 'Numerical result out of range')");
  return result;
}

Value float_arithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSubtract: return a - b;
    case BinaryOp::kMultiply: return a * b;
    case BinaryOp::kDivide:
      if (b == 0.0) raise("float division by zero");
      return a / b;
    case BinaryOp::kFloorDivide: return float_floor_divide(a, b);
    case BinaryOp::kModulo: return float_modulo(a, b);
    case BinaryOp::kPower: return float_power(a, b);
  }
  return {};
}

Value repeat(const Value& v, Int count, Environment& env) {
  const Int times = count < 0 ? 0 : count;
  if (v.is(Kind::kText)) {
    const Text& text = v.text();
    if (text.empty() || times == 0) return Text();
    if (times > static_cast<Int>(kTextBytesMax / text.size())) raise_limit("bytes in a string", kTextBytesMax);
    TextBuilder out;
    env.budget.charge(static_cast<std::uint64_t>(times));
    for (Int i = 0; i < times; ++i) out.append(text);
    return out.build();
  }
  const Sequence& s = v.sequence();
  if (s.items.empty() || times == 0) return make_sequence(s.kind, {});
  if (times > static_cast<Int>(kListItemsMax / s.items.size())) raise_limit("items in a list", kListItemsMax);
  env.budget.charge_items(static_cast<std::size_t>(times) * s.items.size());
  std::vector<Value> items;
  for (Int i = 0; i < times; ++i) items.insert(items.end(), s.items.begin(), s.items.end());
  return make_sequence(s.kind, std::move(items));
}

bool is_list_or_tuple(const Value& v) {
  return v.is(Kind::kSequence) && (v.sequence().kind == SequenceKind::kList || v.sequence().kind == SequenceKind::kTuple);
}

[[noreturn]] void raise_operands(BinaryOp op, const Value& a, const Value& b) {
  if (op == BinaryOp::kAdd && (a.is(Kind::kText) || is_list_or_tuple(a))) {
    raise("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a));
  }
  raise("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b));
}

}  // namespace

Value arithmetic(BinaryOp op, const Value& a, const Value& b, Environment& env) {
  // A string's own operators come before the other side is asked, as in Python.
  if (op == BinaryOp::kModulo && a.is(Kind::kText)) return printf_format(a.text(), b, env);
  if (a.is(Kind::kUndefined)) a.raise_undefined();
  if (b.is(Kind::kUndefined)) b.raise_undefined();
  if (a.is_integer() && b.is_integer()) return integer_arithmetic(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return float_arithmetic(op, a.number(), b.number());
  if (op == BinaryOp::kAdd && a.is(Kind::kText) && b.is(Kind::kText)) {
    TextBuilder out;
    out.append(a.text());
    out.append(b.text());
    return out.build();
  }
  if (op == BinaryOp::kAdd && is_list_or_tuple(a) && b.is(Kind::kSequence) && a.sequence().kind == b.sequence().kind) {
    env.budget.charge_items(a.sequence().items.size() + b.sequence().items.size());
    std::vector<Value> items = a.sequence().items;
    items.insert(items.end(), b.sequence().items.begin(), b.sequence().items.end());
    return make_sequence(a.sequence().kind, std::move(items));
  }
  if (op == BinaryOp::kMultiply) {
    if ((a.is(Kind::kText) || is_list_or_tuple(a)) && b.is_integer()) return repeat(a, b.integer(), env);
    if ((b.is(Kind::kText) || is_list_or_tuple(b)) && a.is_integer()) return repeat(b, a.integer(), env);
  }
  raise_operands(op, a, b);
}

Value negate(const Value& v) {
  if (v.is(Kind::kUndefined)) v.raise_undefined();
  if (v.is(Kind::kFloat)) return -v.number();
  if (!v.is_integer()) raise("bad operand type for unary -: '{}'", type_name(v));
  return checked_multiply(v.integer(), -1);
}

}  // namespace qwell::jinja
