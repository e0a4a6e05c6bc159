#include "text/tokenizer.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/file.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_table.h"
#include "text/unicode.h"

namespace qwell {

struct Tokenizer::Vocabulary {
  enum class Kind : std::uint8_t { kPlain, kAdded, kSpecial };

  explicit Vocabulary(TokenizerFile file)
      : nfc(file.nfc),
        ignore_merges(file.ignore_merges),
        pretokenizer(file.pattern),
        tokens(file.tokens),
        kinds(file.tokens.size(), Kind::kPlain),
        merges(std::move(file.merges)) {
    for (const AddedToken& token : file.added) {
      added.add(token.content, token.id);
      kinds[static_cast<std::size_t>(token.id)] = token.special ? Kind::kSpecial : Kind::kAdded;
    }
  }

  Kind kind(std::int32_t id) const { return id >= 0 && id < tokens.size() ? kinds[static_cast<std::size_t>(id)] : Kind::kPlain; }

  bool nfc;
  bool ignore_merges;
  Pretokenizer pretokenizer;
  TokenTable tokens;
  std::vector<Kind> kinds;
  AddedTokenMatcher added;
  BytePairMerges merges;
};

// Encodes text between added tokens. Words repeat, so a table of recent ones saves most merging: a slot points to where the word stood in
// the text and to its tokens in the output. It lives as long as one stretch of text and takes 48 KiB.
class Tokenizer::Encoder {
 public:
  Encoder(const Vocabulary& vocabulary, std::vector<std::int32_t>& out) : vocabulary_(vocabulary), out_(out) {}

  void append(std::string_view text) {
    if (ascii_prefix(text) == text.size()) return append_pieces(text);
    std::string repaired;
    if (!valid_utf8(text)) {
      append_repaired_utf8(repaired, text);
      text = repaired;
    }
    std::string normal;
    append_pieces(vocabulary_.nfc ? to_nfc(text, normal) : text);
  }

 private:
  struct Word {
    std::size_t begin = 0, ids_begin = 0;
    std::uint32_t bytes = 0, num_ids = 0;
  };
  static constexpr std::size_t kWords = 2048;
  static constexpr std::size_t kWordBytesMax = 32;
  static constexpr std::size_t kTextBytesMin = 512;  // below, clearing the table costs more than it saves

  void append_pieces(std::string_view text) {
    words_.assign(text.size() < kTextBytesMin ? 0 : kWords, Word{});
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = vocabulary_.pretokenizer.piece_end(text, begin);
      const std::string_view piece = text.substr(begin, end - begin);
      if (words_.empty() || piece.size() > kWordBytesMax) {
        append_piece(piece);
      } else {
        append_word(text, begin, piece);
      }
      begin = end;
    }
  }

  void append_word(std::string_view text, std::size_t begin, std::string_view piece) {
    Word& word = words_[std::hash<std::string_view>()(piece) % kWords];
    if (text.substr(word.begin, word.bytes) == piece) {
      for (std::uint32_t i = 0; i < word.num_ids; ++i) out_.push_back(out_[word.ids_begin + i]);
      return;
    }
    const std::size_t ids_begin = out_.size();
    append_piece(piece);
    word = {begin, ids_begin, static_cast<std::uint32_t>(piece.size()), static_cast<std::uint32_t>(out_.size() - ids_begin)};
  }

  void append_piece(std::string_view piece) {
    if (vocabulary_.ignore_merges) {
      if (const std::int32_t id = vocabulary_.tokens.find(piece); id >= 0 && vocabulary_.kind(id) == Vocabulary::Kind::kPlain) {
        out_.push_back(id);
        return;
      }
    }
    vocabulary_.merges.append_tokens(piece, out_);
  }

  const Vocabulary& vocabulary_;
  std::vector<std::int32_t>& out_;
  std::vector<Word> words_;
};

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {}

Tokenizer Tokenizer::load(const std::filesystem::path& folder_or_file) {
  const auto path = std::filesystem::is_directory(folder_or_file) ? folder_or_file / "tokenizer.json" : folder_or_file;
  return from_json(read_file(path), path.string());
}

Tokenizer Tokenizer::from_json(std::string_view json_text, std::string_view name) {
  return Tokenizer(std::make_shared<const Vocabulary>(read_tokenizer_file(json_text, name)));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, ControlTokens control) const {
  const TextSegment segment{text, control};
  return encode_segments({&segment, 1});
}

std::vector<std::int32_t> Tokenizer::encode_segments(std::span<const TextSegment> segments) const {
  std::string joined;
  if (segments.size() != 1) {
    for (const TextSegment& segment : segments) joined += segment.text;
  }
  const std::string_view text = segments.size() == 1 ? segments[0].text : joined;
  QWELL_CHECK(text.size() <= kTextBytesMax, "{} bytes of text", text.size());

  std::vector<std::int32_t> ids;
  Encoder encoder(*vocabulary_, ids);
  std::size_t done = 0;
  std::size_t run_begin = 0;  // of the segments with kMatch that meet here
  std::size_t end = 0;
  const auto cut_added_tokens = [&] {
    for (std::size_t from = run_begin;;) {
      const auto match = vocabulary_->added.next(text, from, end);
      if (!match) break;
      encoder.append(text.substr(done, match->begin - done));
      ids.push_back(match->id);
      done = from = match->end;
    }
  };
  for (const TextSegment& segment : segments) {
    if (segment.control == ControlTokens::kAsText && !segment.text.empty()) {
      cut_added_tokens();
      run_begin = end + segment.text.size();
    }
    end += segment.text.size();
  }
  cut_added_tokens();
  encoder.append(text.substr(done));
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    if (!skip_special || !is_special(id)) bytes += token_bytes(id);
  }
  if (valid_utf8(bytes)) return bytes;
  std::string text;
  append_repaired_utf8(text, bytes);
  return text;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const { return vocabulary_->tokens.bytes(id); }

std::optional<std::int32_t> Tokenizer::id_of(std::string_view bytes) const {
  if (const auto match = vocabulary_->added.next(bytes, 0, bytes.size()); match && match->begin == 0 && match->end == bytes.size()) {
    return match->id;
  }
  const std::int32_t id = vocabulary_->tokens.find(bytes);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_added(std::int32_t id) const { return vocabulary_->kind(id) != Vocabulary::Kind::kPlain; }
bool Tokenizer::is_special(std::int32_t id) const { return vocabulary_->kind(id) == Vocabulary::Kind::kSpecial; }
std::int32_t Tokenizer::size() const { return vocabulary_->tokens.size(); }

}  // namespace qwell
