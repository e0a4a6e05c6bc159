#pragma once
// Where weights come from: a checkpoint, or random numbers where only shapes matter. Matrices are asked for by meaning, not by name, and by
// parts, so that a rank or a packer reads only what it needs.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "tensor/placement.h"
#include "tensor/view.h"

namespace qwell {

enum class WeightKind : std::uint8_t {
  kEmbedding,  // [V, H]
  kHead,       // [V, H]; the embedding where tied
  kFinalNorm,  // [1, H]
  kInputNorm,  // [1, H]
  kPostNorm,   // [1, H]
  kQNorm,      // [1, D]
  kKNorm,      // [1, D]
  kQ,          // [Hq * D, H]
  kK,          // [Hkv * D, H]
  kV,          // [Hkv * D, H]
  kOutput,     // [H, Hq * D]
  kRouter,     // [E, H]
  kGate,       // [I, H]; of an expert, or of a dense MLP (expert -1)
  kUp,         // [I, H]
  kDown,       // [H, I]
};

struct WeightKey {
  WeightKind kind = WeightKind::kEmbedding;
  int layer = -1;
  int expert = -1;

  bool operator==(const WeightKey&) const = default;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Copies rows x columns of a matrix to `out`, dense [rows.count, columns.count] bf16 or fp32. May be called from several threads.
  // Throws Error that names file and tensor.
  virtual void read(const WeightKey& key, Range rows, Range columns, View out) = 0;
};

// Reads a checkpoint, which outlives the source. That every matrix is there in the right shape is checked here, before anything is read.
class Checkpoint;
std::unique_ptr<WeightSource> make_checkpoint_source(const Checkpoint& checkpoint, const ModelConfig& config);
// Names of tensors that a model of this configuration does not read, ascending: MTP layers, a head that is tied, ...
std::vector<std::string> unused_tensors(const Checkpoint& checkpoint, const ModelConfig& config);

// Norms are ones, the rest is uniform with a deviation of 0.02 (router: 0.2, so that routes differ), a function of seed, key and place.
std::unique_ptr<WeightSource> make_random_source(const ModelConfig& config, std::uint64_t seed);

}  // namespace qwell
