#include "server/support/byte_codec.h"

namespace qwell::test {
namespace {

// Bytes that a character beginning with this byte needs; 1 for what can't begin one.
std::size_t character_bytes(char c) {
  const auto b = static_cast<unsigned char>(c);
  return b >= 0xF0 ? 4 : b >= 0xE0 ? 3 : b >= 0xC0 ? 2 : 1;
}

class ByteStream final : public server::TextStream {
 public:
  ByteStream(const ByteCodec& codec, bool skip_special) : codec_(codec), skip_special_(skip_special) {}

  std::string push(TokenId token) override {
    if (token >= 256) return skip_special_ ? std::string() : finish() + codec_.token_bytes(token);
    waiting_.push_back(static_cast<char>(token));
    return waiting_.size() >= character_bytes(waiting_[0]) ? std::exchange(waiting_, {}) : std::string();
  }
  std::string finish() override { return std::exchange(waiting_, {}).empty() ? "" : "\xEF\xBF\xBD"; }

 private:
  const ByteCodec& codec_;
  const bool skip_special_;
  std::string waiting_;
};

}  // namespace

std::vector<TokenId> bytes_of(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

Result<std::vector<TokenId>> ByteCodec::encode(std::string_view text, bool) const { return bytes_of(text); }

Result<std::vector<TokenId>> ByteCodec::encode_chat(const server::ChatInput& chat) const {
  std::string text;
  if (!chat.tools.empty()) text += "tools=" + std::to_string(chat.tools.size()) + "\n";
  for (const auto& value : chat.messages) {
    const auto& message = value.as_object();
    const std::string content(message.at("content").as_string());
    if (content == "refuse") return failure(FailureCode::kInvalidArgument, "the template refuses");
    text += std::string(message.at("role").as_string()) + ":" + content + "\n";
  }
  if (chat.continue_final_message) text.pop_back();
  if (chat.add_generation_prompt) text += "assistant:";
  const auto* const thinking = chat.template_kwargs.if_contains("enable_thinking");
  if (thinking != nullptr && thinking->is_bool() && !thinking->get_bool()) text += "<nothink>";
  return bytes_of(text);
}

std::string ByteCodec::token_bytes(TokenId token) const {
  if (token < 256) return {static_cast<char>(token)};
  return token == kEos ? "<eos>" : token == kTurnEnd ? "<end>" : "<" + std::to_string(token) + ">";
}

std::string ByteCodec::decode(std::span<const TokenId> tokens, bool skip_special_tokens) const {
  std::string text;
  for (const TokenId token : tokens) {
    if (token < 256 || !skip_special_tokens) text += token_bytes(token);
  }
  return text;
}

std::unique_ptr<server::TextStream> ByteCodec::stream(bool skip_special_tokens) const {
  return std::make_unique<ByteStream>(*this, skip_special_tokens);
}

}  // namespace qwell::test
