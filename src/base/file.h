#pragma once
// Files: reading whole, mapping, naming. Errors (class Error) name the path and the system's reason.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace qwell {

// The whole file as bytes. Throws Error when it can't be read or is larger than `bytes_max`.
std::string read_file(const std::filesystem::path& path, std::size_t bytes_max = std::size_t{1} << 30);

// Writes beside the target and renames, so that a reader sees the old file or the new one, never half.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// A file mapped read-only. Its bytes are valid as long as the object lives; the file must not be truncated meanwhile.
class MappedFile {
 public:
  MappedFile() = default;  // nothing
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void close() noexcept;

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace qwell
