#include "net/http_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "server/support/http_client.h"

namespace qwell::net {
namespace {

using std::chrono::milliseconds;
using test::HttpClient;

// Paths: /echo answers with the body; /who with method, path, query, peer's presence and the header x-test; /throw throws; /hold keeps the
// exchange for the test; /stream sends head and one piece and keeps it; /flood streams 64 KiB pieces until the peer is cut.
class HttpServerTest : public testing::Test {
 protected:
  void start() {
    server_ = std::make_unique<HttpServer>(config_, [this](const std::shared_ptr<HttpExchange>& e) { handle(e); });
    server_->start();
  }
  std::uint16_t port() {
    if (!server_) start();
    return server_->port();
  }

  void handle(const std::shared_ptr<HttpExchange>& e) {
    const auto& r = e->request();
    if (r.path == "/throw") throw std::runtime_error("on purpose");
    if (r.path == "/hold" || r.path == "/stream") return hold(e);
    if (r.path == "/flood") return flood(e);
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = r.path == "/who" ? r.method + " " + r.path + " " + r.query + " " + std::string(r.header("x-test")) : r.body;
    e->send(std::move(response));
  }

  void hold(const std::shared_ptr<HttpExchange>& e) {
    e->on_disconnect([this] { count(disconnects_); });
    if (e->request().path == "/stream") {
      e->on_silence(milliseconds(20), [e] { e->write(": ping\n\n"); });
      HttpResponse head;
      head.content_type = "text/event-stream";
      head.body = "data: 0\n\n";
      e->start_stream(std::move(head));
    }
    const std::lock_guard lock(mutex_);
    held_.push_back(e);
    changed_.notify_all();
  }

  void flood(const std::shared_ptr<HttpExchange>& e) {
    e->on_disconnect([this] { count(disconnects_); });
    e->start_stream({});
    pour(e);
  }
  void pour(const std::shared_ptr<HttpExchange>& e) {
    if (e->write(std::string(1U << 14, 'x'))) e->post([this, e] { pour(e); });
  }

  void count(int& counter) {
    const std::lock_guard lock(mutex_);
    ++counter;
    changed_.notify_all();
  }
  bool wait(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), condition);
  }
  bool connections_fall_to(int n) {
    const auto deadline = Deadline::in(std::chrono::seconds(20));
    while (server_->stats().connections > n && !deadline.passed()) std::this_thread::yield();
    return server_->stats().connections <= n;
  }
  std::shared_ptr<HttpExchange> held(std::size_t i = 0) {
    EXPECT_TRUE(wait([&] { return held_.size() > i; }));
    const std::lock_guard lock(mutex_);
    return held_.at(i);
  }

  HttpServerConfig config_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<HttpExchange>> held_;
  int disconnects_ = 0;
  std::unique_ptr<HttpServer> server_;
};

json::value error_of(const test::ClientResponse& response) {
  const auto body = response.parsed();
  EXPECT_TRUE(body.is_object() && body.get_object().contains("error")) << response.body;
  return body.is_object() ? body.at("error") : json::value();
}

TEST_F(HttpServerTest, KeepsAliveAndPipelines) {
  HttpClient client(port());
  std::string both;
  for (int i = 0; i < 40; ++i) both += HttpClient::format("POST", "/echo", "body " + std::to_string(i));
  client.send(both);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(client.read().body, "body " + std::to_string(i));
  // Cut at every byte.
  for (const char c : HttpClient::format("POST", "/echo", "slow")) client.send(std::string(1, c));
  EXPECT_EQ(client.read().body, "slow");
  EXPECT_EQ(server_->stats().connections, 1);
}

TEST_F(HttpServerTest, ReadsTargetsAndHeaders) {
  HttpClient client(port());
  EXPECT_EQ(client.request("GET", "/who?a=1&b", {}, "X-Test:   v w \r\n").body, "GET /who a=1&b v w");
  EXPECT_EQ(client.request("GET", "http://host:1/who?q").body, "GET /who q ");
  client.send("\r\n\r\nGET /who HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.read().body, "GET /who  ");
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  HttpClient client(port());
  const auto head = client.request("HEAD", "/who");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "11");
  EXPECT_EQ(client.request("GET", "/who").body, "GET /who  ");
}

TEST_F(HttpServerTest, ReadsChunkedBodies) {
  HttpClient client(port());
  client.send("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n");
  EXPECT_EQ(client.read().body, "abcdefg");
}

