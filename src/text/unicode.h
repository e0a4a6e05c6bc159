#pragma once
// What the tokenizer needs of Unicode: UTF-8 step by step, normal form C, and the classes of characters that the split patterns name.
// Classes and normal form are those of the ICU library that the program is linked with.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qwell {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// What stands at one place of a byte string. An ill-formed or cut sequence is its longest prefix that some character begins with
// (at least one byte), so that each of them becomes one U+FFFD (the Unicode standard's "maximal subpart", section 3.9).
struct Utf8Step {
  enum class Kind : std::uint8_t {
    kCharacter,   // `bytes` form the character `value`
    kIllFormed,   // `bytes` can't be part of any character, whatever follows
    kIncomplete,  // the text ends within a character; more bytes may complete it
  };
  Kind kind;
  std::uint8_t bytes;
  char32_t value;
};

Utf8Step next_utf8(std::string_view text, std::size_t i);  // i < text.size()

// For text known to be valid: the character at i and its length.
inline Utf8Step next_valid_utf8(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<char32_t>(static_cast<unsigned char>(text[i + k])); };
  const char32_t lead = byte(0);
  constexpr auto kCharacter = Utf8Step::Kind::kCharacter;
  if (lead < 0x80) return {kCharacter, 1, lead};
  if (lead < 0xE0) return {kCharacter, 2, ((lead & 0x1F) << 6) | (byte(1) & 0x3F)};
  if (lead < 0xF0) return {kCharacter, 3, ((lead & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F)};
  return {kCharacter, 4, ((lead & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F)};
}

void append_utf8(std::string& out, char32_t c);  // c is a character, not a surrogate

std::size_t ascii_prefix(std::string_view text);  // length of the leading part that is ASCII
bool valid_utf8(std::string_view text);

// Appends `text` with U+FFFD for every ill-formed or cut sequence.
void append_repaired_utf8(std::string& out, std::string_view text);

// The normal form C of valid UTF-8 of less than 2^31 bytes: `text` itself where it has that form, else a view of `storage`. Linear in the
// length, but for sorting long runs of combining marks.
std::string_view to_nfc(std::string_view text, std::string& storage);

enum class CharClass : std::uint8_t {
  kLetter,   // general category L
  kMark,     // M
  kNumber,   // N
  kSpace,    // White_Space but for the next two
  kNewline,  // CR, LF
  kOther,    // everything else, unassigned characters too
};

// The class of every code point, as one table (1.1 MB, made at first use).
class CharClasses {
 public:
  static const CharClasses& get();
  CharClass operator[](char32_t c) const { return classes_[c]; }

 private:
  CharClasses();
  std::vector<CharClass> classes_;
};

}  // namespace qwell
