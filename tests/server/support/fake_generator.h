#pragma once
// A Generator whose answers are scripted by the test. One thread of its own delivers updates, round robin over the requests in work.

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "request/request.h"
#include "server/support/byte_codec.h"

namespace qwell::test {

struct Script {
  std::vector<TokenId> tokens;         // the answer; after the last one it ends with kLength unless a stop id came
  int batch = 1;                       // tokens per update
  std::optional<std::size_t> hold_at;  // before token k: waits for FakeGenerator::release()
  std::optional<std::size_t> fail_at;  // before token k: ends with an error
  Failure error = {FailureCode::kInternal, "scripted /secret/path failure", {}};
  int cached_tokens = 0;
  bool forever = false;  // the tokens again and again, up to max_tokens
};

class FakeGenerator final : public Generator {
 public:
  using Answer = std::function<Script(const GenerationRequest&)>;

  explicit FakeGenerator(Answer answer);
  ~FakeGenerator() override;

  Result<Ticket> submit(GenerationRequest request, std::shared_ptr<UpdateListener> listener) override;
  void cancel(Ticket ticket) override;
  const ModelInfo& model() const override { return model_; }
  GeneratorStatus status() const override;

  // Only before the first request.
  ModelInfo& edit_model() { return model_; }
  void set_answer(Answer answer);
  void set_capacity(int requests);  // more in work: kOverloaded
  void set_ready(bool ready, std::string reason = {});
  // Lets all requests that wait at hold_at go on, and those that come there later.
  void release();
  // Waits (up to 20 s) until the condition holds; false if it did not.
  bool wait_until(const std::function<bool(const FakeGenerator&)>& condition);

  // Counts; lock-free for use inside wait_until only.
  int running() const { return static_cast<int>(jobs_.size()); }
  int submitted() const { return submitted_; }
  int cancelled() const { return cancelled_; }
  int holding() const { return holding_; }
  std::uint64_t tokens_sent() const { return tokens_sent_; }

  std::vector<GenerationRequest> requests() const;  // all that were taken

 private:
  struct Job {
    GenerationRequest request;
    std::shared_ptr<UpdateListener> listener;
    Script script;
    std::size_t next = 0;
    bool cancelled = false;
    bool first = true;
    bool holds = false;
  };

  void run();
  Update next_update(Job& job);
  TokenEvent event(const GenerationRequest& request, std::size_t index, TokenId token, int alternatives) const;

  ModelInfo model_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Answer answer_;
  std::map<Ticket, Job> jobs_;
  std::vector<GenerationRequest> requests_;
  int submitted_ = 0;
  int cancelled_ = 0;
  int holding_ = 0;
  std::uint64_t tokens_sent_ = 0;
  int capacity_ = 1 << 20;
  bool ready_ = true;
  bool released_ = false;
  bool stopped_ = false;
  std::string reason_;
  Ticket next_ticket_ = 1;
  std::thread thread_;
};

// Answers every request with this text, byte by byte, then EOS.
FakeGenerator::Answer say(std::string text, int batch = 1);

}  // namespace qwell::test
