#include "text/tokenizer_table.h"

#include <bit>
#include <functional>

#include "base/check.h"
#include "text/unicode.h"

namespace qwell {

// Bytes that are printable in Latin-1 stand for themselves, the others are the characters from U+0100 on.
ByteAlphabet::ByteAlphabet() {
  byte_of_.fill(-1);
  char16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const char16_t character = printable ? static_cast<char16_t>(byte) : next++;
    character_of_[byte] = character;
    byte_of_[character] = static_cast<std::int16_t>(byte);
  }
  QWELL_CHECK(next == kCharacters, "{} characters", static_cast<unsigned>(next));
}

bool ByteAlphabet::append_bytes(std::string& out, std::string_view text) const {
  const std::size_t before = out.size();
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Step step = next_valid_utf8(text, i);
    const int byte = step.value < kCharacters ? byte_of_[step.value] : -1;
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
    i += step.bytes;
  }
  return true;
}

std::string ByteAlphabet::text_of(unsigned char byte) const {
  std::string text;
  append_utf8(text, character_of_[byte]);
  return text;
}

TokenTable::TokenTable(const std::vector<std::string>& bytes) {
  std::size_t total = 0;
  for (const std::string& token : bytes) total += token.size();
  arena_.reserve(total);
  begins_.reserve(bytes.size() + 1);
  for (const std::string& token : bytes) {
    begins_.push_back(static_cast<std::uint32_t>(arena_.size()));
    arena_ += token;
  }
  begins_.push_back(static_cast<std::uint32_t>(arena_.size()));
  slots_.assign(std::bit_ceil(2 * bytes.size() + 1), -1);
  const std::size_t mask = slots_.size() - 1;
  for (std::int32_t id = 0; id < size(); ++id) {
    if (bytes[id].empty()) continue;
    std::size_t i = std::hash<std::string_view>()(bytes[id]) & mask;
    while (slots_[i] >= 0 && this->bytes(slots_[i]) != bytes[id]) i = (i + 1) & mask;
    if (slots_[i] < 0) slots_[i] = id;
  }
}

std::int32_t TokenTable::find(std::string_view bytes) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = std::hash<std::string_view>()(bytes) & mask;
  while (slots_[i] >= 0 && this->bytes(slots_[i]) != bytes) i = (i + 1) & mask;
  return slots_[i];
}

void AddedTokenMatcher::add(std::string_view content, std::int32_t id) {
  first_[static_cast<unsigned char>(content.at(0))] = true;
  std::uint32_t node = 0;
  for (const char byte : content) {
    const auto [it, inserted] = edges_.try_emplace(edge(node, byte), static_cast<std::uint32_t>(ids_.size()));
    if (inserted) ids_.push_back(-1);
    node = it->second;
  }
  ids_[node] = id;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::next(std::string_view text, std::size_t from, std::size_t end) const {
  for (std::size_t begin = from; begin < end; ++begin) {
    if (!first_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Match> longest;
    std::uint32_t node = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto it = edges_.find(edge(node, text[i]));
      if (it == edges_.end()) break;
      node = it->second;
      if (ids_[node] >= 0) longest = Match{begin, i + 1, ids_[node]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace qwell
