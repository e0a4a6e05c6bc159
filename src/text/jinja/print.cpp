#include "text/jinja/print.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text/unicode.h"

namespace qwell::jinja {

std::string print_integer(Int v) {
  if (v == 0) return "0";
  std::string digits;
  // Towards zero from below, since the lowest value has no positive counterpart.
  for (Int rest = v < 0 ? v : -v; rest != 0; rest /= 10) digits.push_back(static_cast<char>('0' - static_cast<int>(rest % 10)));
  if (v < 0) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string print_float(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v, std::chars_format::scientific).ptr;
  std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::string sign = text.front() == '-' ? "-" : "";
  text.remove_prefix(sign.size());
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), end, exponent);
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  if (exponent < -4 || exponent >= 16) {
    const std::string rest = digits.size() > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], rest, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

namespace {

bool printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (u_charType(static_cast<UChar32>(c))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_SPACE_SEPARATOR: return false;
    default: return true;
  }
}

std::string repr_escape(char32_t c, char quote) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (c == '\\' || c == static_cast<char32_t>(quote)) return {'\\', static_cast<char>(c)};
  const auto value = static_cast<std::uint32_t>(c);
  if (c < 0x100) return fmt::format("\\x{:02x}", value);
  return c < 0x10000 ? fmt::format("\\u{:04x}", value) : fmt::format("\\U{:08x}", value);
}

// Appends `text` with escape(c) for the characters that need(c).
template <class Need, class Escape>
void append_escaped(TextBuilder& out, const Text& text, Need need, Escape escape) {
  text.for_each_run([&](std::string_view bytes, bool trusted) {
    std::size_t done = 0;
    for (std::size_t i = 0; i < bytes.size();) {
      const Utf8Step step = next_valid_utf8(bytes, i);
      if (need(step.value)) {
        out.append(bytes.substr(done, i - done), trusted);
        out.append(escape(step.value), trusted);
        done = i + step.bytes;
      }
      i += step.bytes;
    }
    out.append(bytes.substr(done), trusted);
  });
}

void append_text_repr(TextBuilder& out, const Text& text) {
  const bool has_single = text.view().find('\'') != std::string_view::npos;
  const char quote = has_single && text.view().find('"') == std::string_view::npos ? '"' : '\'';
  out.append({&quote, 1}, true);
  append_escaped(
      out, text, [quote](char32_t c) { return c == static_cast<char32_t>(quote) || c == '\\' || !printable(c); },
      [quote](char32_t c) { return repr_escape(c, quote); });
  out.append({&quote, 1}, true);
}

// A namespace may hold itself, so printing counts its own levels.
void append_repr_at(TextBuilder& out, const Value& v, int level);

void append_items(TextBuilder& out, const std::vector<Value>& items, int level) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(", ", true);
    first = false;
    append_repr_at(out, item, level + 1);
  }
}

void append_sequence_repr(TextBuilder& out, const Sequence& s, int level) {
  switch (s.kind) {
    case SequenceKind::kTuple:
      out.append("(", true);
      append_items(out, s.items, level);
      out.append(s.items.size() == 1 ? ",)" : ")", true);
      return;
    case SequenceKind::kKeys: out.append("dict_keys(", true); break;
    case SequenceKind::kValues: out.append("dict_values(", true); break;
    case SequenceKind::kItems: out.append("dict_items(", true); break;
    case SequenceKind::kGenerator: out.append("<generator object>", true); return;
    case SequenceKind::kRange: {
      // range(start, stop, step) from its items: the stop that was given is not kept, an equal one is printed.
      const Int start = s.items.empty() ? 0 : s.items.front().integer();
      const Int step = s.items.size() < 2 ? 1 : s.items[1].integer() - start;
      const Int stop = s.items.empty() ? 0 : s.items.back().integer() + (step > 0 ? 1 : -1);
      out.append(fmt::format("range({}, {}", print_integer(start), print_integer(stop)), true);
      out.append(step == 1 ? ")" : fmt::format(", {})", print_integer(step)), true);
      return;
    }
    case SequenceKind::kList: break;
  }
  out.append("[", true);
  append_items(out, s.items, level);
  out.append(s.kind == SequenceKind::kList ? "]" : "])", true);
}

void append_dict_repr(TextBuilder& out, const Dict& dict, int level) {
  out.append("{", true);
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!first) out.append(", ", true);
    first = false;
    append_repr_at(out, key, level + 1);
    out.append(": ", true);
    append_repr_at(out, value, level + 1);
  }
  out.append("}", true);
}

