// Fuzz target: a tokenizer.json of any bytes either loads or is refused; a tokenizer that loaded encodes and decodes any text.
// The input is a mode byte, then: 0: tokenizer.json; 1: text, for a tokenizer that is known to load; otherwise both, with a zero byte
// between.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_table.h"
#include "text/unicode.h"

namespace qwell {
namespace {

void want(bool condition) {
  if (!condition) std::abort();
}

// All bytes, a few merges and added tokens.
Tokenizer good_tokenizer() {
  const ByteAlphabet alphabet;
  JsonWriter w;
  w.begin_object().key("added_tokens").begin_array();
  int id = 1000;
  for (const char* content : {"<|im_end|>", "<think>", "<t"}) {
    w.begin_object().field("id", id++).field("content", content).field("special", id % 2 == 0).end_object();
  }
  w.end_array().key("normalizer").raw(R"({"type":"NFC"})").key("pre_tokenizer").begin_object().field("type", "Sequence");
  w.key("pretokenizers").begin_array().begin_object().field("type", "Split").field("behavior", "Isolated").field("invert", false);
  w.key("pattern").begin_object();
  w.field("Regex", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  w.end_object().end_object().raw(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})").end_array().end_object();
  w.key("decoder").raw(R"({"type":"ByteLevel"})").key("model").begin_object().field("type", "BPE").key("vocab").begin_object();
  for (int byte = 0; byte < 256; ++byte) w.field(alphabet.text_of(static_cast<unsigned char>(byte)), byte);
  w.field("ab", 256).field("aa", 257).field("aba", 258).field("ĠĠ", 259);
  w.end_object().key("merges").raw(R"(["a b","a a",["ab","a"],["Ġ","Ġ"]])").end_object().end_object();
  return Tokenizer::from_json(w.text(), "good");
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  const auto plain = tokenizer.encode(text, ControlTokens::kAsText);
  std::string repaired;
  append_repaired_utf8(repaired, text);
  std::string storage;
  const std::string normal(to_nfc(repaired, storage));
  const std::string decoded = tokenizer.decode(plain, false);
  want(decoded == normal || decoded == repaired);  // a tokenizer without normaliser keeps the text
  const auto matched = tokenizer.encode(text);
  const std::size_t half = text.size() / 2;
  const std::vector<TextSegment> halves = {{text.substr(0, half)}, {text.substr(half)}};
  want(tokenizer.encode_segments(halves) == matched);
  Detokenizer stream(tokenizer);
  std::string streamed;
  for (const std::int32_t id : matched) streamed += stream.push(id);
  want(streamed + stream.flush() == tokenizer.decode(matched, true));
}

void run(std::string_view input) {
  if (input.empty()) return;
  static const Tokenizer good = good_tokenizer();
  const char mode = input[0];
  input.remove_prefix(1);
  if (mode == 1) return use(good, input);
  const std::size_t cut = mode == 0 ? input.size() : std::min(input.find('\0'), input.size());
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(input.substr(0, cut), "fuzz");
    use(tokenizer, cut < input.size() ? input.substr(cut + 1) : "Hello <think> e\xCC\x81 12\r\n");
  } catch (const Error&) {  // refused
  }
}

}  // namespace
}  // namespace qwell

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  qwell::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
