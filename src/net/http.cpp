#include "net/http.h"

#include "base/json.h"

namespace qwell::net {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& h : headers) {
    if (h.name == name) return h.value;
  }
  return {};
}

std::string error_body(std::string_view message, std::string_view type, std::string_view param, std::string_view code) {
  JsonWriter w;
  w.begin_object().key("error").begin_object().field("message", message).field("type", type);
  w.key("param");
  param.empty() ? w.null() : w.value(param);
  w.key("code");
  code.empty() ? w.null() : w.value(code);
  w.end_object().end_object();
  return std::move(w).text();
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Unknown";
  }
}

}  // namespace qwell::net
