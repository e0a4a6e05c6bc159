// Request bodies: any bytes through the JSON reader and the parsers of the API. Built by clang with -fsanitize=fuzzer.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/api_request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qwell;
  using namespace qwell::server;
  const auto body = parse_json({reinterpret_cast<const char*>(data), size});
  if (!body) return 0;
  const auto chat = parse_chat_request(*body, {});
  if (chat)
    QWELL_CHECK(!chat->chat.messages.empty() && chat->options.n >= 1, "{} messages, n {}", chat->chat.messages.size(), chat->options.n);
  const auto completion = parse_completion_request(*body, {});
  if (completion)
    QWELL_CHECK(!completion->prompts.empty() && completion->options.max_tokens.has_value(), "{} prompts", completion->prompts.size());
  (void)parse_tokenize_request(*body, {});
  (void)parse_detokenize_request(*body);
  return 0;
}
