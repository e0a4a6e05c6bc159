// Everything around generation: health, models, keys, ids, paths and methods, tokenize and detokenize, limits.

#include "server/support/fixture.h"

namespace qwell::test {
namespace {

class ServiceTest : public ServerTest {};

TEST_F(ServiceTest, Health) {
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/health/ready").status, 200);
  EXPECT_EQ(get("/health/live").status, 200);
  generator.set_ready(false, "loading weights");
  EXPECT_EQ(get("/health/live").status, 200);
  const auto response = get("/health");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(error_of(response).at("message").as_string(), "loading weights");
  EXPECT_EQ(get("/health/ready").status, 503);
}

TEST_F(ServiceTest, Version) { EXPECT_EQ(get("/version").parsed().at("version").as_string(), QWELL_VERSION); }

TEST_F(ServiceTest, ModelsAndTheirNames) {
  config.served_model_names = {"qwen3", "org/Qwen3-30B"};
  const auto list = get("/v1/models").parsed();
  EXPECT_EQ(list.at("object").as_string(), "list");
  ASSERT_EQ(list.at("data").as_array().size(), 2U);
  EXPECT_EQ(list.at("data").as_array().at(0).at("id").as_string(), "qwen3");
  EXPECT_EQ(list.at("data").as_array().at(0).at("max_model_len").as_int64(), 4096);
  EXPECT_EQ(get("/v1/models/org/Qwen3-30B").parsed().at("id").as_string(), "org/Qwen3-30B");
  EXPECT_EQ(get("/v1/models/org%2FQwen3-30B").status, 200);
  EXPECT_EQ(error_of(get("/v1/models/other")).at("code").as_string(), "model_not_found");
  for (const char* const name : {"qwen3", "org/Qwen3-30B"}) {
    const auto response = post("/v1/chat/completions", chat(std::string(R"("model":")") + name + "\""));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.parsed().at("model").as_string(), name);
  }
  for (const char* const name : {"", "Qwen3", "gpt", "qwen3 "}) {
    for (const char* const path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}) {
      const auto response =
          post(path, std::string(R"({"prompt":"x","messages":[{"role":"user","content":"x"}],"tokens":[1],"model":")") + name + "\"}");
      if (std::string_view(path) == "/tokenize") continue;  // refused for having both inputs; below
      EXPECT_EQ(response.status, 404) << path;
      EXPECT_EQ(error_of(response).at("code").as_string(), "model_not_found");
      EXPECT_EQ(error_of(response).at("param").as_string(), "model");
    }
    EXPECT_EQ(post("/tokenize", std::string(R"({"prompt":"x","model":")") + name + "\"}").status, 404);
  }
}

TEST_F(ServiceTest, KeysGuardTheApi) {
  config.api_keys = {"secret-key", "other"};
  for (const char* const header :
       {"", "Authorization: Bearer wrong\r\n", "Authorization: Bearer secret-key \r\n", "Authorization: Bearer secret-key\t\r\n",
        "Authorization: Bearer secret-kez\r\n", "Authorization: Bearer secret-keysecret-key\r\n", "Authorization: Bearer \r\n",
        "Authorization: Bearer\r\n", "Authorization: Basic secret-key\r\n", "Authorization: secret-key\r\n",
        "Authorization: Bearer secret-ke\r\n", "Authorization: Bearer  secret-key\r\n"}) {
    for (const auto& response : {get("/v1/models", header), get("/v1/models/fake", header), post("/v1/chat/completions", chat(), header),
                                 post("/v1/completions", completion(), header), post("/tokenize", R"({"prompt":"x"})", header),
                                 post("/detokenize", R"({"tokens":[1]})", header)}) {
      EXPECT_EQ(response.status, 401) << header;
      EXPECT_EQ(error_of(response).at("code").as_string(), "invalid_api_key");
    }
    EXPECT_EQ(get("/health", header).status, 200);
    EXPECT_EQ(get("/version", header).status, 200);
  }
  EXPECT_EQ(taken(), 0);
  EXPECT_EQ(get("/v1/models", "Authorization: Bearer secret-key\r\n").status, 200);
  EXPECT_EQ(get("/v1/models", "authorization: bearer other\r\n").status, 200);
}

TEST_F(ServiceTest, RequestIds) {
  EXPECT_EQ(get("/health", "X-Request-Id: my id-1\r\n").headers.at("x-request-id"), "my id-1");
  EXPECT_EQ(post("/v1/chat/completions", chat(), "X-Request-Id: a\r\n").headers.at("x-request-id"), "a");
  EXPECT_EQ(post("/v1/chat/completions", "{", "X-Request-Id: a\r\n").headers.at("x-request-id"), "a");
  EXPECT_EQ(get("/health", "X-Request-Id: " + std::string(10000, 'x') + "\r\n").headers.at("x-request-id"), std::string(256, 'x'));
  EXPECT_FALSE(get("/health").headers.at("x-request-id").empty());
  EXPECT_EQ(get("/health", "X-Request-Id: a\tb\r\n").status, 400);
  EXPECT_EQ(get("/health", "X-Request-Id: a\xC3\xA9\r\n").status, 400);
  const auto injected = get("/health", "X-Request-Id: a\rSet-Cookie: b\r\n");
  EXPECT_EQ(injected.status, 400);
  EXPECT_FALSE(injected.has("set-cookie"));
  // The same id twice at once.
  generator.set_answer([](const GenerationRequest&) { return Script{.tokens = bytes_of("Hi"), .hold_at = 1}; });
  HttpClient first(port());
  HttpClient second(port());
  for (auto* const client : {&first, &second})
    client->send(HttpClient::format("POST", "/v1/chat/completions", chat(), "X-Request-Id: same\r\n"));
  EXPECT_TRUE(generator.wait_until([](const FakeGenerator& g) { return g.holding() == 2; }));
  generator.release();
  const auto one = first.read();
  const auto two = second.read();
  EXPECT_EQ(one.headers.at("x-request-id"), "same");
  EXPECT_EQ(two.headers.at("x-request-id"), "same");
  EXPECT_NE(one.parsed().at("id"), two.parsed().at("id"));
}

