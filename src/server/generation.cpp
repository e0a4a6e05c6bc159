#include "server/internal/generation.h"

#include <algorithm>

#include "base/log.h"

namespace qwell::server {
namespace {

void append_event(std::string& out, std::string_view data) {
  out += "data: ";
  out += data;
  out += "\n\n";
}

constexpr std::string_view kDone = "data: [DONE]\n\n";

}  // namespace

// The Generator's end: carries each update to the io thread.
class Generation::Listener final : public UpdateListener {
 public:
  Listener(std::shared_ptr<Generation> generation, std::size_t index)
      : exchange_(generation->call_.exchange), generation_(std::move(generation)), index_(index) {}

  void on_update(Update update) override {
    // Shared, because a task must be copyable.
    exchange_->post([generation = generation_, index = index_, u = std::make_shared<Update>(std::move(update))] {
      generation->on_update(index, std::move(*u));
    });
  }

 private:
  const std::shared_ptr<net::HttpExchange> exchange_;
  const std::shared_ptr<Generation> generation_;
  const std::size_t index_;
};

Generation::Generation(Call call, Job job) : call_(std::move(call)), job_(std::move(job)) {
  const std::size_t n = job_.prompts.size() * static_cast<std::size_t>(job_.n);
  choices_.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    choices_.push_back(
        {.text = AnswerText(call_.context->codec.stream(job_.skip_special_tokens), job_.rules, count_characters(prompt_of(i).echo))});
  }
}

void Generation::start() {
  call_.exchange->on_disconnect([self = shared_from_this()] {
    log::debug("request {}: the client is gone", self->call_.request_id);
    self->over_ = true;
    self->cancel_all();
  });
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const auto samples = static_cast<std::size_t>(job_.n);
    GenerationRequest& base = job_.requests[i / samples];
    const bool last = i % samples + 1 == samples;
    GenerationRequest request = last ? std::move(base) : base;
    request.sampling.sample = static_cast<std::uint32_t>(i % samples);
    const auto ticket = call_.context->generator.submit(std::move(request), std::make_shared<Listener>(shared_from_this(), i));
    if (!ticket) return fail(to_api_error(ticket.failure()));
    choices_[i].ticket = *ticket;
    choices_[i].ticket_open = true;
  }
  if (job_.stream && call_.context->config.ping_interval > Duration::zero()) {
    call_.exchange->on_silence(call_.context->config.ping_interval, [self = shared_from_this()] { self->on_silence(); });
  }
}

void Generation::on_update(std::size_t index, Update update) {
  Choice& choice = choices_[index];
  if (update.finish != FinishReason::kNone) choice.ticket_open = false;
  if (over_ || choice.done) return;
  if (update.finish == FinishReason::kError || update.error) {
    return fail(
        to_api_error(update.error ? *update.error : Failure{FailureCode::kInternal, "the engine ended a request without a reason", {}}));
  }
  if (update.finish == FinishReason::kCancelled) {
    return fail(to_api_error(failure(FailureCode::kCancelled, "the request was cancelled by the server")));
  }
  take(choice, update);
  emit(index);
  end_if_done();
}

void Generation::take(Choice& choice, Update& update) {
  choice.cached_tokens = std::max(choice.cached_tokens, update.cached_tokens);
  choice.timing = update.timing;
  if (!update.prompt_logprobs.empty()) choice.prompt_logprobs = std::move(update.prompt_logprobs);
  const std::optional<TokenId> stop = named_stop(update);
  for (auto& event : update.tokens) {
    if (choice.text.push(std::move(event))) continue;
    choice.done = true;
    choice.ending = {.finish_reason = "stop", .stop_string = *choice.text.stop_string(), .stop_token = {}};
    if (choice.ticket_open) call_.context->generator.cancel(choice.ticket);
    return;
  }
  if (update.finish == FinishReason::kNone) return;
  choice.text.finish();
  choice.done = true;
  // What was held back may have completed a stop string at the very end.
  const std::string* const matched = choice.text.stop_string();
  choice.ending.finish_reason = update.finish == FinishReason::kStop || matched != nullptr ? "stop" : "length";
  if (matched != nullptr) choice.ending.stop_string = *matched;
  if (matched == nullptr) choice.ending.stop_token = stop;
}

