#include <set>

#include "server/internal/format_parts.h"

namespace qwell::server {
namespace {

// A token of the logprobs block: the prompt's first has no value, and offsets count from the beginning of the choice's text.
struct Entry {
  TokenId token = 0;
  std::optional<float> logprob;
  const std::vector<TokenLogprob>* top = nullptr;
  std::size_t offset = 0;
};

class CompletionFormat final : public AnswerFormat {
 public:
  CompletionFormat(AnswerHead head, const TextCodec& codec) : head_(std::move(head)), codec_(codec) {}

  const AnswerHead& head() const override { return head_; }

  std::string first_chunk(int index, const PromptPart& prompt, const PromptLogprobs& logprobs, const Usage* usage) const override {
    if (prompt.echo.empty() && !head_.return_token_ids) return {};
    JsonWriter w;
    open_chunk(w, index, prompt.echo);
    write_logprobs(w, echo_entries(prompt, logprobs));
    write_ending(w, nullptr);
    if (head_.return_token_ids) {
      write_token_ids(w, "prompt_token_ids", prompt.ids);
      write_token_ids(w, "token_ids", std::vector<TokenId>());
    }
    return close_chunk(w, usage);
  }

  std::string chunk(int index, const AnswerDelta& delta, const Ending* ending, const Usage* usage) const override {
    JsonWriter w;
    open_chunk(w, index, delta.text);
    write_logprobs(w, answer_entries(delta.tokens));
    write_ending(w, ending);
    if (head_.return_token_ids) write_token_ids(w, "token_ids", delta.tokens);
    return close_chunk(w, usage);
  }

  std::string usage_chunk(const Usage& usage) const override {
    JsonWriter w;
    write_head(w, head_, "text_completion");
    w.key("choices").begin_array().end_array().key("usage");
    write_usage(w, usage);
    w.end_object();
    return std::move(w).text();
  }

  std::string whole(const std::vector<WholeAnswer>& answers, const Usage& usage) const override {
    JsonWriter w;
    write_head(w, head_, "text_completion");
    w.key("choices").begin_array();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const auto& a = answers[i];
      w.begin_object().field("index", static_cast<std::int64_t>(i)).field("text", a.prompt->echo + a.answer.text);
      auto entries = echo_entries(*a.prompt, a.prompt_logprobs);
      for (auto& entry : answer_entries(a.answer.tokens)) entries.push_back(entry);
      write_logprobs(w, entries);
      write_ending(w, &a.ending);
      if (head_.return_token_ids) {
        write_token_ids(w, "prompt_token_ids", a.prompt->ids);
        write_token_ids(w, "token_ids", a.answer.tokens);
      }
      if (head_.prompt_logprobs >= 0) {
        w.key("prompt_logprobs");
        write_prompt_logprobs(w, a.prompt_logprobs, head_.prompt_logprobs, codec_);
      }
      w.end_object();
    }
    w.end_array().key("usage");
    write_usage(w, usage);
    w.end_object();
    return std::move(w).text();
  }

 private:
  void open_chunk(JsonWriter& w, int index, const std::string& text) const {
    write_head(w, head_, "text_completion");
    w.key("choices").begin_array().begin_object().field("index", index).field("text", text);
  }

  std::string close_chunk(JsonWriter& w, const Usage* usage) const {
    w.end_object().end_array();
    write_usage_field(w, head_, usage);
    w.end_object();
    return w.text();
  }

  std::vector<Entry> echo_entries(const PromptPart& prompt, const PromptLogprobs& logprobs) const {
    std::vector<Entry> entries;
    if (head_.logprobs < 0) return entries;
    for (std::size_t i = 0; i < prompt.echo_tokens.size(); ++i) {
      const auto& t = prompt.echo_tokens[i];
      Entry e{.token = t.event.token, .logprob = {}, .top = nullptr, .offset = t.text_offset};
      if (i < logprobs.size() && logprobs[i]) {
        e.logprob = logprobs[i]->logprob;
        e.top = &logprobs[i]->top;
      }
      entries.push_back(e);
    }
    return entries;
  }

  // Their offsets already count the echo.
  std::vector<Entry> answer_entries(const std::vector<AnswerToken>& tokens) const {
    std::vector<Entry> entries;
    if (head_.logprobs < 0) return entries;
    for (const auto& t : tokens) {
      entries.push_back({.token = t.event.token, .logprob = t.event.logprob, .top = &t.event.top, .offset = t.text_offset});
    }
    return entries;
  }

  void write_logprobs(JsonWriter& w, const std::vector<Entry>& entries) const {
    w.key("logprobs");
    if (head_.logprobs < 0) {
      w.null();
      return;
    }
    w.begin_object().key("text_offset").begin_array();
    for (const auto& e : entries) w.value(static_cast<std::int64_t>(e.offset));
    w.end_array().key("token_logprobs").begin_array();
    for (const auto& e : entries) e.logprob ? w.value(static_cast<double>(*e.logprob)) : w.null();
    w.end_array().key("tokens").begin_array();
    for (const auto& e : entries) w.value(codec_.token_bytes(e.token));
    w.end_array().key("top_logprobs").begin_array();
    for (const auto& e : entries) write_top(w, e);
    w.end_array().end_object();
  }

  // The best ones and the chosen one, by text; of two tokens with equal text the better.
  void write_top(JsonWriter& w, const Entry& e) const {
    if (!e.logprob) {
      w.null();
      return;
    }
    std::set<std::string> seen;
    w.begin_object();
    const auto write = [&](TokenId token, float logprob) {
      const std::string text = codec_.token_bytes(token);
      std::string key;  // as it will be printed: different bytes may print alike
      append_json_string(key, text);
      if (seen.insert(std::move(key)).second) w.field(text, static_cast<double>(logprob));
    };
    const auto n = std::min(e.top->size(), static_cast<std::size_t>(head_.logprobs));
    for (std::size_t i = 0; i < n; ++i) write((*e.top)[i].token, (*e.top)[i].logprob);
    write(e.token, *e.logprob);
    w.end_object();
  }

  AnswerHead head_;
  const TextCodec& codec_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_completion_format(AnswerHead head, const TextCodec& codec) {
  return std::make_unique<CompletionFormat>(std::move(head), codec);
}

}  // namespace qwell::server
