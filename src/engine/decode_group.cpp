#include "engine/decode_group.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/log.h"
#include "engine/prompt_scores.h"
#include "engine/sampling_state.h"

namespace qwell {
namespace {

// Pages are reserved for so many tokens of the answer, so that an admitted sequence gets on before it can be preempted.
constexpr int kReservedAnswer = 64;
constexpr Duration kIdlePatience = std::chrono::milliseconds(100);

}  // namespace

struct DecodeGroup::Sequence {
  Sequence(Work work_in, std::shared_ptr<DecodePlace> place_in, bool prefilled, int vocab_size)
      : work(std::move(work_in)),
        place(std::move(place_in)),
        computed(prefilled ? static_cast<int>(work.tokens.size()) : place->pages.cached_tokens()),
        hidden_ready(prefilled),
        sampling(*work.request, work.tokens, work.prompt_length(), vocab_size) {}

  Work work;
  std::shared_ptr<DecodePlace> place;
  int computed;       // tokens whose keys and values are in the pages
  bool hidden_ready;  // place->hidden is the row of the last token: sample from it first
  bool ended = false;
  SamplingState sampling;
  PromptLogprobs scores;

  int length() const { return static_cast<int>(work.tokens.size()); }
};

struct DecodeGroup::Rank {
  Rank(const EngineLayout& layout, const ModelWeights& weights, std::shared_ptr<GroupWindow> window, int index_in)
      : index(index_in),
        context(weights, std::move(window), index_in, layout.decode_threads, layout.spin_us, layout.options.isa,
                layout.options.step_deadline) {}

  const int index;
  RankContext context;
  std::shared_ptr<KvMemory> kv;
  std::shared_ptr<PageCache> cache;
  std::atomic<int> seats{0};  // places given out
  std::atomic<std::int64_t> step_began{0};
  std::atomic<bool> dead{false};

  // Of the thread alone.
  std::vector<std::unique_ptr<Sequence>> sequences;  // by age
  StepBatch batch;
  std::vector<Sequence*> rows_of;  // by sequence of the batch
  std::vector<std::byte> arrival_rows;

  std::mutex mutex;
  std::vector<std::unique_ptr<Sequence>> inbox;
  std::vector<Ticket> cancelled;
};

DecodeGroup::DecodeGroup(const EngineLayout& layout, const ModelWeights& weights, int vocab_size, const std::string& model_id,
                         EngineEvents& events)
    : layout_(layout), weights_(weights), vocab_size_(vocab_size), events_(events), window_(make_local_window(layout.decode_shape)) {
  for (int r = 0; r < layout.options.decode_ranks; ++r) {
    auto rank = std::make_unique<Rank>(layout, weights, window_, r);
    if (layout.shared_pool && r > 0) {
      rank->kv = ranks_.front()->kv;
      rank->cache = ranks_.front()->cache;
    } else {
      rank->kv = std::make_shared<KvMemory>(weights.config.num_layers, layout.decode_pages, layout.decode_layout, "decode pages");
      rank->cache =
          std::make_shared<PageCache>(layout.decode_pages, layout.decode_layout.page_tokens, model_id, layout.options.prefix_caching);
    }
    ranks_.push_back(std::move(rank));
  }
}

DecodeGroup::~DecodeGroup() { stop(); }

void DecodeGroup::start_threads() {
  for (auto& rank : ranks_) threads_.emplace_back([this, r = rank.get()] { drive(*r); });
}

void DecodeGroup::stop() {
  stopping_ = true;
  for (auto& rank : ranks_) rank->context.member.wake();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (auto& rank : ranks_) {
    rank->sequences.clear();
    rank->inbox.clear();
  }
}

int DecodeGroup::tokens_max() const { return std::min(layout_.max_model_len, layout_.decode_pages * layout_.decode_layout.page_tokens); }

std::shared_ptr<KvMemory> DecodeGroup::shared_memory() const { return layout_.shared_pool ? ranks_.front()->kv : nullptr; }
std::shared_ptr<PageCache> DecodeGroup::shared_cache() const { return layout_.shared_pool ? ranks_.front()->cache : nullptr; }

DecodeGroup::Usage DecodeGroup::usage() const {
  Usage usage;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    usage.sequences += ranks_[r]->seats.load();
    if (r > 0 && layout_.shared_pool) continue;
    const auto pages = ranks_[r]->cache->usage();
    usage.pages.held += pages.held;
    usage.pages.cached += pages.cached;
    usage.pages.free += pages.free;
    usage.total_pages += ranks_[r]->cache->num_pages();
  }
  return usage;
}

