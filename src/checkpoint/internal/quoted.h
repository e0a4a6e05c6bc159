#pragma once
// Text out of files in messages: with quotes, and whatever would break a line or end a string written as an escape.

#include <string>
#include <string_view>

#include "base/json.h"

namespace qwell {

inline std::string in_quotes(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace qwell
