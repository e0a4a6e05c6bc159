// Streams under trouble: errors, silence, clients that leave or do not read, the server's stop.

#include <atomic>
#include <thread>

#include "base/random.h"
#include "server/support/fixture.h"

namespace qwell::test {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

class StreamTest : public ServerTest {
 protected:
  // Everything is back where it was: nothing runs, no request is open.
  void expect_quiet() {
    EXPECT_TRUE(generator.wait_until([](const FakeGenerator& g) { return g.running() == 0; }));
    const auto deadline = Deadline::in(std::chrono::seconds(20));
    while (server->stats().exchanges > 0 && !deadline.passed()) std::this_thread::yield();
    EXPECT_EQ(server->stats().exchanges, 0);
    EXPECT_EQ(get("/health/ready").status, 200);
  }
  static FakeGenerator::Answer endless(std::optional<std::size_t> hold_at = {}) {
    return [hold_at](const GenerationRequest&) { return Script{.tokens = bytes_of("word "), .hold_at = hold_at, .forever = true}; };
  }
};

TEST_F(StreamTest, ErrorAfterTheBeginning) {
  generator.set_answer([](const GenerationRequest&) { return Script{.tokens = bytes_of("Hello"), .fail_at = 3}; });
  for (const char* const path : {kChat, kCompletions}) {
    auto [client, head] = open_stream(path, R"({"prompt":"a","messages":[{"role":"user","content":"x"}],"stream":true})");
    EXPECT_EQ(head.status, 200);
    const auto events = client->read_events();
    ASSERT_GE(events.size(), 3U);
    EXPECT_EQ(events.back(), "[DONE]");
    ClientResponse error;
    error.body = events[events.size() - 2];
    EXPECT_EQ(error_of(error).at("code").as_string(), "internal_error");
    EXPECT_TRUE(client->stream_ended());
    EXPECT_TRUE(client->read_end());
  }
  expect_quiet();
}

TEST_F(StreamTest, ErrorBeforeTheBeginningIsAStatus) {
  const std::vector<std::pair<FailureCode, int>> codes = {{FailureCode::kInternal, 500},
                                                          {FailureCode::kUnavailable, 503},
                                                          {FailureCode::kDeadline, 504},
                                                          {FailureCode::kOverloaded, 429},
                                                          {FailureCode::kTooLarge, 400}};
  for (const auto& [code, status] : codes) {
    generator.set_answer([code = code](const GenerationRequest&) { return Script{.fail_at = 0, .error = {code, "scripted", {}}}; });
    for (const char* const extra : {"", R"("stream":true)"}) {
      const auto response = post(kChat, chat(extra));
      EXPECT_EQ(response.status, status);
      error_of(response);
      EXPECT_EQ(response.has("retry-after"), status == 429);
    }
  }
  expect_quiet();
}

TEST_F(StreamTest, ErrorOfOneChoiceEndsAll) {
  generator.set_answer([](const GenerationRequest& r) {
    Script s{.tokens = bytes_of("word "), .hold_at = 20, .forever = true};
    if (r.sampling.sample == 2) s.fail_at = 5;
    return s;
  });
  EXPECT_EQ(post(kChat, chat(R"("n":4)")).status, 500);
  expect_quiet();
  EXPECT_EQ(generator.cancelled(), 3);
}

TEST_F(StreamTest, RefusalInTheMiddleOfSubmittingCancelsTheRest) {
  generator.set_answer(endless(0));
  generator.set_capacity(3);
  const auto response = post(kChat, chat(R"("n":5,"stream":true)"));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  EXPECT_EQ(error_of(response).at("code").as_string(), "rate_limit_exceeded");
  expect_quiet();
  EXPECT_EQ(generator.cancelled(), 3);
}

TEST_F(StreamTest, SilenceIsFilledWithComments) {
  config.ping_interval = std::chrono::milliseconds(20);
  generator.set_answer([](const GenerationRequest&) { return Script{.tokens = bytes_of("Hi"), .hold_at = 0}; });
  auto [client, head] = open_stream(kChat, chat(R"("stream":true)"));  // the head comes although there is no token yet
  EXPECT_EQ(head.status, 200);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client->read_event(), ": ping");
  generator.release();
  std::string text;
  while (auto event = client->read_event()) {
    if (!event->starts_with('{')) continue;
    const auto chunk = parse_json(*event);
    const auto& delta = chunk->at("choices").as_array().at(0).at("delta").as_object();
    if (const auto* const content = delta.if_contains("content")) text += std::string(content->as_string());
  }
  EXPECT_EQ(text, "Hi");
}

TEST_F(StreamTest, ClientsThatLeaveAreCancelled) {
  generator.set_answer(endless(2));
  const auto leave = [&](const std::string& body, auto how, int tickets) {
    const int before = generator.cancelled();
    HttpClient client(port());
    client.send(HttpClient::format("POST", kChat, body));
    ASSERT_TRUE(generator.wait_until([&](const FakeGenerator& g) { return g.holding() == tickets; }));
    how(client);
    expect_quiet();
    EXPECT_EQ(generator.cancelled(), before + tickets);
  };
  leave(
      chat(R"("stream":true)"), [](HttpClient& c) { c.close(); }, 1);
  leave(
      chat(R"("stream":true)"), [](HttpClient& c) { c.reset(); }, 1);
  leave(
      chat(R"("stream":true)"), [](HttpClient& c) { c.half_close(); }, 1);
  leave(
      chat(R"("n":7)"), [](HttpClient& c) { c.close(); }, 7);
}

