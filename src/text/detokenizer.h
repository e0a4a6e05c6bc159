#pragma once
// Tokens to text while they come.

#include <cstdint>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace qwell {

// One per stream, for one thread at a time. What push() returns is whole characters; bytes of a character that later tokens may complete
// are held back (at most three). All returned texts and flush() together are decode(all ids).
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, bool skip_special = true) : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  std::string push(std::int32_t id) { return push(std::span(&id, 1)); }
  std::string push(std::span<const std::int32_t> ids);

  // The end of the stream: one U+FFFD if a character was left unfinished, else nothing. The next push() begins a new stream.
  std::string flush();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string held_;  // the beginning of a character
};

}  // namespace qwell
