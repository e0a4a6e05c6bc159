#pragma once
// What the server needs from a tokenizer, a chat template and a detokeniser.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "request/request.h"

namespace qwell::server {

struct ChatInput {
  json::array messages;  // normalised: every message has role and string content, no null fields
  json::array tools;     // may be empty
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message, an assistant's
  json::object template_kwargs;
};

// Turns the tokens of one answer into text, whole characters at a time.
class TextStream {
 public:
  virtual ~TextStream() = default;
  // Text that is certain after this token: valid UTF-8, maybe empty.
  virtual std::string push(TokenId token) = 0;
  // The rest: U+FFFD for a character that never became whole.
  virtual std::string finish() = 0;
};

// Safe for use by several threads at once. Token ids given to it must be below the vocabulary's size.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  virtual Result<std::vector<TokenId>> encode(std::string_view text, bool add_special_tokens) const = 0;
  // The prompt's tokens by the model's chat template. A template that refuses, or no template at all, is kInvalidArgument.
  virtual Result<std::vector<TokenId>> encode_chat(const ChatInput& chat) const = 0;
  virtual std::string decode(std::span<const TokenId> tokens, bool skip_special_tokens) const = 0;
  // The bytes of one token, special ones included; need not be whole characters.
  virtual std::string token_bytes(TokenId token) const = 0;
  virtual std::unique_ptr<TextStream> stream(bool skip_special_tokens) const = 0;
};

}  // namespace qwell::server
