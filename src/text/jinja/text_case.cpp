// Upper, lower and title case of single characters, by ICU's full mappings without a locale.

#include <unicode/uchar.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <array>

#include "text/jinja/lexer.h"
#include "text/jinja/text_functions.h"
#include "text/unicode.h"

namespace qwell::jinja {
namespace {

enum class Form { kUpper, kLower, kTitle };

bool has(char32_t c, UProperty property) { return u_hasBinaryProperty(static_cast<UChar32>(c), property) != 0; }

// U+03A3 has another lower case at the end of a word: behind a cased letter, and before none.
bool is_final_sigma(std::string_view text, std::size_t i) {
  std::size_t before = i;
  bool cased_before = false;
  while (before > 0) {
    --before;
    while (before > 0 && (text[before] & 0xC0) == 0x80) --before;
    const char32_t c = next_valid_utf8(text, before).value;
    if (has(c, UCHAR_CASE_IGNORABLE)) continue;
    cased_before = has(c, UCHAR_CASED);
    break;
  }
  if (!cased_before) return false;
  for (std::size_t after = i + 2; after < text.size();) {
    const Utf8Step step = next_valid_utf8(text, after);
    if (!has(step.value, UCHAR_CASE_IGNORABLE)) return !has(step.value, UCHAR_CASED);
    after += step.bytes;
  }
  return true;
}

// The character at text[i] in another case: up to three characters.
void append_mapped(TextBuilder& out, std::string_view text, std::size_t i, char32_t c, Form form, bool trusted) {
  if (c < 0x80) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const char mapped = static_cast<char>(!letter ? c : form == Form::kLower ? c | 0x20U : c & ~0x20U);
    return out.append({&mapped, 1}, trusted);
  }
  if (form == Form::kLower && c == 0x03A3) return out.append_char(is_final_sigma(text, i) ? 0x03C2 : 0x03C3, trusted);
  std::array<UChar, 2> source{};
  std::array<UChar, 8> mapped{};
  std::int32_t length = 0;
  UErrorCode error = U_ZERO_ERROR;
  U16_APPEND_UNSAFE(source.data(), length, static_cast<UChar32>(c));
  const auto size = static_cast<std::int32_t>(mapped.size());
  std::int32_t count = 0;
  if (form == Form::kUpper) count = u_strToUpper(mapped.data(), size, source.data(), length, "", &error);
  if (form == Form::kLower) count = u_strToLower(mapped.data(), size, source.data(), length, "", &error);
  if (form == Form::kTitle) count = u_strToTitle(mapped.data(), size, source.data(), length, nullptr, "", &error);
  if (U_FAILURE(error)) return out.append_char(c, trusted);
  for (std::int32_t k = 0; k < count;) {
    UChar32 next = 0;
    U16_NEXT(mapped.data(), k, count, next);
    out.append_char(static_cast<char32_t>(next), trusted);
  }
}

// Every character in the form that choose(c) says; choose sees them in order.
template <class Choose>
Text map_chars(const Text& text, Budget& budget, Choose choose) {
  budget.charge(text.size() / 4);
  TextBuilder out;
  std::size_t begin = 0;
  text.for_each_run([&](std::string_view run, bool trusted) {
    for (std::size_t i = 0; i < run.size();) {
      const Utf8Step step = next_valid_utf8(run, i);
      append_mapped(out, text.view(), begin + i, step.value, choose(step.value), trusted);
      i += step.bytes;
    }
    begin += run.size();
  });
  return out.build();
}

bool is_upper(char32_t c) { return has(c, UCHAR_UPPERCASE); }
bool is_title(char32_t c) { return u_charType(static_cast<UChar32>(c)) == U_TITLECASE_LETTER; }
bool is_cased(char32_t c) { return is_upper(c) || has(c, UCHAR_LOWERCASE) || is_title(c); }

}  // namespace

Text change_case(const Text& text, Case to, Budget& budget) {
  return map_chars(text, budget, [to](char32_t c) {
    if (to == Case::kSwapped) return is_upper(c) ? Form::kLower : Form::kUpper;
    return to == Case::kUpper ? Form::kUpper : Form::kLower;
  });
}

Text capitalize(const Text& text, Budget& budget) {
  return map_chars(text, budget, [first = true](char32_t) mutable { return std::exchange(first, false) ? Form::kTitle : Form::kLower; });
}

Text title(const Text& text, Budget& budget) {
  return map_chars(text, budget, [after_cased = false](char32_t c) mutable {
    return std::exchange(after_cased, is_cased(c)) ? Form::kLower : Form::kTitle;
  });
}

Text title_by_words(const Text& text, Budget& budget) {
  return map_chars(text, budget, [word_begins = true](char32_t c) mutable {
    const bool separates = c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_python_space(c);
    return std::exchange(word_begins, separates) ? Form::kUpper : Form::kLower;
  });
}

bool is_cased_as(const Text& text, Case to) {
  bool any = false;
  const std::string_view bytes = text.view();
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Step step = next_valid_utf8(bytes, i);
    if (is_cased(step.value)) {
      if (is_title(step.value) || is_upper(step.value) != (to == Case::kUpper)) return false;
      any = true;
    }
    i += step.bytes;
  }
  return any;
}

}  // namespace qwell::jinja
