#include <set>

#include "server/support/fixture.h"

namespace qwell::test {
namespace {

constexpr const char* kCompletions = "/v1/completions";

class CompletionTest : public ServerTest {};

TEST_F(CompletionTest, WholeWithDefaults) {
  const auto body = post(kCompletions, completion()).parsed();
  EXPECT_EQ(body.at("object").as_string(), "text_completion");
  const auto& choice = body.at("choices").as_array().at(0);
  EXPECT_EQ(choice.at("text").as_string(), "Hello");
  EXPECT_EQ(choice.at("finish_reason").as_string(), "stop");
  const auto request = generator.requests().at(0);
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.prompt, bytes_of("ab"));
  EXPECT_EQ(request.stop_token_ids, (std::vector<TokenId>{kEos, kTurnEnd}));
}

TEST_F(CompletionTest, PassesEveryParameterOn) {
  config.defaults.temperature = 0.6F;
  config.defaults.top_k = 20;
  config.defaults.top_p = 0.95F;
  const auto response = post(kCompletions, completion(R"("temperature":0.25,"top_p":null,"min_p":0.1,"presence_penalty":-1.5,
      "frequency_penalty":2,"repetition_penalty":1.25,"seed":-1,"logit_bias":{"7":-100,"8":2.5},"min_tokens":2,"max_tokens":9,
      "stop_token_ids":[0,299],"ignore_eos":true,"cache_salt":"s","logprobs":3,"user":"u","unknown":{"a":[1]},"suffix":"","best_of":1)"));
  ASSERT_EQ(response.status, 200) << response.body;
  const auto r = generator.requests().at(0);
  EXPECT_EQ(r.sampling.temperature, 0.25F);
  EXPECT_EQ(r.sampling.top_p, 0.95F);
  EXPECT_EQ(r.sampling.top_k, 20);
  EXPECT_EQ(r.sampling.min_p, 0.1F);
  EXPECT_EQ(r.sampling.presence_penalty, -1.5F);
  EXPECT_EQ(r.sampling.frequency_penalty, 2.0F);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.25F);
  EXPECT_EQ(r.sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(r.sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{7, -100.0F}, {8, 2.5F}}));
  EXPECT_EQ(r.min_tokens, 2);
  EXPECT_EQ(r.max_tokens, 9);
  EXPECT_EQ(r.stop_token_ids, (std::vector<TokenId>{0, 299}));
  EXPECT_EQ(r.cache_salt, "s");
  EXPECT_EQ(r.logprobs, 3);
  EXPECT_EQ(r.prompt_logprobs, -1);
}

TEST_F(CompletionTest, RandomSeedsDiffer) {
  std::set<std::uint64_t> seeds;
  for (int i = 0; i < 4; ++i) post(kCompletions, completion(R"("n":2)"));
  const auto requests = generator.requests();
  ASSERT_EQ(requests.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    seeds.insert(requests[i].sampling.seed);
    EXPECT_EQ(requests[i].sampling.sample, i % 2);
  }
  EXPECT_EQ(seeds.size(), 4U);  // the samples of one request share it
}

TEST_F(CompletionTest, PromptsInEveryForm) {
  generator.set_answer([](const GenerationRequest& r) {
    Script s{.tokens = r.prompt};
    s.tokens.push_back(static_cast<TokenId>('0' + r.sampling.sample));
    s.tokens.push_back(kEos);
    return s;
  });
  const auto texts = [&](const std::string& prompt, int n) {
    const auto response = post(kCompletions, R"({"prompt":)" + prompt + R"(,"n":)" + std::to_string(n) + "}");
    EXPECT_EQ(response.status, 200) << response.body;
    std::vector<std::string> out;
    const auto body = response.parsed();
    for (const auto& choice : body.at("choices").as_array()) {
      EXPECT_EQ(choice.at("index").as_int64(), static_cast<std::int64_t>(out.size()));
      out.emplace_back(choice.at("text").as_string());
    }
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(R"("ab")", 1), (Texts{"ab0"}));
  EXPECT_EQ(texts(R"(["ab","c"])", 2), (Texts{"ab0", "ab1", "c0", "c1"}));
  EXPECT_EQ(texts("[97,98]", 1), (Texts{"ab0"}));
  EXPECT_EQ(texts("[[97],[98,99]]", 1), (Texts{"a0", "bc0"}));
  EXPECT_EQ(texts("[0]", 1), (Texts{std::string("\0", 1) + "0"}));
  EXPECT_EQ(texts("[65]", 4), (Texts{"A0", "A1", "A2", "A3"}));
}

