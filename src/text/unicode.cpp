#include "text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace qwell {
namespace {

constexpr std::size_t kCodePoints = 0x110000;

const icu::Normalizer2& nfc() {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = icu::Normalizer2::getNFCInstance(error);
  QWELL_CHECK(U_SUCCESS(error) && normalizer != nullptr, "ICU: {}", u_errorName(error));
  return *normalizer;
}

icu::StringPiece piece_of(std::string_view text) { return {text.data(), static_cast<std::int32_t>(text.size())}; }

// The three characters of combining class 0 that decompose into combining marks only.
std::u32string_view decomposed_marks(char32_t c) {
  switch (c) {
    case 0x0F73: return U"\u0F71\u0F72";
    case 0x0F75: return U"\u0F71\u0F74";
    case 0x0F81: return U"\u0F71\u0F80";
    default: return {};
  }
}

struct Mark {
  std::uint8_t combining_class;
  char32_t value;
};

// Appends the marks in canonical order.
void append_sorted(std::string& out, std::vector<Mark>& marks) {
  std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
  for (const Mark& mark : marks) append_utf8(out, mark.value);
  marks.clear();
}

// Whether more than a few combining marks follow one another.
bool has_long_run_of_marks(std::string_view text) {
  constexpr int kLong = 32;
  const CharClasses& classes = CharClasses::get();
  int run = 0;
  for (std::size_t i = ascii_prefix(text); i < text.size();) {
    const Utf8Step step = next_valid_utf8(text, i);
    run = classes[step.value] == CharClass::kMark ? run + 1 : 0;
    if (run > kLong) return true;
    i += step.bytes;
  }
  return false;
}

// A canonically equivalent text whose combining marks are in order. ICU inserts marks one by one from the end of a run, which is quadratic
// in the length of an unordered run and linear on ordered ones.
std::string with_marks_in_order(std::string_view text) {
  const auto& normalizer = nfc();
  std::string out;
  out.reserve(text.size());
  std::vector<Mark> marks;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Step step = next_valid_utf8(text, i);
    const std::u32string_view parts = decomposed_marks(step.value);
    const auto combining_class = [&](char32_t c) { return normalizer.getCombiningClass(static_cast<UChar32>(c)); };
    if (!parts.empty()) {
      for (const char32_t part : parts) marks.push_back({combining_class(part), part});
    } else if (const std::uint8_t own = step.value < 0x300 ? std::uint8_t{0} : combining_class(step.value); own != 0) {
      marks.push_back({own, step.value});
    } else {
      if (!marks.empty()) append_sorted(out, marks);
      out.append(text, i, step.bytes);
    }
    i += step.bytes;
  }
  append_sorted(out, marks);
  return out;
}

}  // namespace

Utf8Step next_utf8(std::string_view text, std::size_t i) {
  using Kind = Utf8Step::Kind;
  const std::size_t left = text.size() - i;
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[i + k]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Kind::kCharacter, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Kind::kIllFormed, 1, 0};
  const std::uint8_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range leaves out overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::uint8_t k = 1; k < length; ++k) {
    if (k == left) return {Kind::kIncomplete, k, 0};
    if (byte(k) < (k == 1 ? low : 0x80U) || byte(k) > (k == 1 ? high : 0xBFU)) return {Kind::kIllFormed, k, 0};
  }
  return next_valid_utf8(text, i);
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::size_t ascii_prefix(std::string_view text) {
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

bool valid_utf8(std::string_view text) {
  for (std::size_t i = ascii_prefix(text); i < text.size();) {
    const Utf8Step step = next_utf8(text, i);
    if (step.kind != Utf8Step::Kind::kCharacter) return false;
    i += step.bytes;
  }
  return true;
}

void append_repaired_utf8(std::string& out, std::string_view text) {
  const std::size_t ascii = ascii_prefix(text);
  out.append(text, 0, ascii);
  for (std::size_t i = ascii; i < text.size();) {
    const Utf8Step step = next_utf8(text, i);
    if (step.kind == Utf8Step::Kind::kCharacter) {
      out.append(text, i, step.bytes);
    } else {
      out += kReplacementCharacter;
    }
    i += step.bytes;
  }
}

std::string_view to_nfc(std::string_view text, std::string& storage) {
  if (ascii_prefix(text) == text.size()) return text;
  std::string ordered;
  if (has_long_run_of_marks(text)) {
    ordered = with_marks_in_order(text);
    text = ordered;
  }
  UErrorCode error = U_ZERO_ERROR;
  const bool normal = nfc().isNormalizedUTF8(piece_of(text), error) != 0;
  QWELL_CHECK(U_SUCCESS(error), "ICU isNormalizedUTF8 of {} bytes: {}", text.size(), u_errorName(error));
  if (normal && ordered.empty()) return text;
  if (normal) {
    storage = std::move(ordered);
    return storage;
  }
  storage.clear();
  storage.reserve(text.size());
  icu::StringByteSink<std::string> sink(&storage);
  nfc().normalizeUTF8(0, piece_of(text), sink, nullptr, error);
  QWELL_CHECK(U_SUCCESS(error), "ICU normalizeUTF8 of {} bytes: {}", text.size(), u_errorName(error));
  return storage;
}

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

CharClasses::CharClasses() : classes_(kCodePoints, CharClass::kOther) {
  const auto fill = [](const void* self, UChar32 begin, UChar32 end, UCharCategory category) -> UBool {
    auto& classes = *static_cast<std::vector<CharClass>*>(const_cast<void*>(self));
    const std::uint32_t mask = U_MASK(category);
    const CharClass value = (mask & U_GC_L_MASK) != 0   ? CharClass::kLetter
                            : (mask & U_GC_M_MASK) != 0 ? CharClass::kMark
                            : (mask & U_GC_N_MASK) != 0 ? CharClass::kNumber
                                                        : CharClass::kOther;
    std::fill(classes.begin() + begin, classes.begin() + end, value);
    if ((mask & (U_GC_Z_MASK | U_GC_CC_MASK)) == 0) return 1;  // White_Space has members in these categories only
    for (UChar32 c = begin; c < end; ++c) {
      if (u_isUWhiteSpace(c)) classes[static_cast<std::size_t>(c)] = CharClass::kSpace;
    }
    return 1;
  };
  u_enumCharTypes(fill, &classes_);
  classes_['\r'] = CharClass::kNewline;
  classes_['\n'] = CharClass::kNewline;
}

}  // namespace qwell
