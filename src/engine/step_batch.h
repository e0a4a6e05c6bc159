#pragma once
// The rows of one step, gathered sequence by sequence, in the form that the model reads; and the same as bytes, for the ranks of a group.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "model/rank_model.h"
#include "request/request.h"

namespace qwell {

class StepBatch {
 public:
  void clear();
  // Rows for tokens[first, end) of a sequence whose pages are `pages`.
  void add(std::span<const TokenId> tokens, int first, int end, std::span<const std::int32_t> pages);

  int rows() const { return static_cast<int>(tokens_.size()); }
  int sequences() const { return static_cast<int>(kv_lengths_.size()); }
  int last_row(int sequence) const { return first_rows_[static_cast<std::size_t>(sequence) + 1] - 1; }
  int first_row(int sequence) const { return first_rows_[static_cast<std::size_t>(sequence)]; }
  int kv_length(int sequence) const { return kv_lengths_[static_cast<std::size_t>(sequence)]; }
  std::span<const std::int32_t> block_table(int sequence) const;

  // Valid until the batch changes.
  ForwardStep step(const KvMemory& kv, ForwardHooks* hooks);

  void append_bytes(std::vector<std::byte>& out) const;
  // Reads what append_bytes wrote and returns what follows it.
  std::span<const std::byte> read_bytes(std::span<const std::byte> bytes);

 private:
  std::vector<TokenId> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> first_rows_{0};
  std::vector<std::int32_t> kv_lengths_;
  std::vector<std::int32_t> pages_;        // block tables one after the other
  std::vector<std::int32_t> page_counts_;  // per sequence
  std::vector<std::int32_t> tables_;       // [sequences, widest], for step()
};

// Plain values and vectors of them as bytes, for orders between ranks of one machine.
template <class T>
void append_value(std::vector<std::byte>& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}
template <class T>
T read_value(std::span<const std::byte>& bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  QWELL_CHECK(bytes.size() >= sizeof(T), "{} bytes left, {} wanted", bytes.size(), sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return value;
}

}  // namespace qwell
