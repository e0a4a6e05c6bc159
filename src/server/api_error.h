#pragma once
// Errors as a client sees them: a status and {"error":{"message","type","param","code"}}.

#include <string>
#include <string_view>

#include "base/error.h"

namespace qwell::server {

struct ApiError {
  int status = 500;
  std::string message;
  std::string type;
  std::string param;  // empty: null
  std::string code;   // empty: null
};

// 400 kInvalidArgument, kTooLarge (context_length_exceeded); 404 kNotFound; 429 kOverloaded; 503 kUnavailable, kCancelled; 504 kDeadline;
// 500 kInternal, whose text stays in the log.
ApiError to_api_error(const Failure& failure);

ApiError invalid_request(std::string_view param, std::string message, std::string_view code = {});
ApiError not_found(std::string message, std::string_view code);

// The JSON body.
std::string body_of(const ApiError& error);

}  // namespace qwell::server
