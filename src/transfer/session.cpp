#include "transfer/session.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace qwell {

std::vector<Range> SessionPlan::heads_sent_by(int source) const {
  std::vector<Range> heads;
  const Range own = sources[static_cast<std::size_t>(source)].heads;
  for (int head = std::max(own.first, destination.heads.first); head < std::min(own.end(), destination.heads.end()); ++head) {
    int replicas = 0;
    int before = 0;  // replicas of this head with a lower rank
    for (std::size_t other = 0; other < sources.size(); ++other) {
      if (!sources[other].heads.contains(head)) continue;
      ++replicas;
      if (static_cast<int>(other) < source) ++before;
    }
    if (sending_replica(id, head, replicas) != before) continue;
    if (!heads.empty() && heads.back().end() == head) {
      ++heads.back().count;
    } else {
      heads.push_back({head, 1});
    }
  }
  return heads;
}

std::vector<int> SessionPlan::senders() const {
  std::vector<int> ranks;
  for (int source = 0; source < static_cast<int>(sources.size()); ++source) {
    if (!heads_sent_by(source).empty()) ranks.push_back(source);
  }
  return ranks;
}

std::int64_t SessionPlan::kv_bytes() const {
  const PageLayout& l = destination.layout;
  return std::int64_t{layers} * (end_position - first_position) * 2 * l.kv_heads * l.head_dim * size_of(l.dtype);
}

std::uint32_t SessionPlan::unit_count() const {
  const auto pages = static_cast<std::uint32_t>(layers * blocks()) * static_cast<std::uint32_t>(senders().size());
  return pages + (hidden_bytes > 0 ? 1U : 0U);
}

std::uint32_t SessionPlan::unit(int layer, int block, int sender_index) const {
  return (static_cast<std::uint32_t>(sender_index) * static_cast<std::uint32_t>(layers) + static_cast<std::uint32_t>(layer)) *
             static_cast<std::uint32_t>(blocks()) +
         static_cast<std::uint32_t>(block);
}

std::string SessionPlan::unit_text(std::uint32_t unit) const {
  if (hidden_bytes > 0 && unit == hidden_unit()) return "the last hidden row";
  const auto per_layer = static_cast<std::uint32_t>(blocks());
  const int block = static_cast<int>(unit % per_layer) + first_block();
  const auto layer = unit / per_layer % static_cast<std::uint32_t>(layers);
  const auto sender = unit / per_layer / static_cast<std::uint32_t>(layers);
  const int page_tokens = destination.layout.page_tokens;
  return fmt::format("layer {}, positions {} to {}, source rank {}", layer, block * page_tokens,
                     std::min((block + 1) * page_tokens, end_position) - 1, senders()[sender]);
}

const char* to_string(SessionState state) {
  switch (state) {
    case SessionState::kOpen: return "open";
    case SessionState::kWriting: return "writing";
    case SessionState::kComplete: return "complete";
    case SessionState::kFailed: return "failed";
  }
  return "unknown";
}

std::optional<SessionState> next_state(SessionState state, SessionEvent event) {
  using S = SessionState;
  switch (state) {
    case S::kOpen:
    case S::kWriting:
      switch (event) {
        case SessionEvent::kUnit: return S::kWriting;
        case SessionEvent::kLastUnit: return S::kComplete;
        case SessionEvent::kFault: return S::kFailed;
      }
      break;
    case S::kComplete:  // units that come again are duplicates, a fault that comes late changes nothing
      if (event == SessionEvent::kFault) return S::kComplete;
      break;
    case S::kFailed:
      if (event == SessionEvent::kFault) return S::kFailed;
      break;
  }
  return std::nullopt;
}

Session::Session(SessionPlan plan, SessionAddress address, Deadline deadline)
    : plan_(std::move(plan)),
      address_(std::move(address)),
      deadline_(deadline),
      missing_(plan_.unit_count()),
      came_((plan_.unit_count() + 63) / 64) {
  if (missing() == 0) state_ = SessionState::kComplete;
}

SessionState Session::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

Failure Session::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Session::apply(SessionEvent event) {
  const auto next = next_state(state_, event);
  QWELL_CHECK(next.has_value(), "session {}: event {} in state {}", plan_.id, static_cast<int>(event), to_string(state_));
  state_ = *next;
}

void Session::fail(Failure failure) {
  const std::lock_guard lock(mutex_);
  if (state_ == SessionState::kComplete || state_ == SessionState::kFailed) return;
  failure_ = std::move(failure);
  apply(SessionEvent::kFault);
}

Session::Mark Session::mark(std::uint32_t unit) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& word = came_[unit / 64];
  const std::uint64_t bit = std::uint64_t{1} << (unit % 64);
  if ((word & bit) != 0) return Mark::kDuplicate;
  if (state_ == SessionState::kFailed) return Mark::kEnded;
  word |= bit;
  const std::uint32_t left = missing_.fetch_sub(1, std::memory_order_acq_rel) - 1;
  apply(left == 0 ? SessionEvent::kLastUnit : SessionEvent::kUnit);
  return Mark::kNew;
}

void Session::check_deadline() {
  const std::lock_guard lock(mutex_);
  if ((state_ != SessionState::kOpen && state_ != SessionState::kWriting) || !deadline_.passed()) return;
  std::uint32_t unit = 0;
  while ((came_[unit / 64] >> (unit % 64) & 1) != 0) ++unit;
  failure_ = qwell::failure(FailureCode::kDeadline, "transfer session {}: {} of {} units are missing at its deadline, the first is {}",
                            plan_.id, missing(), plan_.unit_count(), plan_.unit_text(unit));
  apply(SessionEvent::kFault);
}

