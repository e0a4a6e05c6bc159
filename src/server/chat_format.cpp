#include "server/internal/format_parts.h"

namespace qwell::server {
namespace {

class ChatFormat final : public AnswerFormat {
 public:
  ChatFormat(AnswerHead head, const TextCodec& codec) : head_(std::move(head)), codec_(codec) {}

  const AnswerHead& head() const override { return head_; }

  std::string first_chunk(int index, const PromptPart& prompt, const PromptLogprobs&, const Usage* usage) const override {
    JsonWriter w;
    write_head(w, head_, "chat.completion.chunk");
    if (head_.return_token_ids) write_token_ids(w, "prompt_token_ids", prompt.ids);
    w.key("choices").begin_array().begin_object().field("index", index);
    w.key("delta").begin_object().field("role", "assistant").field("content", "").end_object();
    w.key("logprobs").null();
    write_ending(w, nullptr);
    w.end_object().end_array();
    write_usage_field(w, head_, usage);
    w.end_object();
    return std::move(w).text();
  }

  std::string chunk(int index, const AnswerDelta& delta, const Ending* ending, const Usage* usage) const override {
    JsonWriter w;
    write_head(w, head_, "chat.completion.chunk");
    w.key("choices").begin_array().begin_object().field("index", index).key("delta").begin_object();
    if (!delta.text.empty()) w.field("content", delta.text);
    w.end_object();
    write_logprobs(w, delta.tokens);
    write_ending(w, ending);
    if (head_.return_token_ids) write_token_ids(w, "token_ids", delta.tokens);
    w.end_object().end_array();
    write_usage_field(w, head_, usage);
    w.end_object();
    return std::move(w).text();
  }

  std::string usage_chunk(const Usage& usage) const override {
    JsonWriter w;
    write_head(w, head_, "chat.completion.chunk");
    w.key("choices").begin_array().end_array();
    w.key("usage");
    write_usage(w, usage);
    w.end_object();
    return std::move(w).text();
  }

  std::string whole(const std::vector<WholeAnswer>& answers, const Usage& usage) const override {
    JsonWriter w;
    write_head(w, head_, "chat.completion");
    w.key("choices").begin_array();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const auto& a = answers[i];
      w.begin_object().field("index", static_cast<std::int64_t>(i)).key("message").begin_object();
      w.field("role", "assistant").field("content", a.answer.text).key("refusal").null().end_object();
      write_logprobs(w, a.answer.tokens);
      write_ending(w, &a.ending);
      if (head_.return_token_ids) write_token_ids(w, "token_ids", a.answer.tokens);
      w.end_object();
    }
    w.end_array().key("usage");
    write_usage(w, usage);
    if (head_.return_token_ids) write_token_ids(w, "prompt_token_ids", answers.front().prompt->ids);
    if (head_.prompt_logprobs >= 0) {
      w.key("prompt_logprobs");
      write_prompt_logprobs(w, answers.front().prompt_logprobs, head_.prompt_logprobs, codec_);
    }
    w.end_object();
    return std::move(w).text();
  }

 private:
  void write_token(JsonWriter& w, TokenId token, float logprob) const {
    const std::string bytes = codec_.token_bytes(token);
    w.field("token", bytes).field("logprob", static_cast<double>(logprob)).key("bytes").begin_array();
    for (const char c : bytes) w.value(static_cast<int>(static_cast<unsigned char>(c)));
    w.end_array();
  }

  void write_logprobs(JsonWriter& w, const std::vector<AnswerToken>& tokens) const {
    w.key("logprobs");
    if (head_.logprobs < 0) {
      w.null();
      return;
    }
    w.begin_object().key("content").begin_array();
    for (const auto& t : tokens) {
      w.begin_object();
      write_token(w, t.event.token, t.event.logprob);
      w.key("top_logprobs").begin_array();
      const auto n = std::min(t.event.top.size(), static_cast<std::size_t>(head_.logprobs));
      for (std::size_t i = 0; i < n; ++i) {
        w.begin_object();
        write_token(w, t.event.top[i].token, t.event.top[i].logprob);
        w.end_object();
      }
      w.end_array().end_object();
    }
    w.end_array().key("refusal").null().end_object();
  }

  AnswerHead head_;
  const TextCodec& codec_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head, const TextCodec& codec) {
  return std::make_unique<ChatFormat>(std::move(head), codec);
}

}  // namespace qwell::server