std::optional<TokenId> Generation::named_stop(const Update& update) const {
  if (update.finish != FinishReason::kStop || update.tokens.empty()) return std::nullopt;
  const TokenId token = update.tokens.back().token;
  const auto& named = job_.named_stop_ids;
  return std::find(named.begin(), named.end(), token) != named.end() ? std::optional(token) : std::nullopt;
}

void Generation::emit(std::size_t index) {
  Choice& choice = choices_[index];
  AnswerDelta delta = choice.text.take();
  const auto& head = job_.format->head();
  const bool tokens_shown = head.logprobs >= 0 || head.return_token_ids;
  if (!tokens_shown) delta.tokens.clear();
  if (!job_.stream) {
    choice.answer.text += delta.text;
    std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(choice.answer.tokens));
    return;
  }
  open_stream();
  if (over_) return;
  std::string events = opening_events(index);
  if (!delta.empty() || choice.done) {
    const auto now = usage_so_far();
    append_event(events, job_.format->chunk(static_cast<int>(index), delta, choice.done ? &choice.ending : nullptr, now ? &*now : nullptr));
  }
  if (!events.empty()) call_.exchange->write(events);
}

void Generation::open_stream() {
  if (streaming_) return;
  streaming_ = true;
  net::HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = call_.common_headers();
  head.headers.push_back({"Cache-Control", "no-cache"});
  head.headers.push_back({"X-Accel-Buffering", "no"});  // asks nginx not to collect the stream
  call_.exchange->start_stream(std::move(head));
}

std::string Generation::opening_events(std::size_t index) {
  Choice& choice = choices_[index];
  if (choice.opened) return {};
  choice.opened = true;
  const auto now = usage_so_far();
  const std::string first =
      job_.format->first_chunk(static_cast<int>(index), prompt_of(index), choice.prompt_logprobs, now ? &*now : nullptr);
  std::string events;
  if (!first.empty()) append_event(events, first);
  return events;
}

void Generation::end_if_done() {
  if (over_) return;
  if (!std::all_of(choices_.begin(), choices_.end(), [](const Choice& c) { return c.done; })) return;
  over_ = true;
  if (job_.stream) {
    std::string events;
    if (job_.include_usage) append_event(events, job_.format->usage_chunk(usage()));
    events += kDone;
    if (call_.exchange->write(events)) call_.exchange->finish();
    return;
  }
  std::vector<WholeAnswer> answers;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& c = choices_[i];
    answers.push_back({.answer = std::move(c.answer),
                       .ending = std::move(c.ending),
                       .prompt_logprobs = std::move(c.prompt_logprobs),
                       .prompt = &prompt_of(i)});
  }
  call_.send(200, job_.format->whole(answers, usage()));
}

void Generation::fail(const ApiError& error) {
  if (over_) return;
  over_ = true;
  cancel_all();
  if (!streaming_) return call_.send(error);
  std::string events;
  append_event(events, body_of(error));
  events += kDone;
  if (call_.exchange->write(events)) call_.exchange->finish(true);
}

void Generation::on_silence() {
  if (over_) return;
  open_stream();
  call_.exchange->write(": ping\n\n");
}

void Generation::cancel_all() {
  for (auto& choice : choices_) {
    if (choice.ticket_open) call_.context->generator.cancel(choice.ticket);
  }
}

std::optional<Usage> Generation::usage_so_far() const { return job_.continuous_usage ? std::optional(usage()) : std::nullopt; }

Usage Generation::usage() const {
  Usage u;
  const auto samples = static_cast<std::size_t>(job_.n);
  for (std::size_t p = 0; p < job_.prompts.size(); ++p) {
    u.prompt_tokens += static_cast<std::int64_t>(job_.prompts[p].ids.size());
    // A later sample may find what an earlier one has just computed; what the cache saved this request is the least of them.
    int cached = choices_[p * samples].cached_tokens;
    for (std::size_t i = 0; i < samples; ++i) {
      cached = std::min(cached, choices_[p * samples + i].cached_tokens);
      u.completion_tokens += choices_[p * samples + i].text.token_count();
    }
    u.cached_tokens += cached;
  }
  for (const Choice& choice : choices_) u.timing += choice.timing;
  return u;
}

}  // namespace qwell::server
