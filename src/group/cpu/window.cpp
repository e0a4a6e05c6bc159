// The memory of a group: anonymous for threads, POSIX shared memory for processes.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "device/memory.h"
#include "group/cpu/wait.h"
#include "group/cpu/window_layout.h"

namespace qwell {
namespace group {
namespace {

class LocalWindow final : public GroupWindow {
 public:
  explicit LocalWindow(const GroupShape& shape)
      : shape_(shape),
        rank_bytes_(WindowLayout(shape).bytes()),
        block_(static_cast<std::size_t>(shape.size) * rank_bytes_, shape.name + ": exchange windows") {}

  const GroupShape& shape() const override { return shape_; }
  std::byte* rank_base(int rank) const override { return block_.data() + static_cast<std::size_t>(rank) * rank_bytes_; }

 private:
  const GroupShape shape_;
  const std::size_t rank_bytes_;
  const MemoryBlock block_;
};

// The first page of shared memory. The magic number is stored last: an object without it is not a group's, or not yet ready.
struct Header {
  static constexpr std::uint64_t kMagic = 0x71776c2d67727570;  // "qwl-grup"
  static constexpr std::uint64_t kVersion = 1;                 // of this header, the layout, tags and cells
  static constexpr std::size_t kBytes = 4096;

  std::uint64_t magic, version, size, rows_max, hidden, experts_per_token, act, distinct_rows, order_bytes_max, rank_bytes;
};

Header header_of(const GroupShape& s) {
  return {.magic = Header::kMagic,
          .version = Header::kVersion,
          .size = static_cast<std::uint64_t>(s.size),
          .rows_max = static_cast<std::uint64_t>(s.rows_max),
          .hidden = static_cast<std::uint64_t>(s.hidden),
          .experts_per_token = static_cast<std::uint64_t>(s.experts_per_token),
          .act = static_cast<std::uint64_t>(s.act),
          .distinct_rows = s.distinct_rows ? 1U : 0U,
          .order_bytes_max = s.order_bytes_max,
          .rank_bytes = WindowLayout(s).bytes()};
}

std::size_t total_bytes(const GroupShape& s) { return Header::kBytes + static_cast<std::size_t>(s.size) * WindowLayout(s).bytes(); }

class FileHandle {
 public:
  explicit FileHandle(int fd) : fd_(fd) {}
  ~FileHandle() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// The name in the system, removed at the end by the process that made it (not by one that was forked from it).
class SharedName {
 public:
  explicit SharedName(std::string name) : name_(std::move(name)) {}
  ~SharedName() {
    if (creator_ == ::getpid()) ::shm_unlink(name_.c_str());
  }
  SharedName(const SharedName&) = delete;
  SharedName& operator=(const SharedName&) = delete;

 private:
  const std::string name_;
  const pid_t creator_ = ::getpid();
};

class SharedWindow final : public GroupWindow {
 public:
  SharedWindow(const GroupShape& shape, const std::string& name, int fd, std::unique_ptr<SharedName> owned)
      : shape_(shape), rank_bytes_(WindowLayout(shape).bytes()), bytes_(total_bytes(shape)), owned_(std::move(owned)) {
    void* mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) fail("{}: shared memory {}: cannot map {} bytes: {}", shape.name, name, bytes_, std::strerror(errno));
    base_ = static_cast<std::byte*>(mapped);
  }
  ~SharedWindow() override { ::munmap(base_, bytes_); }

  const GroupShape& shape() const override { return shape_; }
  std::byte* rank_base(int rank) const override { return base_ + Header::kBytes + static_cast<std::size_t>(rank) * rank_bytes_; }
  Header& header() const { return *reinterpret_cast<Header*>(base_); }

