// The engine as a whole, on a small random model: the same tokens and logprobs whatever the topology, the batch, the chunking, the page
// size, a cached prefix or preemption; nothing leaks; cancelled and refused requests cost the others nothing.

#include "control/local_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/random.h"
#include "support/small_model.h"

namespace qwell {
namespace {

using testing::small_config;

std::unique_ptr<LocalEngine> make_engine(const EngineOptions& options, std::uint64_t weights_seed = 1) {
  const ModelConfig config = small_config();
  const auto source = make_random_source(config, weights_seed);
  LocalEngine::Config engine;
  engine.options = options;
  engine.options.isa = select_cpu_isa(nullptr);
  engine.served_name = "small";
  engine.model_id = "small";
  return std::make_unique<LocalEngine>(engine, config, *source);
}

EngineOptions plain_options() {
  EngineOptions o;
  o.max_model_len = 256;
  o.max_num_seqs = 8;
  o.max_num_batched_tokens = 64;
  o.kv_bytes = std::size_t{16} << 20;
  o.threads = 1;
  return o;
}

// Hardly more than one sequence of full length needs in each pool.
std::size_t least_kv_bytes(const EngineOptions& o) {
  const ModelConfig c = small_config();
  std::size_t largest = 0;
  for (const int page : {o.page_tokens, o.prefill_page_tokens > 0 ? o.prefill_page_tokens : o.page_tokens}) {
    const PageLayout layout{o.act, page, std::max(c.num_kv_heads, o.prefill_ranks), c.head_dim};
    const auto pages = static_cast<std::size_t>(layout.pages_for(o.max_model_len) + 2);
    largest = std::max(largest, pages * static_cast<std::size_t>(layout.page_bytes()) * static_cast<std::size_t>(c.num_layers));
  }
  return largest * static_cast<std::size_t>(o.decode_ranks + 1);
}

GenerationRequest random_request(Random& random, const std::vector<TokenId>& shared_prefix) {
  GenerationRequest r;
  if (random.chance(0.4)) r.prompt = shared_prefix;
  const int more = random.range(1, random.chance(0.2) ? 150 : 20);
  for (int i = 0; i < more; ++i) r.prompt.push_back(random.range(0, 130));
  r.max_tokens = random.range(1, 24);
  r.logprobs = random.range(-1, 3);
  r.sampling.seed = random.bits64();
  r.sampling.temperature = random.chance(0.3) ? 0.0F : 0.5F + random.uniform();
  if (random.chance(0.3)) r.sampling.top_k = random.range(1, 20);
  if (random.chance(0.3)) r.sampling.top_p = 0.3F + 0.7F * random.uniform();
  if (random.chance(0.2)) r.sampling.min_p = 0.1F;
  if (random.chance(0.2)) r.sampling.repetition_penalty = 1.3F;
  if (random.chance(0.2)) r.sampling.frequency_penalty = 0.5F;
  if (random.chance(0.2)) r.sampling.logit_bias = {{7, 4.0F}, {9, -100.0F}};
  if (random.chance(0.3)) r.stop_token_ids = {random.range(0, 130), random.range(0, 130)};
  if (random.chance(0.2)) r.min_tokens = random.range(0, r.max_tokens);
  if (random.chance(0.15)) r.prompt_logprobs = 1;
  return r;
}

// Everything that a client could see, with the bits of every number.
std::string fingerprint(const Completion& c) {
  std::string out = to_string(c.finish);
  const auto add = [&](const TokenEvent& t) {
    out += fmt::format(" {}:{}:{:08x}", t.index, t.token, std::bit_cast<std::uint32_t>(t.logprob));
    for (const auto& top : t.top) out += fmt::format(",{}:{:08x}", top.token, std::bit_cast<std::uint32_t>(top.logprob));
  };
  for (const TokenEvent& t : c.tokens) add(t);
  out += " |";
  for (const auto& t : c.prompt_logprobs) {
    if (t) add(*t);
  }
  return out;
}

// Takes all of a request's updates and checks their order.
class Recorder final : public UpdateListener {
 public:
  void on_update(Update update) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(completion.finish, FinishReason::kNone) << "an update after the last";
    for (TokenEvent& t : update.tokens) {
      EXPECT_EQ(t.index, static_cast<int>(completion.tokens.size()));
      completion.tokens.push_back(std::move(t));
    }
    if (!update.prompt_logprobs.empty()) {
      EXPECT_TRUE(completion.prompt_logprobs.empty());
      completion.prompt_logprobs = std::move(update.prompt_logprobs);
    }
    completion.finish = update.finish;
    completion.timing = update.timing;
    completion.cached_tokens = update.cached_tokens;
    error = update.error;
    ended.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(ended.wait_for(lock, std::chrono::seconds(60), [&] { return completion.finish != FinishReason::kNone; }))
        << "no last update";
  }
  void wait_tokens(std::size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(ended.wait_for(lock, std::chrono::seconds(60),
                               [&] { return completion.finish != FinishReason::kNone || completion.tokens.size() >= count; }));
  }