bool DecodeGroup::failed() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->dead.load(); });
}

std::optional<TimePoint> DecodeGroup::step_running_since() const {
  std::int64_t oldest = 0;
  for (const auto& rank : ranks_) {
    const std::int64_t began = rank->step_began.load(std::memory_order_relaxed);
    if (began != 0 && (oldest == 0 || began < oldest)) oldest = began;
  }
  if (oldest == 0) return std::nullopt;
  return TimePoint(Duration(oldest));
}

std::shared_ptr<DecodePlace> DecodeGroup::reserve(const Work& work) {
  // The rank with the longest cached prefix, then the one with the fewest sequences.
  const std::span<const TokenId> reusable = work.scores_prompt() ? std::span<const TokenId>() : std::span(work.tokens);
  std::vector<std::pair<int, Rank*>> order;
  for (auto& rank : ranks_) {
    if (rank->dead || rank->seats.load() >= layout_.options.max_num_seqs) continue;
    order.emplace_back(rank->cache->find(reusable, work.request->cache_salt), rank.get());
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->seats.load() < b.second->seats.load();
  });
  const int length = static_cast<int>(work.tokens.size());
  const int rest = work.request->max_tokens - work.generated();
  const int capacity = std::min(length + std::min(rest, kReservedAnswer), tokens_max());
  for (const auto& [cached, rank] : order) {
    auto pages = rank->cache->acquire(reusable, work.request->cache_salt, capacity);
    if (!pages) continue;
    ++rank->seats;
    std::shared_ptr<DecodePlace> place(new DecodePlace, [r = rank, events = &events_](DecodePlace* p) {
      delete p;
      --r->seats;
      events->capacity_freed();
    });
    place->rank = rank->index;
    place->pages = std::move(*pages);
    place->shard = {{0, weights_.config.num_kv_heads}, layout_.decode_layout};
    place->hidden.resize(static_cast<std::size_t>(weights_.config.hidden_size * size_of(weights_.act)));
    place->address = {.layer_base = static_cast<std::byte*>(rank->kv->layer(0).base),
                      .layer_stride = static_cast<std::int64_t>(KvMemory::bytes(1, rank->kv->num_pages(), rank->kv->layout())),
                      .pages = place->pages.pages(),
                      .hidden = place->hidden.data()};
    return place;
  }
  return nullptr;
}

void DecodeGroup::add(Work work, std::shared_ptr<DecodePlace> place, bool prefilled) {
  Rank& rank = *ranks_[static_cast<std::size_t>(place->rank)];
  auto sequence = std::make_unique<Sequence>(std::move(work), std::move(place), prefilled, vocab_size_);
  bool dead = false;
  {
    const std::lock_guard lock(rank.mutex);
    dead = rank.dead;
    if (!dead) rank.inbox.push_back(std::move(sequence));
  }
  if (dead) {
    events_.failed(sequence->work.ticket, sequence->work.attempt, {FailureCode::kUnavailable, "the decode group has failed", {}});
  } else {
    rank.context.member.wake();
  }
}

void DecodeGroup::cancel(Ticket ticket) {
  for (auto& rank : ranks_) {
    {
      const std::lock_guard lock(rank->mutex);
      rank->cancelled.push_back(ticket);
    }
    rank->context.member.wake();
  }
}

void DecodeGroup::drive(Rank& rank) {
  Member& member = rank.context.member;
  for (std::uint64_t step = 1; !stopping_;) {
    take_inbox(rank);
    drop_cancelled(rank);
    sample_arrivals(rank);
    compose(rank);
    if (rank.batch.rows() > 0) {
      member.announce(step);
    } else if (!member.await_announced(step, kIdlePatience)) {
      continue;
    }
    rank.step_began = Clock::now().time_since_epoch().count();
    member.begin_step(step);
    ++step;
    auto hidden = rank.context.model.forward(rank.batch.step(*rank.kv, nullptr));
    rank.step_began = 0;
    if (!hidden) {
      if (!stopping_) fail_all(rank, hidden.failure());
      return;
    }
    finish_step(rank, *hidden);
  }
  member.abort("the decode group is stopping");
}

