#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/internal/duplicate_names.h"
#include "checkpoint/internal/quoted.h"
#include "checkpoint/layout.h"
#include "checkpoint/safetensors.h"

namespace qwell {
namespace {

constexpr std::size_t kIndexBytesMax = std::size_t{100} << 20;
constexpr std::size_t kNamesListed = 5;  // in one message

using NamesByFile = std::map<std::string, std::vector<std::string>>;

bool plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// Something has that name, even if it can't be opened: opening it then says why.
bool present(const std::filesystem::path& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  return type != std::filesystem::file_type::not_found &&
         (type != std::filesystem::file_type::none || error != std::errc::filename_too_long);
}

bool lies_within(const std::filesystem::path& file, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

// A checkpoint names files of its own folder only: what a link leads to elsewhere is not its owner's to give. The cache of downloaded
// models is one owner's: each REPO/snapshots/REVISION has links into REPO/blobs.
void refuse_link_out_of_folder(const std::filesystem::path& folder, const std::filesystem::path& file) {
  std::error_code error;
  const auto home = std::filesystem::canonical(folder, error);
  const auto real = error ? std::filesystem::path() : std::filesystem::canonical(file, error);
  if (error) fail("{}: {}", file.string(), error.message());
  const bool is_snapshot = home.parent_path().filename() == "snapshots";
  const bool in_blobs = is_snapshot && lies_within(real, home.parent_path().parent_path() / "blobs");
  if (!lies_within(real, home) && !in_blobs) {
    fail("{}: a symbolic link to {}, out of the folder; a file within {} is wanted", file.string(), real.string(), home.string());
  }
}

std::string list_of(const std::vector<std::string>& names) {
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesListed));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                     names.size() > kNamesListed ? fmt::format(" and {} more", names.size() - kNamesListed) : "");
}

NamesByFile read_index(const std::filesystem::path& index) {
  const std::string text = read_file(index, kIndexBytesMax);
  const json::value value = parse_json_file(text, index.string());
  refuse_duplicate_names(text, index.string());
  const json::value* map = value.is_object() ? value.get_object().if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) fail("{}: weight_map: an object is wanted", index.string());
  NamesByFile by_file;
  for (const auto& item : map->get_object()) {
    if (!item.value().is_string()) fail("{}: weight_map: {}: a file name is wanted", index.string(), in_quotes(item.key()));
    const std::string file(item.value().get_string());
    if (!plain_name(file)) fail("{}: weight_map: {}: {} is no plain file name", index.string(), in_quotes(item.key()), in_quotes(file));
    by_file[file].emplace_back(item.key());
  }
  if (by_file.empty()) fail("{}: weight_map: it names no tensor", index.string());
  return by_file;
}

}  // namespace

void check_shape(const TensorView& tensor, std::span<const WantedDimension> shape) {
  const bool equal = std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end(),
                                [](const WantedDimension& wanted, std::int64_t seen) { return wanted.size == seen; });
  if (equal) return;
  std::vector<std::string> wanted;
  for (const WantedDimension& d : shape)
    wanted.push_back(d.name.empty() ? fmt::format("{}", d.size) : fmt::format("{}={}", d.name, d.size));
  fail("{}: tensor \"{}\": shape {}, config.json wants [{}]", tensor.file, tensor.name, tensor.shape_text(), fmt::join(wanted, ", "));
}

Checkpoint::Checkpoint(const std::filesystem::path& folder) : folder_(folder) {
  const auto index = folder / "model.safetensors.index.json";
  const auto single = folder / "model.safetensors";
  if (present(index)) {
    load_index(index);
  } else if (present(single)) {
    load_single(single);
  } else {
    fail("{}: neither model.safetensors nor model.safetensors.index.json is there", folder.string());
  }
  give_notice();
}

