#pragma once
// A conversation with a server of ours over HTTP, for `qwell chat` and `qwell demo`.

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace qwell {

struct ChatMessage {
  std::string role, content;
};

struct ChatReply {
  std::string text;
  std::string finish_reason;
  int prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  double first_token_seconds = 0, total_seconds = 0;
  // As the server tells: where the time went and what crossed between the groups.
  double queued = 0, prefill = 0, transfer = 0, decode = 0;
  std::int64_t kv_bytes_moved = 0, kv_bytes_shared = 0;
};

class ApiClient {
 public:
  explicit ApiClient(std::string base_url, std::string api_key = {}) : base_url_(std::move(base_url)), api_key_(std::move(api_key)) {}

  // Streams the answer to the last message; `on_text` gets it piece by piece. `sampling`: JSON members to add, like "\"temperature\":0", or
  // empty.
  Result<ChatReply> chat(const std::vector<ChatMessage>& messages, int max_tokens, const std::string& sampling,
                         const std::function<void(const std::string&)>& on_text) const;
  // Status of GET path; 0 when nothing answers.
  int get_status(const std::string& path) const;

 private:
  std::string base_url_, api_key_;
};

}  // namespace qwell
