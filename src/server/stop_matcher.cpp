#include "server/stop_matcher.h"

#include <algorithm>

#include "base/check.h"

namespace qwell::server {

StopMatcher::StopMatcher(const std::vector<std::string>& stops, bool include_match) : include_match_(include_match) {
  for (const auto& stop : stops) {
    QWELL_CHECK(!stop.empty(), "stop string {} is empty", patterns_.size());
    Pattern p{.text = stop, .fallback = std::vector<std::size_t>(stop.size() + 1, 0)};
    for (std::size_t i = 1; i < stop.size(); ++i) {
      std::size_t border = p.fallback[i];
      while (border > 0 && stop[border] != stop[i]) border = p.fallback[border];
      p.fallback[i + 1] = stop[border] == stop[i] ? border + 1 : 0;
    }
    patterns_.push_back(std::move(p));
  }
}

void StopMatcher::advance(Pattern& p, char c) {
  while (p.length > 0 && p.text[p.length] != c) p.length = p.fallback[p.length];
  if (p.text[p.length] == c) ++p.length;
}

std::string StopMatcher::push(std::string_view text) {
  if (matched_) return {};
  std::string out = std::move(held_);
  held_.clear();
  std::size_t hold = 0;
  for (const char c : text) {
    out.push_back(c);
    hold = 0;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& p = patterns_[i];
      advance(p, c);
      hold = std::max(hold, p.length);
      const bool whole = p.length == p.text.size();
      if (whole && (!matched_ || p.length > patterns_[*matched_].text.size())) matched_ = i;
    }
    if (!matched_) continue;
    if (!include_match_) out.resize(out.size() - patterns_[*matched_].text.size());
    return out;
  }
  if (text.empty()) {
    for (const auto& p : patterns_) hold = std::max(hold, p.length);
  }
  held_ = out.substr(out.size() - hold);
  out.resize(out.size() - hold);
  return out;
}

std::string StopMatcher::flush() {
  for (auto& p : patterns_) p.length = 0;
  std::string out = std::move(held_);
  held_.clear();
  return out;
}

}  // namespace qwell::server
