#pragma once
// Finds stop strings in text that comes in pieces.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qwell::server {

// The match is the stop string that is complete first when the text is read byte by byte; of several that are complete at the same byte,
// the one that begins first (the longest). The text before it is emitted, nothing after it; so the result does not depend on how the text
// was cut into pieces. Text that may still be the beginning of a stop string is held back until it is decided or flush()ed.
class StopMatcher {
 public:
  // Stop strings must not be empty.
  explicit StopMatcher(const std::vector<std::string>& stops, bool include_match = false);

  // Text that is certain now. After a match nothing more comes.
  std::string push(std::string_view text);
  // The held-back rest: the answer has ended without a match.
  std::string flush();

  // Index of the stop string that matched.
  std::optional<std::size_t> matched() const { return matched_; }
  std::size_t held_bytes() const { return held_.size(); }

 private:
  // Knuth-Morris-Pratt: how many of the string's bytes the text read so far ends with.
  struct Pattern {
    std::string text;
    std::vector<std::size_t> fallback;  // [i]: length of the longest proper border of the first i bytes
    std::size_t length = 0;
  };

  static void advance(Pattern& pattern, char c);

  std::vector<Pattern> patterns_;
  bool include_match_;
  std::string held_;
  std::optional<std::size_t> matched_;
};

}  // namespace qwell::server
