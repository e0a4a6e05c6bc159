#include "cache/page_cache.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace qwell {
namespace {

PageHash digest(std::span<const std::byte> first, std::span<const std::byte> second) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned int size = 0;
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  const bool ok = context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1 &&
                  EVP_DigestUpdate(context, first.data(), first.size()) == 1 &&
                  EVP_DigestUpdate(context, second.data(), second.size()) == 1 && EVP_DigestFinal_ex(context, out.data(), &size) == 1;
  EVP_MD_CTX_free(context);
  QWELL_CHECK(ok && size == 32, "SHA-256 gave {} bytes", size);
  PageHash hash{};
  std::memcpy(hash.data(), out.data(), sizeof(hash));
  return hash;
}

}  // namespace

PageHash root_hash(std::string_view model_id, std::string_view salt) {
  // The length keeps ("ab", "c") apart from ("a", "bc").
  const std::string head = fmt::format("qwell-pages-1:{}:{}:", model_id.size(), model_id);
  return digest(std::as_bytes(std::span(head)), std::as_bytes(std::span(salt)));
}

PageHash next_hash(const PageHash& before, std::span<const TokenId> page_tokens) {
  return digest(std::as_bytes(std::span(before)), std::as_bytes(page_tokens));
}

PageTable::PageTable(PageTable&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      pages_(std::move(other.pages_)),
      hashes_(std::move(other.hashes_)),
      cached_tokens_(std::exchange(other.cached_tokens_, 0)) {
  other.pages_.clear();
  other.hashes_.clear();
}

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  if (this != &other) {
    release();
    cache_ = std::exchange(other.cache_, nullptr);
    pages_ = std::exchange(other.pages_, {});
    hashes_ = std::exchange(other.hashes_, {});
    cached_tokens_ = std::exchange(other.cached_tokens_, 0);
  }
  return *this;
}

bool PageTable::grow_to(int tokens) {
  QWELL_CHECK(cache_ != nullptr, "a table that holds nothing");
  const int page_tokens = cache_->page_tokens_;
  const auto wanted = static_cast<std::size_t>((tokens + page_tokens - 1) / page_tokens);
  if (wanted <= pages_.size()) return true;
  const std::lock_guard lock(cache_->mutex_);
  if (wanted - pages_.size() > cache_->free_.size() + cache_->cached_.size()) return false;
  while (pages_.size() < wanted) pages_.push_back(cache_->take());
  return true;
}

void PageTable::publish(std::span<const TokenId> tokens, int computed) {
  QWELL_CHECK(cache_ != nullptr, "a table that holds nothing");
  if (!cache_->index_enabled_) return;
  const auto page_tokens = static_cast<std::size_t>(cache_->page_tokens_);
  const std::size_t full = static_cast<std::size_t>(computed) / page_tokens;
  QWELL_CHECK(full <= pages_.size() && static_cast<std::size_t>(computed) <= tokens.size(), "{} tokens computed, {} pages, {} tokens",
              computed, pages_.size(), tokens.size());
  while (hashes_.size() <= full) {
    const std::size_t page = hashes_.size() - 1;
    hashes_.push_back(next_hash(hashes_.back(), tokens.subspan(page * page_tokens, page_tokens)));
    const std::lock_guard lock(cache_->mutex_);
    // Another sequence may have published the same content first: then this copy stays private.
    PageCache::Page& entry = cache_->pages_[static_cast<std::size_t>(pages_[page])];
    if (!entry.indexed && cache_->index_.emplace(hashes_.back(), pages_[page]).second) {
      entry.indexed = true;
      entry.hash = hashes_.back();
    }
  }
}

void PageTable::release() {
  if (cache_ == nullptr) return;
  {
    const std::lock_guard lock(cache_->mutex_);
    // The end first: of a cached prefix, the last pages are taken first.
    for (auto page = pages_.rbegin(); page != pages_.rend(); ++page) cache_->drop(*page);
  }
  cache_ = nullptr;
  pages_.clear();
  hashes_.clear();
  cached_tokens_ = 0;
}

PageCache::PageCache(int num_pages, int page_tokens, std::string_view model_id, bool index)
    : num_pages_(num_pages), page_tokens_(page_tokens), model_id_(model_id), index_enabled_(index) {
  QWELL_CHECK(num_pages >= 0 && page_tokens > 0, "{} pages of {} tokens", num_pages, page_tokens);
  pages_.resize(static_cast<std::size_t>(num_pages));
  free_.reserve(static_cast<std::size_t>(num_pages));
  for (std::int32_t page = num_pages - 1; page >= 0; --page) free_.push_back(page);
}

std::vector<PageHash> PageCache::prefix_hashes(std::span<const TokenId> tokens, std::string_view salt) const {
  std::vector<PageHash> hashes{root_hash(model_id_, salt)};
  if (!index_enabled_ || tokens.empty()) return hashes;
  const auto page_tokens = static_cast<std::size_t>(page_tokens_);
  const std::size_t full = (tokens.size() - 1) / page_tokens;
  for (std::size_t page = 0; page < full; ++page) {
    hashes.push_back(next_hash(hashes.back(), tokens.subspan(page * page_tokens, page_tokens)));
  }
  return hashes;
}

