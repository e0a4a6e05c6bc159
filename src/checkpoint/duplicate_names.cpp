#include "checkpoint/internal/duplicate_names.h"

#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/internal/quoted.h"

namespace qwell {
namespace {

// Just behind the string literal that begins at `begin`.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  std::size_t i = begin + 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2U : 1U;
  return std::min(i + 1, text.size());
}

std::string unescaped(std::string_view literal) {
  if (literal.find('\\') == std::string_view::npos) return std::string(literal.substr(1, literal.size() - 2));
  const auto parsed = parse_json(literal);
  return parsed && parsed->is_string() ? std::string(parsed->get_string()) : std::string(literal);
}

}  // namespace

void refuse_duplicate_names(std::string_view text, std::string_view where) {
  std::vector<std::unordered_set<std::string>> open;  // the names of each object that is not closed yet
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') open.emplace_back();
    if (text[i] == '}' && !open.empty()) open.pop_back();
    if (text[i] != '"') continue;
    const std::size_t end = end_of_string(text, i);
    const std::size_t next = text.find_first_not_of(" \t\r\n", end);
    if (next != std::string_view::npos && text[next] == ':' && !open.empty()) {
      std::string name = unescaped(text.substr(i, end - i));
      if (!open.back().insert(name).second) fail("{}: {} is given twice", where, in_quotes(name));
    }
    i = end - 1;
  }
}

}  // namespace qwell
