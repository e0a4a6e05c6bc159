#pragma once
// JSON: reading through Boost.JSON with our limits, writing by our own writer (numbers in shortest round-trip form, UTF-8 kept).
// Include this instead of boost/json.hpp.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace qwell {

namespace json = boost::json;

struct JsonLimits {
  std::size_t depth_max = 64;
};

// Parses one JSON document and nothing after it. UTF-8 is checked. The message says what is wrong and at which byte.
Result<json::value> parse_json(std::string_view text, const JsonLimits& limits = {});

// The same for set-up files: throws Error that starts with `name`.
json::value parse_json_file(std::string_view text, std::string_view name, const JsonLimits& limits = {});

// Appends `text` as a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// Builds compact JSON text. Commas are placed by the writer; the caller opens and closes what it opened.
//   JsonWriter w; w.begin_object(); w.field("n", 3); w.key("xs"); w.begin_array(); w.value(1.5); w.end_array(); w.end_object();
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool v);
  JsonWriter& value(double v);  // NaN and infinities are not JSON: written as null
  JsonWriter& value(std::int64_t v);
  JsonWriter& value(std::uint64_t v);
  JsonWriter& value(int v) { return value(static_cast<std::int64_t>(v)); }
  JsonWriter& null();
  JsonWriter& raw(std::string_view json_text);  // one complete value, already JSON
  JsonWriter& value(const json::value& v);

  template <class T>
  JsonWriter& field(std::string_view name, T&& v) {
    key(name);
    return value(std::forward<T>(v));
  }

  const std::string& text() const& { return out_; }
  std::string text() && { return std::move(out_); }

 private:
  JsonWriter& open(char c);
  JsonWriter& close(char c);
  void separate();

  std::string out_;
  bool need_comma_ = false;
};

}  // namespace qwell
