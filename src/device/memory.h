#pragma once
// A rank's memory: one plan whose lines every part adds before the first allocation, and blocks that are mapped once and kept.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace qwell {

// A block of zeroed memory of this process, aligned to pages, returned to the system at the end. Moves, does not copy.
class MemoryBlock {
 public:
  enum class Touch { kLazily, kNow };  // whether physical pages are taken at once, so that they can't be missing later

  MemoryBlock() = default;
  // Error names `what` and the bytes when the system has not enough.
  MemoryBlock(std::size_t bytes, const std::string& what, Touch touch = Touch::kLazily);
  ~MemoryBlock();
  MemoryBlock(MemoryBlock&& other) noexcept;
  MemoryBlock& operator=(MemoryBlock&& other) noexcept;
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Hands out aligned pieces of one block, in order; nothing is given back before the whole is.
class Arena {
 public:
  Arena() = default;
  Arena(std::size_t bytes, const std::string& what, MemoryBlock::Touch touch = MemoryBlock::Touch::kLazily)
      : block_(bytes, what, touch), what_(what) {}

  static constexpr std::size_t kAlign = 64;
  static std::size_t padded(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

  // Fails a check when the plan was wrong: pieces are counted with padded() before.
  std::byte* take(std::size_t bytes);
  std::size_t used() const { return used_; }
  std::size_t size() const { return block_.size(); }

 private:
  MemoryBlock block_;
  std::string what_;
  std::size_t used_ = 0;
};

// What will be held, line by line: printed at start, exported as metrics, held to.
class MemoryPlan {
 public:
  struct Line {
    std::string part;  // "weights", "pages of prefill group", ...
    std::size_t bytes;
  };

  void add(std::string part, std::size_t bytes) { lines_.push_back({std::move(part), bytes}); }
  const std::vector<Line>& lines() const { return lines_; }
  std::size_t total() const;
  std::string text() const;  // a table for people

 private:
  std::vector<Line> lines_;
};

// Resident and total memory of this process and machine, bytes; 0 where the system does not tell.
std::size_t resident_bytes();
std::size_t available_bytes();

std::string bytes_text(double bytes);  // "1.5 GiB"

}  // namespace qwell
