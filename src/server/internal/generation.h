#pragma once
// One API request in work: its choices, the tickets behind them, and the answer that grows from their updates.

#include <memory>
#include <string>
#include <vector>

#include "server/answer_text.h"
#include "server/internal/context.h"
#include "server/internal/prepare.h"

namespace qwell::server {

// Lives on the io thread of its exchange: every method runs there, and the listeners only post. Held by the listeners (so by the Generator,
// until the last update) and by the exchange's callbacks (until the answer ends).
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Call call, Job job);
  // Submits all choices, or answers with the error of the first that is refused.
  void start();

 private:
  struct Choice {
    AnswerText text;
    Generator::Ticket ticket = 0;
    bool ticket_open = false;  // its last update is still to come
    bool opened = false;       // its first chunk was sent
    bool done = false;
    AnswerDelta answer;  // so far; not for streams
    Ending ending;
    PromptLogprobs prompt_logprobs;
    int cached_tokens = 0;
    RequestTiming timing;
  };
  class Listener;

  void on_update(std::size_t index, Update update);
  // Takes the update's tokens; sets the ending when the choice has ended.
  void take(Choice& choice, Update& update);
  std::optional<TokenId> named_stop(const Update& update) const;
  void emit(std::size_t index);
  void open_stream();
  std::string opening_events(std::size_t index);
  void end_if_done();
  void fail(const ApiError& error);
  void on_silence();
  void cancel_all();
  Usage usage() const;
  std::optional<Usage> usage_so_far() const;  // for chunks, if they are to have it
  const PromptPart& prompt_of(std::size_t index) const { return job_.prompts[index / static_cast<std::size_t>(job_.n)]; }

  Call call_;
  Job job_;
  std::vector<Choice> choices_;
  bool streaming_ = false;
  bool over_ = false;  // answered, failed or abandoned
};

}  // namespace qwell::server
