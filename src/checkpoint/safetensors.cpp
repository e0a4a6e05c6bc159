#include "checkpoint/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace qwell {
namespace {

constexpr std::uint64_t kHeaderBytesMax = 100U << 20;
static_assert(std::endian::native == std::endian::little, "tensors are little-endian and read as they are");

std::optional<DType> dtype_of(std::string_view name) {
  for (const DType t : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64, DType::kE4m3, DType::kE8m0, DType::kU8, DType::kI8, DType::kI32,
                        DType::kI64, DType::kBool}) {
    if (to_string(t) == name) return t;
  }
  return std::nullopt;
}

struct Entry {
  std::uint64_t begin = 0, end = 0;
};

// Non-negative; whole numbers only.
std::uint64_t size_value(const json::value& value, const std::string& where) {
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<std::uint64_t>(value.get_int64());
  if (value.is_uint64()) return value.get_uint64();
  fail("{}: a non-negative integer is wanted", where);
}

const json::array& array_member(const json::object& object, std::string_view name, const std::string& where) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_array()) fail("{}: {}: a list is wanted", where, name);
  return value->get_array();
}

Entry parse_entry(const json::value& value, const std::string& where, std::uint64_t data_bytes, TensorView& tensor) {
  if (!value.is_object()) fail("{}: an object is wanted", where);
  const json::object& object = value.get_object();
  const json::value* dtype = object.if_contains("dtype");
  if (dtype == nullptr || !dtype->is_string()) fail("{}: dtype: a string is wanted", where);
  const auto known = dtype_of(dtype->get_string());
  if (!known) fail("{}: dtype \"{}\" is not known", where, std::string_view(dtype->get_string()));
  tensor.dtype = *known;

  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(*known));
  for (const json::value& n : array_member(object, "shape", where)) {
    const std::uint64_t length = size_value(n, where + ": shape");
    if (tensor.shape.size() >= 16) fail("{}: shape: more than 16 dimensions", where);
    if (length > (std::uint64_t{1} << 48) || (length > 0 && bytes > (std::uint64_t{1} << 62) / length)) fail("{}: shape: too large", where);
    bytes *= length;
    tensor.shape.push_back(static_cast<std::int64_t>(length));
  }
  const json::array& offsets = array_member(object, "data_offsets", where);
  if (offsets.size() != 2) fail("{}: data_offsets: two numbers are wanted", where);
  const Entry entry{size_value(offsets[0], where + ": data_offsets"), size_value(offsets[1], where + ": data_offsets")};
  if (entry.begin > entry.end || entry.end > data_bytes) {
    fail("{}: data_offsets [{}, {}] of {} bytes of data", where, entry.begin, entry.end, data_bytes);
  }
  if (entry.end - entry.begin != bytes) {
    fail("{}: data_offsets [{}, {}] are {} bytes, {} {} takes {}", where, entry.begin, entry.end, entry.end - entry.begin, to_string(tensor.dtype),
         tensor.shape_text(), bytes);
  }
  return entry;
}

// The index names plain files beside it and nothing else.
bool plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos && name.find('\\') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

std::filesystem::path file_within(const std::filesystem::path& folder, const std::string& name, const std::filesystem::path& index) {
  if (!plain_name(name)) fail("{}: \"{}\" is no plain file name", index.string(), name);
  return folder / name;
}

template <class T>
std::string list_of(const T& names) {
  std::vector<std::string> first(names.begin(), std::next(names.begin(), static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 5))));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > 5 ? fmt::format(" and {} more", names.size() - 5) : "");
}

}  // namespace

std::string TensorView::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : name_(path.string()), file_(path) { parse(file_.bytes()); }

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& name) : name_(name) { parse(bytes); }

