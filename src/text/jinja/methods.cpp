// Methods of strings, dicts and lists.

#include <unicode/uchar.h>

#include <algorithm>
#include <map>

#include "text/jinja/builtins.h"
#include "text/jinja/lexer.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_format.h"
#include "text/jinja/text_functions.h"
#include "text/unicode.h"

namespace qwell::jinja {
namespace {

using TextMethod = Value(const Text& text, Arguments& a, Environment& env);

const Text& text_argument(const Value& v, std::string_view what) {
  if (!v.is(Kind::kText)) raise("{} must be str, not {}", what, type_name(v));
  return v.text();
}

template <Sides sides>
Value stripped(const Text& text, Arguments& a, Environment& env) {
  env.budget.charge_bytes(text.size());
  const Value chars = a.take_or("chars", {});
  a.done();
  return strip(text, sides, chars);
}

template <Case to>
Value cased(const Text& text, Arguments& a, Environment& env) {
  a.done();
  return change_case(text, to, env.budget);
}

template <Text function(const Text&, Budget&)>
Value plain(const Text& text, Arguments& a, Environment& env) {
  a.done();
  return function(text, env.budget);
}

template <Case to>
Value cased_as(const Text& text, Arguments& a, Environment&) {
  a.done();
  return is_cased_as(text, to);
}

// The part of the text that optional start and end arguments select, and where it begins, in characters; nothing when start is behind the
// end.
struct Part {
  Text text;
  Int begin = 0;
  bool exists = true;
};

Part part_of(const Text& text, Arguments& a, Environment& env) {
  const Value start = a.take_or("start", {});
  const Value end = a.take_or("end", {});
  a.done();
  if (start.is(Kind::kNone) && end.is(Kind::kNone)) return {text, 0, true};
  const Value part = slice_of(text, start, end, {}, env);
  Int begin = start.is(Kind::kNone) ? 0 : start.integer();
  const Int count = static_cast<Int>(text.num_chars());
  if (begin < 0) begin = std::max<Int>(0, begin + count);
  return {part.text(), begin, begin <= count};
}

template <bool at_start>
bool has_affix(const Text& text, const Value& affix) {
  const std::string_view bytes = text_argument(affix, at_start ? "startswith first arg" : "endswith first arg").view();
  return at_start ? text.view().starts_with(bytes) : text.view().ends_with(bytes);
}

template <bool at_start>
Value affixed(const Text& text, Arguments& a, Environment& env) {
  const Value affix = a.required("prefix");
  const Part part = part_of(text, a, env);
  if (affix.is(Kind::kSequence) && affix.sequence().kind == SequenceKind::kTuple) {
    const auto& items = affix.sequence().items;
    return part.exists && std::any_of(items.begin(), items.end(), [&](const Value& item) { return has_affix<at_start>(part.text, item); });
  }
  return has_affix<at_start>(part.text, affix) && part.exists;
}

template <bool at_start>
Value without_affix(const Text& text, Arguments& a, Environment&) {
  const Value affix = a.required("affix");
  a.done();
  const std::size_t bytes = text_argument(affix, "the argument").size();
  if (!has_affix<at_start>(text, affix)) return text;
  return at_start ? text.slice(bytes, text.size()) : text.slice(0, text.size() - bytes);
}

template <bool from_right>
Value split_text(const Text& text, Arguments& a, Environment& env) {
  const Value separator = a.take_or("sep", {});
  const Int splits_max = a.take_integer("maxsplit", -1);
  a.done();
  return make_list(from_right ? split_from_right(text, separator, splits_max, env.budget) : split(text, separator, splits_max, env.budget));
}

Value lines(const Text& text, Arguments& a, Environment& env) {
  const bool keep_ends = truth(a.take_or("keepends", false));
  a.done();
  return make_list(split_lines(text, keep_ends, env.budget));
}

template <bool from_right>
Value partitioned(const Text& text, Arguments& a, Environment& env) {
  const Value separator = a.required("sep");
  a.done();
  text_argument(separator, "the separator");
  std::vector<Value> halves = from_right ? split_from_right(text, separator, 1, env.budget) : split(text, separator, 1, env.budget);
  if (halves.size() == 2) {
    halves.insert(halves.begin() + 1, separator);
  } else {
    halves = from_right ? std::vector<Value>{Text(), Text(), text} : std::vector<Value>{text, Text(), Text()};
  }
  return make_sequence(SequenceKind::kTuple, std::move(halves));
}

Value replaced(const Text& text, Arguments& a, Environment&) {
  const Value from = a.required("old");
  const Value to = a.required("new");
  const Int count = a.take_integer("count", -1);
  a.done();
  return replace(text, text_argument(from, "replace() argument 1"), text_argument(to, "replace() argument 2"), count);
}

// Position in characters, or -1.
Int find_in(const Text& text, Arguments& a, Environment& env, bool from_right) {
  const Value needle = a.required("sub");
  const std::string_view bytes = text_argument(needle, "the argument").view();
  const Part part = part_of(text, a, env);
  if (!part.exists) return -1;
  std::size_t found = find_bytes(part.text.view(), bytes);
  if (from_right && found != std::string_view::npos) {
    const std::string reversed(part.text.view().rbegin(), part.text.view().rend());
    found = part.text.size() - bytes.size() - find_bytes(reversed, std::string(bytes.rbegin(), bytes.rend()));
  }
  if (found == std::string_view::npos) return -1;
  return part.begin + static_cast<Int>(part.text.slice(0, found).num_chars());
}

template <bool from_right>
Value found_at(const Text& text, Arguments& a, Environment& env) {
  return find_in(text, a, env, from_right);
}

template <bool from_right>
Value index_of(const Text& text, Arguments& a, Environment& env) {
  const Int found = find_in(text, a, env, from_right);
  if (found < 0) raise("substring not found");
  return found;
}

Value counted(const Text& text, Arguments& a, Environment& env) {
  const Value needle = a.required("sub");
  const std::string_view bytes = text_argument(needle, "the argument").view();
  const Part part = part_of(text, a, env);
  if (!part.exists) return Int{0};
  if (bytes.empty()) return integer(part.text.num_chars() + 1);
  Int count = 0;
  for (std::size_t i = find_bytes(part.text.view(), bytes); i != std::string_view::npos;
       i = find_bytes(part.text.view(), bytes, i + bytes.size())) {
    ++count;
  }
  return count;
}

Value joined(const Text& text, Arguments& a, Environment& env) {
  const Value items = a.required("iterable");
  a.done();
  const auto sequence = iterate(items, env);
  env.budget.charge_items(sequence->items.size());
  for (std::size_t i = 0; i < sequence->items.size(); ++i) {
    if (!sequence->items[i].is(Kind::kText)) raise("sequence item {}: expected str instance, {} found", i, type_name(sequence->items[i]));
  }
  return join(text, sequence->items);
}

Value formatted(const Text& text, Arguments& a, Environment& env) { return brace_format(text, a, env); }

Value padded(const Text& text, Arguments& a, std::size_t (*left)(std::size_t, Int)) {
  const Value width = a.required("width");
  const Value fill = a.take_or("fillchar", trusted(" "));
  a.done();
  if (!width.is_integer()) raise("'{}' object cannot be interpreted as an integer", type_name(width));
  return pad(text, width.integer(), text_argument(fill, "the fill character"), left);
}

Value to_left(const Text& text, Arguments& a, Environment&) {
  return padded(text, a, [](std::size_t, Int) { return std::size_t{0}; });
}
Value to_right(const Text& text, Arguments& a, Environment&) {
  return padded(text, a, [](std::size_t total, Int) { return total; });
}
Value to_middle(const Text& text, Arguments& a, Environment&) {
  return padded(text, a, [](std::size_t total, Int width) { return total / 2 + (total & static_cast<std::size_t>(width) & 1); });
}

Value zero_filled(const Text& text, Arguments& a, Environment&) {
  const Value width = a.required("width");
  a.done();
  if (!width.is_integer()) raise("'{}' object cannot be interpreted as an integer", type_name(width));
  const std::size_t sign = text.view().starts_with('-') || text.view().starts_with('+') ? 1 : 0;
  const Text digits = pad(text.slice(sign, text.size()), width.integer() - static_cast<Int>(sign), Text("0", true),
                          [](std::size_t total, Int) { return total; });
  TextBuilder out;
  out.append(text, 0, sign);
  out.append(digits);
  return out.build();
}

template <bool condition(UChar32)>
Value every(const Text& text, Arguments& a, Environment&) {
  a.done();
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Step step = next_valid_utf8(text.view(), i);
    if (!condition(static_cast<UChar32>(step.value))) return false;
    i += step.bytes;
  }
  return !text.empty();
}

bool is_space(UChar32 c) { return is_python_space(static_cast<char32_t>(c)); }
bool is_alpha(UChar32 c) { return u_isalpha(c) != 0; }
bool is_decimal(UChar32 c) { return u_charType(c) == U_DECIMAL_DIGIT_NUMBER; }
bool is_digit(UChar32 c) {
  const auto type = u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool is_numeric(UChar32 c) { return u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE) != U_NT_NONE; }
bool is_alnum(UChar32 c) { return is_alpha(c) || is_numeric(c); }

Value is_ascii(const Text& text, Arguments& a, Environment&) {
  a.done();
  return text.is_ascii();
}

const std::map<std::string_view, TextMethod*>& text_methods() {
  static const std::map<std::string_view, TextMethod*> kMethods = {{"strip", stripped<Sides::kBoth>},
                                                                   {"lstrip", stripped<Sides::kLeft>},
                                                                   {"rstrip", stripped<Sides::kRight>},
                                                                   {"upper", cased<Case::kUpper>},
                                                                   {"lower", cased<Case::kLower>},
                                                                   {"swapcase", cased<Case::kSwapped>},
                                                                   {"title", plain<title>},
                                                                   {"capitalize", plain<capitalize>},
                                                                   {"isupper", cased_as<Case::kUpper>},
                                                                   {"islower", cased_as<Case::kLower>},
                                                                   {"startswith", affixed<true>},
                                                                   {"endswith", affixed<false>},
                                                                   {"removeprefix", without_affix<true>},
                                                                   {"removesuffix", without_affix<false>},
                                                                   {"split", split_text<false>},
                                                                   {"rsplit", split_text<true>},
                                                                   {"splitlines", lines},
                                                                   {"partition", partitioned<false>},
                                                                   {"rpartition", partitioned<true>},
                                                                   {"replace", replaced},
                                                                   {"find", found_at<false>},
                                                                   {"rfind", found_at<true>},
                                                                   {"index", index_of<false>},
                                                                   {"rindex", index_of<true>},
                                                                   {"count", counted},
                                                                   {"join", joined},
                                                                   {"format", formatted},
                                                                   {"ljust", to_left},
                                                                   {"rjust", to_right},
                                                                   {"center", to_middle},
                                                                   {"zfill", zero_filled},
                                                                   {"isspace", every<is_space>},
                                                                   {"isalpha", every<is_alpha>},
                                                                   {"isalnum", every<is_alnum>},
                                                                   {"isdecimal", every<is_decimal>},
                                                                   {"isdigit", every<is_digit>},
                                                                   {"isnumeric", every<is_numeric>},
                                                                   {"isascii", is_ascii}};
  return kMethods;
}

Value call_dict_method(const Value& receiver, std::string_view name, Arguments& a, Environment& env) {
  const Dict& dict = receiver.dict();
  if (name == "get") {
    const Value key = a.required("key");
    const Value fallback = a.take_or("default", {});
    a.done();
    charge_key(key, env.budget);
    const Value* const found = dict.find(key);
    return found != nullptr ? *found : fallback;
  }
  a.done();
  if (name == "copy") return receiver;
  env.budget.charge_items(dict.size());
  std::vector<Value> out;
  for (const auto& [key, value] : dict.entries()) {
    out.push_back(name == "keys" ? key : name == "values" ? value : make_sequence(SequenceKind::kTuple, {key, value}));
  }
  return make_sequence(name == "keys"     ? SequenceKind::kKeys
                       : name == "values" ? SequenceKind::kValues
                                          : SequenceKind::kItems,
                       std::move(out));
}

Value call_list_method(const Value& receiver, std::string_view name, Arguments& a, Environment& env) {
  if (name == "copy") {
    a.done();
    return receiver;
  }
  const Value wanted = a.required("value");
  a.done();
  Int count = 0;
  const auto& items = receiver.sequence().items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!equal(items[i], wanted, env.budget)) continue;
    if (name == "index") return integer(i);
    ++count;
  }
  if (name == "index") raise("the value is not in the list");
  return count;
}

