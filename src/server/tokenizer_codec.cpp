#include "server/tokenizer_codec.h"

#include "text/detokenizer.h"

namespace qwell::server {
namespace {

class DetokenizerStream final : public TextStream {
 public:
  DetokenizerStream(const Tokenizer& tokenizer, bool skip_special) : detokenizer_(tokenizer, skip_special) {}
  std::string push(TokenId token) override { return detokenizer_.push(token); }
  std::string finish() override { return detokenizer_.flush(); }

 private:
  Detokenizer detokenizer_;
};

}  // namespace

TokenizerCodec::TokenizerCodec(Tokenizer tokenizer, ChatEncoder chat_encoder)
    : tokenizer_(std::move(tokenizer)), chat_encoder_(std::move(chat_encoder)) {}

Result<std::vector<TokenId>> TokenizerCodec::encode(std::string_view text, bool) const {
  if (text.size() > Tokenizer::kTextBytesMax) {
    return failure(FailureCode::kInvalidArgument, "the text has {} bytes, at most {} can be encoded", text.size(),
                   Tokenizer::kTextBytesMax);
  }
  return tokenizer_.encode(text, ControlTokens::kMatch);
}

Result<std::vector<TokenId>> TokenizerCodec::encode_chat(const ChatInput& chat) const {
  if (!chat_encoder_) return failure(FailureCode::kInvalidArgument, "this model has no chat template; completions work without one");
  return chat_encoder_(tokenizer_, chat);
}

std::string TokenizerCodec::decode(std::span<const TokenId> tokens, bool skip_special_tokens) const {
  return tokenizer_.decode(tokens, skip_special_tokens);
}

std::string TokenizerCodec::token_bytes(TokenId token) const { return std::string(tokenizer_.token_bytes(token)); }

std::unique_ptr<TextStream> TokenizerCodec::stream(bool skip_special_tokens) const {
  return std::make_unique<DetokenizerStream>(tokenizer_, skip_special_tokens);
}

}  // namespace qwell::server