void Checkpoint::load_single(const std::filesystem::path& file) {
  refuse_link_out_of_folder(folder_, file);
  files_.emplace_back(file);
  for (const auto& [name, tensor] : files_.back().tensors()) tensors_.try_emplace(name, &tensor);
}

void Checkpoint::load_index(const std::filesystem::path& index) {
  refuse_link_out_of_folder(folder_, index);
  const NamesByFile by_file = read_index(index);
  files_.reserve(by_file.size());  // tensors_ points into the files
  std::vector<std::string> differences;
  for (const auto& [file, names] : by_file) {
    const auto path = folder_ / file;
    if (!present(path)) {
      differences.push_back(fmt::format("file {} is not there (tensors {})", in_quotes(file), list_of(names)));
      continue;
    }
    refuse_link_out_of_folder(folder_, path);
    const SafetensorsFile& shard = files_.emplace_back(path);
    std::vector<std::string> missing;
    for (const std::string& name : names) {
      const TensorView* tensor = shard.find(name);
      if (tensor == nullptr) {
        missing.push_back(name);
      } else {
        tensors_.try_emplace(name, tensor);
      }
    }
    if (!missing.empty()) differences.push_back(fmt::format("\"{}\" does not hold {}", file, list_of(missing)));
  }
  add_unindexed();
  if (differences.empty()) return;
  if (!unindexed_.empty()) differences.push_back(fmt::format("the index does not name {}", list_of(unindexed_)));
  fail("{}: it does not fit the files: {}", index.string(), fmt::join(differences, "; "));
}

void Checkpoint::add_unindexed() {
  for (const SafetensorsFile& shard : files_) {
    for (const auto& [name, tensor] : shard.tensors()) {
      const auto [at, added] = tensors_.try_emplace(name, &tensor);
      if (added) unindexed_.push_back(name);
      if (at->second.view != &tensor) fail("{}: tensor \"{}\" is also in {}", shard.name(), name, at->second.view->file);
    }
  }
  std::sort(unindexed_.begin(), unindexed_.end());
}

void Checkpoint::give_notice() const {
  if (const auto stray = stray_files(); !stray.empty())
    log::warn("{}: not part of the checkpoint, ignored: {}", folder_.string(), list_of(stray));
  if (!unindexed_.empty())
    log::warn("{}: in the shards but not in the index, used all the same: {}", folder_.string(), list_of(unindexed_));
}

std::vector<std::string> Checkpoint::stray_files() const {
  std::set<std::filesystem::path> read;
  for (const SafetensorsFile& file : files_) read.insert(std::filesystem::path(file.name()).filename());
  std::vector<std::string> stray;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".safetensors" && !read.contains(at->path().filename())) stray.push_back(at->path().filename().string());
  }
  std::sort(stray.begin(), stray.end());
  return stray;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second.view;
}

const TensorView* Checkpoint::take(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return nullptr;
  found->second.taken.store(true, std::memory_order_relaxed);
  return found->second.view;
}

const TensorView& Checkpoint::require(std::string_view name) const {
  refuse_unread_format(*this, name);
  const TensorView* tensor = take(name);
  if (tensor == nullptr) fail("{}: tensor \"{}\" is missing", folder_.string(), name);
  return *tensor;
}

const TensorView& Checkpoint::require(std::string_view name, std::span<const WantedDimension> shape) const {
  const TensorView& tensor = require(name);
  check_shape(tensor, shape);
  return tensor;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, item] : tensors_) names.push_back(name);
  return names;
}

bool Checkpoint::has_prefix(std::string_view prefix) const {
  const auto at = tensors_.lower_bound(prefix);
  return at != tensors_.end() && at->first.starts_with(prefix);
}

std::vector<std::string> Checkpoint::unconsumed() const {
  std::vector<std::string> names;
  for (const auto& [name, item] : tensors_) {
    if (!item.taken.load(std::memory_order_relaxed)) names.push_back(name);
  }
  return names;
}

}  // namespace qwell
