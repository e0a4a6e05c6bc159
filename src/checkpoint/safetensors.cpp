#include "checkpoint/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/internal/duplicate_names.h"
#include "checkpoint/internal/quoted.h"

namespace qwell {
namespace {

constexpr std::uint64_t kHeaderBytesMax = 100U << 20;
constexpr std::int64_t kDimensionMax = std::int64_t{1} << 48;
constexpr std::uint64_t kTensorBytesMax = std::uint64_t{1} << 62;
constexpr std::size_t kRankMax = 16;
static_assert(std::endian::native == std::endian::little, "tensors are little-endian and read as they are");

std::optional<DType> dtype_of(std::string_view name) {
  for (const DType t : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64, DType::kE4m3, DType::kE8m0, DType::kU8, DType::kI8,
                        DType::kI32, DType::kI64, DType::kBool}) {
    if (to_string(t) == name) return t;
  }
  return std::nullopt;
}

std::string json_text(const json::value& value) {
  JsonWriter w;
  w.value(value);
  return w.text().size() > 200 ? w.text().substr(0, 200) + "..." : w.text();
}

struct Entry {
  std::uint64_t begin = 0, end = 0;
};

// Non-negative; whole numbers only.
std::uint64_t size_value(const json::value& value, const std::string& where) {
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<std::uint64_t>(value.get_int64());
  if (value.is_uint64()) return value.get_uint64();
  fail("{}: {}, a non-negative integer is wanted", where, json_text(value));
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
  if (!known) fail("{}: dtype {} is not known", where, in_quotes(dtype->get_string()));
  tensor.dtype = *known;

  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(*known));
  for (const json::value& n : array_member(object, "shape", where)) {
    const std::uint64_t length = size_value(n, where + ": shape");
    if (tensor.shape.size() >= kRankMax) fail("{}: shape: more than {} dimensions", where, kRankMax);
    if (length > static_cast<std::uint64_t>(kDimensionMax) || (length > 0 && bytes > kTensorBytesMax / length)) {
      fail("{}: shape: {} is too large", where, json_text(object.at("shape")));
    }
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
    fail("{}: data_offsets [{}, {}] are {} bytes, {} {} takes {}", where, entry.begin, entry.end, entry.end - entry.begin,
         to_string(tensor.dtype), tensor.shape_text(), bytes);
  }
  return entry;
}

// String to string, as the format wants it; nothing reads it.
void check_metadata(const json::value& value, const std::string& file) {
  if (!value.is_object()) fail("{}: __metadata__: an object is wanted", file);
  for (const auto& item : value.get_object()) {
    if (!item.value().is_string()) fail("{}: __metadata__: {}: a string is wanted", file, in_quotes(item.key()));
  }
}

void check_to_write(const TensorToWrite& t, const std::filesystem::path& path) {
  if (t.name == "__metadata__") fail("{}: a tensor can't have the name __metadata__", path.string());
  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(t.dtype));
  for (const std::int64_t n : t.shape) {
    if (n < 0 || n > kDimensionMax || (n > 0 && bytes > kTensorBytesMax / static_cast<std::uint64_t>(n))) {
      fail("{}: tensor \"{}\": shape [{}] is no shape", path.string(), t.name, fmt::join(t.shape, ", "));
    }
    bytes *= static_cast<std::uint64_t>(n);
  }
  if (bytes != t.data.size()) {
    fail("{}: tensor \"{}\": {} bytes, {} [{}] takes {}", path.string(), t.name, t.data.size(), to_string(t.dtype),
         fmt::join(t.shape, ", "), bytes);
  }
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
  refuse_duplicate_names(text, name_ + ": header");

  std::vector<std::pair<Entry, const TensorView*>> order;
  for (const auto& item : header.as_object()) {
    if (item.key() == "__metadata__") {
      check_metadata(item.value(), name_);
      continue;
    }
    TensorView tensor;
    tensor.name = std::string(item.key());
    tensor.file = name_;
    const Entry entry = parse_entry(item.value(), fmt::format("{}: tensor {}", name_, in_quotes(tensor.name)), data.size(), tensor);
    tensor.data = data.subspan(entry.begin, entry.end - entry.begin);
    const auto placed = tensors_.emplace(tensor.name, std::move(tensor)).first;
    order.emplace_back(entry, &placed->second);
  }
  // The tensors tile the data: no gap, no overlap, nothing behind.
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
  std::set<std::string_view> names;
  for (const TensorToWrite& t : tensors) {
    check_to_write(t, path);
    if (!names.insert(t.name).second) fail("{}: tensor \"{}\" is given twice", path.string(), t.name);
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

}  // namespace qwell