TEST_F(CompletionTest, LogprobsHaveEqualLengthsAndRunningOffsets) {
  generator.set_answer(say("a\xC3\xA9z", 2));
  const auto body = post(kCompletions, completion(R"("logprobs":2)")).parsed();
  const auto& logprobs = body.at("choices").as_array().at(0).at("logprobs");
  EXPECT_EQ(logprobs.at("text_offset"), json::value({0, 1, 1, 2, 3}));
  EXPECT_EQ(logprobs.at("tokens").as_array().size(), 5U);
  EXPECT_EQ(logprobs.at("token_logprobs").as_array().size(), 5U);
  EXPECT_EQ(logprobs.at("top_logprobs").as_array().size(), 5U);
  EXPECT_EQ(logprobs.at("tokens").as_array().at(4).as_string(), "<eos>");
  EXPECT_FLOAT_EQ(static_cast<float>(logprobs.at("token_logprobs").as_array().at(0).to_number<double>()), -(1 + 97 % 7) / 8.0F);
  EXPECT_TRUE(logprobs.at("top_logprobs").as_array().at(0).as_object().contains("`"));  // the byte below 'a'
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 5);

  std::vector<std::int64_t> offsets;
  for (const auto& event : stream(kCompletions, completion(R"("logprobs":2,"stream":true)"))) {
    if (event == "[DONE]") break;
    const auto chunk = parse_json(event);
    ASSERT_TRUE(chunk);
    const auto& piece = chunk->at("choices").as_array().at(0).at("logprobs");
    EXPECT_EQ(piece.at("tokens").as_array().size(), piece.at("text_offset").as_array().size());
    for (const auto& offset : piece.at("text_offset").as_array()) offsets.push_back(offset.as_int64());
  }
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 1, 1, 2, 3}));
}

TEST_F(CompletionTest, LogprobsZeroShowTheChosenToken) {
  const auto body = post(kCompletions, completion(R"("logprobs":0,"max_tokens":1)")).parsed();
  const auto& top = body.at("choices").as_array().at(0).at("logprobs").at("top_logprobs").as_array().at(0).as_object();
  ASSERT_EQ(top.size(), 1U);
  EXPECT_TRUE(top.contains("H"));
}

TEST_F(CompletionTest, EchoOnlyReadsThePrompt) {
  const auto body = post(kCompletions, completion(R"("echo":true,"max_tokens":0,"logprobs":1)")).parsed();
  const auto& choice = body.at("choices").as_array().at(0);
  EXPECT_EQ(choice.at("text").as_string(), "ab");
  EXPECT_EQ(choice.at("finish_reason").as_string(), "length");
  const auto& logprobs = choice.at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"), json::value({"a", "b"}));
  EXPECT_EQ(logprobs.at("text_offset"), json::value({0, 1}));
  EXPECT_TRUE(logprobs.at("token_logprobs").as_array().at(0).is_null());
  EXPECT_TRUE(logprobs.at("token_logprobs").as_array().at(1).is_double());
  EXPECT_TRUE(logprobs.at("top_logprobs").as_array().at(0).is_null());
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 0);
  EXPECT_EQ(generator.requests().at(0).prompt_logprobs, 1);
}

TEST_F(CompletionTest, EchoGoesBeforeTheAnswer) {
  for (const bool streamed : {false, true}) {
    const std::string extra = R"("echo":true,"max_tokens":2,"logprobs":1,"prompt":[97,98])";
    std::string text;
    json::array offsets;
    const auto add = [&](const json::value& choice) {
      text += std::string(choice.at("text").as_string());
      for (const auto& o : choice.at("logprobs").at("text_offset").as_array()) offsets.push_back(o);
    };
    if (streamed) {
      for (const auto& event : stream(kCompletions, completion(extra + R"(,"stream":true)"))) {
        if (event != "[DONE]") add(parse_json(event)->at("choices").as_array().at(0));
      }
    } else {
      add(post(kCompletions, completion(extra)).parsed().at("choices").as_array().at(0));
    }
    EXPECT_EQ(text, "abHe");
    EXPECT_EQ(offsets, json::array({0, 1, 2, 3}));
  }
}

TEST_F(CompletionTest, PromptLogprobsAsAnExtension) {
  const auto body = post(kCompletions, completion(R"("prompt_logprobs":2)")).parsed();
  const auto& list = body.at("choices").as_array().at(0).at("prompt_logprobs").as_array();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_TRUE(list[0].is_null());
  EXPECT_EQ(list[1].at("98").at("decoded_token").as_string(), "b");
  EXPECT_EQ(list[1].at("98").at("rank").as_int64(), 1);
  EXPECT_EQ(list[1].at("97").at("rank").as_int64(), 2);
}

