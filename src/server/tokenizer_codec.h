#pragma once
// The TextCodec of a checkpoint: its tokenizer, its detokeniser, its chat template.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/text_codec.h"
#include "text/tokenizer.h"

namespace qwell::server {

class TokenizerCodec final : public TextCodec {
 public:
  // Renders and encodes a conversation, telling the template's text (which may become control tokens) from the users' (which may not); safe
  // for use by several threads. Without one, chat requests are refused and everything else works.
  using ChatEncoder = std::function<Result<std::vector<TokenId>>(const Tokenizer& tokenizer, const ChatInput& chat)>;

  explicit TokenizerCodec(Tokenizer tokenizer, ChatEncoder chat_encoder = nullptr);

  // Qwen's tokenizers add no special tokens, so the flag changes nothing. A prompt given as text may name control tokens.
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special_tokens) const override;
  Result<std::vector<TokenId>> encode_chat(const ChatInput& chat) const override;
  std::string decode(std::span<const TokenId> tokens, bool skip_special_tokens) const override;
  std::string token_bytes(TokenId token) const override;
  std::unique_ptr<TextStream> stream(bool skip_special_tokens) const override;

 private:
  Tokenizer tokenizer_;
  ChatEncoder chat_encoder_;
};

}  // namespace qwell::server
