#pragma once
// Safetensors files: read by memory map, checked whole before anything is allocated by their sizes; written for our own outputs.
//
// Format: u64 little-endian length N of a JSON header, the header, then the tensors' bytes. The header maps names to dtype, shape and
// [begin, end) offsets into the bytes after it; together the tensors tile those bytes. Data need not be aligned: copy, don't cast.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"

namespace qwell {

struct TensorView {
  std::string name;
  std::string file;  // for messages
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // maybe unaligned

  std::string shape_text() const;  // "[3, 256]"
};

// One file. Immutable; safe from many threads.
class SafetensorsFile {
 public:
  // Error names file and tensor at fault.
  explicit SafetensorsFile(const std::filesystem::path& path);
  // The same over bytes that outlive this object.
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& name);

  const TensorView* find(std::string_view name) const;
  const TensorView& require(std::string_view name) const;  // Error when it is not there
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  const std::string& name() const { return name_; }
  std::size_t size() const { return size_; }
  std::span<const std::byte> header() const { return header_; }

 private:
  void parse(std::span<const std::byte> bytes);

  std::string name_;
  MappedFile file_;
  std::size_t size_ = 0;
  std::span<const std::byte> header_;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors);

// All tensors of a checkpoint folder: model.safetensors, or the shards that model.safetensors.index.json names. The index is the truth: a file that
// it does not name is left alone. Immutable; safe from many threads.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);

  const TensorView* find(std::string_view name) const;
  // Error that names what is missing.
  const TensorView& require(std::string_view name) const;
  std::vector<std::string> names() const;
  const std::filesystem::path& folder() const { return folder_; }
  // Identity of the contents: config.json, the files' headers and sizes, and a sample of every tensor's bytes (first and last 4 KiB), as 32 hex
  // digits of SHA-256.
  std::string digest() const;

 private:
  void load_single(const std::filesystem::path& file);
  void load_index(const std::filesystem::path& index);

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const TensorView*, std::less<>> tensors_;
};

}  // namespace qwell
