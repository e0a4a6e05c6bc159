#include "server/support/fixture.h"

namespace qwell::test {
namespace {

constexpr const char* kChat = "/v1/chat/completions";

class ChatTest : public ServerTest {};

TEST_F(ChatTest, Whole) {
  const auto response = post(kChat, chat());
  ASSERT_EQ(response.status, 200) << response.body;
  const auto body = response.parsed();
  EXPECT_EQ(body.at("object").as_string(), "chat.completion");
  EXPECT_EQ(body.at("model").as_string(), "fake");
  const auto& choice = body.at("choices").as_array().at(0);
  EXPECT_EQ(choice.at("message").at("role").as_string(), "assistant");
  EXPECT_EQ(choice.at("message").at("content").as_string(), "Hello");
  EXPECT_EQ(choice.at("finish_reason").as_string(), "stop");
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 18);  // "user:hi\nassistant:"
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 6);
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 24);
  EXPECT_EQ(generator.requests().at(0).max_tokens, 4096 - 18);
}

TEST_F(ChatTest, Streamed) {
  const auto events = stream(kChat, chat(R"("stream":true,"stream_options":{"include_usage":true})"));
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  std::string id;
  int finals = 0;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) {
    const auto chunk = parse_json(events[i]);
    ASSERT_TRUE(chunk) << events[i];
    EXPECT_EQ(chunk->at("object").as_string(), "chat.completion.chunk");
    EXPECT_TRUE(chunk->at("usage").is_null());
    if (i == 0) id = std::string(chunk->at("id").as_string());
    EXPECT_EQ(chunk->at("id").as_string(), id);
    const auto& choice = chunk->at("choices").as_array().at(0);
    if (i == 0) {
      EXPECT_EQ(choice.at("delta").at("role").as_string(), "assistant");
    }
    if (const auto* const content = choice.at("delta").as_object().if_contains("content")) text += std::string(content->as_string());
    if (!choice.at("finish_reason").is_null()) ++finals;
  }
  EXPECT_EQ(text, "Hello");
  EXPECT_EQ(finals, 1);
  const auto usage = parse_json(events[events.size() - 2]);
  ASSERT_TRUE(usage);
  EXPECT_TRUE(usage->at("choices").as_array().empty());
  EXPECT_EQ(usage->at("usage").at("completion_tokens").as_int64(), 6);
}

}  // namespace
}  // namespace qwell::test
