#include "device/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace qwell {

MemoryBlock::MemoryBlock(std::size_t bytes, const std::string& what, Touch touch) : size_(bytes) {
  if (bytes == 0) return;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (touch == Touch::kNow ? MAP_POPULATE : 0);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) fail("{}: no memory for {}: {}", what, bytes_text(static_cast<double>(bytes)), std::strerror(errno));
  ::madvise(mapped, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(mapped);
}

MemoryBlock::~MemoryBlock() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

MemoryBlock::MemoryBlock(MemoryBlock&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MemoryBlock& MemoryBlock::operator=(MemoryBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::byte* Arena::take(std::size_t bytes) {
  const std::size_t first = used_;
  used_ += padded(bytes);
  QWELL_CHECK(used_ <= block_.size(), "{}: {} of {} bytes", what_, used_, block_.size());
  return block_.data() + first;
}

std::size_t MemoryPlan::total() const {
  std::size_t sum = 0;
  for (const Line& line : lines_) sum += line.bytes;
  return sum;
}

std::string MemoryPlan::text() const {
  std::string out;
  for (const Line& line : lines_) out += fmt::format("  {:<44} {:>12}\n", line.part, bytes_text(static_cast<double>(line.bytes)));
  out += fmt::format("  {:<44} {:>12}\n", "total", bytes_text(static_cast<double>(total())));
  return out;
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total_pages = 0;
  std::size_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::size_t kib = 0;
  std::string unit;
  while (file >> name >> kib >> unit) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", static_cast<std::size_t>(bytes)) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace qwell
