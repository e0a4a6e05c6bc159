#pragma once
// A template's text as tokens, with whitespace control as Jinja2 does it under trim_blocks and lstrip_blocks.

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace qwell::jinja {

enum class TokenKind { kData, kBlockBegin, kBlockEnd, kOutputBegin, kOutputEnd, kName, kString, kInteger, kFloat, kOperator, kEnd };

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // data, name, the string's value, the operator's characters
  Value number;      // of integers and floats
};

// Ends with a kEnd token. Throws Error that begins with `name`:line.
std::vector<Token> tokenize(std::string_view source, std::string_view name);

// What Python's str.isspace() and \s take for white space.
bool is_python_space(char32_t c);

}  // namespace qwell::jinja
