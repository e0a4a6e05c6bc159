#include "server/answer_text.h"

#include <algorithm>

namespace qwell::server {

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

AnswerText::AnswerText(std::unique_ptr<TextStream> stream, AnswerRules rules, std::size_t first_offset)
    : stream_(std::move(stream)), rules_(std::move(rules)), matcher_(rules_.stops, rules_.include_stop), decoded_chars_(first_offset) {}

void AnswerText::add_text(const std::string& text) {
  decoded_bytes_ += text.size();
  decoded_chars_ += count_characters(text);
  ready_ += count_ <= rules_.min_tokens ? text : matcher_.push(text);
  if (matcher_.matched()) ended_ = true;
  released_bytes_ = decoded_bytes_ - matcher_.held_bytes();
}

bool AnswerText::push(TokenEvent event) {
  if (ended_) return false;
  ++count_;
  const auto& stops = rules_.stop_token_ids;
  const bool silent = !rules_.include_stop && std::find(stops.begin(), stops.end(), event.token) != stops.end();
  const std::size_t offset = decoded_chars_;
  const TokenId token = event.token;
  waiting_.push_back({{std::move(event), offset}, decoded_bytes_});
  if (!silent) add_text(stream_->push(token));
  waiting_.back().end = decoded_bytes_;
  return !ended_;
}

void AnswerText::finish() {
  if (ended_) return;
  add_text(stream_->finish());
  ready_ += matcher_.flush();
  released_bytes_ = decoded_bytes_;
  ended_ = true;
}

AnswerDelta AnswerText::take() {
  AnswerDelta delta;
  delta.text = std::move(ready_);
  ready_.clear();
  std::size_t n = 0;
  while (n < waiting_.size() && (ended_ || waiting_[n].end <= released_bytes_)) delta.tokens.push_back(std::move(waiting_[n++].token));
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n));
  return delta;
}

const std::string* AnswerText::stop_string() const { return matcher_.matched() ? &rules_.stops[*matcher_.matched()] : nullptr; }

}  // namespace qwell::server