// loop.cycle(a, b, ...)
Value call_loop_method(const Value& receiver, Arguments& a) {
  if (a.positional().empty()) raise("no items for cycling given");
  return a.positional()[receiver.loop().index % a.positional().size()];
}

bool is_dict_method(std::string_view name) {
  return name == "get" || name == "items" || name == "keys" || name == "values" || name == "copy";
}

}  // namespace

bool is_method(std::string_view name) { return text_methods().contains(name) || is_dict_method(name) || name == "cycle"; }

bool has_method(const Value& receiver, std::string_view name) {
  switch (receiver.kind()) {
    case Kind::kText: return text_methods().contains(name);
    case Kind::kDict: return is_dict_method(name);
    case Kind::kLoop: return name == "cycle";
    case Kind::kSequence:
      switch (receiver.sequence().kind) {
        case SequenceKind::kList: return name == "index" || name == "count" || name == "copy";
        case SequenceKind::kTuple:
        case SequenceKind::kRange: return name == "index" || name == "count";
        default: return false;
      }
    default: return false;
  }
}

Value call_method(const Value& receiver, std::string_view name, Arguments& arguments, Environment& env) {
  switch (receiver.kind()) {
    case Kind::kText: {
      env.budget.charge_bytes(receiver.text().size());
      return text_methods().at(name)(receiver.text(), arguments, env);
    }
    case Kind::kDict: return call_dict_method(receiver, name, arguments, env);
    case Kind::kLoop: return call_loop_method(receiver, arguments);
    default: return call_list_method(receiver, name, arguments, env);
  }
}

}  // namespace qwell::jinja