  Completion completion;
  std::optional<Failure> error;

 private:
  std::mutex mutex_;
  std::condition_variable ended;
};

void expect_all_free(const LocalEngine& engine) {
  const GeneratorStatus status = engine.status();
  EXPECT_EQ(status.pages_used, 0);
  EXPECT_EQ(status.sessions_open, 0);
  EXPECT_EQ(status.waiting, 0);
  EXPECT_EQ(status.running, 0);
  EXPECT_TRUE(status.ready) << status.reason;
}

// Results of the requests, sent together in random order, in the order of `requests`.
std::vector<std::string> run_together(LocalEngine& engine, const std::vector<GenerationRequest>& requests, Random& random) {
  std::vector<std::shared_ptr<Recorder>> recorders(requests.size());
  std::vector<std::size_t> order(requests.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  for (const std::size_t i : order) {
    recorders[i] = std::make_shared<Recorder>();
    EXPECT_TRUE(engine.submit(requests[i], recorders[i]));
  }
  std::vector<std::string> results;
  for (auto& recorder : recorders) {
    recorder->wait();
    EXPECT_FALSE(recorder->error) << recorder->error->message;
    results.push_back(fingerprint(recorder->completion));
  }
  return results;
}

TEST(Engine, SameBitsInEveryTopologyAndMix) {
  int mixes = 0;
  for (const DType act : {DType::kBf16, DType::kF32}) {
    Random random(act == DType::kBf16 ? 11 : 12);
    std::vector<TokenId> prefix;
    for (int i = 0; i < 70; ++i) prefix.push_back(random.range(0, 130));
    std::vector<GenerationRequest> requests;
    for (int i = 0; i < 16; ++i) requests.push_back(random_request(random, prefix));

    // Alone, one rank, no disaggregation, nothing cached.
    EngineOptions reference = plain_options();
    reference.act = act;
    reference.disaggregated = false;
    reference.prefix_caching = false;
    std::vector<std::string> expected;
    {
      auto engine = make_engine(reference);
      for (const auto& request : requests) {
        auto done = complete(*engine, request);
        ASSERT_TRUE(done) << done.failure().message;
        expected.push_back(fingerprint(*done));
      }
      expect_all_free(*engine);
    }
    for (int topology = 0; topology < 50; ++topology) {
      EngineOptions o = plain_options();
      o.act = act;
      o.disaggregated = random.chance(0.8);
      o.prefill_ranks = 1 << random.range(0, 3);
      o.decode_ranks = 1 << random.range(0, 2);
      o.page_tokens = 16 << random.range(0, 3);
      o.prefill_page_tokens = random.chance(0.5) ? 16 << random.range(0, 3) : 0;
      o.max_num_seqs = random.range(1, 8);
      o.max_num_batched_tokens = random.range(8, 100);
      o.prefix_caching = random.chance(0.7);
      o.threads = random.range(1, 3);
      // Sometimes hardly more pages than the longest sequence needs, so that sequences are preempted.
      if (random.chance(0.4)) o.kv_bytes = least_kv_bytes(o);
      SCOPED_TRACE(fmt::format("topology {}: disaggregated {} prefill {} decode {} pages {} {} seqs {} rows {} cached {} kv {}", topology,
                               o.disaggregated, o.prefill_ranks, o.decode_ranks, o.page_tokens, o.prefill_page_tokens, o.max_num_seqs,
                               o.max_num_batched_tokens, o.prefix_caching, o.kv_bytes));
      auto engine = make_engine(o);
      for (int round = 0; round < 2; ++round) {
        std::vector<GenerationRequest> some;
        std::vector<std::string> wanted;
        for (std::size_t i = 0; i < requests.size(); ++i) {
          if (random.chance(0.3)) continue;
          some.push_back(requests[i]);
          wanted.push_back(expected[i]);
        }
        const auto got = run_together(*engine, some, random);
        for (std::size_t i = 0; i < some.size(); ++i) ASSERT_EQ(got[i], wanted[i]) << "request " << i << " of round " << round;
        ++mixes;
      }
      expect_all_free(*engine);
    }
  }
  RecordProperty("mixes", mixes);
}

TEST(Engine, PreemptedSequencesGoOnWithTheSameTokens) {
  EngineOptions o = plain_options();
  o.decode_ranks = 1;
  o.prefill_ranks = 2;
  // 17 pages a pool: two sequences are admitted with 6 each and need 14 in the end.
  o.kv_bytes = std::size_t{2} * 17 * 2 * static_cast<std::size_t>(PageLayout{DType::kBf16, 16, 4, 16}.page_bytes());
  Random random(5);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 6; ++i) {
    GenerationRequest r;
    for (int t = 0; t < 20; ++t) r.prompt.push_back(random.range(0, 130));
    r.max_tokens = 200;
    r.logprobs = 0;
    r.sampling.seed = static_cast<std::uint64_t>(i);
    requests.push_back(r);
  }
  std::vector<std::string> expected;
  {
    auto engine = make_engine(plain_options());
    for (const auto& request : requests) expected.push_back(fingerprint(*complete(*engine, request)));
  }
  auto engine = make_engine(o);
  const auto got = run_together(*engine, requests, random);
  EXPECT_EQ(got, expected);
  EXPECT_GT(engine->status().preemptions, 0U);
  expect_all_free(*engine);
}

TEST(Engine, KvBytesMovedAreTheKvBytes) {
  EngineOptions o = plain_options();
  o.prefill_ranks = 4;
  o.decode_ranks = 2;
  o.page_tokens = 64;
  o.prefill_page_tokens = 16;
  auto engine = make_engine(o);
  GenerationRequest r;
  for (int i = 0; i < 100; ++i) r.prompt.push_back(i);
  r.max_tokens = 2;
  auto first = complete(*engine, r);
  ASSERT_TRUE(first);
  const std::uint64_t per_token = 2 /* layers */ * 2 /* K, V */ * 4 /* heads */ * 16 /* dim */ * 2 /* bytes */;
  EXPECT_EQ(first->timing.kv_bytes_moved, 100 * per_token);
  // The decode rank has the first page already.
  auto second = complete(*engine, r);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->timing.kv_bytes_moved, 36 * per_token);
  EXPECT_EQ(first->token_ids(), second->token_ids());

