// Filters whose subject is used as a string or a number.

#include <cmath>
#include <map>

#include "text/jinja/builtins.h"
#include "text/jinja/numbers.h"
#include "text/jinja/print.h"
#include "text/jinja/text_format.h"
#include "text/jinja/text_functions.h"

namespace qwell::jinja {
namespace {

Value trim(const Value& v, Arguments& a, Environment&) {
  const Value chars = a.take_or("chars", {});
  a.done();
  return strip(to_str(v), Sides::kBoth, chars);
}

Value as_string(const Value& v, Arguments& a, Environment&) {
  a.done();
  return to_str(v);
}

Value upper(const Value& v, Arguments& a, Environment& env) {
  a.done();
  return change_case(to_str(v), Case::kUpper, env.budget);
}

Value lower(const Value& v, Arguments& a, Environment& env) {
  a.done();
  return change_case(to_str(v), Case::kLower, env.budget);
}

Value capitalized(const Value& v, Arguments& a, Environment& env) {
  a.done();
  return capitalize(to_str(v), env.budget);
}

Value titled(const Value& v, Arguments& a, Environment& env) {
  a.done();
  return title_by_words(to_str(v), env.budget);
}

Value replaced(const Value& v, Arguments& a, Environment&) {
  const Value from = a.required("old");
  const Value to = a.required("new");
  const Value count = a.take_or("count", {});
  a.done();
  if (!count.is(Kind::kNone) && !count.is_integer()) raise("replace(): count must be an integer, got {}", type_name(count));
  return replace(to_str(v), to_str(from), to_str(to), count.is(Kind::kNone) ? -1 : count.integer());
}

// No string of ours is marked as safe, so all are escaped.
Value escaped(const Value& v, Arguments& a, Environment&) {
  a.done();
  TextBuilder out;
  to_str(v).for_each_run([&out](std::string_view bytes, bool trusted) {
    for (const char c : bytes) {
      switch (c) {
        case '&': out.append("&amp;", trusted); break;
        case '<': out.append("&lt;", trusted); break;
        case '>': out.append("&gt;", trusted); break;
        case '\'': out.append("&#39;", trusted); break;
        case '"': out.append("&#34;", trusted); break;
        default: out.append({&c, 1}, trusted);
      }
    }
  });
  return out.build();
}

Text spaces(const Value& width) {
  if (width.is(Kind::kText)) return width.text();
  if (!width.is_integer()) raise("a width must be an integer or a string, got {}", type_name(width));
  if (width.integer() <= 0) return {};
  if (width.integer() > 1024) raise("a width of {} is too large, at most 1024 is allowed", print_integer(width.integer()));
  return Text(std::string(static_cast<std::size_t>(width.integer()), ' '), true);
}

Value indented(const Value& v, Arguments& a, Environment& env) {
  const Text indent = spaces(a.take_or("width", Int{4}));
  const bool first = truth(a.take_or("first", false));
  const bool blank = truth(a.take_or("blank", false));
  a.done();
  if (!v.is(Kind::kText)) raise("indent needs a string, got {}", type_name(v));
  TextBuilder with_end;
  with_end.append(v.text());
  with_end.append("\n", true);
  TextBuilder out;
  if (first) out.append(indent);
  bool is_first = true;
  for (const Value& line : split_lines(with_end.build(), false, env.budget)) {
    if (!is_first) {
      out.append("\n", true);
      if (blank || !line.text().empty()) out.append(indent);
    }
    is_first = false;
    out.append(line.text());
  }
  return out.build();
}

Value centered(const Value& v, Arguments& a, Environment&) {
  const Int width = a.take_integer("width", 80);
  a.done();
  return pad(to_str(v), width, Text(" ", true),
             [](std::size_t total, Int w) { return total / 2 + static_cast<std::size_t>(total & static_cast<std::size_t>(w) & 1); });
}

Value formatted(const Value& v, Arguments& a, Environment& env) {
  if (!a.positional().empty() && !a.named().empty()) raise("can't handle positional and keyword arguments at the same time");
  Value values = make_sequence(SequenceKind::kTuple, a.positional());
  if (!a.named().empty()) {
    Dict dict;
    for (const auto& [name, value] : a.named()) dict.set(trusted(name), value);
    values = make_dict(std::move(dict));
  }
  return printf_format(to_str(v), values, env);
}

Value json_text(const Value& v, Arguments& a, Environment&) {
  JsonStyle style;
  style.ensure_ascii = truth(a.take_or("ensure_ascii", false));
  const Value indent = a.take_or("indent", {});
  const Value separators = a.take_or("separators", {});
  style.sort_keys = truth(a.take_or("sort_keys", false));
  a.done();
  if (!indent.is(Kind::kNone)) style.indent = spaces(indent);
  style.item_separator = Text(style.indent ? "," : ", ", true);
  style.key_separator = Text(": ", true);
  if (!separators.is(Kind::kNone)) {
    const bool pair = separators.is(Kind::kSequence) && separators.sequence().items.size() == 2 &&
                      separators.sequence().items[0].is(Kind::kText) && separators.sequence().items[1].is(Kind::kText);
    if (!pair) raise("tojson(): separators must be two strings");
    style.item_separator = separators.sequence().items[0].text();
    style.key_separator = separators.sequence().items[1].text();
  }
  TextBuilder out;
  append_json(out, v, style);
  return out.build();
}

Value to_int(const Value& v, Arguments& a, Environment&) {
  const Value fallback = a.take_or("default", Int{0});
  const Int base = a.take_integer("base", 10);
  a.done();
  if (v.is_integer()) return v.integer();
  if (v.is(Kind::kFloat)) {
    if (std::isnan(v.number())) return fallback;
    return truncate(v.number());
  }
  if (v.is(Kind::kUndefined)) v.raise_undefined();
  if (!v.is(Kind::kText)) return fallback;
  if (const auto parsed = parse_integer(v.text().view(), base)) return *parsed;
  const auto number = parse_float(v.text().view());
  return number && std::isfinite(*number) ? Value(truncate(*number)) : fallback;
}

Value to_float(const Value& v, Arguments& a, Environment&) {
  const Value fallback = a.take_or("default", 0.0);
  a.done();
  if (v.is_number()) return v.number();
  if (v.is(Kind::kUndefined)) v.raise_undefined();
  if (!v.is(Kind::kText)) return fallback;
  const auto number = parse_float(v.text().view());
  return number ? Value(*number) : fallback;
}

Value absolute(const Value& v, Arguments& a, Environment&) {
  a.done();
  if (v.is(Kind::kUndefined)) v.raise_undefined();
  if (v.is(Kind::kFloat)) return std::fabs(v.number());
  if (!v.is_integer()) raise("bad operand type for abs(): '{}'", type_name(v));
  Int out = v.integer();
  if (out < 0 && __builtin_sub_overflow(Int{0}, out, &out)) raise("integer result is too large");
  return out;
}

Value rounded(const Value& v, Arguments& a, Environment&) {
  const Int precision = a.take_integer("precision", 0);
  const Value method = a.take_or("method", trusted("common"));
  a.done();
  if (v.is(Kind::kUndefined)) v.raise_undefined();
  const std::string_view name = method.is(Kind::kText) ? method.text().view() : std::string_view();
  if (name == "common") return round_number(v, precision, Rounding::kCommon);
  if (name == "ceil") return round_number(v, precision, Rounding::kCeil);
  if (name == "floor") return round_number(v, precision, Rounding::kFloor);
  raise("method must be common, ceil or floor");
}

Value fallback_value(const Value& v, Arguments& a, Environment&) {
  const Value fallback = a.take_or("default_value", Text());
  const bool also_false = truth(a.take_or("boolean", false));
  a.done();
  return v.is(Kind::kUndefined) || (also_false && !truth(v)) ? fallback : v;
}

}  // namespace

Filter* find_text_filter(std::string_view name) {
  static const std::map<std::string_view, Filter*> kFilters = {
      {"trim", trim},           {"string", as_string},       {"safe", as_string},   {"upper", upper},      {"lower", lower},
      {"title", titled},        {"capitalize", capitalized}, {"replace", replaced}, {"escape", escaped},   {"e", escaped},
      {"forceescape", escaped}, {"indent", indented},        {"center", centered},  {"format", formatted}, {"tojson", json_text},
      {"int", to_int},          {"float", to_float},         {"abs", absolute},     {"round", rounded},    {"default", fallback_value},
      {"d", fallback_value}};
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace qwell::jinja