void DecodeGroup::take_inbox(Rank& rank) {
  std::vector<std::unique_ptr<Sequence>> arrived;
  {
    const std::lock_guard lock(rank.mutex);
    arrived.swap(rank.inbox);
  }
  for (auto& sequence : arrived) {
    // What a prefill group wrote is complete, and may be found by the next prompt. Where the pool is shared it was published there.
    if (sequence->hidden_ready && !layout_.shared_pool) sequence->place->pages.publish(sequence->work.tokens, sequence->computed);
    const auto at = std::upper_bound(rank.sequences.begin(), rank.sequences.end(), sequence->work.age,
                                     [](std::uint64_t age, const auto& other) { return age < other->work.age; });
    rank.sequences.insert(at, std::move(sequence));
  }
}

void DecodeGroup::drop_cancelled(Rank& rank) {
  std::vector<Ticket> cancelled;
  {
    const std::lock_guard lock(rank.mutex);
    cancelled.swap(rank.cancelled);
  }
  for (const Ticket ticket : cancelled) {
    for (auto& sequence : rank.sequences) {
      if (sequence->work.ticket != ticket || sequence->ended) continue;
      const std::uint32_t attempt = sequence->work.attempt;
      end(rank, *sequence);
      events_.failed(ticket, attempt, {FailureCode::kCancelled, "cancelled by the caller", {}});
    }
  }
  sweep_ended(rank);
}

void DecodeGroup::sample_arrivals(Rank& rank) {
  std::vector<Sequence*> arrivals;
  for (auto& sequence : rank.sequences) {
    if (sequence->hidden_ready) arrivals.push_back(sequence.get());
  }
  for (std::size_t first = 0; first < arrivals.size(); first += RankContext::kHeadRows) {
    const std::vector<Sequence*> some(
        arrivals.begin() + static_cast<std::ptrdiff_t>(first),
        arrivals.begin() + static_cast<std::ptrdiff_t>(std::min(arrivals.size(), first + RankContext::kHeadRows)));
    rank.arrival_rows.clear();
    for (const Sequence* sequence : some) {
      rank.arrival_rows.insert(rank.arrival_rows.end(), sequence->place->hidden.begin(), sequence->place->hidden.end());
    }
    std::vector<std::int32_t> index(some.size());
    std::iota(index.begin(), index.end(), 0);
    for (Sequence* sequence : some) sequence->hidden_ready = false;
    sample(rank, View(rank.arrival_rows.data(), weights_.act, {static_cast<std::int64_t>(some.size()), weights_.config.hidden_size}), index,
           some);
  }
  sweep_ended(rank);
}

// The youngest goes back through prefill until this one has its page. False if this one itself had to go.
bool DecodeGroup::make_room(Rank& rank, Sequence& sequence) {
  while (!sequence.place->pages.grow_to(sequence.length())) {
    const auto youngest = std::find_if(rank.sequences.rbegin(), rank.sequences.rend(), [](const auto& s) { return !s->ended; });
    const bool self = youngest->get() == &sequence;
    preempt(rank, **youngest);
    if (self) return false;
  }
  return true;
}

void DecodeGroup::preempt(Rank& rank, Sequence& sequence) {
  Work work = sequence.work;
  end(rank, sequence);
  events_.preempted(std::move(work));
}

void DecodeGroup::compose(Rank& rank) {
  // Oldest first, so that a preempted one has not been given rows yet.
  for (auto& sequence : rank.sequences) {
    if (!sequence->ended) make_room(rank, *sequence);
  }
  sweep_ended(rank);
  rank.batch.clear();
  rank.rows_of.clear();
  int budget = layout_.decode_shape.rows_max;
  const auto add = [&](Sequence& sequence, int count) {
    rank.batch.add(sequence.work.tokens, sequence.computed, sequence.computed + count, sequence.place->pages.pages());
    rank.rows_of.push_back(&sequence);
    budget -= count;
  };
  for (auto& sequence : rank.sequences) {
    if (sequence->length() - sequence->computed == 1) add(*sequence, 1);
  }
  for (auto& sequence : rank.sequences) {
    const int pending = sequence->length() - sequence->computed;
    if (pending > 1 && budget > 0) add(*sequence, std::min(pending, budget));
  }
}

