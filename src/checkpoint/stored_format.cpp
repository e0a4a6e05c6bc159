#include "base/error.h"
#include "checkpoint/layout.h"

namespace qwell {
namespace {

constexpr std::string_view kWeight = ".weight";

bool is_float(const TensorView& t) { return t.dtype == DType::kF32 || t.dtype == DType::kBf16 || t.dtype == DType::kF16; }
// E8M0 scales are written as bytes by most.
bool is_e8m0(const TensorView& t) { return t.dtype == DType::kU8 || t.dtype == DType::kE8m0; }

StoredFormat packed_format(const Checkpoint& checkpoint, const std::string& name) {
  if (checkpoint.find(name + "_global_scale") != nullptr) return StoredFormat::kNvfp4;
  const TensorView* scale = checkpoint.find(name + "_scale");
  return scale != nullptr && scale->dtype == DType::kE4m3 ? StoredFormat::kNvfp4 : StoredFormat::kMxfp4;
}

StoredFormat e4m3_format(const Checkpoint& checkpoint, const std::string& name) {
  if (const TensorView* inverse = checkpoint.find(name + "_scale_inv"))
    return is_e8m0(*inverse) ? StoredFormat::kMxfp8 : StoredFormat::kFp8Block;
  const TensorView* scale = checkpoint.find(name + "_scale");
  if (scale != nullptr && is_e8m0(*scale)) return StoredFormat::kMxfp8;
  if (scale != nullptr && is_float(*scale)) return StoredFormat::kFp8Other;
  return StoredFormat::kPlain;  // without scales: refused where its elements are read
}

}  // namespace

std::string_view to_string(StoredFormat format) {
  switch (format) {
    case StoredFormat::kPlain: return "plain";
    case StoredFormat::kFp8Block: return "FP8 (128x128 blocks)";
    case StoredFormat::kFp8Other: return "FP8 (scales per tensor or row)";
    case StoredFormat::kMxfp8: return "MXFP8";
    case StoredFormat::kMxfp4: return "MXFP4";
    case StoredFormat::kNvfp4: return "NVFP4";
  }
  return "unknown";
}

StoredFormat stored_format(const Checkpoint& checkpoint, std::string_view name_in) {
  const std::string name(name_in);
  if (!name.ends_with(kWeight)) return StoredFormat::kPlain;
  const TensorView* weight = checkpoint.find(name);
  if (weight == nullptr) return checkpoint.find(name + "_packed") == nullptr ? StoredFormat::kPlain : packed_format(checkpoint, name);
  if (weight->dtype == DType::kE4m3) return e4m3_format(checkpoint, name);
  if (weight->dtype != DType::kU8) return StoredFormat::kPlain;
  if (checkpoint.find(name + "_scale_2") != nullptr) return StoredFormat::kNvfp4;
  return checkpoint.find(name + "_scale") == nullptr ? StoredFormat::kPlain : packed_format(checkpoint, name);
}

void refuse_unread_format(const Checkpoint& checkpoint, std::string_view name) {
  const StoredFormat format = stored_format(checkpoint, name);
  if (format == StoredFormat::kPlain || format == StoredFormat::kFp8Block) return;
  const TensorView* weight = checkpoint.find(name);
  const TensorView& shown = weight != nullptr ? *weight : *checkpoint.find(std::string(name) + "_packed");
  fail("{}: tensor \"{}\": {} {}, stored as {}; BF16, F16, F32, or F8_E4M3 in 128x128 blocks is wanted", shown.file, shown.name,
       to_string(shown.dtype), shown.shape_text(), to_string(format));
}

}  // namespace qwell
