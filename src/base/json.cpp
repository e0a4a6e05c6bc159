#include "base/json.h"

#include <array>
#include <boost/json/parse_options.hpp>
#include <boost/json/stream_parser.hpp>
#include <charconv>
#include <cmath>

namespace qwell {
namespace {

template <class T>
void append_number(std::string& out, T v) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v);
  out.append(buffer.data(), result.ptr);
}

// Length of the valid UTF-8 character at text[i], or 0.
std::size_t utf8_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0U; };
  const auto tail = [&](std::size_t k, unsigned low = 0x80, unsigned high = 0xBF) { return byte(k) >= low && byte(k) <= high; };
  const unsigned b = byte(i);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(i + 1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    const unsigned low = b == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = b == 0xED ? 0x9F : 0xBF;
    return tail(i + 1, low, high) && tail(i + 2) ? 3 : 0;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    const unsigned low = b == 0xF0 ? 0x90 : 0x80;
    const unsigned high = b == 0xF4 ? 0x8F : 0xBF;
    return tail(i + 1, low, high) && tail(i + 2) && tail(i + 3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

Result<json::value> parse_json(std::string_view text, const JsonLimits& limits) {
  json::parse_options options;
  options.max_depth = limits.depth_max;
  json::stream_parser parser({}, options);
  json::error_code error;
  const std::size_t used = parser.write_some(text.data(), text.size(), error);
  if (!error && used < text.size())
    return failure(FailureCode::kInvalidArgument, "invalid JSON at byte {}: more text after the value", used);
  if (!error) parser.finish(error);
  if (error) return failure(FailureCode::kInvalidArgument, "invalid JSON at byte {}: {}", used, error.message());
  return parser.release();
}

json::value parse_json_file(std::string_view text, std::string_view name, const JsonLimits& limits) {
  auto parsed = parse_json(text, limits);
  if (!parsed) fail("{}: {}", name, parsed.failure().message);
  return std::move(parsed).value();
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const char c = text[i];
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    if (length > 1) {
      out.append(text, i, length);
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\\u00";
      out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHex[c & 15]);
    } else {
      out.push_back(c);
    }
    i += length;
  }
  out.push_back('"');
}

void JsonWriter::separate() {
  if (need_comma_) out_.push_back(',');
  need_comma_ = true;
}

JsonWriter& JsonWriter::open(char c) {
  separate();
  out_.push_back(c);
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char c) {
  out_.push_back(c);
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_json_string(out_, name);
  out_.push_back(':');
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  append_json_string(out_, text);
  return *this;
}

JsonWriter& JsonWriter::value(bool v) { return raw(v ? "true" : "false"); }

JsonWriter& JsonWriter::value(double v) {
  if (!std::isfinite(v)) return null();
  separate();
  append_number(out_, v);
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t v) {
  separate();
  append_number(out_, v);
  return *this;
}

JsonWriter& JsonWriter::value(std::uint64_t v) {
  separate();
  append_number(out_, v);
  return *this;
}

JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view json_text) {
  separate();
  out_ += json_text;
  return *this;
}

JsonWriter& JsonWriter::value(const json::value& v) {
  switch (v.kind()) {
    case json::kind::null: return null();
    case json::kind::bool_: return value(v.get_bool());
    case json::kind::int64: return value(v.get_int64());
    case json::kind::uint64: return value(v.get_uint64());
    case json::kind::double_: return value(v.get_double());
    case json::kind::string: return value(std::string_view(v.get_string()));
    case json::kind::array:
      begin_array();
      for (const auto& item : v.get_array()) value(item);
      return end_array();
    case json::kind::object:
      begin_object();
      for (const auto& item : v.get_object()) field(std::string_view(item.key()), item.value());
      return end_object();
  }
  return *this;
}

}  // namespace qwell
