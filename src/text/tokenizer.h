#pragma once
// Text to tokens and back, as a checkpoint's tokenizer.json says: byte-level byte-pair encoding in the form that Qwen models use. The
// result equals that of Hugging Face's `tokenizers` with the same file, but for characters newer than the Unicode version of one of both.
//
//   text -> added tokens are cut out -> each rest: normal form C -> split into pieces -> bytes -> pairs merged by rank -> ids
//
// Ids: 0 to size()-1; a model's vocabulary is often padded beyond that, and padded ids have no text.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qwell {

// Whether text that reads like an added token ("<|im_end|>", "<think>") becomes that token.
enum class ControlTokens {
  kMatch,   // yes: text written by us or by a chat template
  kAsText,  // no: it is encoded as the characters it consists of; text from users
};

// A stretch of a prompt and what its text may become.
struct TextSegment {
  std::string_view text;
  ControlTokens control = ControlTokens::kMatch;
};

// Immutable and cheap to copy (copies share one vocabulary); safe from many threads.
class Tokenizer {
 public:
  // The longest text that can be encoded; the caller bounds what it takes from clients far below.
  static constexpr std::size_t kTextBytesMax = std::size_t{256} << 20;

  // From a file, or from tokenizer.json in a checkpoint's folder. Throws Error that names file, field, value and what was wanted: a
  // structure other than Qwen's is refused, never approximated.
  static Tokenizer load(const std::filesystem::path& folder_or_file);
  static Tokenizer from_json(std::string_view json_text, std::string_view name);  // errors begin with `name`

  // Ill-formed UTF-8 is replaced by U+FFFD first. Nothing is added in front or behind. Time is O(n log n) for any text.
  std::vector<std::int32_t> encode(std::string_view text, ControlTokens control = ControlTokens::kMatch) const;

  // The segments are one text: words, normal form and characters may cross their borders. An added token is found where all of its bytes
  // come from segments with kMatch, so that no content can complete one. With kMatch everywhere this is encode(all of them, kMatch).
  std::vector<std::int32_t> encode_segments(std::span<const TextSegment> segments) const;

  // The text of all tokens together; bytes that are not UTF-8 become U+FFFD. Unknown ids are left out, special tokens too if asked for.
  // Splitting the ids and joining the texts may differ: see Detokenizer.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  // The bytes of a token, which need not be whole characters; empty for ids without a token. Valid as long as a copy of this lives.
  std::string_view token_bytes(std::int32_t id) const;
  // The token of exactly these bytes; an added token goes before one of the vocabulary.
  std::optional<std::int32_t> id_of(std::string_view bytes) const;
  bool is_added(std::int32_t id) const;    // one of tokenizer.json's added_tokens
  bool is_special(std::int32_t id) const;  // an added token that is not meant to be read: dropped by skip_special
  std::int32_t size() const;

 private:
  struct Vocabulary;
  class Encoder;
  explicit Tokenizer(std::shared_ptr<const Vocabulary> vocabulary);

  std::shared_ptr<const Vocabulary> vocabulary_;
};

}  // namespace qwell
