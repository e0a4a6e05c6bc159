#include <cmath>

#include "base/bits.h"
#include "base/random.h"
#include "model/weight_source.h"

namespace qwell {
namespace {

bool is_norm(WeightKind kind) {
  switch (kind) {
    case WeightKind::kFinalNorm:
    case WeightKind::kInputNorm:
    case WeightKind::kPostNorm:
    case WeightKind::kQNorm:
    case WeightKind::kKNorm: return true;
    default: return false;
  }
}

void put(View out, std::int64_t i, float value) {
  if (out.dtype == DType::kF32) {
    out.as<float>()[i] = value;
  } else {
    out.as<bf16>()[i] = to_bf16(value);
  }
}

class RandomSource final : public WeightSource {
 public:
  explicit RandomSource(std::uint64_t seed) : seed_(seed) {}

  void read(const WeightKey& key, Range rows, Range columns, View out) override {
    const PhiloxKey philox_key{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)};
    const auto which = static_cast<std::uint32_t>(key.kind) | static_cast<std::uint32_t>(key.layer + 1) << 8;
    const float deviation = key.kind == WeightKind::kRouter ? 0.2F : 0.02F;
    const float scale = deviation * 2.0F * std::sqrt(3.0F);  // of a uniform number on (-1/2, 1/2)
    std::int64_t i = 0;
    for (int r = rows.first; r < rows.end(); ++r) {
      PhiloxCounter block{};
      int block_index = -1;
      for (int c = columns.first; c < columns.end(); ++c) {
        if (is_norm(key.kind)) {
          put(out, i++, 1.0F);
          continue;
        }
        if (c / 4 != block_index) {
          block_index = c / 4;
          block = philox(
              {static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(block_index), which, static_cast<std::uint32_t>(key.expert + 1)},
              philox_key);
        }
        put(out, i++, (uniform_open(block[static_cast<std::size_t>(c % 4)]) - 0.5F) * scale);
      }
    }
  }

 private:
  const std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<WeightSource> make_random_source(const ModelConfig&, std::uint64_t seed) { return std::make_unique<RandomSource>(seed); }

}  // namespace qwell
