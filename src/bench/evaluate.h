#pragma once
// How right a model is: greedy answers to checkable tasks, and perplexity on held-out text. The files and the scoring are those of
// models/demo/eval/README.md, so that figures of this engine and of the Python reference can stand side by side.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "request/request.h"
#include "text/tokenizer.h"

namespace qwell {

struct EvalTask {
  std::string task;
  json::array messages;
  std::string answer;
  bool last_line = false;  // only the answer's last line counts
  int max_tokens = 0;
};

struct EvalRecord {
  std::string text;      // plain text, or
  json::array messages;  // a conversation
};

struct EvalSet {
  std::vector<EvalTask> tasks;
  std::vector<EvalRecord> texts;
  std::vector<EvalRecord> chats;
};

// Reads tasks.jsonl, text.jsonl and chats.jsonl of a folder; a file that is not there is an empty list. Error names file and line.
EvalSet read_eval_set(const std::filesystem::path& folder);

struct TaskFigure {
  int n = 0;
  int right = 0;
  double accuracy() const { return n == 0 ? 0 : static_cast<double>(right) / n; }
};

struct PerplexityFigure {
  std::int64_t tokens = 0;
  double nll = 0;  // nats, all tokens together
  double perplexity() const;
};

struct EvalResult {
  std::map<std::string, TaskFigure> tasks;
  PerplexityFigure text, chats;
};

struct EvalOptions {
  int tasks_max = 0;      // records of each kind, from the front; 0: all
  int in_flight = 64;     // requests at once
  int tokens_max = 1024;  // records of text are cut here
};

// Renders a conversation with the model's template and encodes it.
using RenderChat = std::function<std::vector<TokenId>(const json::array& messages, bool add_generation_prompt)>;

EvalResult evaluate(Generator& generator, const Tokenizer& tokenizer, const RenderChat& render, const std::vector<TokenId>& stop_ids,
                    const EvalSet& set, const EvalOptions& options, const std::function<void(int done, int total)>& progress);

}  // namespace qwell
