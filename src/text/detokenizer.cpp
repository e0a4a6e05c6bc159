#include "text/detokenizer.h"

#include "text/unicode.h"

namespace qwell {

std::string Detokenizer::push(std::span<const std::int32_t> ids) {
  std::string bytes = std::move(held_);
  held_.clear();
  for (const std::int32_t id : ids) {
    if (!skip_special_ || !tokenizer_.is_special(id)) bytes += tokenizer_.token_bytes(id);
  }
  // An unfinished character is the last three bytes or fewer, from its lead byte on.
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const std::size_t begin = bytes.size() - back;
    const Utf8Step step = next_utf8(bytes, begin);
    if (step.kind == Utf8Step::Kind::kIncomplete) {
      held_ = bytes.substr(begin);
      bytes.resize(begin);
      break;
    }
  }
  if (valid_utf8(bytes)) return bytes;
  std::string text;
  append_repaired_utf8(text, bytes);
  return text;
}

std::string Detokenizer::flush() {
  const bool unfinished = !held_.empty();
  held_.clear();
  return unfinished ? std::string(kReplacementCharacter) : std::string();
}

}  // namespace qwell
