// Scoring: which answers count, which tokens are scored, what a damaged set says. The generator is a stand-in that answers by a rule.

#include "bench/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"

namespace qwell {
namespace {

// Greedy requests get the scripted answer of their first prompt token; prompts are scored with a logprob of -1 a token.
class Scripted final : public Generator {
 public:
  explicit Scripted(std::map<TokenId, std::vector<TokenId>> answers) : answers_(std::move(answers)) {}

  Result<Ticket> submit(GenerationRequest request, std::shared_ptr<UpdateListener> listener) override {
    Update update;
    if (request.max_tokens == 0) {
      for (std::size_t i = 0; i < request.prompt.size(); ++i) {
        if (i == 0) {
          update.prompt_logprobs.emplace_back(std::nullopt);
        } else {
          update.prompt_logprobs.emplace_back(
              TokenEvent{.index = static_cast<int>(i), .token = request.prompt[i], .logprob = -1.0F, .top = {}});
        }
      }
      update.finish = FinishReason::kLength;
    } else {
      EXPECT_EQ(request.sampling.temperature, 0.0F);
      for (const TokenId token : answers_.at(request.prompt.front())) {
        update.tokens.push_back({.index = static_cast<int>(update.tokens.size()), .token = token, .logprob = 0, .top = {}});
      }
      update.finish = FinishReason::kStop;
    }
    listener->on_update(std::move(update));
    return Ticket{1};
  }
  void cancel(Ticket) override {}
  const ModelInfo& model() const override { return info_; }
  GeneratorStatus status() const override { return {}; }

 private:
  std::map<TokenId, std::vector<TokenId>> answers_;
  ModelInfo info_;
};

std::filesystem::path folder_with(const std::map<std::string, std::string>& files) {
  static int number = 0;
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("eval_set_" + std::to_string(++number));
  std::filesystem::create_directories(folder);
  for (const auto& [name, text] : files) write_file(folder / name, text);
  return folder;
}

TEST(Evaluate, ScoresTasksAndPerplexity) {
  const Tokenizer tokenizer = Tokenizer::load(QWELL_SOURCE_DIR "/models/demo");
  const auto ids = [&](std::string_view text) { return tokenizer.encode(text); };
  const TokenId stop = *tokenizer.id_of("<|im_end|>");
  const auto answer = [&](std::string_view text) {
    auto tokens = ids(text);
    tokens.push_back(stop);
    return tokens;
  };
  const auto folder = folder_with({{"tasks.jsonl", R"({"task":"a","messages":[{"role":"user","content":"1"}],"answer":"42","max_tokens":8}
{"task":"a","messages":[{"role":"user","content":"2"}],"answer":"42","max_tokens":8}

{"task":"b","messages":[{"role":"user","content":"3"}],"answer":"42","max_tokens":8,"extract":"last_line"}
)"},
                                   {"text.jsonl", "{\"text\":\"abc def\"}\n"}});
  const EvalSet set = read_eval_set(folder);
  ASSERT_EQ(set.tasks.size(), 3U);
  EXPECT_TRUE(set.tasks[2].last_line);
  Scripted generator({{1, answer(" 42\n")}, {2, answer("the answer is 42")}, {3, answer("40 + 2\n 42 ")}});
  const RenderChat render = [](const json::array& messages, bool) {
    return std::vector<TokenId>{static_cast<TokenId>(messages[0].at("content").as_string()[0] - '0')};
  };
  int last_done = 0;
  const EvalResult result = evaluate(generator, tokenizer, render, {stop}, set, {}, [&](int done, int total) {
    EXPECT_EQ(total, 4);
    last_done = done;
  });
  EXPECT_EQ(last_done, 4);
  EXPECT_EQ(result.tasks.at("a").n, 2);
  EXPECT_EQ(result.tasks.at("a").right, 1);
  EXPECT_EQ(result.tasks.at("b").right, 1);
  EXPECT_EQ(result.text.tokens, static_cast<std::int64_t>(ids("abc def").size()) - 1);
  EXPECT_NEAR(result.text.perplexity(), std::exp(1.0), 1e-6);
  EXPECT_EQ(result.chats.tokens, 0);
}

TEST(Evaluate, DamagedSetsAreNamedByFileAndLine) {
  const auto message = [](const std::map<std::string, std::string>& files) -> std::string {
    try {
      read_eval_set(folder_with(files));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({}).find("no tasks.jsonl"), std::string::npos);
  EXPECT_NE(message({{"text.jsonl", "{\"text\":\"a\"}\n{\"text\":"}}).find("text.jsonl:2"), std::string::npos);
  EXPECT_NE(message({{"text.jsonl", "[1]\n"}}).find("text.jsonl:1"), std::string::npos);
  EXPECT_NE(message({{"tasks.jsonl", "{\"task\":\"a\"}\n"}}).find("tasks.jsonl:1"), std::string::npos);
  EXPECT_NE(message({{"tasks.jsonl", R"({"task":"a","messages":[],"answer":"","max_tokens":1,"extract":"first"})"}}).find("\"first\""),
            std::string::npos);
}

}  // namespace
}  // namespace qwell
