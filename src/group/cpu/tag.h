#pragma once
// The tag of a cell: which signal of which exchange of which step of which incarnation. One 64-bit word, written by one release store and
// read by one acquire load, from the most significant bit on:
//
//   incarnation (16) | step (32) | exchange (12) | signal (4)
//
// The fields hold the low bits of their numbers and are compared one by one as serial numbers (a before b if the difference, taken in the
// field's width, is negative), so that neither a long life nor many incarnations exhaust them: numbers that are compared lie less than half
// a field apart. A word of zero was never written (signals start at 1).
//
// What a rank that expects tag E may see of a peer, and what it means:
//   kOlder  never written, or an earlier incarnation, step or exchange: the peer has not come yet, wait;
//   kEqual  go: what the peer wrote before is visible;
//   kOther  anything else: the peer is in a later exchange, step or incarnation, or in the same exchange by another name. It will never
//           write E, so this is a failure at once.

#include <cstdint>
#include <string>

namespace qwell::group {

enum class Signal : std::uint8_t { kNone, kJoinPartials, kJoinRows, kDispatch, kCombine, kOrder, kTaken, kAnnounced };

const char* to_string(Signal signal);

struct Tag {
  static constexpr std::uint32_t kExchangesMax = 1U << 12;  // of a step

  std::uint16_t incarnation = 0;
  std::uint32_t step = 0;
  std::uint16_t exchange = 0;
  Signal signal = Signal::kNone;

  std::uint64_t pack() const;
  static Tag unpack(std::uint64_t word);
};

enum class TagOrder { kOlder, kEqual, kOther };
TagOrder compare(std::uint64_t seen, std::uint64_t expected);

// Whether `seen` is of the same incarnation as `wanted` and of its step or a later one.
bool step_reached(std::uint64_t seen, std::uint64_t wanted);

// "dispatch (incarnation 0, step 7, exchange 3)", or "nothing yet".
std::string tag_text(std::uint64_t word);

}  // namespace qwell::group