void SafetensorsFile::parse(std::span<const std::byte> bytes) {
  size_ = bytes.size();
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) fail("{}: {} bytes, too short for a safetensors file", name_, bytes.size());
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const std::uint64_t rest = bytes.size() - sizeof(header_bytes);
  if (header_bytes > kHeaderBytesMax || header_bytes > rest) {
    fail("{}: a header of {} bytes in a file of {} bytes (at most {} are read)", name_, header_bytes, bytes.size(), kHeaderBytesMax);
  }
  header_ = bytes.subspan(sizeof(header_bytes), header_bytes);
  const std::span<const std::byte> data = bytes.subspan(sizeof(header_bytes) + header_bytes);
  const std::string_view text(reinterpret_cast<const char*>(header_.data()), header_.size());
  if (text.empty() || text.front() != '{') fail("{}: the header does not begin with '{{'", name_);
  const json::value header = parse_json_file(text, name_ + ": header", {.depth_max = 8});

  std::vector<std::pair<Entry, const TensorView*>> order;
  for (const auto& item : header.as_object()) {
    if (item.key() == "__metadata__") continue;
    TensorView tensor;
    tensor.name = std::string(item.key());
    tensor.file = name_;
    const Entry entry = parse_entry(item.value(), fmt::format("{}: tensor \"{}\"", name_, tensor.name), data.size(), tensor);
    tensor.data = data.subspan(entry.begin, entry.end - entry.begin);
    const auto placed = tensors_.emplace(tensor.name, std::move(tensor)).first;
    order.emplace_back(entry, &placed->second);
  }
  // The tensors tile the data: no gap, no overlap, nothing behind. A name given twice leaves a gap, since only one of the two was kept.
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first.begin != b.first.begin ? a.first.begin < b.first.begin : a.first.end < b.first.end;
  });
  std::uint64_t next = 0;
  for (const auto& [entry, tensor] : order) {
    if (entry.begin != next) {
      fail("{}: tensor \"{}\" begins at byte {}, {} is wanted: tensors {}", name_, tensor->name, entry.begin, next,
           entry.begin < next ? "overlap" : "leave a gap");
    }
    next = entry.end;
  }
  if (next != data.size()) fail("{}: the tensors end at byte {} of {} bytes of data", name_, next, data.size());
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const TensorView& SafetensorsFile::require(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr) fail("{}: tensor \"{}\" is missing", name_, name);
  return *tensor;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors) {
  JsonWriter w;
  w.begin_object();
  std::uint64_t at = 0;
  for (const TensorToWrite& t : tensors) {
    w.key(t.name).begin_object().field("dtype", to_string(t.dtype)).key("shape").begin_array();
    for (const std::int64_t n : t.shape) w.value(n);
    w.end_array().key("data_offsets").begin_array().value(at).value(at + t.data.size()).end_array().end_object();
    at += t.data.size();
  }
  w.end_object();
  std::string header = w.text();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::string bytes;
  bytes.reserve(sizeof(length) + header.size() + at);
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += header;
  for (const TensorToWrite& t : tensors) bytes.append(reinterpret_cast<const char*>(t.data.data()), t.data.size());
  write_file(path, bytes);
}

Checkpoint::Checkpoint(const std::filesystem::path& folder) : folder_(folder) {
  const auto index = folder / "model.safetensors.index.json";
  const auto single = folder / "model.safetensors";
  if (std::filesystem::exists(index)) {
    load_index(index);
  } else if (std::filesystem::exists(single)) {
    load_single(single);
  } else {
    fail("{}: neither model.safetensors nor model.safetensors.index.json is there", folder.string());
  }
}

void Checkpoint::load_single(const std::filesystem::path& file) {
  files_.emplace_back(file);
  for (const auto& [name, tensor] : files_.back().tensors()) tensors_.emplace(name, &tensor);
}

void Checkpoint::load_index(const std::filesystem::path& index) {
  const json::value value = parse_json_file(read_file(index), index.string());
  const json::value* map = value.is_object() ? value.get_object().if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) fail("{}: weight_map: an object is wanted", index.string());
  std::map<std::string, std::vector<std::string>> by_file;
  for (const auto& item : map->get_object()) {
    if (!item.value().is_string()) fail("{}: weight_map: \"{}\": a file name is wanted", index.string(), std::string_view(item.key()));
    by_file[std::string(item.value().get_string())].emplace_back(item.key());
  }
  files_.reserve(by_file.size());  // tensors_ points into the files
  for (const auto& [file, names] : by_file) {
    const auto path = file_within(folder_, file, index);
    if (!std::filesystem::exists(path)) fail("{}: file \"{}\" is not there (tensors {})", index.string(), file, list_of(names));
    files_.emplace_back(path);
    const SafetensorsFile& shard = files_.back();
    std::vector<std::string> missing;
    for (const std::string& name : names) {
      const TensorView* tensor = shard.find(name);
      if (tensor == nullptr) {
        missing.push_back(name);
      } else if (!tensors_.emplace(name, tensor).second) {
        fail("{}: tensor \"{}\" is named twice", index.string(), name);
      }
    }
    if (!missing.empty()) fail("{}: \"{}\" does not hold {}", index.string(), file, list_of(missing));
  }
  // What a shard holds beyond the index is found too, unless two files have it.
  for (const SafetensorsFile& shard : files_) {
    for (const auto& [name, tensor] : shard.tensors()) {
      const auto [at, added] = tensors_.emplace(name, &tensor);
      if (!added && at->second != &tensor) fail("{}: tensor \"{}\" is also in \"{}\"", shard.name(), name, at->second->file);
    }
  }
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

const TensorView& Checkpoint::require(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr) fail("{}: tensor \"{}\" is missing", folder_.string(), name);
  return *tensor;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

}  // namespace qwell