std::optional<PageTable> PageCache::acquire(std::span<const TokenId> tokens, std::string_view salt, int tokens_capacity) {
  std::vector<PageHash> hashes = prefix_hashes(tokens, salt);
  const auto wanted = static_cast<std::size_t>((tokens_capacity + page_tokens_ - 1) / page_tokens_);
  const std::lock_guard lock(mutex_);
  std::vector<std::int32_t> found;
  for (std::size_t i = 1; i < hashes.size() && found.size() < wanted; ++i) {
    const auto entry = index_.find(hashes[i]);
    if (entry == index_.end()) break;
    found.push_back(entry->second);
  }
  std::size_t cached_found = 0;  // would leave the pool of takeable pages
  for (const std::int32_t page : found) cached_found += pages_[static_cast<std::size_t>(page)].holders == 0 ? 1U : 0U;
  if (wanted - found.size() + cached_found > free_.size() + cached_.size()) return std::nullopt;

  PageTable table;
  table.cache_ = this;
  for (const std::int32_t page : found) hold(page);
  table.pages_ = std::move(found);
  hashes.resize(table.pages_.size() + 1);
  table.hashes_ = std::move(hashes);
  table.cached_tokens_ = static_cast<int>(table.pages_.size()) * page_tokens_;
  while (table.pages_.size() < wanted) table.pages_.push_back(take());
  return table;
}

int PageCache::find(std::span<const TokenId> tokens, std::string_view salt) const {
  const std::vector<PageHash> hashes = prefix_hashes(tokens, salt);
  const std::lock_guard lock(mutex_);
  int found = 0;
  for (std::size_t i = 1; i < hashes.size() && index_.contains(hashes[i]); ++i) found += page_tokens_;
  return found;
}

PageCache::Usage PageCache::usage() const {
  const std::lock_guard lock(mutex_);
  Usage usage{.cached = static_cast<int>(cached_.size()), .free = static_cast<int>(free_.size())};
  usage.held = num_pages_ - usage.cached - usage.free;
  return usage;
}

int PageCache::available() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(free_.size() + cached_.size());
}

void PageCache::clear_index() {
  const std::lock_guard lock(mutex_);
  for (const auto& [hash, page] : index_) pages_[static_cast<std::size_t>(page)].indexed = false;
  index_.clear();
  for (const std::int32_t page : cached_) free_.push_back(page);
  cached_.clear();
}

void PageCache::hold(std::int32_t number) {
  Page& page = pages_[static_cast<std::size_t>(number)];
  if (page.holders++ == 0) cached_.erase(page.position);
}

std::int32_t PageCache::take() {
  std::int32_t number = 0;
  if (!free_.empty()) {
    number = free_.back();
    free_.pop_back();
  } else {
    QWELL_CHECK(!cached_.empty(), "no page left of {}", num_pages_);
    number = cached_.front();
    cached_.pop_front();
    Page& page = pages_[static_cast<std::size_t>(number)];
    index_.erase(page.hash);
    page.indexed = false;
  }
  pages_[static_cast<std::size_t>(number)].holders = 1;
  return number;
}

void PageCache::drop(std::int32_t number) {
  Page& page = pages_[static_cast<std::size_t>(number)];
  QWELL_CHECK(page.holders > 0, "page {} given back twice", number);
  if (--page.holders > 0) return;
  if (page.indexed) {
    page.position = cached_.insert(cached_.end(), number);
  } else {
    free_.push_back(number);
  }
}

void PageCache::check() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> seen(pages_.size());
  for (const std::int32_t page : free_) {
    ++seen[static_cast<std::size_t>(page)];
    QWELL_CHECK(pages_[static_cast<std::size_t>(page)].holders == 0 && !pages_[static_cast<std::size_t>(page)].indexed, "free page {}",
                page);
  }
  for (const std::int32_t page : cached_) {
    ++seen[static_cast<std::size_t>(page)];
    QWELL_CHECK(pages_[static_cast<std::size_t>(page)].holders == 0 && pages_[static_cast<std::size_t>(page)].indexed, "cached page {}",
                page);
  }
  std::size_t indexed = 0;
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    const Page& page = pages_[i];
    QWELL_CHECK(seen[i] == (page.holders == 0 ? 1 : 0), "page {} with {} holders is listed {} times", i, page.holders, seen[i]);
    if (!page.indexed) continue;
    ++indexed;
    const auto entry = index_.find(page.hash);
    QWELL_CHECK(entry != index_.end() && static_cast<std::size_t>(entry->second) == i, "page {} is not where the index says", i);
  }
  QWELL_CHECK(indexed == index_.size(), "{} pages indexed, {} entries", indexed, index_.size());
}

}  // namespace qwell
