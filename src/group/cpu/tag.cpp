#include "group/cpu/tag.h"

#include <fmt/format.h>

#include "base/check.h"

namespace qwell::group {

const char* to_string(Signal signal) {
  switch (signal) {
    case Signal::kNone: return "nothing";
    case Signal::kJoinPartials: return "join, partial sums";
    case Signal::kJoinRows: return "join, rows";
    case Signal::kDispatch: return "dispatch";
    case Signal::kCombine: return "combine";
    case Signal::kOrder: return "order";
    case Signal::kTaken: return "taken order";
    case Signal::kAnnounced: return "announcement";
  }
  return "an unknown signal";
}

std::uint64_t Tag::pack() const {
  QWELL_CHECK(exchange < kExchangesMax, "exchange {}", exchange);
  return std::uint64_t{incarnation} << 48 | std::uint64_t{step} << 16 | std::uint64_t{exchange} << 4 | static_cast<std::uint64_t>(signal);
}

Tag Tag::unpack(std::uint64_t word) {
  return {.incarnation = static_cast<std::uint16_t>(word >> 48),
          .step = static_cast<std::uint32_t>(word >> 16),
          .exchange = static_cast<std::uint16_t>(word >> 4 & (kExchangesMax - 1)),
          .signal = static_cast<Signal>(word & 0xf)};
}

TagOrder compare(std::uint64_t seen, std::uint64_t expected) {
  if (seen == expected) return TagOrder::kEqual;
  if (seen == 0) return TagOrder::kOlder;
  const Tag s = Tag::unpack(seen);
  const Tag e = Tag::unpack(expected);
  const auto order = [](std::int64_t difference) { return difference < 0 ? TagOrder::kOlder : TagOrder::kOther; };
  if (s.incarnation != e.incarnation) return order(static_cast<std::int16_t>(s.incarnation - e.incarnation));
  if (s.step != e.step) return order(static_cast<std::int32_t>(s.step - e.step));
  if (s.exchange != e.exchange) return order(s.exchange - e.exchange);
  return TagOrder::kOther;
}

bool step_reached(std::uint64_t seen, std::uint64_t wanted) {
  if (seen == 0) return false;
  const Tag s = Tag::unpack(seen);
  const Tag w = Tag::unpack(wanted);
  return s.incarnation == w.incarnation && static_cast<std::int32_t>(s.step - w.step) >= 0;
}

std::string tag_text(std::uint64_t word) {
  if (word == 0) return "nothing yet";
  const Tag t = Tag::unpack(word);
  return fmt::format("{} (incarnation {}, step {}, exchange {})", to_string(t.signal), t.incarnation, t.step, t.exchange);
}

}  // namespace qwell::group
