// How answers end: stop strings, stop tokens, lengths; and that a stop string ends the engine's work.

#include "server/support/fixture.h"

namespace qwell::test {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

struct Ended {
  std::string text;
  std::string reason;
  json::value stop_reason;
  std::int64_t completion_tokens = 0;
};

class StopTest : public ServerTest {
 protected:
  // The same request, whole and streamed; both must agree.
  Ended run(const std::string& extra) {
    const auto body = post(kCompletions, completion(extra)).parsed();
    const auto& choice = body.at("choices").as_array().at(0);
    Ended whole{std::string(choice.at("text").as_string()), std::string(choice.at("finish_reason").as_string()), choice.at("stop_reason"),
                body.at("usage").at("completion_tokens").as_int64()};
    Ended pieces;
    for (const auto& event : stream(kCompletions, completion(extra + R"(,"stream":true,"stream_options":{"include_usage":true})"))) {
      if (event == "[DONE]") break;
      const auto chunk = parse_json(event);
      if (chunk->at("choices").as_array().empty()) {
        pieces.completion_tokens = chunk->at("usage").at("completion_tokens").as_int64();
        continue;
      }
      const auto& part = chunk->at("choices").as_array().at(0);
      EXPECT_TRUE(pieces.reason.empty()) << "a chunk after the last";
      pieces.text += std::string(part.at("text").as_string());
      if (part.at("finish_reason").is_null()) continue;
      pieces.reason = std::string(part.at("finish_reason").as_string());
      pieces.stop_reason = part.at("stop_reason");
    }
    EXPECT_EQ(pieces.text, whole.text);
    EXPECT_EQ(pieces.reason, whole.reason);
    EXPECT_EQ(pieces.stop_reason, whole.stop_reason);
    EXPECT_EQ(pieces.completion_tokens, whole.completion_tokens);
    return whole;
  }
};

TEST_F(StopTest, StopStringEndsTheWork) {
  generator.set_answer(
      [](const GenerationRequest&) { return Script{.tokens = bytes_of("one two three "), .hold_at = 20, .forever = true}; });
  const auto ended = run(R"("stop":["wo t","zzz"],"max_tokens":4000)");
  EXPECT_EQ(ended.text, "one t");
  EXPECT_EQ(ended.reason, "stop");
  EXPECT_EQ(ended.stop_reason.as_string(), "wo t");
  EXPECT_EQ(ended.completion_tokens, 9);
  EXPECT_TRUE(generator.wait_until([](const FakeGenerator& g) { return g.running() == 0; }));
  EXPECT_TRUE(generator.wait_until([](const FakeGenerator& g) { return g.cancelled() == 2; }));
}

TEST_F(StopTest, TokensAfterTheMatchAreNotCounted) {
  generator.set_answer(say("abcdefgh", 8));  // one update brings more than is wanted
  const auto ended = run(R"("stop":"cd")");
  EXPECT_EQ(ended.text, "ab");
  EXPECT_EQ(ended.completion_tokens, 4);
  EXPECT_EQ(run(R"("stop":"cd","include_stop_str_in_output":true)").text, "abcd");
}

TEST_F(StopTest, WorksWithoutTextToo) {
  generator.set_answer(say("abcdefgh", 3));
  const auto body = post(kCompletions, completion(R"("stop":"cd","return_token_ids":true,"logprobs":0)")).parsed();
  const auto& choice = body.at("choices").as_array().at(0);
  EXPECT_EQ(choice.at("token_ids").as_array().size(), 4U);
  EXPECT_EQ(choice.at("logprobs").at("tokens").as_array().size(), 4U);
  EXPECT_EQ(choice.at("finish_reason").as_string(), "stop");
}

TEST_F(StopTest, HeldBackTailIsFlushed) {
  generator.set_answer(say("text </en"));
  EXPECT_EQ(run(R"("stop":"</end>")").text, "text </en");               // by EOS
  EXPECT_EQ(run(R"("stop":"</end>","max_tokens":7)").text, "text </");  // by length
  EXPECT_EQ(run(R"("stop":"</end>","max_tokens":7)").reason, "length");
}

TEST_F(StopTest, EarliestMatchWins) {
  generator.set_answer(say("xabcabc", 4));
  EXPECT_EQ(run(R"("stop":["abc","ab"])").stop_reason.as_string(), "ab");
  EXPECT_EQ(run(R"("stop":["c","abc"])").text, "x");
  EXPECT_EQ(run(R"("stop":["b","c","xabc","a","q"])").text, "x");
}

TEST_F(StopTest, StopTokens) {
  generator.set_answer([](const GenerationRequest&) { return Script{.tokens = {'a', kTurnEnd, 'b', kEos, 'c', 299, 'd'}}; });
  EXPECT_EQ(run(R"("max_tokens":7)").text, "a");
  EXPECT_TRUE(run(R"("max_tokens":7)").stop_reason.is_null());
  const auto ignored = run(R"("ignore_eos":true)");
  EXPECT_EQ(ignored.text, "abcd");
  EXPECT_EQ(ignored.reason, "length");
  EXPECT_EQ(ignored.completion_tokens, 7);
  const auto named = run(R"("ignore_eos":true,"stop_token_ids":[98])");  // 'b'
  EXPECT_EQ(named.text, "a");
  EXPECT_EQ(named.stop_reason.as_int64(), 98);
  EXPECT_EQ(named.completion_tokens, 3);
  EXPECT_EQ(run(R"("ignore_eos":true,"stop_token_ids":[98],"include_stop_str_in_output":true)").text, "ab");
  EXPECT_EQ(run(R"("ignore_eos":true,"skip_special_tokens":false)").text, "a<end>b<eos>c<299>d");
}

TEST_F(StopTest, ACharacterThatIsCutOff) {
  generator.set_answer(say("a\xE2\x82\xAC"));
  EXPECT_EQ(run(R"("max_tokens":3)").text, "a\xEF\xBF\xBD");
  EXPECT_EQ(run(R"("max_tokens":4)").text, "a\xE2\x82\xAC");
  const auto body = post(kChat, chat(R"("max_tokens":3,"logprobs":true)")).parsed();
  const auto& content = body.at("choices").as_array().at(0).at("logprobs").at("content").as_array();
  ASSERT_EQ(content.size(), 3U);
  EXPECT_EQ(content[1].at("bytes"), json::value({0xE2}));
  EXPECT_EQ(content[2].at("bytes"), json::value({0x82}));
}

TEST_F(StopTest, NothingButAStop) {
  generator.set_answer(say("STOP and more"));
  const auto ended = run(R"("stop":"STOP","logprobs":1)");
  EXPECT_EQ(ended.text, "");
  EXPECT_EQ(ended.completion_tokens, 4);
  generator.set_answer(say(""));
  EXPECT_EQ(run(R"("stop":"STOP")").text, "");
  EXPECT_EQ(post(kChat, chat()).parsed().at("choices").as_array().at(0).at("message").at("content").as_string(), "");
}

TEST_F(StopTest, OneOfSeveralStopsEarly) {
  generator.set_answer([](const GenerationRequest& r) {
    Script s{.tokens = bytes_of(r.sampling.sample == 1 ? "aXYZ" : "abcdefgh")};
    s.tokens.push_back(kEos);
    return s;
  });
  std::map<std::int64_t, std::string> texts;
  std::map<std::int64_t, int> finals;
  int usages = 0;
  for (const auto& event : stream(kChat, chat(R"("n":3,"stop":"XY","stream":true,"stream_options":{"include_usage":true})"))) {
    if (event == "[DONE]") break;
    const auto chunk = parse_json(event);
    if (chunk->at("choices").as_array().empty()) {
      ++usages;
      EXPECT_EQ(chunk->at("usage").at("completion_tokens").as_int64(), 9 + 3 + 9);
      EXPECT_EQ(chunk->at("usage").at("prompt_tokens").as_int64(), 18);
      continue;
    }
    const auto& choice = chunk->at("choices").as_array().at(0);
    const auto index = choice.at("index").as_int64();
    if (const auto* const content = choice.at("delta").as_object().if_contains("content"))
      texts[index] += std::string(content->as_string());
    if (!choice.at("finish_reason").is_null()) ++finals[index];
  }
  EXPECT_EQ(usages, 1);
  EXPECT_EQ(texts, (std::map<std::int64_t, std::string>{{0, "abcdefgh"}, {1, "a"}, {2, "abcdefgh"}}));
  EXPECT_EQ(finals, (std::map<std::int64_t, int>{{0, 1}, {1, 1}, {2, 1}}));
}

TEST_F(StopTest, ChatLogprobsHaveTheChatSchema) {
  const auto body = post(kChat, chat(R"("logprobs":true,"top_logprobs":2)")).parsed();
  const auto& content = body.at("choices").as_array().at(0).at("logprobs").at("content").as_array();
  ASSERT_EQ(content.size(), 6U);
  EXPECT_EQ(content[0].at("token").as_string(), "H");
  EXPECT_EQ(content[0].at("bytes"), json::value({72}));
  const auto& top = content[0].at("top_logprobs").as_array();
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top[1].at("token").as_string(), "G");
  std::size_t streamed = 0;
  for (const auto& event : stream(kChat, chat(R"("logprobs":true,"stream":true,"stop":"zz")"))) {
    if (event == "[DONE]") break;
    const auto chunk = parse_json(event);
    const auto& logprobs = chunk->at("choices").as_array().at(0).at("logprobs");
    if (logprobs.is_object()) streamed += logprobs.at("content").as_array().size();
  }
  EXPECT_EQ(streamed, 6U);
}

}  // namespace
}  // namespace qwell::test
