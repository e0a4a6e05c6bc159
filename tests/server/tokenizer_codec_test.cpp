// The adapter over a real tokenizer: the bundled model's.
#include "server/tokenizer_codec.h"

#include <gtest/gtest.h>

#include "server/answer_text.h"
#include "server/support/fixture.h"

namespace qwell::server {
namespace {

const std::string kText = "Hello world, caf\xC3\xA9 \xF0\x9F\x98\x80 and \xE2\x82\xAC 12345.";

TokenizerCodec codec() { return TokenizerCodec(Tokenizer::load(std::filesystem::path(QWELL_SOURCE_DIR) / "models/demo")); }

TEST(TokenizerCodec, TextComesBack) {
  const auto c = codec();
  const auto ids = c.encode(kText, true);
  ASSERT_TRUE(ids);
  EXPECT_EQ(c.decode(*ids, true), kText);
  std::string bytes;
  for (const TokenId id : *ids) bytes += c.token_bytes(id);
  EXPECT_EQ(bytes, kText);
  const auto stream = c.stream(true);
  std::string pieces;
  for (const TokenId id : *ids) {
    const std::string piece = stream->push(id);
    ASSERT_EQ(piece.find("\xEF\xBF\xBD"), std::string::npos);
    pieces += piece;
  }
  EXPECT_EQ(pieces + stream->finish(), kText);
}

TEST(TokenizerCodec, WithoutATemplateOnlyChatIsRefused) {
  const auto c = codec();
  const auto refused = c.encode_chat({});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, FailureCode::kInvalidArgument);

  test::FakeGenerator generator([](const GenerationRequest& r) { return test::Script{.tokens = r.prompt}; });
  generator.edit_model().vocab_size = 1 << 20;
  generator.edit_model().stop_token_ids = {};
  Server server({}, generator, c);
  server.start();
  test::HttpClient client(server.port());
  const auto chat = client.request("POST", "/v1/chat/completions", test::chat());
  EXPECT_EQ(chat.status, 400);
  EXPECT_EQ(chat.parsed().at("error").at("param").as_string(), "messages");
  JsonWriter w;
  w.begin_object().field("prompt", kText).field("max_tokens", 1000).field("echo", true).field("logprobs", 1).end_object();
  const auto completion = client.request("POST", "/v1/completions", w.text());
  ASSERT_EQ(completion.status, 200) << completion.body;
  const auto body = completion.parsed();
  const auto& choice = body.at("choices").as_array().at(0);
  EXPECT_EQ(choice.at("text").as_string(), kText + kText);
  // The second half's offsets are the first half's, shifted by the prompt's characters.
  const auto& offsets = choice.at("logprobs").at("text_offset").as_array();
  const std::size_t half = offsets.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    EXPECT_EQ(offsets[half + i].as_int64(), offsets[i].as_int64() + static_cast<std::int64_t>(count_characters(kText)));
  }
}

}  // namespace
}  // namespace qwell::server
