#pragma once
// Typed reading of one JSON object's fields. The first wrong field is kept; later reads then return their defaults. Null equals absent.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace qwell::server {

class FieldReader {
 public:
  explicit FieldReader(const json::object& object) : object_(object) {}

  bool ok() const { return !failure_; }
  const Failure& failure() const { return *failure_; }
  // Keeps the first.
  void fail(std::string_view param, std::string message);

  // Null when absent or null, or when an earlier field was wrong.
  const json::value* find(std::string_view name) const;

  bool boolean(std::string_view name, bool otherwise);
  std::string string(std::string_view name);
  const json::object* object(std::string_view name);
  const json::array* array(std::string_view name);
  // Integers beyond 64 bits are taken as the nearest that fits; 5.0 is an integer, 5.5 and "5" are not.
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  float number(std::string_view name, double low, double high, float otherwise, bool low_excluded = false);

 private:
  const json::object& object_;
  std::optional<Failure> failure_;
};

// The value as an integer by the rule above; nothing for another type.
std::optional<std::int64_t> as_integer(const json::value& value);
// "a string", "an array", ... for messages.
std::string_view kind_name(const json::value& value);

}  // namespace qwell::server
