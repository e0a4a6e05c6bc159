#pragma once
// Splits text into the pieces within which byte pairs are merged. A checkpoint gives the split as a regular expression; the two that Qwen
// models use are scanned by hand, others are unknown. Every character belongs to exactly one piece.

#include <cstddef>
#include <optional>
#include <string_view>

#include "text/unicode.h"

namespace qwell {

enum class SplitPattern {
  kQwen3,   // Qwen2, Qwen3: words are letters
  kQwen35,  // Qwen3.5: words are letters and combining marks
};

// The pattern that a regular expression of tokenizer.json stands for, or nothing.
std::optional<SplitPattern> split_pattern_of(std::string_view regex);

class Pretokenizer {
 public:
  explicit Pretokenizer(SplitPattern pattern) : classes_(&CharClasses::get()), marks_join_words_(pattern == SplitPattern::kQwen35) {}

  // End of the piece that begins at `begin`, where a piece begins; begin < text.size(). `text` is valid UTF-8, and its end is taken for
  // the end of the text. Splitting a whole text takes time linear in its length.
  std::size_t piece_end(std::string_view text, std::size_t begin) const;

 private:
  struct Character {
    CharClass kind;
    char32_t value;
    std::size_t end;
  };
  Character at(std::string_view text, std::size_t i) const;
  std::size_t word_end(std::string_view text, std::size_t i) const;
  std::size_t other_end(std::string_view text, std::size_t i) const;
  std::size_t space_end(std::string_view text, std::size_t begin) const;

  const CharClasses* classes_;
  bool marks_join_words_;
};

}  // namespace qwell