TEST_F(HttpServerTest, AnswersExpectations) {
  HttpClient client(port());
  client.send("POST /echo HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_head().status, 100);
  client.send("body");
  EXPECT_EQ(client.read().body, "body");
  client.send("POST /echo HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nfast");  // does not wait
  EXPECT_EQ(client.read().body, "fast");
  client.send("POST /echo HTTP/1.1\r\nContent-Length: 4\r\nExpect: wonders\r\n\r\n");
  EXPECT_EQ(client.read().status, 417);
}

TEST_F(HttpServerTest, Http10) {
  HttpClient client(port());
  client.send("GET /who HTTP/1.0\r\n\r\n");
  const auto response = client.read();
  EXPECT_EQ(response.body, "GET /who  ");
  EXPECT_TRUE(client.read_end());
  HttpClient streaming(port());
  streaming.send("GET /stream HTTP/1.0\r\n\r\n");
  const auto e = held();
  e->post([e] { e->finish(); });
  const auto all = streaming.read();
  EXPECT_FALSE(all.has("transfer-encoding"));
  EXPECT_TRUE(all.body.starts_with("data: 0\n\n"));
}

TEST_F(HttpServerTest, RefusesWhatIsNotHttp) {
  for (const char* const text :
       {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /\x01 HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "POST /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n", "POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST /echo HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    HttpClient client(port());
    client.send(text);
    const auto response = client.read();
    EXPECT_EQ(response.status, 400) << text;
    error_of(response);
    EXPECT_EQ(response.headers.at("connection"), "close");
    EXPECT_TRUE(client.read_end());
  }
  HttpClient client(port());
  client.send("POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(client.read().status, 501);
}

TEST_F(HttpServerTest, LimitsHeadAndBody) {
  config_.header_bytes_max = 1000;
  config_.body_bytes_max = 5000;
  HttpClient big_head(port());
  big_head.send("GET /who HTTP/1.1\r\nX: " + std::string(5000, 'x') + "\r\n\r\n");
  EXPECT_EQ(big_head.read().status, 431);
  HttpClient endless_head(port());
  endless_head.send("GET /who HTTP/1.1\r\nX: " + std::string(5000, 'x'));
  EXPECT_EQ(endless_head.read().status, 431);
  HttpClient big_body(port());
  big_body.send(HttpClient::format("POST", "/echo", std::string(5001, 'x')));
  const auto refused = big_body.read();
  EXPECT_EQ(refused.status, 413);
  error_of(refused);
  HttpClient announced(port());
  announced.send("POST /echo HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n");
  EXPECT_EQ(announced.read().status, 413);
  HttpClient overflow(port());
  overflow.send("POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999999\r\n\r\n");
  EXPECT_EQ(overflow.read().status, 400);
  HttpClient chunked(port());
  chunked.send("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n" + std::string(4096, 'x') + "\r\n1000\r\n" +
               std::string(4096, 'x') + "\r\n");
  EXPECT_EQ(chunked.read().status, 413);
  HttpClient fits(port());
  EXPECT_EQ(fits.request("POST", "/echo", std::string(5000, 'x')).body.size(), 5000U);
}

TEST_F(HttpServerTest, LimitsTheSumOfBodies) {
  config_.bodies_bytes_max = 10000;
  config_.linger_timeout = milliseconds(50);
  HttpClient first(port());
  first.send(HttpClient::format("POST", "/hold", std::string(8000, 'x')));
  const auto e = held();
  HttpClient second(port());
  const auto refused = second.request("POST", "/echo", std::string(4000, 'x'));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused).at("code").as_string(), "server_overloaded");
  EXPECT_EQ(HttpClient(port()).request("POST", "/echo", std::string(1500, 'x')).status, 200);
  e->post([e] { e->send({}); });
  EXPECT_EQ(first.read().status, 200);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(HttpClient(port()).request("POST", "/echo", std::string(9000, 'x')).status, 200);
  HttpClient gone(port());
  gone.send("POST /echo HTTP/1.1\r\nContent-Length: 9999\r\n\r\n" + std::string(9000, 'x'));
  gone.close();
  EXPECT_EQ(first.request("POST", "/who", std::string(500, 'x')).status, 200);
  EXPECT_TRUE(connections_fall_to(1));
  EXPECT_EQ(first.request("POST", "/echo", std::string(9999, 'x')).status, 200);
}

TEST_F(HttpServerTest, LargeAnswerToAClientThatIsStillSending) {
  config_.body_bytes_max = 1000;
  HttpClient client(port());
  client.send(HttpClient::format("POST", "/echo", std::string(4U << 20, 'x')));  // all of it goes out: the server lingers
  EXPECT_EQ(client.read().status, 413);
}

TEST_F(HttpServerTest, TimesOutSlowRequests) {
  config_.read_timeout = milliseconds(60);
  config_.idle_timeout = milliseconds(120);
  HttpClient never(port());
  EXPECT_TRUE(never.read_end());  // idle: closed without a word
  HttpClient slow(port());
  slow.send("GET /who HTT");
  const auto response = slow.read();
  EXPECT_EQ(response.status, 408);
  error_of(response);
  HttpClient slow_body(port());
  slow_body.send("POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(slow_body.read().status, 408);
  HttpClient good(port());
  EXPECT_EQ(good.request("GET", "/who").status, 200);
  EXPECT_TRUE(good.read_end());
}

TEST_F(HttpServerTest, AThrowingHandlerCostsOneRequest) {
  HttpClient client(port());
  const auto response = client.request("GET", "/throw");
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body.find("on purpose"), std::string::npos);
  EXPECT_EQ(HttpClient(port()).request("GET", "/who").status, 200);
}

TEST_F(HttpServerTest, StreamsAndGoesOn) {
  HttpClient client(port());
  client.send(HttpClient::format("GET", "/stream") + HttpClient::format("GET", "/who"));  // the second waits its turn
  const auto e = held();
  EXPECT_EQ(client.read_head().status, 200);
  EXPECT_EQ(client.read_event(), "0");
  EXPECT_EQ(client.read_event(), ": ping");
  EXPECT_EQ(client.read_event(), ": ping");
  std::thread other([&] {
    for (int i = 1; i <= 100; ++i) e->post([e, i] { e->write("data: " + std::to_string(i) + "\n\n"); });
    e->post([e] {
      e->finish();
      EXPECT_FALSE(e->open());
      EXPECT_FALSE(e->write("too late"));
    });
  });
  int next = 1;
  while (auto event = client.read_event()) {
    if (*event == ": ping") continue;
    EXPECT_EQ(*event, std::to_string(next++));
  }
  other.join();
  EXPECT_EQ(next, 101);
  EXPECT_TRUE(client.stream_ended());
  EXPECT_EQ(client.read().body, "GET /who  ");
  EXPECT_EQ(disconnects_, 0);
}

TEST_F(HttpServerTest, SeesClientsGo) {
  const auto gone = [this](const char* path, auto leave, int total) {
    HttpClient client(port());
    client.send(HttpClient::format("GET", path));
    held(static_cast<std::size_t>(total - 1));
    leave(client);
    EXPECT_TRUE(wait([&] { return disconnects_ == total; }));
    EXPECT_FALSE(held(static_cast<std::size_t>(total - 1))->open());
  };
  gone(
      "/hold", [](HttpClient& c) { c.close(); }, 1);
  gone(
      "/hold", [](HttpClient& c) { c.reset(); }, 2);
  gone(
      "/hold", [](HttpClient& c) { c.half_close(); }, 3);
  gone(
      "/stream", [](HttpClient& c) { c.close(); }, 4);
  gone(
      "/stream", [](HttpClient& c) { c.reset(); }, 5);
  gone(
      "/stream", [](HttpClient& c) { c.half_close(); }, 6);
  // Also behind a pipelined request that nobody will answer.
  gone(
      "/hold",
      [](HttpClient& c) {
        c.send(HttpClient::format("GET", "/who"));
        c.close();
      },
      7);
  held(0)->post([e = held(0)] { e->send({}); });  // too late, and harmless
  EXPECT_EQ(HttpClient(port()).request("GET", "/who").status, 200);
}

TEST_F(HttpServerTest, CutsReadersThatDoNotRead) {
  config_.stream_buffer_bytes_max = 64U << 10;
  HttpClient client(port(), 4096);
  client.send(HttpClient::format("GET", "/flood"));
  EXPECT_TRUE(wait([&] { return disconnects_ == 1; }));
  EXPECT_EQ(HttpClient(port()).request("GET", "/who").status, 200);
}

TEST_F(HttpServerTest, CutsAnswersThatAreNotTaken) {
  config_.write_timeout = milliseconds(60);
  config_.body_bytes_max = 64U << 20;
  HttpClient client(port(), 4096);
  const std::string body(16U << 20, 'x');  // more than the kernel's buffers on both sides
  client.send(HttpClient::format("POST", "/echo", body));
  EXPECT_TRUE(connections_fall_to(0));
  EXPECT_EQ(client.read().status, 0);
}

TEST_F(HttpServerTest, StopWaitsForWorkAndRefusesMore) {
  HttpClient idle(port());
  HttpClient busy(port());
  busy.send(HttpClient::format("GET", "/stream"));
  const auto e = held();
  busy.read_head();
  std::thread stopper([&] { server_->stop(Deadline::in(std::chrono::seconds(20))); });
  EXPECT_TRUE(idle.read_end());
  e->post([e] {
    e->write("data: last\n\n");
    e->finish();
  });
  const auto events = busy.read_events();
  EXPECT_EQ(events.back(), "last");
  EXPECT_TRUE(busy.stream_ended());
  busy.close();
  stopper.join();
  EXPECT_EQ(disconnects_, 0);
  EXPECT_FALSE(HttpClient(server_->port()).connected());
}

TEST_F(HttpServerTest, StopCutsWhatDoesNotEnd) {
  HttpClient client(port());
  client.send(HttpClient::format("GET", "/stream"));
  const auto e = held();
  server_->stop(Deadline::in(milliseconds(50)));
  EXPECT_EQ(disconnects_, 1);
  EXPECT_FALSE(e->open());
  e->post([] { FAIL() << "ran after the stop"; });
  client.read_head();
  client.read_events();
  EXPECT_FALSE(client.stream_ended());
  server_.reset();
  e->post([] { FAIL() << "ran after the end"; });
}

TEST_F(HttpServerTest, BoundsConnections) {
  config_.connections_max = 2;
  HttpClient first(port());
  EXPECT_EQ(first.request("GET", "/who").status, 200);
  HttpClient second(port());
  EXPECT_EQ(second.request("GET", "/who").status, 200);
  HttpClient third(port());
  EXPECT_TRUE(third.read_end());
  EXPECT_EQ(first.request("GET", "/who").status, 200);
}

TEST_F(HttpServerTest, SurvivesRunningOutOfFileDescriptors) {
  HttpClient before(port());
  EXPECT_EQ(before.request("GET", "/who").status, 200);
  HttpClient waiting(port());  // its two descriptors exist already
  EXPECT_EQ(waiting.request("GET", "/who").status, 200);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  std::unique_ptr<HttpClient> late;
  {
    std::vector<int> files;
    const rlimit small{.rlim_cur = 64, .rlim_max = old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
    for (int file = 0; file >= 0 && files.size() < 100;) {
      file = ::open("/dev/null", O_RDONLY);
      if (file >= 0) files.push_back(file);
    }
    ::close(files.back());  // one for the client, none for the server
    files.pop_back();
    late = std::make_unique<HttpClient>(server_->port());
    late->send(HttpClient::format("GET", "/who"));
    EXPECT_EQ(before.request("GET", "/who").status, 200);
    for (const int file : files) ::close(file);
  }
  EXPECT_EQ(late->read().status, 200);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
}

TEST(HttpServerSetup, NamesWhatItCannotBind) {
  HttpServer first({}, [](const std::shared_ptr<HttpExchange>&) {});
  first.start();
  HttpServerConfig taken;
  taken.port = first.port();
  HttpServer second(taken, [](const std::shared_ptr<HttpExchange>&) {});
  try {
    second.start();
    FAIL() << "bound a port twice";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(std::to_string(first.port())), std::string::npos) << e.what();
  }
}

TEST(HttpServerSetup, ManyConnectionsOverThreads) {
  HttpServerConfig config;
  config.io_threads = 3;
  HttpServer server(config, [](const std::shared_ptr<HttpExchange>& e) {
    HttpResponse response;
    response.body = e->request().body;
    e->send(std::move(response));
  });
  server.start();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        HttpClient client(server.port());
        for (int k = 0; k < 5; ++k) {
          const std::string body = std::to_string(t * 1000 + i * 10 + k);
          if (client.request("POST", "/", body).body == body) ++good;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

}  // namespace
}  // namespace qwell::net