  // One prefill rank and equal layouts: nothing moves.
  o.prefill_ranks = 1;
  o.prefill_page_tokens = 64;
  auto shared = make_engine(o);
  auto third = complete(*shared, r);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->timing.kv_bytes_moved, 0U);
  EXPECT_EQ(third->timing.kv_bytes_shared, 128 * per_token);
  EXPECT_EQ(first->token_ids(), third->token_ids());
}

TEST(Engine, CachedPrefixesNeedEqualSalts) {
  auto engine = make_engine(plain_options());
  GenerationRequest r;
  for (int i = 0; i < 50; ++i) r.prompt.push_back(i);
  r.max_tokens = 1;
  r.cache_salt = "a";
  EXPECT_EQ(complete(*engine, r)->cached_tokens, 0);
  EXPECT_EQ(complete(*engine, r)->cached_tokens, 48);
  r.cache_salt = "b";
  EXPECT_EQ(complete(*engine, r)->cached_tokens, 0);
}

TEST(Engine, CancelAtAnyTimeFreesEverything) {
  for (const bool disaggregated : {true, false}) {
    EngineOptions o = plain_options();
    o.disaggregated = disaggregated;
    o.prefill_ranks = 2;
    o.decode_ranks = 2;
    o.max_num_seqs = 3;
    auto engine = make_engine(o);
    Random random(9);
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (int i = 0; i < 60; ++i) {
      GenerationRequest r = random_request(random, {});
      r.max_tokens = random.range(1, 60);
      r.min_tokens = 0;
      auto recorder = std::make_shared<Recorder>();
      auto ticket = engine->submit(r, recorder);
      ASSERT_TRUE(ticket);
      recorders.push_back(recorder);
      if (random.chance(0.5)) {
        if (random.chance(0.5)) recorder->wait_tokens(static_cast<std::size_t>(random.range(1, 5)));
        engine->cancel(*ticket);
        engine->cancel(*ticket);
      }
    }
    int cancelled = 0;
    for (auto& recorder : recorders) {
      recorder->wait();
      cancelled += recorder->completion.finish == FinishReason::kCancelled ? 1 : 0;
      EXPECT_NE(recorder->completion.finish, FinishReason::kError);
    }
    EXPECT_GT(cancelled, 0);
    engine->cancel(123456789);
    EXPECT_TRUE(complete(*engine, random_request(random, {})));
    expect_all_free(*engine);
  }
}

