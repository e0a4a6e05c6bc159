#pragma once
// What happens to rows between two products of a layer. Two forms, one interface:
//  - replicated (prefill): every rank has every row; partial sums are joined over the group, the residual stream is sharded by rows;
//  - distinct (decode, and groups that do both): every rank has its own rows; only the experts are shared, by dispatch and combine.
// With one rank both are local operations, and both give the same bits.

#include <memory>

#include "device/memory.h"
#include "group/member.h"
#include "model/weights.h"

namespace qwell {

class LayerExchange {
 public:
  virtual ~LayerExchange() = default;

  // Rows of the step about to run; opens nothing on the group.
  virtual void begin(int rows) = 0;
  // The rows of the residual stream that this rank owns, and where they lie: fp32 [owned, H].
  virtual Range owned() const = 0;
  virtual View residual() const = 0;

  // residual holds the embeddings: normalises them for the first layer.
  virtual Result<JoinedRows> start(const NormWeight& norm) = 0;
  // Where attention's output projection is written: fp32 [rows, H].
  virtual View projection() = 0;
  // Adds the projection, normalises, routes (if the MLP is routed).
  virtual Result<JoinedRows> after_attention(const NormWeight& norm, const MlpWeights& mlp) = 0;
  // Runs the experts on `in`, adds their sum, normalises for what follows.
  virtual Result<JoinedRows> mlp(const JoinedRows& in, const MlpWeights& mlp, const NormWeight& next_norm) = 0;
};

std::size_t exchange_bytes(const ModelConfig& config, const GroupShape& shape);
std::unique_ptr<LayerExchange> make_exchange(const ModelWeights& weights, Member& member, Ops& ops, Arena& workspace);

}  // namespace qwell
