#include "server/field_reader.h"

#include <cmath>

namespace qwell::server {

std::optional<std::int64_t> as_integer(const json::value& value) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  if (value.is_int64()) return value.get_int64();
  if (value.is_uint64()) return kMax;  // Boost.JSON uses this kind only beyond int64
  if (!value.is_double()) return std::nullopt;
  const double v = value.get_double();
  if (std::isnan(v) || std::trunc(v) != v) return std::nullopt;
  if (v >= 0x1p63) return kMax;
  if (v < -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(v);
}

std::string_view kind_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return "null";
    case json::kind::bool_: return "a boolean";
    case json::kind::int64:
    case json::kind::uint64: return "an integer";
    case json::kind::double_: return "a number with a fraction";
    case json::kind::string: return "a string";
    case json::kind::array: return "an array";
    case json::kind::object: return "an object";
  }
  return "something else";
}

void FieldReader::fail(std::string_view param, std::string message) {
  if (!failure_) failure_ = Failure{FailureCode::kInvalidArgument, std::move(message), std::string(param)};
}

const json::value* FieldReader::find(std::string_view name) const {
  if (failure_) return nullptr;
  const json::value* const value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool FieldReader::boolean(std::string_view name, bool otherwise) {
  const auto* const value = find(name);
  if (value == nullptr) return otherwise;
  if (value->is_bool()) return value->get_bool();
  fail(name, fmt::format("{} must be true or false, got {}", name, kind_name(*value)));
  return otherwise;
}

std::string FieldReader::string(std::string_view name) {
  const auto* const value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return std::string(value->get_string());
  fail(name, fmt::format("{} must be a string, got {}", name, kind_name(*value)));
  return {};
}

const json::object* FieldReader::object(std::string_view name) {
  const auto* const value = find(name);
  if (value == nullptr) return nullptr;
  if (value->is_object()) return &value->get_object();
  fail(name, fmt::format("{} must be an object, got {}", name, kind_name(*value)));
  return nullptr;
}

const json::array* FieldReader::array(std::string_view name) {
  const auto* const value = find(name);
  if (value == nullptr) return nullptr;
  if (value->is_array()) return &value->get_array();
  fail(name, fmt::format("{} must be an array, got {}", name, kind_name(*value)));
  return nullptr;
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const auto* const value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto v = as_integer(*value);
  if (!v) {
    fail(name, fmt::format("{} must be an integer, got {}", name, kind_name(*value)));
    return std::nullopt;
  }
  if (*v < low) fail(name, fmt::format("{} must be at least {}, got {}", name, low, *v));
  if (*v > high) fail(name, fmt::format("{} must be at most {}, got {}", name, high, *v));
  return v;
}

float FieldReader::number(std::string_view name, double low, double high, float otherwise, bool low_excluded) {
  const auto* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) {
    fail(name, fmt::format("{} must be a number, got {}", name, kind_name(*value)));
    return otherwise;
  }
  const auto v = value->to_number<double>();
  const auto rounded = static_cast<float>(v);
  // The rounded value is what counts: 1e-60 is 0 in a float.
  const bool above = low_excluded ? rounded > static_cast<float>(low) : v >= low;
  if (above && v <= high) return rounded;
  fail(name, fmt::format("{} must be in {}{}, {}], got {}", name, low_excluded ? '(' : '[', low, high, v));
  return otherwise;
}

}  // namespace qwell::server