TEST_F(CompletionTest, TokenIdsOnRequest) {
  const auto body = post(kCompletions, completion(R"("return_token_ids":true,"max_tokens":3)")).parsed();
  const auto& choice = body.at("choices").as_array().at(0);
  EXPECT_EQ(choice.at("prompt_token_ids"), json::value({97, 98}));
  EXPECT_EQ(choice.at("token_ids"), json::value({72, 101, 108}));
  json::array ids;
  json::value prompt;
  for (const auto& event : stream(kCompletions, completion(R"("return_token_ids":true,"max_tokens":3,"stream":true)"))) {
    if (event == "[DONE]") break;
    const auto chunk = parse_json(event);
    const auto& piece = chunk->at("choices").as_array().at(0).as_object();
    if (piece.contains("prompt_token_ids")) prompt = piece.at("prompt_token_ids");
    for (const auto& id : piece.at("token_ids").as_array()) ids.push_back(id);
  }
  EXPECT_EQ(ids, json::array({72, 101, 108}));
  EXPECT_EQ(prompt, json::value({97, 98}));
}

TEST_F(CompletionTest, UsageCountsPromptsOnce) {
  generator.set_answer([](const GenerationRequest& r) {
    Script s{.tokens = bytes_of("xyz")};
    s.cached_tokens = r.sampling.sample == 0 ? 1 : 2;  // a later sample finds more
    s.tokens.resize(r.sampling.sample + 1);
    return s;
  });
  const auto usage = post(kCompletions, R"({"prompt":["ab","abc"],"n":3})").parsed().at("usage");
  EXPECT_EQ(usage.at("prompt_tokens").as_int64(), 5);
  EXPECT_EQ(usage.at("completion_tokens").as_int64(), 12);
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens").as_int64(), 2);
}

TEST_F(CompletionTest, LengthsAreClampedToTheContext) {
  generator.edit_model().context_length_max = 10;
  generator.set_answer([](const GenerationRequest&) { return Script{.tokens = bytes_of("x"), .forever = true}; });
  for (const char* const n : {"2147483648", "9223372036854775807", "9223372036854775808", "1e30"}) {
    const auto response = post(kCompletions, completion(std::string("\"max_tokens\":") + n));
    ASSERT_EQ(response.status, 200) << n << response.body;
    EXPECT_EQ(response.parsed().at("usage").at("completion_tokens").as_int64(), 8);
    EXPECT_EQ(response.parsed().at("choices").as_array().at(0).at("finish_reason").as_string(), "length");
  }
  const auto full = post(kCompletions, R"({"prompt":"0123456789"})");
  EXPECT_EQ(full.status, 400);
  EXPECT_EQ(error_of(full).at("code").as_string(), "context_length_exceeded");
  EXPECT_EQ(error_of(full).at("param").as_string(), "prompt");
  EXPECT_EQ(post(kCompletions, R"({"prompt":"0123456789","echo":true,"max_tokens":0})").status, 200);
  const auto chat_full = post("/v1/chat/completions", chat());
  EXPECT_EQ(error_of(chat_full).at("code").as_string(), "context_length_exceeded");
  EXPECT_EQ(error_of(chat_full).at("param").as_string(), "messages");
}

TEST_F(CompletionTest, NewerLengthFieldWins) {
  post(kCompletions, completion(R"("max_tokens":5,"max_completion_tokens":9)"));
  post(kCompletions, completion(R"("max_completion_tokens":7)"));
  post(kCompletions, completion(R"("max_tokens":5,"max_completion_tokens":null)"));
  const auto requests = generator.requests();
  EXPECT_EQ(requests.at(0).max_tokens, 9);
  EXPECT_EQ(requests.at(1).max_tokens, 7);
  EXPECT_EQ(requests.at(2).max_tokens, 5);
}

TEST_F(CompletionTest, LargeBodiesGoThroughAWorker) {
  config.worker_body_bytes = 100;
  generator.edit_model().context_length_max = 1 << 20;
  EXPECT_EQ(post(kCompletions, R"({"prompt":")" + std::string(200000, 'x') + R"("})").parsed().at("usage").at("prompt_tokens").as_int64(),
            200000);
  expect_refused(kCompletions, R"({"prompt":")" + std::string(200, 'x') + R"(","n":0})", "n");
  const auto events = stream(kCompletions, R"({"stream":true,"prompt":")" + std::string(200, 'x') + R"("})");
  EXPECT_EQ(events.back(), "[DONE]");
}

}  // namespace
}  // namespace qwell::test
