#include "server/chat_encoder.h"

#include <utility>

namespace qwell::server {

TokenizerCodec::ChatEncoder make_chat_encoder(ChatTemplate chat_template) {
  return [chat_template = std::move(chat_template)](const Tokenizer& tokenizer, const ChatInput& chat) -> Result<std::vector<TokenId>> {
    ChatRenderOptions options;
    if (!chat.tools.empty()) options.tools = chat.tools;
    options.add_generation_prompt = chat.add_generation_prompt;
    options.continue_final_message = chat.continue_final_message;
    options.kwargs = chat.template_kwargs;
    auto prompt = chat_template.render(chat.messages, options);
    if (!prompt) return prompt.failure();
    std::vector<TextSegment> segments;
    segments.reserve(prompt->size());
    for (const PromptSegment& s : *prompt) segments.push_back({s.text, s.trusted ? ControlTokens::kMatch : ControlTokens::kAsText});
    return tokenizer.encode_segments(segments);
  };
}

}  // namespace qwell::server
