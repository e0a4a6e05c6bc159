#include "text/jinja/text_functions.h"

#include <algorithm>

#include "text/jinja/lexer.h"
#include "text/jinja/operations.h"
#include "text/jinja/print.h"
#include "text/unicode.h"

namespace qwell::jinja {
namespace {

std::size_t char_begin_before(std::string_view text, std::size_t end) {
  std::size_t i = end - 1;
  while (i > 0 && (text[i] & 0xC0) == 0x80) --i;
  return i;
}

// Strings of `text` that lie between its separators, from left to right.
void add_piece(std::vector<Value>& out, const Text& text, std::size_t begin, std::size_t end, Budget& budget) {
  budget.charge_bytes(end - begin);
  if (out.size() >= kListItemsMax) raise_limit("items in a list", kListItemsMax);
  out.emplace_back(text.slice(begin, end));
}

const Text& separator_text(const Value& separator) {
  if (!separator.is(Kind::kText)) raise("must be str or None, not {}", type_name(separator));
  if (separator.text().empty()) raise("empty separator");
  return separator.text();
}

bool is_space_at(std::string_view text, std::size_t i) { return is_python_space(next_valid_utf8(text, i).value); }

std::size_t next_char(std::string_view text, std::size_t i) { return i + next_valid_utf8(text, i).bytes; }

std::size_t skip(std::string_view text, std::size_t i, bool spaces) {
  while (i < text.size() && is_space_at(text, i) == spaces) i = next_char(text, i);
  return i;
}

std::size_t skip_back(std::string_view text, std::size_t end, bool spaces) {
  while (end > 0) {
    const std::size_t i = char_begin_before(text, end);
    if (is_space_at(text, i) != spaces) break;
    end = i;
  }
  return end;
}

std::vector<Value> split_at_spaces(const Text& text, Int splits_max, Budget& budget) {
  std::vector<Value> out;
  const std::string_view bytes = text.view();
  for (std::size_t i = skip(bytes, 0, true); i < bytes.size(); i = skip(bytes, i, true)) {
    if (splits_max >= 0 && static_cast<Int>(out.size()) == splits_max) {
      add_piece(out, text, i, bytes.size(), budget);
      break;
    }
    const std::size_t end = skip(bytes, i, false);
    add_piece(out, text, i, end, budget);
    i = end;
  }
  return out;
}

std::vector<Value> split_at_spaces_from_right(const Text& text, Int splits_max, Budget& budget) {
  std::vector<Value> out;
  const std::string_view bytes = text.view();
  for (std::size_t end = skip_back(bytes, bytes.size(), true); end > 0; end = skip_back(bytes, end, true)) {
    if (splits_max >= 0 && static_cast<Int>(out.size()) == splits_max) {
      add_piece(out, text, 0, end, budget);
      break;
    }
    const std::size_t begin = skip_back(bytes, end, false);
    add_piece(out, text, begin, end, budget);
    end = begin;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

Text strip(const Text& text, Sides sides, const Value& chars) {
  std::u32string set;
  const bool by_set = !chars.is(Kind::kNone);
  if (by_set) {
    if (!chars.is(Kind::kText)) raise("strip arg must be None or str, not {}", type_name(chars));
    const std::string_view bytes = chars.text().view();
    for (std::size_t i = 0; i < bytes.size(); i = next_char(bytes, i)) set.push_back(next_valid_utf8(bytes, i).value);
    std::sort(set.begin(), set.end());
  }
  const std::string_view bytes = text.view();
  const auto goes = [&](std::size_t i) {
    const char32_t c = next_valid_utf8(bytes, i).value;
    return by_set ? std::binary_search(set.begin(), set.end(), c) : is_python_space(c);
  };
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  if (sides != Sides::kRight) {
    while (begin < end && goes(begin)) begin = next_char(bytes, begin);
  }
  if (sides != Sides::kLeft) {
    while (end > begin) {
      const std::size_t last = char_begin_before(bytes, end);
      if (!goes(last)) break;
      end = last;
    }
  }
  return text.slice(begin, end);
}

std::vector<Value> split(const Text& text, const Value& separator, Int splits_max, Budget& budget) {
  if (separator.is(Kind::kNone)) return split_at_spaces(text, splits_max, budget);
  const Text& by = separator_text(separator);
  std::vector<Value> out;
  std::size_t begin = 0;
  while (splits_max < 0 || static_cast<Int>(out.size()) < splits_max) {
    const std::size_t found = find_bytes(text.view(), by.view(), begin);
    if (found == std::string_view::npos) break;
    add_piece(out, text, begin, found, budget);
    begin = found + by.size();
  }
  add_piece(out, text, begin, text.size(), budget);
  return out;
}

std::vector<Value> split_from_right(const Text& text, const Value& separator, Int splits_max, Budget& budget) {
  if (separator.is(Kind::kNone)) return split_at_spaces_from_right(text, splits_max, budget);
  const Text& by = separator_text(separator);
  // Matches that do not overlap are found from the right: on the reversed strings, to keep it linear.
  const std::string reversed(text.view().rbegin(), text.view().rend());
  const std::string needle(by.view().rbegin(), by.view().rend());
  std::vector<Value> out;
  std::size_t done = 0;
  while (splits_max < 0 || static_cast<Int>(out.size()) < splits_max) {
    const std::size_t found = find_bytes(reversed, needle, done);
    if (found == std::string_view::npos) break;
    add_piece(out, text, text.size() - found, text.size() - done, budget);
    done = found + needle.size();
  }
  add_piece(out, text, 0, text.size() - done, budget);
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Value> split_lines(const Text& text, bool keep_ends, Budget& budget) {
  std::vector<Value> out;
  const std::string_view bytes = text.view();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Step step = next_valid_utf8(bytes, i);
    const char32_t c = step.value;
    std::size_t end = i + step.bytes;
    const bool is_break = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (is_break) {
      if (c == '\r' && end < bytes.size() && bytes[end] == '\n') ++end;
      add_piece(out, text, begin, keep_ends ? end : i, budget);
      begin = end;
    }
    i = end;
  }
  if (begin < bytes.size()) add_piece(out, text, begin, bytes.size(), budget);
  return out;
}

Text replace(const Text& text, const Text& from, const Text& to, Int count) {
  TextBuilder out;
  const std::string_view bytes = text.view();
  std::size_t done = 0;
  if (from.empty()) {  // before every character and at the end
    for (Int left = count; left != 0; left -= left < 0 ? 0 : 1) {
      out.append(to);
      if (done >= bytes.size()) return out.build();
      const std::size_t end = next_char(bytes, done);
      out.append(text, done, end);
      done = end;
    }
  } else {
    for (Int left = count; left != 0; left -= left < 0 ? 0 : 1) {
      const std::size_t found = find_bytes(bytes, from.view(), done);
      if (found == std::string_view::npos) break;
      out.append(text, done, found);
      out.append(to);
      done = found + from.size();
    }
  }
  out.append(text, done, text.size());
  return out.build();
}

Text join(const Text& separator, const std::vector<Value>& items) {
  TextBuilder out;
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(separator);
    first = false;
    append_str(out, item);
  }
  return out.build();
}

Text pad(const Text& text, Int width, const Text& fill, std::size_t (*left)(std::size_t total, Int width)) {
  if (fill.num_chars() != 1) raise("The fill character must be exactly one character long");
  if (width > static_cast<Int>(kTextBytesMax)) raise_limit("bytes in a string", kTextBytesMax);
  const Int missing = width - static_cast<Int>(text.num_chars());
  if (missing <= 0) return text;
  const auto total = static_cast<std::size_t>(missing);
  const std::size_t before = left(total, width);
  TextBuilder out;
  for (std::size_t i = 0; i < before; ++i) out.append(fill);
  out.append(text);
  for (std::size_t i = before; i < total; ++i) out.append(fill);
  return out.build();
}

}  // namespace qwell::jinja
