#include "server/api_error.h"

#include "base/log.h"
#include "net/http.h"

namespace qwell::server {

ApiError to_api_error(const Failure& f) {
  switch (f.code) {
    case FailureCode::kInvalidArgument: return {400, f.message, "invalid_request_error", f.param, ""};
    case FailureCode::kTooLarge: return {400, f.message, "invalid_request_error", f.param, "context_length_exceeded"};
    case FailureCode::kNotFound: return {404, f.message, "invalid_request_error", f.param, "not_found"};
    case FailureCode::kOverloaded: return {429, f.message, "rate_limit_error", f.param, "rate_limit_exceeded"};
    case FailureCode::kUnavailable: return {503, f.message, "service_unavailable_error", f.param, "service_unavailable"};
    case FailureCode::kCancelled: return {503, f.message, "service_unavailable_error", f.param, "cancelled"};
    case FailureCode::kDeadline: return {504, f.message, "timeout_error", f.param, "deadline_exceeded"};
    case FailureCode::kInternal: break;
  }
  log::error("internal error: {}", f.message);
  return {500, "internal error; the server's log has the details", "internal_server_error", "", "internal_error"};
}

ApiError invalid_request(std::string_view param, std::string message, std::string_view code) {
  return {400, std::move(message), "invalid_request_error", std::string(param), std::string(code)};
}

ApiError not_found(std::string message, std::string_view code) {
  return {404, std::move(message), "invalid_request_error", "", std::string(code)};
}

std::string body_of(const ApiError& e) { return net::error_body(e.message, e.type, e.param, e.code); }

}  // namespace qwell::server