void append_repr_at(TextBuilder& out, const Value& v, int level) {
  if (level > kValueNestingMax + 1) raise_limit("nested values", kValueNestingMax);
  switch (v.kind()) {
    case Kind::kUndefined: out.append("Undefined", true); return;
    case Kind::kNone: out.append("None", true); return;
    case Kind::kBool: out.append(v.boolean() ? "True" : "False", true); return;
    case Kind::kInt: out.append(print_integer(v.integer()), true); return;
    case Kind::kFloat: out.append(print_float(v.number()), true); return;
    case Kind::kText: append_text_repr(out, v.text()); return;
    case Kind::kSequence: append_sequence_repr(out, v.sequence(), level); return;
    case Kind::kDict: append_dict_repr(out, v.dict(), level); return;
    case Kind::kNamespace:
      out.append("<Namespace ", true);
      append_dict_repr(out, v.name_space().attributes, level);
      out.append(">", true);
      return;
    case Kind::kLoop: out.append(fmt::format("<LoopContext {}/{}>", v.loop().index + 1, v.loop().items->items.size()), true); return;
    default: out.append(fmt::format("<{}>", type_name(v)), true); return;
  }
}

}  // namespace

void append_repr(TextBuilder& out, const Value& v) { append_repr_at(out, v, 0); }

void append_str(TextBuilder& out, const Value& v) {
  if (v.is(Kind::kText)) return out.append(v.text());
  if (v.is(Kind::kUndefined)) return;
  append_repr(out, v);
}

Text to_str(const Value& v) {
  if (v.is(Kind::kText)) return v.text();
  TextBuilder out;
  append_str(out, v);
  return out.build();
}

Text to_repr(const Value& v) {
  TextBuilder out;
  append_repr(out, v);
  return out.build();
}

namespace {

std::string json_escape(char32_t c) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\f': return "\\f";
    case '\b': return "\\b";
    default: break;
  }
  const auto value = static_cast<std::uint32_t>(c);
  if (value < 0x10000) return fmt::format("\\u{:04x}", value);
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((value - 0x10000) >> 10), 0xDC00 + ((value - 0x10000) & 0x3FF));
}

void append_json_text(TextBuilder& out, const Text& text, const JsonStyle& style) {
  const char32_t last_plain = style.ensure_ascii ? 0x7E : 0x10FFFF;
  out.append("\"", true);
  append_escaped(
      out, text, [last_plain](char32_t c) { return c < 0x20 || c == '"' || c == '\\' || c > last_plain; }, json_escape);
  out.append("\"", true);
}

std::string json_number(const Value& v) {
  if (v.is(Kind::kInt)) return print_integer(v.integer());
  const double number = v.number();
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return print_float(number);
}

Text json_key(const Value& key) {
  switch (key.kind()) {
    case Kind::kText: return key.text();
    case Kind::kNone: return Text("null", true);
    case Kind::kBool: return Text(key.boolean() ? "true" : "false", true);
    case Kind::kInt:
    case Kind::kFloat: return Text(json_number(key), true);
    default: raise("keys must be str, int, float, bool or None, not {}", type_name(key));
  }
}

void append_line_start(TextBuilder& out, const JsonStyle& style, int level) {
  if (!style.indent) return;
  out.append("\n", true);
  for (int i = 0; i < level; ++i) out.append(*style.indent);
}

void append_json_items(TextBuilder& out, const std::vector<Value>& items, const JsonStyle& style, int level) {
  if (items.empty()) return out.append("[]", true);
  out.append("[", true);
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(style.item_separator);
    first = false;
    append_line_start(out, style, level + 1);
    append_json(out, item, style, level + 1);
  }
  append_line_start(out, style, level);
  out.append("]", true);
}

void append_json_dict(TextBuilder& out, const Dict& dict, const JsonStyle& style, int level) {
  if (dict.size() == 0) return out.append("{}", true);
  std::vector<const Dict::Entry*> entries;
  for (const auto& entry : dict.entries()) entries.push_back(&entry);
  if (style.sort_keys) {
    for (const auto* entry : entries) {
      if (!entry->first.is(Kind::kText)) raise("tojson sorts keys of type str only, got {}", type_name(entry->first));
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto* a, const auto* b) { return a->first.text().view() < b->first.text().view(); });
  }
  out.append("{", true);
  bool first = true;
  for (const auto* entry : entries) {
    if (!first) out.append(style.item_separator);
    first = false;
    append_line_start(out, style, level + 1);
    append_json_text(out, json_key(entry->first), style);
    out.append(style.key_separator);
    append_json(out, entry->second, style, level + 1);
  }
  append_line_start(out, style, level);
  out.append("}", true);
}

}  // namespace

void append_json(TextBuilder& out, const Value& v, const JsonStyle& style, int level) {
  switch (v.kind()) {
    case Kind::kNone: return out.append("null", true);
    case Kind::kBool: return out.append(v.boolean() ? "true" : "false", true);
    case Kind::kInt:
    case Kind::kFloat: return out.append(json_number(v), true);
    case Kind::kText: return append_json_text(out, v.text(), style);
    case Kind::kDict: return append_json_dict(out, v.dict(), style, level);
    case Kind::kSequence:
      if (v.sequence().kind == SequenceKind::kList || v.sequence().kind == SequenceKind::kTuple) {
        return append_json_items(out, v.sequence().items, style, level);
      }
      break;
    default: break;
  }
  raise("Object of type {} is not JSON serializable", type_name(v));
}

}  // namespace qwell::jinja