 private:
  const GroupShape shape_;
  const std::size_t rank_bytes_;
  const std::size_t bytes_;
  const std::unique_ptr<SharedName> owned_;
  std::byte* base_ = nullptr;
};

void check_name(const GroupShape& shape, const std::string& name) {
  constexpr std::size_t kNameMax = 200;
  if (name.size() < 2 || name.size() > kNameMax || name[0] != '/' || name.find('/', 1) != std::string::npos ||
      name.find('\0') != name.npos) {
    fail("{}: shared memory name \"{}\", wanted \"/\" and 1 to {} characters without \"/\"", shape.name, name, kNameMax - 1);
  }
}

void check_header(const GroupShape& shape, const std::string& name, const Header& seen) {
  const Header wanted = header_of(shape);
  const struct {
    const char* field;
    std::uint64_t seen, wanted;
  } fields[] = {
      {"magic", load(seen.magic), wanted.magic},
      {"version", seen.version, wanted.version},
      {"size", seen.size, wanted.size},
      {"rows_max", seen.rows_max, wanted.rows_max},
      {"hidden", seen.hidden, wanted.hidden},
      {"experts_per_token", seen.experts_per_token, wanted.experts_per_token},
      {"act", seen.act, wanted.act},
      {"distinct_rows", seen.distinct_rows, wanted.distinct_rows},
      {"order_bytes_max", seen.order_bytes_max, wanted.order_bytes_max},
      {"rank_bytes", seen.rank_bytes, wanted.rank_bytes},
  };
  for (const auto& f : fields) {
    if (f.seen != f.wanted) fail("{}: shared memory {}: {} is {}, wanted {}", shape.name, name, f.field, f.seen, f.wanted);
  }
}

}  // namespace
}  // namespace group

std::shared_ptr<GroupWindow> make_local_window(const GroupShape& shape) { return std::make_shared<group::LocalWindow>(shape); }

std::shared_ptr<GroupWindow> create_shared_window(const GroupShape& shape, const std::string& name) {
  group::check_shape(shape);
  group::check_name(shape, name);
  const group::FileHandle file(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() < 0) fail("{}: shared memory {}: cannot create it: {}", shape.name, name, std::strerror(errno));
  auto owned = std::make_unique<group::SharedName>(name);
  const std::size_t bytes = group::total_bytes(shape);
  // All pages are taken now: what is missing is an error here, and not a signal in a step.
  const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) fail("{}: shared memory {}: no room for {} bytes: {}", shape.name, name, bytes, std::strerror(error));
  auto window = std::make_shared<group::SharedWindow>(shape, name, file.get(), std::move(owned));
  group::Header header = group::header_of(shape);
  const std::uint64_t magic = std::exchange(header.magic, 0);
  window->header() = header;
  group::store(window->header().magic, magic);
  return window;
}

std::shared_ptr<GroupWindow> attach_shared_window(const GroupShape& shape, const std::string& name) {
  group::check_shape(shape);
  group::check_name(shape, name);
  const group::FileHandle file(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (file.get() < 0) fail("{}: shared memory {}: cannot open it: {}", shape.name, name, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("{}: shared memory {}: no status: {}", shape.name, name, std::strerror(errno));
  // The header is read before the size is trusted, so that the message names the field and not its consequence.
  if (static_cast<std::size_t>(status.st_size) < group::Header::kBytes) {
    fail("{}: shared memory {}: {} bytes, wanted a header of {}", shape.name, name, status.st_size, group::Header::kBytes);
  }
  void* page = ::mmap(nullptr, group::Header::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (page == MAP_FAILED) fail("{}: shared memory {}: cannot map its header: {}", shape.name, name, std::strerror(errno));
  const group::Header seen = *static_cast<group::Header*>(page);
  ::munmap(page, group::Header::kBytes);
  group::check_header(shape, name, seen);
  if (static_cast<std::size_t>(status.st_size) != group::total_bytes(shape)) {
    fail("{}: shared memory {}: {} bytes, wanted {}", shape.name, name, status.st_size, group::total_bytes(shape));
  }
  return std::make_shared<group::SharedWindow>(shape, name, file.get(), nullptr);
}

}  // namespace qwell
