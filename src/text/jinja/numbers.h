#pragma once
// Python's int(), float() and round() of strings and numbers.

#include <optional>
#include <string_view>

#include "text/jinja/value.h"

namespace qwell::jinja {

// int(text, base) and float(text): nothing where Python raises. Integers beyond 128 bits raise.
std::optional<Int> parse_integer(std::string_view text, Int base);
std::optional<double> parse_float(std::string_view text);

Int truncate(double v);  // int(v): raises for what is no integer of 128 bits

enum class Rounding { kCommon, kCeil, kFloor };
Value round_number(const Value& v, Int precision, Rounding rounding);

}  // namespace qwell::jinja