TEST_F(StreamTest, ManyStreamsWithRandomDisconnects) {
  config.http.io_threads = 2;
  generator.set_answer([](const GenerationRequest&) { return Script{.tokens = bytes_of("word "), .batch = 3, .forever = true}; });
  start();
  constexpr int kStreams = 64;
  std::atomic<int> whole = 0;
  std::atomic<int> left = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kStreams; ++t) {
    threads.emplace_back([&, t] {
      Random random(99, static_cast<std::uint64_t>(t));
      const bool leaves = random.chance(0.5);
      HttpClient client(port());
      const int tokens = leaves ? 4000 : random.range(1, 60);
      client.send(HttpClient::format("POST", kChat, chat(R"("stream":true,"n":2,"max_tokens":)" + std::to_string(tokens))));
      if (client.read_head().status != 200) return;
      if (leaves) {
        for (int n = random.range(0, 20); n > 0; --n) client.read_event();
        random.chance(0.5) ? client.close() : client.reset();
        ++left;
        return;
      }
      std::size_t length = 0;
      std::string last;
      while (auto event = client.read_event()) {
        last = *event;
        if (!event->starts_with('{')) continue;
        const auto chunk = parse_json(*event);
        if (const auto* const c = chunk->at("choices").as_array().at(0).at("delta").as_object().if_contains("content"))
          length += c->as_string().size();
      }
      if (last == "[DONE]" && length == 2U * static_cast<unsigned>(tokens)) ++whole;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(whole + left, kStreams);
  EXPECT_GT(whole, 10);
  EXPECT_GT(left, 10);
  expect_quiet();
  EXPECT_EQ(generator.submitted(), 2 * kStreams);
}

TEST_F(StreamTest, SlowReadersAreCutAndOthersGoOn) {
  config.http.stream_buffer_bytes_max = 32U << 10;
  generator.edit_model().context_length_max = 1 << 24;
  generator.set_answer([](const GenerationRequest& r) {
    return Script{.tokens = bytes_of("word "), .batch = r.prompt.size() > 5 ? 64 : 1, .forever = true};
  });
  std::vector<std::unique_ptr<HttpClient>> slow;
  start();
  for (int i = 0; i < 8; ++i) {
    slow.push_back(std::make_unique<HttpClient>(port(), 2048));
    slow.back()->send(HttpClient::format("POST", kCompletions, R"({"prompt":"long enough","stream":true,"max_tokens":16000000})"));
  }
  const auto events = stream(kCompletions, completion(R"("stream":true,"max_tokens":200)"));
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_TRUE(generator.wait_until([](const FakeGenerator& g) { return g.cancelled() == 8; }));
  for (auto& client : slow) {
    client->read_head();
    client->read_events();
    EXPECT_FALSE(client->stream_ended());
  }
  expect_quiet();
}

TEST_F(StreamTest, StopLetsStreamsEnd) {
  generator.set_answer([](const GenerationRequest&) { return Script{.tokens = bytes_of("Hello"), .hold_at = 2}; });
  auto [client, head] = open_stream(kChat, chat(R"("stream":true)"));
  ASSERT_TRUE(generator.wait_until([](const FakeGenerator& g) { return g.holding() == 1; }));
  HttpClient other(port());
  ASSERT_EQ(other.request("GET", "/health/ready").status, 200);
  std::thread stopper([this] { server->stop(Deadline::in(std::chrono::seconds(20))); });
  EXPECT_TRUE(other.read_end());
  generator.release();
  EXPECT_EQ(client->read_events().back(), "[DONE]");
  client->close();
  stopper.join();
  EXPECT_EQ(generator.cancelled(), 0);
  server.reset();
}

TEST_F(StreamTest, StopCutsAndCancelsAtTheDeadline) {
  generator.set_answer(endless(2));
  auto [client, head] = open_stream(kChat, chat(R"("stream":true,"n":3)"));
  ASSERT_TRUE(generator.wait_until([](const FakeGenerator& g) { return g.holding() == 3; }));
  server->stop(Deadline::in(std::chrono::milliseconds(30)));
  server.reset();
  EXPECT_TRUE(generator.wait_until([](const FakeGenerator& g) { return g.running() == 0 && g.cancelled() == 3; }));
  client->read_events();
  EXPECT_FALSE(client->stream_ended());
}

TEST_F(StreamTest, PipelinedRequestsAreAnsweredInOrder) {
  HttpClient client(port());
  client.send(HttpClient::format("POST", kChat, chat(R"("stream":true)")) + HttpClient::format("POST", kChat, chat()) +
              HttpClient::format("GET", "/version") + HttpClient::format("POST", kCompletions, "{"));
  EXPECT_EQ(client.read_head().status, 200);
  EXPECT_EQ(client.read_events().back(), "[DONE]");
  EXPECT_EQ(client.read().parsed().at("object").as_string(), "chat.completion");
  EXPECT_TRUE(client.read().parsed().as_object().contains("version"));
  EXPECT_EQ(client.read().status, 400);
}

TEST_F(StreamTest, TimeLimitOfARequest) {
  config.request_timeout = std::chrono::hours(1);
  EXPECT_EQ(post(kChat, chat()).status, 200);
  const auto left = generator.requests().at(0).deadline.left();
  EXPECT_LE(left, Duration(std::chrono::hours(1)));
  EXPECT_GT(left, Duration(std::chrono::minutes(50)));
}

TEST_F(StreamTest, ContinuousUsage) {
  std::int64_t last = -1;
  for (const auto& event :
       stream(kCompletions, completion(R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})"))) {
    if (event == "[DONE]") break;
    const auto usage = parse_json(event)->at("usage");
    ASSERT_TRUE(usage.is_object()) << event;
    EXPECT_GE(usage.at("completion_tokens").as_int64(), last);
    last = usage.at("completion_tokens").as_int64();
  }
  EXPECT_EQ(last, 6);
}

}  // namespace
}  // namespace qwell::test
