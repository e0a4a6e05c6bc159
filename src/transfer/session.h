#pragma once
// A transfer session: one or several writers fill one reader's pages (and its last hidden row) by one-sided writes; the reader learns of
// each piece by an immediate, in any order. A session always ends complete or failed, and its memory is given back only when no writer can
// reach it any more.
//
// Units. What is to come is cut into units fixed by the plan alone: (layer, destination block, source rank), plus one for the hidden row.
// An attempt owns a fresh range of 32-bit immediates, one number per unit; a bitmap marks what came. A number outside all live ranges is
// stale: counted, otherwise ignored.
//
// States and transitions are the table in session.cpp. Session and SessionTable are safe for many threads; a SessionWriter belongs to one.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "tensor/shard_map.h"

namespace qwell {

// What shall move, known to both sides before the first write.
struct SessionPlan {
  std::uint64_t id = 0;  // of the session; replicas of a head share the sending by it
  int layers = 0;
  int first_position = 0;  // a multiple of the destination's page_tokens: earlier pages are there already
  int end_position = 0;
  std::vector<KvShard> sources;  // by source rank; several may hold the same heads
  KvShard destination;
  std::int64_t hidden_bytes = 0;  // of the last hidden row; 0: none is sent

  int first_block() const { return first_position / destination.layout.page_tokens; }
  int blocks() const { return destination.layout.pages_for(end_position) - first_block(); }
  // Heads that source rank `source` sends: of the heads that it shares with the destination, those that no other replica sends.
  std::vector<Range> heads_sent_by(int source) const;
  // Sources that send anything, in rank order.
  std::vector<int> senders() const;
  std::int64_t kv_bytes() const;  // that will cross: the keys and values of the positions, no more
  std::uint32_t unit_count() const;
  std::uint32_t unit(int layer, int block, int sender_index) const;  // block counts from first_block()
  std::uint32_t hidden_unit() const { return unit_count() - 1; }     // with hidden_bytes > 0
  std::string unit_text(std::uint32_t unit) const;                   // "layer 3, positions 32 to 47, source rank 1"
};

// Where a writer's bytes go.
struct SessionAddress {
  std::byte* layer_base = nullptr;  // of layer 0
  std::int64_t layer_stride = 0;    // bytes
  std::vector<std::int32_t> pages;  // the destination's block table
  std::byte* hidden = nullptr;
  std::uint32_t immediate_base = 0;
};

enum class SessionState : std::uint8_t { kOpen, kWriting, kComplete, kFailed };
enum class SessionEvent : std::uint8_t { kUnit, kLastUnit, kFault };
const char* to_string(SessionState state);
// The table of transitions; empty where an event can't happen in a state.
std::optional<SessionState> next_state(SessionState state, SessionEvent event);

// The reader's end.
class Session {
 public:
  Session(SessionPlan plan, SessionAddress address, Deadline deadline);

  const SessionPlan& plan() const { return plan_; }
  const SessionAddress& address() const { return address_; }
  SessionState state() const;
  // Why it failed; kDeadline names the first missing unit.
  Failure failure() const;
  // Ends it, unless it has ended. Later units are ignored.
  void fail(Failure failure);
  std::uint32_t missing() const { return missing_.load(std::memory_order_acquire); }

 private:
  friend class SessionTable;
  enum class Mark { kNew, kDuplicate, kEnded };

  Mark mark(std::uint32_t unit);
  void check_deadline();
  void apply(SessionEvent event);

  const SessionPlan plan_;
  const SessionAddress address_;
  const Deadline deadline_;
  std::atomic<std::uint32_t> missing_;
  mutable std::mutex mutex_;
  SessionState state_ = SessionState::kOpen;
  Failure failure_;
  std::vector<std::uint64_t> came_;  // bitmap of units
};

// All live sessions of a reader's process, found by immediate.
class SessionTable {
 public:
  struct Counters {
    std::uint64_t opened = 0, units = 0, duplicates = 0, stale = 0;
  };

  // `address.immediate_base` is set here. `first_immediate`: where the ring starts (tests start it just before the wrap).
  explicit SessionTable(std::uint32_t first_immediate = 1) : next_immediate_(first_immediate) {}

  std::shared_ptr<Session> open(SessionPlan plan, SessionAddress address, Deadline deadline);
  // What a transport calls for each immediate that arrived, after the bytes are there.
  void deliver(std::uint32_t immediate);
  // Fails the sessions whose deadline has passed and forgets those that nobody holds any more.
  void sweep();
  // Sessions that somebody holds.
  int open_sessions() const;
  Counters counters() const;

 private:
  struct Entry {
    std::uint32_t count;
    std::weak_ptr<Session> session;
  };
  std::shared_ptr<Session> find(std::uint32_t immediate, std::uint32_t& unit);

  mutable std::mutex mutex_;
  std::map<std::uint32_t, Entry> ranges_;  // by first immediate; ranges do not wrap
  std::uint32_t next_immediate_;
  Counters counters_;
};

// How bytes get there. An implementation writes all runs, then makes the immediate known to the reader's table.
struct WriteRun {
  const std::byte* source = nullptr;
  std::byte* destination = nullptr;
  std::size_t bytes = 0;
};
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Result<void> write(std::span<const WriteRun> runs, std::uint32_t immediate) = 0;
};

// Between ranks of one process: a copy, then the immediate.
class LocalTransport final : public Transport {
 public:
  explicit LocalTransport(SessionTable& table) : table_(table) {}
  Result<void> write(std::span<const WriteRun> runs, std::uint32_t immediate) override;

 private:
  SessionTable& table_;
};

// One source rank's end.
class SessionWriter {
 public:
  SessionWriter(SessionPlan plan, SessionAddress address, int source, Transport& transport);

  // Sends of layer `layer` every unit that is computed (its positions lie before `computed_end`) and was not sent. `source_layer` is the
  // layer's first page, `source_pages` the block table on this side.
  Result<void> push(int layer, int computed_end, const std::byte* source_layer, std::span<const std::int32_t> source_pages);
  Result<void> push_hidden(std::span<const std::byte> row);
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  SessionPlan plan_;
  SessionAddress address_;
  int source_;
  int sender_index_ = -1;  // -1: sends nothing
  std::vector<Range> heads_;
  std::vector<int> blocks_sent_;  // by layer
  Transport& transport_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace qwell
