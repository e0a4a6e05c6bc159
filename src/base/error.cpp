#include "base/error.h"

namespace qwell {

const char* to_string(FailureCode code) {
  switch (code) {
    case FailureCode::kInvalidArgument: return "invalid_argument";
    case FailureCode::kNotFound: return "not_found";
    case FailureCode::kTooLarge: return "too_large";
    case FailureCode::kOverloaded: return "overloaded";
    case FailureCode::kUnavailable: return "unavailable";
    case FailureCode::kDeadline: return "deadline";
    case FailureCode::kCancelled: return "cancelled";
    case FailureCode::kInternal: return "internal";
  }
  return "unknown";
}

}  // namespace qwell
