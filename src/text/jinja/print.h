#pragma once
// Values as text, with Python's spelling.

#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace qwell::jinja {

std::string print_integer(Int v);
std::string print_float(double v);  // repr(): shortest form that reads back equal

// str(v): strings as they are, everything else as repr.
void append_str(TextBuilder& out, const Value& v);
Text to_str(const Value& v);
void append_repr(TextBuilder& out, const Value& v);
Text to_repr(const Value& v);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  // of one level; absent: one line
  Text item_separator;
  Text key_separator;
};

// json.dumps(v). Raises for what JSON does not have.
void append_json(TextBuilder& out, const Value& v, const JsonStyle& style, int level = 0);

}  // namespace qwell::jinja
