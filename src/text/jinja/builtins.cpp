#include "text/jinja/builtins.h"

#include <algorithm>

namespace qwell::jinja {

const Value* Arguments::take(std::string_view name) {
  const auto named = std::find_if(named_.begin(), named_.end(), [name](const auto& n) { return n.first == name; });
  const bool has_place = places_taken_ < positional_.size();
  if (named == named_.end()) return has_place ? &positional_[places_taken_++] : nullptr;
  if (has_place) raise("{}() got multiple values for argument '{}'", callee_, name);
  ++names_taken_;
  return &named->second;
}

Value Arguments::take_or(std::string_view name, Value fallback) {
  const Value* const given = take(name);
  return given != nullptr ? *given : std::move(fallback);
}

Value Arguments::required(std::string_view name) {
  const Value* const given = take(name);
  if (given == nullptr) raise("{}() is missing its argument '{}'", callee_, name);
  return *given;
}

Int Arguments::take_integer(std::string_view name, Int fallback) {
  const Value* const given = take(name);
  if (given == nullptr) return fallback;
  if (!given->is_integer()) raise("{}(): '{}' must be an integer, got {}", callee_, name, type_name(*given));
  return given->integer();
}

void Arguments::done() const {
  if (places_taken_ < positional_.size()) raise("{}() takes {} arguments, {} were given", callee_, places_taken_, positional_.size());
  if (names_taken_ < named_.size()) raise("{}() got an unexpected keyword argument", callee_);
}

Arguments Arguments::rest(std::string_view callee, std::size_t count) const {
  const auto skipped = static_cast<std::ptrdiff_t>(std::min(count, positional_.size()));
  return {callee, {positional_.begin() + skipped, positional_.end()}, named_};
}

Filter* find_filter(std::string_view name) {
  Filter* const found = find_text_filter(name);
  return found != nullptr ? found : find_list_filter(name);
}

std::optional<Global> find_global(std::string_view name) {
  if (name == "range") return Global::kRange;
  if (name == "namespace") return Global::kNamespace;
  if (name == "dict") return Global::kDict;
  if (name == "raise_exception") return Global::kRaiseException;
  if (name == "strftime_now") return Global::kStrftimeNow;
  return std::nullopt;
}

}  // namespace qwell::jinja
