#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace qwell {
namespace {

// Closes a descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::size_t regular_file_size(const std::filesystem::path& path, int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail("{}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail("{}: not a regular file", path.string());
  return static_cast<std::size_t>(info.st_size);
}

int open_for_reading(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("{}: {}", path.string(), std::strerror(errno));
  return fd;
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t bytes_max) {
  const Descriptor file(open_for_reading(path));
  const std::size_t size = regular_file_size(path, file.get());
  if (size > bytes_max) fail("{}: {} bytes, at most {} are read", path.string(), size, bytes_max);
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(file.get(), bytes.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("{}: {}", path.string(), std::strerror(errno));
    if (n == 0) fail("{}: ended after {} of {} bytes", path.string(), done, size);
    done += static_cast<std::size_t>(n);
  }
  return bytes;
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::string temporary = path.string() + ".XXXXXX";
  const Descriptor file(::mkstemp(temporary.data()));
  if (file.get() < 0) fail("{}: {}", path.string(), std::strerror(errno));
  const auto give_up = [&](int error) {
    ::unlink(temporary.c_str());
    fail("{}: {}", path.string(), std::strerror(error));
  };
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) give_up(errno);
    done += static_cast<std::size_t>(n);
  }
  if (::fchmod(file.get(), 0644) != 0) give_up(errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) give_up(errno);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file(open_for_reading(path));
  size_ = regular_file_size(path, file.get());
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) fail("{}: mapping {} bytes: {}", path.string(), size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() { close(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    close();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void MappedFile::close() noexcept {
  // munmap takes a pointer to non-const memory although it does not write through it.
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace qwell
