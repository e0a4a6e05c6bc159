// Bodies that must be refused before they cost anything, each with the field at fault; and odd ones that must pass.

#include "server/support/fixture.h"

namespace qwell::test {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

struct Case {
  const char* extra;
  const char* param;
};

class RefusalTest : public ServerTest {
 protected:
  void each(const std::vector<Case>& cases) {
    for (const auto& c : cases) {
      expect_refused(kCompletions, completion(c.extra), c.param);
      expect_refused(kChat, chat(c.extra), c.param);
    }
    EXPECT_EQ(post(kChat, chat()).status, 200);
  }
  void accepted(const std::string& path, const std::string& body) {
    const auto response = post(path, body);
    EXPECT_EQ(response.status, 200) << body << "\n" << response.body;
  }
};

TEST_F(RefusalTest, Ranges) {
  each({{R"("temperature":-1)", "temperature"},
        {R"("temperature":5)", "temperature"},
        {R"("temperature":1e999)", "temperature"},
        {R"("top_p":-0.5)", "top_p"},
        {R"("top_p":0)", "top_p"},
        {R"("top_p":1e-60)", "top_p"},
        {R"("top_p":2)", "top_p"},
        {R"("min_p":1.5)", "min_p"},
        {R"("top_k":-5)", "top_k"},
        {R"("presence_penalty":3)", "presence_penalty"},
        {R"("frequency_penalty":-2.1)", "frequency_penalty"},
        {R"("repetition_penalty":0)", "repetition_penalty"},
        {R"("repetition_penalty":-1)", "repetition_penalty"},
        {R"("repetition_penalty":1e60)", "repetition_penalty"},
        {R"("n":0)", "n"},
        {R"("n":129)", "n"},
        {R"("n":4294967297)", "n"},
        {R"("max_tokens":-1)", "max_tokens"},
        {R"("max_tokens":0)", "max_tokens"},
        {R"("max_completion_tokens":-1)", "max_completion_tokens"},
        {R"("max_tokens":-9223372036854775808)", "max_tokens"},
        {R"("min_tokens":-1)", "min_tokens"},
        {R"("min_tokens":9,"max_tokens":8)", "min_tokens"},
        {R"("prompt_logprobs":-1)", "prompt_logprobs"},
        {R"("prompt_logprobs":21)", "prompt_logprobs"},
        {R"("stop_token_ids":[300])", "stop_token_ids"},
        {R"("stop_token_ids":[-1])", "stop_token_ids"}});
}

TEST_F(RefusalTest, Types) {
  each({{R"("temperature":"1")", "temperature"},
        {R"("temperature":true)", "temperature"},
        {R"("n":"2")", "n"},
        {R"("n":1.5)", "n"},
        {R"("n":[1])", "n"},
        {R"("stream":"true")", "stream"},
        {R"("stream":1)", "stream"},
        {R"("seed":"x")", "seed"},
        {R"("seed":1.5)", "seed"},
        {R"("stop":5)", "stop"},
        {R"("stop":["a",5])", "stop"},
        {R"("stop":{"a":1})", "stop"},
        {R"("model":5)", "model"},
        {R"("max_tokens":"5")", "max_tokens"},
        {R"("logit_bias":[])", "logit_bias"},
        {R"("stop_token_ids":5)", "stop_token_ids"},
        {R"("stop_token_ids":[1.0])", "stop_token_ids"},
        {R"("cache_salt":5)", "cache_salt"},
        {R"("stream":true,"stream_options":5)", "stream_options"},
        {R"("stream":true,"stream_options":{"include_usage":"yes"})", "stream_options"}});
}

TEST_F(RefusalTest, LogitBias) {
  each({{R"("logit_bias":{"AI":1})", "logit_bias"},
        {R"("logit_bias":{"":1})", "logit_bias"},
        {R"("logit_bias":{"1x":1})", "logit_bias"},
        {R"("logit_bias":{"-1":1})", "logit_bias"},
        {R"("logit_bias":{"300":1})", "logit_bias"},
        {R"("logit_bias":{"99999999999":1})", "logit_bias"},
        {R"("logit_bias":{"5":"1"})", "logit_bias"},
        {R"("logit_bias":{"5":null})", "logit_bias"},
        {R"("logit_bias":{"5":101})", "logit_bias"}});
  accepted(kChat, chat(R"("logit_bias":{})"));
}

TEST_F(RefusalTest, StreamOptionsWithoutStream) {
  each({{R"("stream_options":{"include_usage":true})", "stream_options"},
        {R"("stream":false,"stream_options":{})", "stream_options"},
        {R"("stream":true,"prompt_logprobs":1)", "prompt_logprobs"}});
}

TEST_F(RefusalTest, Stops) {
  config.limits.stops_max = 5;
  config.limits.stop_bytes_max = 10;
  each({{R"("stop":"")", "stop"},
        {R"("stop":["a",""])", "stop"},
        {R"("stop":["1","2","3","4","5","6"])", "stop"},
        {R"("stop":"01234567890")", "stop"}});
  accepted(kChat, chat(R"("stop":["1","2","3","4","5"])"));
  accepted(kChat, chat(R"("stop":[])"));
}

TEST_F(RefusalTest, WhatIsNotSupported) {
  each({{R"("response_format":{"type":"json_object"})", "response_format"},
        {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format"},
        {R"("response_format":{})", "response_format"},
        {R"("response_format":"json")", "response_format"},
        {R"("guided_json":{})", "guided_json"},
        {R"("guided_regex":"a")", "guided_regex"},
        {R"("structured_outputs":{"json":{}})", "structured_outputs"},
        {R"("use_beam_search":true)", "use_beam_search"}});
  expect_refused(kChat, chat(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required")"), "tool_choice");
  expect_refused(kChat,
                 chat(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}})"),
                 "tool_choice");
  expect_refused(kChat, chat(R"("function_call":{"name":"f"})"), "function_call");
  expect_refused(kCompletions, completion(R"("suffix":"x")"), "suffix");
  expect_refused(kCompletions, completion(R"("best_of":2)"), "best_of");
  accepted(kChat, chat(R"("response_format":{"type":"text"},"guided_json":null)"));
}

