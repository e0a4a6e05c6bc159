#pragma once
// Who owns which page. A pool of page numbers with an index of full pages by content: the hash of a page covers every token up to its end,
// the model and the caller's salt, so equal hashes mean equal keys and values, in whichever process they were computed.
//
// A page is free, held (by one table or, if indexed, by several) or cached (indexed, held by none: found again by content, or taken when
// free pages run out, least recently used first). PageCache is safe for many threads; a PageTable belongs to one at a time.
// Invariant: free + cached + held = num_pages; a held page is never handed out for writing to a second table.

#include <array>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "request/request.h"

namespace qwell {

// Of the tokens up to a page's end; 128 bits of SHA-256, so that nobody can make two prompts meet. No seed: equal in all processes.
using PageHash = std::array<std::uint64_t, 2>;

struct PageHasher {
  std::size_t operator()(const PageHash& h) const { return static_cast<std::size_t>(h[0]); }
};

PageHash root_hash(std::string_view model_id, std::string_view salt);
PageHash next_hash(const PageHash& before, std::span<const TokenId> page_tokens);

class PageCache;

// The pages of one sequence, in order; gives them back when it ends. Moves, does not copy.
class PageTable {
 public:
  PageTable() = default;
  ~PageTable() { release(); }
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  const std::vector<std::int32_t>& pages() const { return pages_; }
  // Tokens whose keys and values were found in the cache when the table was acquired: a multiple of the page size. Those pages are
  // shared and must not be written.
  int cached_tokens() const { return cached_tokens_; }
  bool empty() const { return pages_.empty(); }

  // Adds pages until `tokens` fit. False, and nothing changed, when the cache has too few.
  bool grow_to(int tokens);
  // Offers the full pages of the first `computed` tokens of `tokens` (the sequence so far) to the index. Contents must be final.
  void publish(std::span<const TokenId> tokens, int computed);
  void release();

 private:
  friend class PageCache;

  PageCache* cache_ = nullptr;
  std::vector<std::int32_t> pages_;
  std::vector<PageHash> hashes_;  // of the first pages: those found or published; hashes_[0] is the root
  int cached_tokens_ = 0;
};

class PageCache {
 public:
  // `index`: whether pages are kept for reuse.
  PageCache(int num_pages, int page_tokens, std::string_view model_id, bool index = true);

  int page_tokens() const { return page_tokens_; }
  int num_pages() const { return num_pages_; }

  // Pages for `tokens_capacity` tokens, starting with the longest cached prefix of `tokens` that leaves at least one token to compute (its
  // hidden row is not kept). Empty when there are too few pages, and nothing changed.
  std::optional<PageTable> acquire(std::span<const TokenId> tokens, std::string_view salt, int tokens_capacity);
  // How many tokens of `tokens` acquire() would find. A hint: it may change at once.
  int find(std::span<const TokenId> tokens, std::string_view salt) const;

  struct Usage {
    int held = 0;
    int cached = 0;
    int free = 0;
  };
  Usage usage() const;
  int available() const;  // free + cached
  // Forgets what is cached; held pages leave the index.
  void clear_index();
  // Fails a check when an invariant does not hold. For tests; O(pages).
  void check() const;

 private:
  friend class PageTable;

  struct Page {
    int holders = 0;
    bool indexed = false;
    PageHash hash{};
    std::list<std::int32_t>::iterator position;  // in cached_, where indexed and holders == 0
  };

  std::vector<PageHash> prefix_hashes(std::span<const TokenId> tokens, std::string_view salt) const;
  void hold(std::int32_t page);
  std::int32_t take();
  void drop(std::int32_t page);

  const int num_pages_;
  const int page_tokens_;
  const std::string model_id_;
  const bool index_enabled_;
  mutable std::mutex mutex_;
  std::vector<Page> pages_;
  std::vector<std::int32_t> free_;
  std::list<std::int32_t> cached_;  // least recently used first
  std::unordered_map<PageHash, std::int32_t, PageHasher> index_;
};

}  // namespace qwell