void DecodeGroup::finish_step(Rank& rank, View hidden) {
  std::vector<std::int32_t> index;
  std::vector<Sequence*> sampled;
  const auto flush = [&] {
    if (!sampled.empty()) sample(rank, hidden, index, sampled);
    index.clear();
    sampled.clear();
  };
  for (std::size_t s = 0; s < rank.rows_of.size(); ++s) {
    Sequence& sequence = *rank.rows_of[s];
    const int first = sequence.computed;
    sequence.computed = rank.batch.kv_length(static_cast<int>(s));
    if (sequence.work.scores_prompt() && first < sequence.work.prompt_length()) {
      append_prompt_scores(rank.context, hidden, rank.batch.first_row(static_cast<int>(s)), sequence.work.tokens, first, sequence.computed,
                           sequence.work.request->prompt_logprobs, sequence.scores);
    }
    if (sequence.computed < sequence.length()) continue;
    if (!layout_.options.disaggregated && sequence.work.generated() == 0) {
      // The prompt is done here: report it as a prefill group would, with its pages back if it was all that was asked for.
      const bool prompt_only = sequence.work.request->max_tokens == 0;
      const int cached = sequence.place->pages.cached_tokens();
      sequence.place->pages.publish(sequence.work.tokens, sequence.computed);
      if (prompt_only) end(rank, sequence);
      events_.prefilled(sequence.work, nullptr, cached, std::move(sequence.scores), {});
      if (prompt_only) continue;
    }
    index.push_back(rank.batch.last_row(static_cast<int>(s)));
    sampled.push_back(&sequence);
    if (static_cast<int>(sampled.size()) == RankContext::kHeadRows) flush();
  }
  flush();
  sweep_ended(rank);
}

void DecodeGroup::sample(Rank& rank, View hidden, const std::vector<std::int32_t>& index, const std::vector<Sequence*>& sequences) {
  const auto count = static_cast<std::int32_t>(sequences.size());
  std::vector<SampleRow> rows;
  rows.reserve(sequences.size());
  for (Sequence* sequence : sequences) rows.push_back(sequence->sampling.row(sequence->length(), sequence->work.generated()));
  std::vector<SampledToken> tokens(sequences.size());
  const View logits = rank.context.model.logits(hidden, index.data(), count);
  rank.context.ops->sample({.logits = logits, .requests = rows, .out = tokens, .rows = {count, &count}});

  std::vector<EngineEvents::Generated> generated;
  generated.reserve(sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    Sequence& sequence = *sequences[i];
    SampledToken& token = tokens[i];
    if (token.token < 0) {
      const Ticket ticket = sequence.work.ticket;
      const std::uint32_t attempt = sequence.work.attempt;
      end(rank, sequence);
      events_.failed(ticket, attempt,
                     failure(FailureCode::kInternal, "the model's logits for token {} of the answer are not finite, or no token is allowed",
                             sequence.work.generated()));
      continue;
    }
    EngineEvents::Generated event{.ticket = sequence.work.ticket, .attempt = sequence.work.attempt, .token = {}, .finish = {}};
    event.token = {.index = sequence.work.generated(), .token = token.token, .logprob = token.logprob, .top = {}};
    for (const auto& [id, logprob] : token.top) event.token.top.push_back({id, logprob});
    event.finish = append(sequence, token.token);
    if (event.finish != FinishReason::kNone) end(rank, sequence);
    generated.push_back(std::move(event));
  }
  if (!generated.empty()) events_.generated(generated);
}

FinishReason DecodeGroup::append(Sequence& sequence, TokenId token) const {
  sequence.work.tokens.push_back(token);
  sequence.sampling.append(token);
  const GenerationRequest& request = *sequence.work.request;
  const auto& stops = request.stop_token_ids;
  if (sequence.work.generated() > request.min_tokens && std::find(stops.begin(), stops.end(), token) != stops.end())
    return FinishReason::kStop;
  if (sequence.work.generated() >= request.max_tokens || sequence.length() >= tokens_max()) return FinishReason::kLength;
  return FinishReason::kNone;
}

// Its pages go to the index or back to the pool at once; the object goes with sweep_ended().
void DecodeGroup::end(Rank&, Sequence& sequence) {
  if (sequence.ended) return;
  sequence.place->pages.publish(sequence.work.tokens, sequence.computed);
  sequence.place.reset();
  sequence.ended = true;
}

void DecodeGroup::sweep_ended(Rank& rank) {
  std::erase_if(rank.sequences, [](const auto& sequence) { return sequence->ended; });
}

void DecodeGroup::fail_all(Rank& rank, const Failure& why) {
  log::error("{}", why.message);
  {
    const std::lock_guard lock(rank.mutex);
    rank.dead = true;
  }
  take_inbox(rank);
  for (auto& sequence : rank.sequences) {
    if (sequence->ended) continue;
    sequence->place.reset();
    sequence->ended = true;
    events_.failed(sequence->work.ticket, sequence->work.attempt, {FailureCode::kUnavailable, why.message, {}});
  }
  sweep_ended(rank);
}

}  // namespace qwell
