#pragma once
// A running server on a free loopback port, with a scripted generator behind it.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/server.h"
#include "server/support/byte_codec.h"
#include "server/support/fake_generator.h"
#include "server/support/http_client.h"

namespace qwell::test {

class ServerTest : public testing::Test {
 protected:
  ServerTest() : generator(say("Hello")) {}

  void start() {
    server = std::make_unique<server::Server>(config, generator, codec);
    server->start();
  }
  std::uint16_t port() {
    if (!server) start();
    return server->port();
  }
  ClientResponse get(const std::string& path, const std::string& headers = {}) {
    return HttpClient(port()).request("GET", path, {}, headers);
  }
  ClientResponse post(const std::string& path, const std::string& body, const std::string& headers = {}) {
    return HttpClient(port()).request("POST", path, body, headers);
  }
  // Sends a request and returns the stream's head with the client that will read the events.
  std::pair<std::unique_ptr<HttpClient>, ClientResponse> open_stream(const std::string& path, const std::string& body) {
    auto client = std::make_unique<HttpClient>(port());
    client->send(HttpClient::format("POST", path, body));
    auto head = client->read_head();
    return {std::move(client), std::move(head)};
  }
  std::vector<std::string> stream(const std::string& path, const std::string& body) {
    auto [client, head] = open_stream(path, body);
    EXPECT_EQ(head.status, 200);
    EXPECT_TRUE(head.headers["content-type"].starts_with("text/event-stream"));
    return client->read_events();
  }

  // The error of a refused request, checked for its form (cases.md, rule 4).
  static json::object error_of(const ClientResponse& response) {
    const json::value body = response.parsed();
    const auto* const object = body.is_object() ? body.get_object().if_contains("error") : nullptr;
    if (object == nullptr || !object->is_object()) {
      ADD_FAILURE() << response.status << " " << response.body;
      return {};
    }
    const auto& error = object->get_object();
    for (const char* const key : {"message", "type", "param", "code"}) EXPECT_TRUE(error.contains(key)) << response.body;
    EXPECT_TRUE(error.at("message").is_string());
    EXPECT_TRUE(error.at("param").is_string() || error.at("param").is_null());
    EXPECT_TRUE(error.at("code").is_string() || error.at("code").is_null());
    EXPECT_EQ(response.body.find("/secret"), std::string::npos);
    return error;
  }
  void expect_refused(const std::string& path, const std::string& body, const std::string& param, int status = 400) {
    const int before = taken();
    const auto response = post(path, body);
    EXPECT_EQ(response.status, status) << body << "\n" << response.body;
    const auto error = error_of(response);
    if (error.contains("param")) {
      EXPECT_EQ(error.at("param").is_null() ? "" : std::string(error.at("param").as_string()), param) << body << "\n" << response.body;
    }
    EXPECT_EQ(taken(), before) << "a refused request reached the generator: " << body;
  }
  int taken() { return static_cast<int>(generator.requests().size()); }

  server::ServerConfig config;
  ByteCodec codec;
  FakeGenerator generator;
  std::unique_ptr<server::Server> server;  // goes first
};

// {"messages":[{"role":"user","content":"hi"}], EXTRA}
inline std::string chat(const std::string& extra = {}) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (extra.empty() ? "" : "," + extra) + "}";
}
inline std::string completion(const std::string& extra = {}) { return R"({"prompt":"ab")" + (extra.empty() ? "" : "," + extra) + "}"; }

}  // namespace qwell::test
