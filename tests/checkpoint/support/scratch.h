#pragma once
// Folders and files for the tests of checkpoints.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace qwell::testing_support {

inline std::filesystem::path fixture(std::string_view name) { return std::filesystem::path(QWELL_TEST_DATA) / "fixtures" / name; }

// An empty folder of this test alone, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::path(testing::TempDir()) / "qwell_checkpoint_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) fail("no scratch folder {}", pattern);
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// A safetensors file of this header (not padded) and so many bytes of data.
inline std::string safetensors_bytes(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += header;
  for (std::size_t i = 0; i < data_bytes; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

inline std::span<const std::byte> as_span(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

// F32 [elements] of ones.
inline void write_small(const std::filesystem::path& path, const std::vector<std::string>& names, std::int64_t elements = 2) {
  const std::vector<float> ones(static_cast<std::size_t>(elements), 1.0F);
  std::vector<TensorToWrite> tensors;
  for (const std::string& name : names) tensors.push_back({name, DType::kF32, {elements}, std::as_bytes(std::span(ones))});
  write_safetensors(path, tensors);
}

inline std::string index_text(const std::vector<std::pair<std::string, std::string>>& map) {
  std::string text = R"({"metadata": {"total_size": 8}, "weight_map": {)";
  for (std::size_t i = 0; i < map.size(); ++i) text += (i == 0 ? "\"" : ", \"") + map[i].first + "\": \"" + map[i].second + "\"";
  return text + "}}";
}

// What `action` says when it throws an Error; "" when it does not.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace qwell::testing_support
