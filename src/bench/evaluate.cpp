#include "bench/evaluate.h"

#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/file.h"

namespace qwell {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Calls take(object) for each line; Error names the line.
void for_each_line(const std::filesystem::path& path, const std::function<void(const json::object&)>& take) {
  if (!std::filesystem::exists(path)) return;
  const std::string bytes = read_file(path);
  int number = 0;
  for (std::size_t first = 0; first < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', first), bytes.size());
    const std::string_view line = trimmed(std::string_view(bytes).substr(first, end - first));
    first = end + 1;
    ++number;
    if (line.empty()) continue;
    const std::string name = fmt::format("{}:{}", path.string(), number);
    const json::value value = parse_json_file(line, name);
    if (!value.is_object()) fail("{}: an object is wanted", name);
    try {
      take(value.as_object());
    } catch (const std::exception& error) {  // a missing or mistyped member
      fail("{}: {}", name, error.what());
    }
  }
}

// Runs requests with a bound on how many are in work, and hands each result to its owner on an engine thread.
class Crowd {
 public:
  using Done = std::function<void(const Update& last, const std::vector<TokenId>& tokens)>;

  Crowd(Generator& generator, int in_flight) : generator_(generator), in_flight_(in_flight) {}

  void run(GenerationRequest request, Done done) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return running_ < in_flight_; });
      ++running_;
    }
    auto submitted = generator_.submit(std::move(request), std::make_shared<One>(*this, std::move(done)));
    if (submitted) return;
    ended();
    fail("the request was refused: {}", submitted.failure().message);
  }
  void wait_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
    if (!error_.empty()) fail("{}", error_);
  }

 private:
  class One final : public UpdateListener {
   public:
    One(Crowd& crowd, Done done) : crowd_(crowd), done_(std::move(done)) {}
    void on_update(Update update) override {
      for (const TokenEvent& token : update.tokens) tokens_.push_back(token.token);
      if (!update.prompt_logprobs.empty()) scores_ = std::move(update.prompt_logprobs);
      if (update.finish == FinishReason::kNone) return;
      update.prompt_logprobs = std::move(scores_);
      if (update.error) {
        crowd_.note(update.error->message);
      } else {
        done_(update, tokens_);
      }
      crowd_.ended();
    }

   private:
    Crowd& crowd_;
    Done done_;
    std::vector<TokenId> tokens_;
    std::vector<std::optional<TokenEvent>> scores_;
  };

  void note(const std::string& error) {
    const std::lock_guard lock(mutex_);
    if (error_.empty()) error_ = error;
  }
  void ended() {
    // Notified under the lock: the waiter may destroy this as soon as it sees zero.
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  Generator& generator_;
  const int in_flight_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;
  std::string error_;
};

bool right_answer(const EvalTask& task, const std::string& reply) {
  std::string_view got = trimmed(reply);
  if (task.last_line) {
    const std::size_t at = got.rfind('\n');
    if (at != std::string_view::npos) got = trimmed(got.substr(at + 1));
  }
  return got == task.answer;
}

template <class T>
std::span<const T> limited(const std::vector<T>& all, int most) {
  const std::size_t count = most > 0 ? std::min(all.size(), static_cast<std::size_t>(most)) : all.size();
  return std::span(all).first(count);
}

}  // namespace

double PerplexityFigure::perplexity() const { return tokens == 0 ? 0 : std::exp(nll / static_cast<double>(tokens)); }

EvalSet read_eval_set(const std::filesystem::path& folder) {
  EvalSet set;
  for_each_line(folder / "tasks.jsonl", [&](const json::object& line) {
    EvalTask task;
    task.task = std::string(line.at("task").as_string());
    task.messages = line.at("messages").as_array();
    task.answer = std::string(line.at("answer").as_string());
    task.max_tokens = static_cast<int>(line.at("max_tokens").as_int64());
    if (const auto* extract = line.if_contains("extract")) {
      const std::string_view rule = extract->as_string();
      if (rule != "all" && rule != "last_line") fail("extract \"{}\": \"all\" or \"last_line\" is wanted", rule);
      task.last_line = rule == "last_line";
    }
    set.tasks.push_back(std::move(task));
  });
  for_each_line(folder / "text.jsonl", [&](const json::object& line) {
    set.texts.push_back({std::string(line.at("text").as_string()), {}});
  });
  for_each_line(folder / "chats.jsonl", [&](const json::object& line) { set.chats.push_back({{}, line.at("messages").as_array()}); });
  if (set.tasks.empty() && set.texts.empty() && set.chats.empty()) {
    fail("{}: no tasks.jsonl, text.jsonl or chats.jsonl with anything in it", folder.string());
  }
  return set;
}

EvalResult evaluate(Generator& generator, const Tokenizer& tokenizer, const RenderChat& render, const std::vector<TokenId>& stop_ids,
                    const EvalSet& set, const EvalOptions& options, const std::function<void(int done, int total)>& progress) {
  EvalResult result;
  std::mutex mutex;
  int done = 0;
  const auto tasks = limited(set.tasks, options.tasks_max);
  const auto texts = limited(set.texts, options.tasks_max);
  const auto chats = limited(set.chats, options.tasks_max);
  const int total = static_cast<int>(tasks.size() + texts.size() + chats.size());
  const auto count_one = [&] {
    ++done;
    if (progress) progress(done, total);
  };
  Crowd crowd(generator, options.in_flight);

  for (const EvalTask& task : tasks) {
    GenerationRequest request;
    request.prompt = render(task.messages, true);
    request.sampling.temperature = 0;
    request.max_tokens = task.max_tokens;
    request.stop_token_ids = stop_ids;
    crowd.run(std::move(request), [&](const Update& last, const std::vector<TokenId>& tokens) {
      std::span<const TokenId> answer(tokens);
      if (last.finish == FinishReason::kStop) answer = answer.first(answer.size() - 1);
      const bool right = right_answer(task, tokenizer.decode(answer, true));
      const std::lock_guard lock(mutex);
      TaskFigure& figure = result.tasks[task.task];
      ++figure.n;
      figure.right += right ? 1 : 0;
      count_one();
    });
  }
  const auto score = [&](std::vector<TokenId> tokens, PerplexityFigure& figure) {
    if (tokens.size() > static_cast<std::size_t>(options.tokens_max)) tokens.resize(static_cast<std::size_t>(options.tokens_max));
    if (tokens.size() < 2) {
      const std::lock_guard lock(mutex);
      return count_one();
    }
    GenerationRequest request;
    request.prompt = std::move(tokens);
    request.max_tokens = 0;
    request.prompt_logprobs = 0;
    crowd.run(std::move(request), [&](const Update& last, const std::vector<TokenId>&) {
      const std::lock_guard lock(mutex);
      for (const auto& token : last.prompt_logprobs) {
        if (!token) continue;
        figure.nll -= static_cast<double>(token->logprob);
        ++figure.tokens;
      }
      count_one();
    });
  };
  for (const EvalRecord& record : texts) score(tokenizer.encode(record.text), result.text);
  for (const EvalRecord& record : chats) score(render(record.messages, false), result.chats);
  crowd.wait_all();
  return result;
}

}  // namespace qwell
