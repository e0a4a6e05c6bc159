#pragma once
// Reading members of a JSON object with messages that name file and field. Used by the parsers of configuration files.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace qwell {

class ConfigFields {
 public:
  // `prefix` names the object within the file, like "text_config."; both must outlive this.
  ConfigFields(const json::object& object, std::string file, std::string prefix = {})
      : object_(&object), file_(std::move(file)), prefix_(std::move(prefix)) {}

  // Null and absent are the same.
  const json::value* find(std::string_view name) const {
    const json::value* value = object_->if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }

  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high) const {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    std::optional<std::int64_t> number;
    if (value->is_int64()) number = value->get_int64();
    if (value->is_double() && value->get_double() == std::floor(value->get_double()) && std::fabs(value->get_double()) < 1e15) {
      number = static_cast<std::int64_t>(value->get_double());  // some writers print 10000.0
    }
    if (!number || *number < low || *number > high) wrong(name, fmt::format("an integer from {} to {}", low, high));
    return number;
  }
  std::int64_t required_integer(std::string_view name, std::int64_t low, std::int64_t high) const {
    const auto value = integer(name, low, high);
    if (!value) missing(name, "an integer");
    return *value;
  }
  // Open interval at `low` if asked for.
  std::optional<double> number(std::string_view name, double low, double high, bool above_low = false) const {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    const double v = value->is_number() ? value->to_number<double>() : std::nan("");
    if (!(v >= low && v <= high) || (above_low && v == low)) {
      wrong(name, fmt::format("a number {} {} and at most {}", above_low ? "above" : "from", low, high));
    }
    return v;
  }
  std::optional<bool> boolean(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_bool()) wrong(name, "true or false");
    return value->get_bool();
  }
  std::optional<std::string> text(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) wrong(name, "a string");
    return std::string(value->get_string());
  }
  std::optional<ConfigFields> object(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_object()) wrong(name, "an object");
    return ConfigFields(value->get_object(), file_, prefix_ + std::string(name) + ".");
  }
  // A number, a list of numbers, or nothing.
  std::vector<std::int32_t> ids(std::string_view name, std::string_view wanted = "a token id or a list of token ids") const {
    std::vector<std::int32_t> out;
    const json::value* value = find(name);
    if (value == nullptr) return out;
    const auto add = [&](const json::value& v) {
      if (!v.is_int64() || v.get_int64() < 0 || v.get_int64() > INT32_MAX) wrong(name, wanted);
      out.push_back(static_cast<std::int32_t>(v.get_int64()));
    };
    if (value->is_array()) {
      for (const json::value& v : value->get_array()) add(v);
    } else {
      add(*value);
    }
    return out;
  }

  [[noreturn]] void wrong(std::string_view name, std::string_view wanted) const {
    const json::value* value = object_->if_contains(name);
    std::string seen = value == nullptr ? "nothing" : json_text(*value);
    if (seen.size() > 200) seen = seen.substr(0, 200) + "...";
    fail("{}: {}{}: {}, {} is wanted", file_, prefix_, name, seen, wanted);
  }
  [[noreturn]] void missing(std::string_view name, std::string_view wanted) const {
    fail("{}: {}{}: missing, {} is wanted", file_, prefix_, name, wanted);
  }
  const std::string& file() const { return file_; }
  const std::string& prefix() const { return prefix_; }

 private:
  static std::string json_text(const json::value& value) {
    JsonWriter w;
    w.value(value);
    return w.text();
  }

  const json::object* object_;
  std::string file_, prefix_;
};

}  // namespace qwell
