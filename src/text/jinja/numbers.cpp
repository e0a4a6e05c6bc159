#include "text/jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/text_functions.h"

namespace qwell::jinja {
namespace {

// Without white space around it and without the underscores between digits; nothing when an underscore is elsewhere.
std::optional<std::string> plain_number(std::string_view text) {
  const Text stripped = strip(Text(std::string(text), true), Sides::kBoth);
  const std::string_view bytes = stripped.view();
  const auto is_digit = [&](std::size_t i) {
    return i < bytes.size() && ((bytes[i] >= '0' && bytes[i] <= '9') || ((bytes[i] | 0x20) >= 'a' && (bytes[i] | 0x20) <= 'z'));
  };
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '_') {
      out.push_back(bytes[i]);
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

std::optional<Int> parse_integer(std::string_view text, Int base) {
  const auto plain = plain_number(text);
  if (!plain || base < 0 || base > 36 || base == 1) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const Int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix != 0 && (base == prefix || base == 0)) {
      base = prefix;
      digits.remove_prefix(2);
    }
  }
  if (digits.empty()) return std::nullopt;
  if (base == 0) {
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string_view::npos) return std::nullopt;
    base = 10;
  }
  Int value = 0;
  for (const char c : digits) {
    const char lower = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, Int{digit}, &value)) raise("an integer is too large");
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  const auto plain = plain_number(text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  std::string word(digits);
  std::transform(word.begin(), word.end(), word.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = HUGE_VAL;
  } else if (word == "nan") {
    value = std::nan("");
  } else {
    // from_chars takes names and leaves the rest: only digits, a point and an exponent may be there, and all of it must be read.
    if (word.find_first_not_of("0123456789.e+-") != std::string::npos || word.empty() || word[0] == '-' || word[0] == '+')
      return std::nullopt;
    const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
    if (result.ec == std::errc::invalid_argument || result.ptr != word.data() + word.size()) return std::nullopt;
    if (result.ec == std::errc::result_out_of_range) value = word.find("e-") == std::string::npos ? HUGE_VAL : 0.0;
  }
  return negative ? -value : value;
}

Int truncate(double v) {
  if (std::isnan(v)) raise("cannot convert float NaN to integer");
  if (std::isinf(v)) raise("cannot convert float infinity to integer");
  if (std::fabs(v) >= 1.7e38) raise("integer result is too large");
  return static_cast<Int>(v);
}

namespace {

Int power_of_ten(Int exponent) {
  Int out = 1;
  for (; exponent > 0; --exponent) out *= 10;
  return out;
}

// To a multiple of 10^digits, halves to the even multiple.
Int round_integer(Int v, Int digits) {
  if (digits > 37) return 0;
  const Int unit = power_of_ten(digits);
  const Int half = unit / 2;
  const Int quotient = v / unit;
  const Int rest = v % unit;
  const Int size = rest < 0 ? -rest : rest;
  if (size < half || (size == half && quotient % 2 == 0)) return v - rest;
  Int out = 0;
  if (__builtin_add_overflow(v - rest, v < 0 ? -unit : unit, &out)) raise("integer result is too large");
  return out;
}

double round_float(double v, Int precision) {
  if (!std::isfinite(v) || precision > 330) return v;
  if (precision >= 0) {
    const std::string digits = fmt::format("{:.{}f}", v, static_cast<int>(precision));  // rounds the exact value, as Python does
    double out = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return out;
  }
  if (precision < -330) return std::copysign(0.0, v);
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::isinf(unit) ? std::copysign(0.0, v) : std::nearbyint(v / unit) * unit;
}

}  // namespace

Value round_number(const Value& v, Int precision, Rounding rounding) {
  if (!v.is_number()) raise("type {} doesn't define __round__ method", type_name(v));
  if (rounding == Rounding::kCommon) {
    if (!v.is_integer()) return round_float(v.number(), precision);
    return precision >= 0 ? v.integer() : round_integer(v.integer(), -precision);
  }
  const double unit = std::pow(10.0, static_cast<double>(std::clamp<Int>(precision, -400, 400)));
  const double scaled = v.number() * unit;
  if (!std::isfinite(scaled) || unit == 0.0) raise("cannot convert float infinity to integer");
  return (rounding == Rounding::kCeil ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

}  // namespace qwell::jinja
