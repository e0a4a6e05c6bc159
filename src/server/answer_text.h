#pragma once
// From the tokens of one answer to the text that may be sent: detokenising, stop strings, stop tokens, and which token's logprobs go along.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "request/request.h"
#include "server/stop_matcher.h"
#include "server/text_codec.h"

namespace qwell::server {

struct AnswerToken {
  TokenEvent event;
  std::size_t text_offset = 0;  // characters (code points) of the choice's text before this token
};

// A piece of an answer.
struct AnswerDelta {
  std::string text;
  std::vector<AnswerToken> tokens;

  bool empty() const { return text.empty() && tokens.empty(); }
};

struct AnswerRules {
  std::vector<std::string> stops;
  bool include_stop = false;            // the text of a stop string or stop token is part of the answer
  std::vector<TokenId> stop_token_ids;  // as in the GenerationRequest: such a token is the answer's last
  int min_tokens = 0;                   // text of the first so many tokens is not searched for stop strings
};

class AnswerText {
 public:
  // `first_offset`: characters of the choice's text before the answer (an echoed prompt).
  AnswerText(std::unique_ptr<TextStream> stream, AnswerRules rules, std::size_t first_offset = 0);

  // False once a stop string has matched (with this token or before): the answer has ended, and later tokens are not counted.
  bool push(TokenEvent event);
  // The answer has ended otherwise: what was held back becomes text.
  void finish();
  // What became certain since the last call. A token comes with the text that holds its last byte, at the latest with the end.
  AnswerDelta take();

  int token_count() const { return count_; }
  // The stop string that matched.
  const std::string* stop_string() const;

 private:
  struct Waiting {
    AnswerToken token;
    std::size_t end = 0;  // bytes of detokenised text up to this token's end
  };
  void add_text(const std::string& text);

  std::unique_ptr<TextStream> stream_;
  AnswerRules rules_;
  StopMatcher matcher_;
  std::string ready_;
  std::vector<Waiting> waiting_;
  std::size_t decoded_bytes_ = 0;
  std::size_t decoded_chars_ = 0;
  std::size_t released_bytes_ = 0;  // of the detokenised text, given to the outside
  int count_ = 0;
  bool ended_ = false;
};

// Code points in valid UTF-8.
std::size_t count_characters(std::string_view text);

}  // namespace qwell::server
