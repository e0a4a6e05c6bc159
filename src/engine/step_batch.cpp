#include "engine/step_batch.h"

#include <algorithm>
#include <cstring>

namespace qwell {
namespace {

template <class T>
void append_vector(std::vector<std::byte>& out, const std::vector<T>& values) {
  append_value(out, static_cast<std::uint32_t>(values.size()));
  const auto bytes = std::as_bytes(std::span(values));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
void read_vector(std::span<const std::byte>& bytes, std::vector<T>& values) {
  values.resize(read_value<std::uint32_t>(bytes));
  const std::size_t size = values.size() * sizeof(T);
  QWELL_CHECK(bytes.size() >= size, "{} bytes left, {} wanted", bytes.size(), size);
  std::memcpy(values.data(), bytes.data(), size);
  bytes = bytes.subspan(size);
}

}  // namespace

void StepBatch::clear() {
  tokens_.clear();
  positions_.clear();
  first_rows_.assign(1, 0);
  kv_lengths_.clear();
  pages_.clear();
  page_counts_.clear();
}

void StepBatch::add(std::span<const TokenId> tokens, int first, int end, std::span<const std::int32_t> pages) {
  QWELL_CHECK(first < end && end <= static_cast<int>(tokens.size()), "rows {} to {} of {} tokens", first, end, tokens.size());
  for (int position = first; position < end; ++position) {
    tokens_.push_back(tokens[static_cast<std::size_t>(position)]);
    positions_.push_back(position);
  }
  first_rows_.push_back(rows());
  kv_lengths_.push_back(end);
  pages_.insert(pages_.end(), pages.begin(), pages.end());
  page_counts_.push_back(static_cast<std::int32_t>(pages.size()));
}

std::span<const std::int32_t> StepBatch::block_table(int sequence) const {
  std::size_t first = 0;
  for (int s = 0; s < sequence; ++s) first += static_cast<std::size_t>(page_counts_[static_cast<std::size_t>(s)]);
  return std::span(pages_).subspan(first, static_cast<std::size_t>(page_counts_[static_cast<std::size_t>(sequence)]));
}

ForwardStep StepBatch::step(const KvMemory& kv, ForwardHooks* hooks) {
  const std::int32_t widest = page_counts_.empty() ? 0 : *std::max_element(page_counts_.begin(), page_counts_.end());
  tables_.assign(page_counts_.size() * static_cast<std::size_t>(widest), -1);
  auto from = pages_.begin();
  for (std::size_t s = 0; s < page_counts_.size(); ++s) {
    std::copy_n(from, page_counts_[s], tables_.begin() + static_cast<std::ptrdiff_t>(s) * widest);
    from += page_counts_[s];
  }
  return {.rows = rows(),
          .tokens = tokens_.data(),
          .positions = positions_.data(),
          .sequences = {.count = sequences(),
                        .first_row = first_rows_.data(),
                        .kv_length = kv_lengths_.data(),
                        .block_table = tables_.data(),
                        .blocks_max = widest},
          .kv = &kv,
          .hooks = hooks};
}

void StepBatch::append_bytes(std::vector<std::byte>& out) const {
  append_vector(out, tokens_);
  append_vector(out, positions_);
  append_vector(out, first_rows_);
  append_vector(out, kv_lengths_);
  append_vector(out, pages_);
  append_vector(out, page_counts_);
}

std::span<const std::byte> StepBatch::read_bytes(std::span<const std::byte> bytes) {
  read_vector(bytes, tokens_);
  read_vector(bytes, positions_);
  read_vector(bytes, first_rows_);
  read_vector(bytes, kv_lengths_);
  read_vector(bytes, pages_);
  read_vector(bytes, page_counts_);
  return bytes;
}

}  // namespace qwell
