#pragma once
// Safetensors files: read by memory map, checked whole before anything is allocated by their sizes; written for our own outputs.
//
// Format: u64 little-endian length N of a JSON header, the header, then the tensors' bytes. The header maps names to dtype, shape and
// [begin, end) offsets into the bytes after it; together the tensors tile those bytes. Data need not be aligned: copy, don't cast.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
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
// Error: a name given twice, or data of another size than dtype and shape want.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors);

// One dimension that a tensor should have, with the name that explains it: {"num_key_value_heads * head_dim", 512}.
struct WantedDimension {
  std::string name;
  std::int64_t size = 0;
};

// All tensors of a checkpoint folder: model.safetensors, or the shards that model.safetensors.index.json names. The index is the truth:
// other *.safetensors files are left alone, with a line in the log. The index names plain files of the folder; a file that is a symbolic
// link out of the folder is refused, but for links from REPO/snapshots/REVISION into REPO/blobs, as the cache of downloaded models has
// them. A tensor that a shard holds and the index leaves out is there all the same, with a line in the log; a tensor in two shards is
// refused. Safe from many threads. Immutable but for the marks of what was taken.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);

  // Looks without taking; null when it is not there.
  const TensorView* find(std::string_view name) const;
  // Looks and takes.
  const TensorView* take(std::string_view name) const;
  // Takes. Error when it is missing or stored in a format that this version does not read (see layout.h).
  const TensorView& require(std::string_view name) const;
  // The same; Error also when its shape differs from what config.json wants.
  const TensorView& require(std::string_view name, std::span<const WantedDimension> shape) const;
  const TensorView& require(std::string_view name, std::initializer_list<WantedDimension> shape) const {
    return require(name, std::span(shape.begin(), shape.size()));
  }

  std::vector<std::string> names() const;          // ascending
  bool has_prefix(std::string_view prefix) const;  // a tensor whose name begins so is there
  // Names of tensors that nobody took, ascending. A loader ends with an empty list or says what it left.
  std::vector<std::string> unconsumed() const;
  // Names of tensors that a shard holds and the index leaves out, ascending.
  const std::vector<std::string>& unindexed() const { return unindexed_; }
  // Names of *.safetensors files in the folder that are not read, ascending.
  std::vector<std::string> stray_files() const;
  const std::filesystem::path& folder() const { return folder_; }
  // Identity of the contents: config.json, the files' headers and sizes, and a sample of every tensor's bytes (first and last 4 KiB), as 32
  // hex digits of SHA-256. Part of the model id.
  std::string digest() const;

 private:
  struct Item {
    explicit Item(const TensorView* view_in) : view(view_in) {}
    const TensorView* view;
    mutable std::atomic<bool> taken{false};
  };

  void load_single(const std::filesystem::path& file);
  void load_index(const std::filesystem::path& index);
  void add_unindexed();
  void give_notice() const;

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Item, std::less<>> tensors_;
  std::vector<std::string> unindexed_;
};

// Error: "FILE: tensor "NAME": shape [768, 2048], config.json wants [moe_intermediate_size=1536, hidden_size=2048]".
void check_shape(const TensorView& tensor, std::span<const WantedDimension> shape);

}  // namespace qwell
