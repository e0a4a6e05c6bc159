#pragma once
// Tokens by number and by bytes, and the search for added tokens in text. Internal to the tokenizer.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace qwell {

// The GPT-2 byte alphabet: vocabulary files write each byte of a token as one printable character.
class ByteAlphabet {
 public:
  ByteAlphabet();
  // Appends the bytes that `text` (valid UTF-8) stands for; false, with `out` as it was, when a character is not of the alphabet.
  bool append_bytes(std::string& out, std::string_view text) const;
  std::string text_of(unsigned char byte) const;

 private:
  static constexpr std::size_t kCharacters = 324;
  std::array<std::int16_t, kCharacters> byte_of_{};  // -1: not of the alphabet
  std::array<char16_t, 256> character_of_{};
};

// Tokens 0 to size()-1; those never put are empty.
class TokenTable {
 public:
  // `bytes[id]`; an empty string is a hole. All in one block of memory.
  explicit TokenTable(const std::vector<std::string>& bytes);

  std::int32_t size() const { return static_cast<std::int32_t>(begins_.size()) - 1; }
  std::string_view bytes(std::int32_t id) const {  // empty outside of [0, size())
    if (id < 0 || id >= size()) return {};
    return std::string_view(arena_).substr(begins_[id], begins_[id + 1] - begins_[id]);
  }
  // The lowest id of these bytes, or -1.
  std::int32_t find(std::string_view bytes) const;

 private:
  std::string arena_;
  std::vector<std::uint32_t> begins_;
  std::vector<std::int32_t> slots_;  // ids by hash of their bytes, -1 is empty; open addressing, at most half full
};

// Finds added tokens: of those that begin leftmost, the longest.
class AddedTokenMatcher {
 public:
  struct Match {
    std::size_t begin, end;
    std::int32_t id;
  };
  void add(std::string_view content, std::int32_t id);  // content is not empty
  // The first match at or behind `from`, wholly before `end`.
  std::optional<Match> next(std::string_view text, std::size_t from, std::size_t end) const;

 private:
  static std::uint64_t edge(std::uint32_t node, char byte) { return (std::uint64_t{node} << 8) | static_cast<unsigned char>(byte); }

  // A trie over bytes: node 0 is the root.
  std::array<bool, 256> first_{};
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
  std::vector<std::int32_t> ids_{-1};  // the token that ends at a node, or -1
};

}  // namespace qwell
