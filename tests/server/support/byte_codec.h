#pragma once
// One token per byte, and a template that anyone can read.

#include "server/text_codec.h"

namespace qwell::test {

constexpr TokenId kEos = 256;      // special, "<eos>"
constexpr TokenId kTurnEnd = 257;  // special, "<end>"; a second end-of-sequence token
constexpr int kVocabSize = 300;    // 258... are special and print as "<258>"

// A chat renders as "role:content\n" per message, then "assistant:"; a continued message has no line break. With tools the text begins with
// "tools=N\n", with kwargs enable_thinking false it ends in "<nothink>". A message with the text "refuse" makes the template refuse.
class ByteCodec final : public server::TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special_tokens) const override;
  Result<std::vector<TokenId>> encode_chat(const server::ChatInput& chat) const override;
  std::string decode(std::span<const TokenId> tokens, bool skip_special_tokens) const override;
  std::string token_bytes(TokenId token) const override;
  std::unique_ptr<server::TextStream> stream(bool skip_special_tokens) const override;
};

// The ids of a text's bytes.
std::vector<TokenId> bytes_of(std::string_view text);

}  // namespace qwell::test