std::shared_ptr<Session> SessionTable::open(SessionPlan plan, SessionAddress address, Deadline deadline) {
  const std::uint32_t count = std::max(plan.unit_count(), 1U);
  const std::lock_guard lock(mutex_);
  // The next range of the ring that neither wraps nor meets a live one.
  std::uint32_t first = next_immediate_;
  for (;;) {
    if (first + count < first) first = 1;
    auto after = ranges_.lower_bound(first);
    if (after != ranges_.begin()) {
      const auto before = std::prev(after);
      const std::uint32_t end = before->first + before->second.count;
      if (end > first) {
        first = end;
        continue;
      }
    }
    if (after == ranges_.end() || after->first - first >= count) break;
    first = after->first + after->second.count;
  }
  next_immediate_ = first + count;
  address.immediate_base = first;
  auto session = std::make_shared<Session>(std::move(plan), std::move(address), deadline);
  ranges_[first] = {count, session};
  ++counters_.opened;
  return session;
}

std::shared_ptr<Session> SessionTable::find(std::uint32_t immediate, std::uint32_t& unit) {
  const std::lock_guard lock(mutex_);
  auto entry = ranges_.upper_bound(immediate);
  std::shared_ptr<Session> session;
  if (entry != ranges_.begin()) {
    --entry;
    unit = immediate - entry->first;
    if (unit < entry->second.count) session = entry->second.session.lock();
  }
  if (session == nullptr) ++counters_.stale;
  return session;
}

void SessionTable::deliver(std::uint32_t immediate) {
  std::uint32_t unit = 0;
  const std::shared_ptr<Session> session = find(immediate, unit);
  if (session == nullptr) return;
  const Session::Mark mark = session->mark(unit);
  const std::lock_guard lock(mutex_);
  switch (mark) {
    case Session::Mark::kNew: ++counters_.units; break;
    case Session::Mark::kDuplicate: ++counters_.duplicates; break;
    case Session::Mark::kEnded: ++counters_.stale; break;
  }
}

void SessionTable::sweep() {
  std::vector<std::shared_ptr<Session>> live;
  {
    const std::lock_guard lock(mutex_);
    for (auto entry = ranges_.begin(); entry != ranges_.end();) {
      if (auto session = entry->second.session.lock()) {
        live.push_back(std::move(session));
        ++entry;
      } else {
        entry = ranges_.erase(entry);
      }
    }
  }
  for (const auto& session : live) session->check_deadline();
}

int SessionTable::open_sessions() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(ranges_.begin(), ranges_.end(), [](const auto& range) { return !range.second.session.expired(); }));
}

SessionTable::Counters SessionTable::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

Result<void> LocalTransport::write(std::span<const WriteRun> runs, std::uint32_t immediate) {
  for (const WriteRun& run : runs) std::memcpy(run.destination, run.source, run.bytes);
  table_.deliver(immediate);
  return {};
}

SessionWriter::SessionWriter(SessionPlan plan, SessionAddress address, int source, Transport& transport)
    : plan_(std::move(plan)), address_(std::move(address)), source_(source), transport_(transport) {
  const std::vector<int> senders = plan_.senders();
  const auto found = std::find(senders.begin(), senders.end(), source);
  if (found == senders.end()) return;
  sender_index_ = static_cast<int>(found - senders.begin());
  heads_ = plan_.heads_sent_by(source);
  blocks_sent_.resize(static_cast<std::size_t>(plan_.layers));
}

Result<void> SessionWriter::push(int layer, int computed_end, const std::byte* source_layer, std::span<const std::int32_t> source_pages) {
  if (sender_index_ < 0) return {};
  const KvShard& source = plan_.sources[static_cast<std::size_t>(source_)];
  const PageLayout& to = plan_.destination.layout;
  int& sent = blocks_sent_[static_cast<std::size_t>(layer)];
  std::vector<WriteRun> writes;
  for (; sent < plan_.blocks(); ++sent) {
    const int first = (plan_.first_block() + sent) * to.page_tokens;
    const int end = std::min(first + to.page_tokens, plan_.end_position);
    if (end > computed_end) break;
    writes.clear();
    for (const Range& heads : heads_) {
      for (const CopyRun& run : copy_runs(source, plan_.destination, heads, first, end - first)) {
        writes.push_back(
            {.source = source_layer + source_pages[static_cast<std::size_t>(run.src_block)] * source.layout.page_bytes() + run.src_offset,
             .destination = address_.layer_base + layer * address_.layer_stride +
                            address_.pages[static_cast<std::size_t>(run.dst_block)] * to.page_bytes() + run.dst_offset,
             .bytes = static_cast<std::size_t>(run.bytes)});
        bytes_sent_ += static_cast<std::uint64_t>(run.bytes);
      }
    }
    if (auto written = transport_.write(writes, address_.immediate_base + plan_.unit(layer, sent, sender_index_)); !written) return written;
  }
  return {};
}

Result<void> SessionWriter::push_hidden(std::span<const std::byte> row) {
  QWELL_CHECK(static_cast<std::int64_t>(row.size()) == plan_.hidden_bytes, "{} bytes of {}", row.size(), plan_.hidden_bytes);
  const WriteRun run{row.data(), address_.hidden, row.size()};
  return transport_.write({&run, 1}, address_.immediate_base + plan_.hidden_unit());
}

}  // namespace qwell
