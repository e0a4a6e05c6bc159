#pragma once
// Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). A number is a
// pure function of key and counter, so it does not depend on who asks first: the same on every rank, in every batch, on every device.

#include <array>
#include <cmath>
#include <cstdint>

namespace qwell {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// In (0, 1): the 23 upper bits, centred. One bit more and the largest would round to 1.
inline float uniform_open(std::uint32_t bits) { return (static_cast<float>(bits >> 9) + 0.5F) * 0x1p-23F; }

// A small sequential generator over Philox for tests, data and jitter.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, stream_(stream) {}

  std::uint32_t bits() {
    if (used_ == 4) {
      block_ = philox({static_cast<std::uint32_t>(next_), static_cast<std::uint32_t>(next_ >> 32), static_cast<std::uint32_t>(stream_),
                       static_cast<std::uint32_t>(stream_ >> 32)},
                      key_);
      ++next_;
      used_ = 0;
    }
    return block_[used_++];
  }
  std::uint64_t bits64() {
    const std::uint64_t high = bits();
    return (high << 32) | bits();
  }
  // In [0, n); n > 0.
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((std::uint64_t{bits()} * n) >> 32); }
  // In [low, high].
  int range(int low, int high) { return low + static_cast<int>(below(static_cast<std::uint32_t>(high - low + 1))); }
  float uniform() { return uniform_open(bits()); }
  bool chance(double p) { return uniform() < p; }
  // Standard normal (Box-Muller).
  float normal() {
    const float radius = std::sqrt(-2.0F * std::log(uniform()));
    return radius * std::cos(6.28318530717958647692F * uniform());
  }

 private:
  PhiloxKey key_;
  std::uint64_t stream_;
  std::uint64_t next_ = 0;
  PhiloxCounter block_{};
  unsigned used_ = 4;
};

}  // namespace qwell
