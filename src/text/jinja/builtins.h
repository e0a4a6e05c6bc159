#pragma once
// Filters, tests and methods: what they need, and how they are found by name.

#include <ctime>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace qwell::jinja {

// The arguments of one call. A function first takes those it knows by name or place, then calls done().
class Arguments {
 public:
  Arguments() = default;
  Arguments(std::string_view callee, std::vector<Value> positional, std::vector<std::pair<std::string, Value>> named)
      : callee_(callee), positional_(std::move(positional)), named_(std::move(named)) {}

  // The next place, or the name; null when neither was given.
  const Value* take(std::string_view name);
  Value take_or(std::string_view name, Value fallback);
  Value required(std::string_view name);
  Int take_integer(std::string_view name, Int fallback);
  // Raises for arguments that nobody took.
  void done() const;

  const std::vector<Value>& positional() const { return positional_; }
  const std::vector<std::pair<std::string, Value>>& named() const { return named_; }
  // The arguments behind the first `count` places.
  Arguments rest(std::string_view callee, std::size_t count) const;

 private:
  std::string_view callee_;
  std::vector<Value> positional_;
  std::vector<std::pair<std::string, Value>> named_;
  std::size_t places_taken_ = 0;
  std::size_t names_taken_ = 0;
};

struct Environment {
  Budget budget;
  std::time_t now = 0;
};

using Filter = Value(const Value& subject, Arguments& arguments, Environment& env);
using Test = bool(const Value& subject, Arguments& arguments, Environment& env);

Filter* find_filter(std::string_view name);  // null: there is none
Test* find_test(std::string_view name);
std::optional<Global> find_global(std::string_view name);

// Filters of strings, and filters of lists (parts of find_filter).
Filter* find_text_filter(std::string_view name);
Filter* find_list_filter(std::string_view name);

// Whether any type has a method of this name.
bool is_method(std::string_view name);
// Whether this value has it.
bool has_method(const Value& receiver, std::string_view name);
Value call_method(const Value& receiver, std::string_view name, Arguments& arguments, Environment& env);

}  // namespace qwell::jinja