TEST(Engine, RefusesAtOnceWhatCantRun) {
  EngineOptions o = plain_options();
  o.max_waiting = 2;
  auto engine = make_engine(o);
  GenerationRequest r;
  const auto refused = [&](const char* param) {
    auto done = complete(*engine, r);
    ASSERT_FALSE(done) << param;
    EXPECT_EQ(done.failure().param, param) << done.failure().message;
  };
  refused("prompt");
  r.prompt = {131};
  refused("prompt");
  r.prompt = {-1};
  refused("prompt");
  r.prompt.assign(256, 1);
  refused("prompt");
  r.prompt = {1};
  r.sampling.temperature = std::nanf("");
  refused("temperature");
  r.sampling.temperature = 1;
  r.sampling.logit_bias = {{131, 1.0F}};
  refused("logit_bias");
  r.sampling.logit_bias.clear();

  // The longest that fits: 255 tokens of prompt and one more.
  r.prompt.assign(255, 1);
  r.max_tokens = 1000;
  auto done = complete(*engine, r);
  ASSERT_TRUE(done) << done.failure().message;
  EXPECT_EQ(done->tokens.size(), 1U);
  EXPECT_EQ(done->finish, FinishReason::kLength);

  // More than may wait: refused at once, the others are served.
  std::vector<std::shared_ptr<Recorder>> recorders;
  int overloaded = 0;
  for (int i = 0; i < 50; ++i) {
    r.prompt.assign(200, 1);
    auto recorder = std::make_shared<Recorder>();
    auto ticket = engine->submit(r, recorder);
    if (ticket) {
      recorders.push_back(recorder);
    } else {
      EXPECT_EQ(ticket.failure().code, FailureCode::kOverloaded);
      ++overloaded;
    }
  }
  EXPECT_GT(overloaded, 0);
  for (auto& recorder : recorders) recorder->wait();
  expect_all_free(*engine);
}

TEST(Engine, PromptOnlyAndPromptLogprobs) {
  for (const bool disaggregated : {true, false}) {
    EngineOptions o = plain_options();
    o.disaggregated = disaggregated;
    o.prefill_ranks = 2;
    auto engine = make_engine(o);
    GenerationRequest r;
    for (int i = 0; i < 90; ++i) r.prompt.push_back(i);
    r.max_tokens = 0;
    r.prompt_logprobs = 0;
    auto done = complete(*engine, r);
    ASSERT_TRUE(done) << done.failure().message;
    EXPECT_EQ(done->finish, FinishReason::kLength);
    EXPECT_TRUE(done->tokens.empty());
    ASSERT_EQ(done->prompt_logprobs.size(), 90U);
    EXPECT_FALSE(done->prompt_logprobs[0]);
    for (std::size_t i = 1; i < 90; ++i) {
      ASSERT_TRUE(done->prompt_logprobs[i]);
      EXPECT_EQ(done->prompt_logprobs[i]->token, static_cast<TokenId>(i));
      EXPECT_LT(done->prompt_logprobs[i]->logprob, 0.0F);
    }
    expect_all_free(*engine);
  }
}

TEST(Engine, RequestsEndAtTheirDeadline) {
  auto engine = make_engine(plain_options());
  GenerationRequest r;
  r.prompt = {1, 2, 3};
  r.max_tokens = 200;
  r.deadline = Deadline::in(Duration::zero());
  auto done = complete(*engine, r);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.failure().code, FailureCode::kDeadline);
  expect_all_free(*engine);
}

TEST(Engine, StoppingEndsEveryRequest) {
  auto engine = make_engine(plain_options());
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 12; ++i) {
    GenerationRequest r;
    r.prompt = {1, 2, 3};
    r.max_tokens = 200;
    recorders.push_back(std::make_shared<Recorder>());
    ASSERT_TRUE(engine->submit(r, recorders.back()));
  }
  recorders[0]->wait_tokens(1);
  engine.reset();
  for (auto& recorder : recorders) recorder->wait();
}

TEST(Engine, OptionsThatCantWorkAreNamed) {
  const auto refused = [](auto change, const char* word) {
    EngineOptions o = plain_options();
    change(o);
    try {
      make_engine(o);
      FAIL() << "no error that says " << word;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refused([](EngineOptions& o) { o.prefill_ranks = 3; }, "--prefill-ranks 3");
  refused([](EngineOptions& o) { o.prefill_ranks = 16; }, "at most 8");
  refused([](EngineOptions& o) { o.decode_ranks = 32; }, "at most 16");
  refused([](EngineOptions& o) { o.page_tokens = 24; }, "--block-size 24");
  refused([](EngineOptions& o) { o.max_model_len = 1000; }, "max_position_embeddings is 512");
  refused([](EngineOptions& o) { o.kv_bytes = 1000; }, "--kv-cache-memory");
  refused([](EngineOptions& o) { o.max_num_batched_tokens = 2; }, "--max-num-batched-tokens 2");
}

}  // namespace
}  // namespace qwell
