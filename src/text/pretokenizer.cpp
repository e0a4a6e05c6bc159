#include "text/pretokenizer.h"

namespace qwell {
namespace {

constexpr std::string_view kQwen3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Length of "s", "t", "m", "d", "re", "ve" or "ll", of any case, at i (behind an apostrophe); 0 if there is none. Without regard to case,
// "s" is also U+017F, the long s.
std::size_t contraction(std::string_view text, std::size_t i) {
  const auto lower = [&](std::size_t k) { return k < text.size() ? text[k] | 0x20 : 0; };
  switch (lower(i)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 1;
    case 'r':
    case 'v': return lower(i + 1) == 'e' ? 2 : 0;
    case 'l': return lower(i + 1) == 'l' ? 2 : 0;
    default: return text.substr(i, 2) == "\u017F" ? 2 : 0;
  }
}

}  // namespace

std::optional<SplitPattern> split_pattern_of(std::string_view regex) {
  if (regex == kQwen3Regex) return SplitPattern::kQwen3;
  if (regex == kQwen35Regex) return SplitPattern::kQwen35;
  return std::nullopt;
}

Pretokenizer::Character Pretokenizer::at(std::string_view text, std::size_t i) const {
  const Utf8Step step = next_valid_utf8(text, i);
  CharClass kind = (*classes_)[step.value];
  if (kind == CharClass::kMark) kind = marks_join_words_ ? CharClass::kLetter : CharClass::kOther;
  return {kind, step.value, i + step.bytes};
}

// The alternatives of the expression are tried in their order; what each of them needs is decided by the class of one or two characters.
std::size_t Pretokenizer::piece_end(std::string_view text, std::size_t begin) const {
  const Character first = at(text, begin);
  const bool at_end = first.end == text.size();
  switch (first.kind) {
    case CharClass::kLetter: return word_end(text, first.end);
    case CharClass::kNumber: return first.end;
    case CharClass::kNewline: return space_end(text, begin);
    default: break;
  }
  if (first.value == '\'' && !at_end) {
    if (const std::size_t length = contraction(text, first.end); length > 0) return first.end + length;
  }
  if (!at_end) {  // one character that is neither newline, letter nor number may lead a word, a blank may lead other characters
    const Character second = at(text, first.end);
    if (second.kind == CharClass::kLetter) return word_end(text, second.end);
    if (first.value == ' ' && second.kind == CharClass::kOther) return other_end(text, second.end);
  }
  return first.kind == CharClass::kOther ? other_end(text, first.end) : space_end(text, begin);
}

std::size_t Pretokenizer::word_end(std::string_view text, std::size_t i) const {
  while (i < text.size()) {
    const Character c = at(text, i);
    if (c.kind != CharClass::kLetter) break;
    i = c.end;
  }
  return i;
}

std::size_t Pretokenizer::other_end(std::string_view text, std::size_t i) const {
  while (i < text.size()) {
    const Character c = at(text, i);
    if (c.kind != CharClass::kOther) break;
    i = c.end;
  }
  while (i < text.size() && (text[i] == '\r' || text[i] == '\n')) ++i;
  return i;
}

// A run of white space: up to its last newline; without newlines all but the last character, which goes to the following word, unless
// that leaves nothing or the text ends here.
std::size_t Pretokenizer::space_end(std::string_view text, std::size_t begin) const {
  std::size_t newline_end = begin;
  std::size_t last = begin;
  std::size_t i = begin;
  while (i < text.size()) {
    const Character c = at(text, i);
    if (c.kind != CharClass::kSpace && c.kind != CharClass::kNewline) break;
    if (c.kind == CharClass::kNewline) newline_end = c.end;
    last = i;
    i = c.end;
  }
  if (newline_end > begin) return newline_end;
  if (i == text.size() || last == begin) return i;
  return last;
}

}  // namespace qwell
