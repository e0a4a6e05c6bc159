// The parsers alone: pure functions that must take any JSON.

#include <gtest/gtest.h>

#include "base/random.h"
#include "server/api_request.h"

namespace qwell::server {
namespace {

constexpr const char* kFull =
    R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"}]},
  {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
  {"role":"tool","tool_call_id":"1","content":"r"}],"prompt":[1,2,3],"n":2,"stream":true,"stream_options":{"include_usage":true},
  "stop":["a","b"],"temperature":0.5,"top_p":0.9,"top_k":5,"min_p":0.1,"seed":3,"logit_bias":{"5":1.5},"max_tokens":7,"min_tokens":1,
  "presence_penalty":0.5,"frequency_penalty":0.5,"repetition_penalty":1.1,"ignore_eos":true,"stop_token_ids":[4],"logprobs":null,
  "tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto",
  "chat_template_kwargs":{"enable_thinking":false},
  "cache_salt":"x","return_token_ids":true,"tokens":[1,2],"echo":true,"response_format":{"type":"text"}})";

json::value parsed(const char* text) { return parse_json(text).value(); }

TEST(Parse, ReadsAllOfIt) {
  const auto chat = parse_chat_request(parsed(kFull), {});
  ASSERT_TRUE(chat) << chat.failure().message;
  EXPECT_EQ(chat->options.n, 2);
  EXPECT_EQ(chat->options.stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(chat->options.sampling.top_k, 5);
  EXPECT_TRUE(chat->options.include_usage);
  EXPECT_EQ(chat->chat.messages.size(), 4U);
  EXPECT_EQ(chat->chat.tools.size(), 1U);
  EXPECT_TRUE(chat->chat.add_generation_prompt);
  const auto completion = parse_completion_request(parsed(kFull), {});
  ASSERT_TRUE(completion) << completion.failure().message;
  EXPECT_EQ(completion->prompts.size(), 1U);
  EXPECT_EQ(std::get<std::vector<TokenId>>(completion->prompts[0]), (std::vector<TokenId>{1, 2, 3}));
  EXPECT_TRUE(completion->echo);
}

TEST(Parse, DefaultsComeFromTheOptions) {
  ApiOptions options;
  options.defaults.temperature = 0.6F;
  options.defaults.top_k = 20;
  const auto plain = parse_completion_request(parsed(R"({"prompt":"x"})"), options);
  EXPECT_EQ(plain->options.sampling.temperature, 0.6F);
  EXPECT_EQ(plain->options.sampling.top_k, 20);
  const auto off = parse_completion_request(parsed(R"({"prompt":"x","top_k":-1,"temperature":0})"), options);
  EXPECT_EQ(off->options.sampling.temperature, 0.0F);
  EXPECT_EQ(off->options.sampling.top_k, 0);
}

// Any value in the place of any other: a request or a failure that names a field, never a crash.
json::value strange(Random& random, int depth) {
  switch (random.below(depth > 3 ? 8U : 10U)) {
    case 0: return nullptr;
    case 1: return random.chance(0.5);
    case 2: return static_cast<std::int64_t>(random.bits64());
    case 3: return random.bits64();
    case 4: return static_cast<double>(random.normal()) * 1e30;
    case 5: return random.range(-3, 300);
    case 6: return "";
    case 7: return "text";
    case 8: {
      json::array items;
      for (int n = random.range(0, 3); n > 0; --n) items.push_back(strange(random, depth + 1));
      return items;
    }
    default: {
      static constexpr const char* kKeys[] = {"role", "content", "type", "function", "name", "5", "text", "include_usage"};
      json::object object;
      for (int n = random.range(0, 3); n > 0; --n) object[kKeys[random.below(8)]] = strange(random, depth + 1);
      return object;
    }
  }
}

void mutate(json::value& value, Random& random) {
  if (random.chance(0.08)) {
    value = strange(random, 0);
    return;
  }
  if (value.is_array()) {
    for (auto& item : value.get_array()) mutate(item, random);
  } else if (value.is_object()) {
    for (auto& item : value.get_object()) mutate(item.value(), random);
  }
}

TEST(Parse, TakesAnyJson) {
  Random random(11);
  int good = 0;
  int bad = 0;
  for (int round = 0; round < 20000; ++round) {
    json::value body = parsed(kFull);
    mutate(body, random);
    const auto count = [&](const auto& result) {
      ++(result ? good : bad);
      if (result) return;
      EXPECT_EQ(result.failure().code, FailureCode::kInvalidArgument);
      EXPECT_TRUE(!result.failure().param.empty() || !body.is_object()) << result.failure().message;
    };
    const auto chat = parse_chat_request(body, {});
    count(chat);
    if (chat) {
      for (const auto& message : chat->chat.messages) EXPECT_TRUE(message.at("content").is_string());
    }
    count(parse_completion_request(body, {}));
    count(parse_tokenize_request(body, {}));
    count(parse_detokenize_request(body));
  }
  EXPECT_GT(good, 1000);
  EXPECT_GT(bad, 1000);
}

}  // namespace
}  // namespace qwell::server