TEST_F(ServiceTest, PathsAndMethods) {
  for (const char* const path : {"/", "/v1", "/v1/chat", "/v1/embeddings", "/v1/models/", "/health/", "/HEALTH", "/../etc/passwd", "*"}) {
    const auto response = get(path);
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_EQ(error_of(response).at("code").as_string(), "path_not_found");
  }
  for (const char* const path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}) {
    const auto response = get(path);
    EXPECT_EQ(response.status, 405);
    EXPECT_EQ(response.headers.at("allow"), "POST, OPTIONS");
    error_of(response);
  }
  for (const char* const method : {"POST", "DELETE", "PUT", "PATCH", "BREW"})
    EXPECT_EQ(HttpClient(port()).request(method, "/health").status, 405);
  EXPECT_EQ(HttpClient(port()).request("OPTIONS", "/v1/chat/completions").status, 204);
  HttpClient client(port());
  EXPECT_EQ(client.request("HEAD", "/health").status, 200);
  EXPECT_EQ(client.request("HEAD", "/v1/chat/completions").status, 405);
  EXPECT_EQ(client.request("GET", "/health?verbose=1").status, 200);
}

TEST_F(ServiceTest, Tokenize) {
  const auto plain = post("/tokenize", R"({"prompt":"ab\u00e9","return_token_strs":true})").parsed();
  EXPECT_EQ(plain.at("tokens"), json::value({97, 98, 0xC3, 0xA9}));
  EXPECT_EQ(plain.at("count").as_int64(), 4);
  EXPECT_EQ(plain.at("max_model_len").as_int64(), 4096);
  EXPECT_EQ(plain.at("token_strs").as_array().at(0).as_string(), "a");
  EXPECT_EQ(post("/tokenize", R"({"prompt":""})").parsed().at("count").as_int64(), 0);
  EXPECT_EQ(post("/tokenize", chat()).parsed().at("count").as_int64(), 18);
  EXPECT_EQ(post("/tokenize", chat(R"("add_generation_prompt":false)")).parsed().at("count").as_int64(), 8);
  expect_refused("/tokenize", "{}", "prompt");
  expect_refused("/tokenize", R"({"prompt":5})", "prompt");
  expect_refused("/tokenize", R"({"messages":[]})", "messages");
  expect_refused("/tokenize", chat(R"("prompt":"x")"), "prompt");
}

TEST_F(ServiceTest, Detokenize) {
  EXPECT_EQ(post("/detokenize", R"({"tokens":[97,98,256]})").parsed().at("prompt").as_string(), "ab<eos>");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[]})").parsed().at("prompt").as_string(), "");
  for (const char* const tokens : {"[300]", "[-1]", "[1.5]", R"(["a"])", "5", R"("97")", "null"}) {
    expect_refused("/detokenize", std::string(R"({"tokens":)") + tokens + "}", "tokens");
  }
}

TEST_F(ServiceTest, LimitsHaveTheErrorBody) {
  config.http.body_bytes_max = 1000;
  const auto large = post("/v1/completions", R"({"prompt":")" + std::string(2000, 'x') + R"("})");
  EXPECT_EQ(large.status, 413);
  error_of(large);
  const auto head = get("/health", "X: " + std::string(20000, 'x') + "\r\n");
  EXPECT_EQ(head.status, 431);
  error_of(head);
  HttpClient client(port());
  client.send("garbage\r\n\r\n");
  const auto garbage = client.read();
  EXPECT_EQ(garbage.status, 400);
  error_of(garbage);
}

TEST_F(ServiceTest, OverloadIsToldAtOnce) {
  generator.set_answer([](const GenerationRequest&) { return Script{.tokens = bytes_of("Hi"), .hold_at = 0}; });
  generator.set_capacity(1);
  HttpClient first(port());
  first.send(HttpClient::format("POST", "/v1/chat/completions", chat()));
  ASSERT_TRUE(generator.wait_until([](const FakeGenerator& g) { return g.holding() == 1; }));
  for (int i = 0; i < 49; ++i) {
    const auto response = post("/v1/chat/completions", chat());
    EXPECT_EQ(response.status, 429);
    EXPECT_TRUE(response.has("retry-after"));
    error_of(response);
  }
  EXPECT_EQ(get("/health/ready").status, 200);
  generator.release();
  EXPECT_EQ(first.read().status, 200);
}

}  // namespace
}  // namespace qwell::test
