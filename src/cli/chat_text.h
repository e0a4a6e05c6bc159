#pragma once
// A conversation as token ids, by the model's own template and tokenizer.

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/engine_flags.h"
#include "server/tokenizer_codec.h"

namespace qwell {

class ChatText {
 public:
  explicit ChatText(const OpenModel& model);

  // Error with the template's own words when it refuses the conversation.
  std::vector<TokenId> render(const json::array& messages, bool add_generation_prompt) const;
  // One user's message, ready to be answered.
  std::vector<TokenId> user_turn(const std::string& text) const;

 private:
  server::TokenizerCodec codec_;
};

}  // namespace qwell