TEST_F(RefusalTest, Prompts) {
  for (const char* const prompt :
       {R"("")",  R"([""])",    "[]",         "[[]]",         R"(["a",""])",  "[300]",         "[-1]",    "[1.5]",
        "[1.0]",  R"([1,"a"])", R"(["a",1])", R"(["a",[1]])", R"([[1],"a"])", "[[1],2]",       "[1,[2]]", "[[[1]]]",
        "[true]", "[null]",     "5",          "true",         "{}",           "[99999999999]", "null"}) {
    expect_refused(kCompletions, std::string(R"({"prompt":)") + prompt + "}", "prompt");
  }
  expect_refused(kCompletions, "{}", "prompt");
  config.limits.prompts_max = 3;
  config.limits.choices_max = 4;
  server.reset();
  expect_refused(kCompletions, R"({"prompt":["a","b","c","d"]})", "prompt");
  expect_refused(kCompletions, R"({"prompt":["a","b","c"],"n":2})", "n");
  accepted(kCompletions, R"({"prompt":["a","b"],"n":2})");
}

TEST_F(RefusalTest, Messages) {
  for (const char* const messages : {"null",
                                     "[]",
                                     "5",
                                     R"("hi")",
                                     "[5]",
                                     "[{}]",
                                     R"([{"role":"user"}])",
                                     R"([{"role":"wizard","content":"x"}])",
                                     R"([{"content":"x"}])",
                                     R"([{"role":5,"content":"x"}])",
                                     R"([{"role":"user","content":5}])",
                                     R"([{"role":"user","content":null}])",
                                     R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
                                     R"([{"role":"user","content":[{"type":"mystery"}]}])",
                                     R"([{"role":"user","content":["x"]}])",
                                     R"([{"role":"user","content":[{"type":"text"}]}])",
                                     R"([{"role":"user","content":[{"type":"text","text":5}]}])",
                                     R"([{"role":"assistant","tool_calls":5}])",
                                     R"([{"role":"assistant","tool_calls":[{}]}])",
                                     R"([{"role":"user","content":"refuse"}])"}) {
    expect_refused(kChat, std::string(R"({"messages":)") + messages + "}", "messages");
  }
  expect_refused(kChat, "{}", "messages");
}

TEST_F(RefusalTest, ToolsAndTemplates) {
  const auto tool = [](const std::string& name) { return R"({"type":"function","function":{"name":")" + name + R"("}})"; };
  expect_refused(kChat, chat("\"tools\":[" + tool("a b") + "]"), "tools");
  expect_refused(kChat, chat("\"tools\":[" + tool("") + "]"), "tools");
  expect_refused(kChat, chat("\"tools\":[" + tool("f") + "," + tool("f") + "]"), "tools");
  expect_refused(kChat, chat(R"("tools":[{}])"), "tools");
  expect_refused(kChat, chat(R"("tools":{})"), "tools");
  expect_refused(kChat, chat(R"("chat_template_kwargs":[])"), "chat_template_kwargs");
  expect_refused(kChat, chat(R"("continue_final_message":true)"), "continue_final_message");
  expect_refused(kChat, R"({"messages":[{"role":"assistant","content":"So"}],"continue_final_message":true,"add_generation_prompt":true})",
                 "continue_final_message");
  for (const char* const choice : {"\"auto\"", "\"none\"", "null"}) {
    accepted(kChat, chat("\"tools\":[" + tool("f") + "],\"tool_choice\":" + choice));
    EXPECT_EQ(generator.requests().back().prompt, bytes_of("tools=1\nuser:hi\nassistant:"));
  }
  accepted(kChat, chat(R"("tools":[])"));
}

TEST_F(RefusalTest, ChatLogprobs) {
  expect_refused(kChat, chat(R"("top_logprobs":2)"), "top_logprobs");
  expect_refused(kChat, chat(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs");
  expect_refused(kChat, chat(R"("logprobs":true,"top_logprobs":-1)"), "top_logprobs");
  expect_refused(kChat, chat(R"("logprobs":3)"), "logprobs");
  expect_refused(kCompletions, completion(R"("logprobs":true)"), "logprobs");
  expect_refused(kCompletions, completion(R"("logprobs":21)"), "logprobs");
  accepted(kChat, chat(R"("logprobs":true,"top_logprobs":20)"));
  accepted(kChat, chat(R"("logprobs":false,"top_logprobs":0)"));
}

TEST_F(RefusalTest, BodiesThatAreNotOneObject) {
  for (const char* const path : {kChat, kCompletions, "/tokenize", "/detokenize"}) {
    for (const std::string& body :
         {std::string(), std::string("{"), std::string("[1]"), std::string("\"x\""), std::string("null"), completion() + " x",
          completion() + completion(), std::string("{\"prompt\":\"\xff\"}"), std::string("{\"prompt\":\"\\ud800\"}"),
          std::string(100000, '['), std::string(100, '{'), std::string("\0", 1)}) {
      expect_refused(path, body, "");
    }
  }
  EXPECT_EQ(post(kCompletions, completion() + " \r\n").status, 200);
}

TEST_F(RefusalTest, LenienceThatClientsRelyOn) {
  accepted(kChat,
           chat(R"("temperature":null,"n":null,"stop":null,"stream":null,"stream_options":null,"tools":null,"seed":null,"logit_bias":null,
      "max_tokens":null,"response_format":null,"model":null,"top_logprobs":null,"logprobs":null,"frobnicate":[{"x":1}])"));
  accepted(kChat, chat(R"("temperature":0,"n":2)"));
  accepted(kChat, chat(R"("top_k":-1)"));
  accepted(kChat, chat(R"("top_k":0,"top_p":1,"n":1.0)"));
  accepted(kChat, chat(R"("seed":18446744073709551615)"));
  accepted(kChat, chat(R"("seed":-9223372036854775808)"));
  // Of duplicate keys the last wins.
  accepted(kCompletions, R"({"prompt":"a","max_tokens":3,"prompt":"xyz","max_tokens":2})");
  EXPECT_EQ(generator.requests().back().prompt, bytes_of("xyz"));
  EXPECT_EQ(generator.requests().back().max_tokens, 2);
  // The content type is not looked at.
  EXPECT_EQ(post(kCompletions, completion(), "Content-Type: text/plain\r\n").status, 200);
}

TEST_F(RefusalTest, MessagesThatRenderAlike) {
  const std::string call = R"("tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}])";
  std::vector<std::vector<TokenId>> prompts;
  for (const std::string& turn :
       {R"({"role":"assistant","content":null,)" + call + "}", R"({"role":"assistant",)" + call + "}",
        R"({"role":"assistant","content":"",)" + call + "}", R"({"role":"assistant","content":[],)" + call + "}"}) {
    accepted(kChat, R"({"messages":[{"role":"user","content":"q"},)" + turn + "]}");
    prompts.push_back(generator.requests().back().prompt);
  }
  for (const auto& prompt : prompts) EXPECT_EQ(prompt, prompts[0]);
  accepted(kChat, R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
  EXPECT_EQ(generator.requests().back().prompt, bytes_of("user:a\nb\nassistant:"));
  accepted(
      kChat,
      R"({"messages":[{"role":"developer","content":"d"},{"role":"assistant","content":"So"}],"continue_final_message":true,"name":null})");
  EXPECT_EQ(generator.requests().back().prompt, bytes_of("system:d\nassistant:So"));
  accepted(kChat, chat(R"("add_generation_prompt":false,"chat_template_kwargs":{"enable_thinking":false})"));
  EXPECT_EQ(generator.requests().back().prompt, bytes_of("user:hi\n<nothink>"));
}

}  // namespace
}  // namespace qwell::test
