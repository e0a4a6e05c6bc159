#include "ops/reference/reference.h"

namespace qwell {
namespace {

class ReferenceOps final : public Ops {
 public:
  std::string numerics_id() const override { return "reference/r1"; }
  std::int64_t packed_bytes(DType compute, std::int64_t n, std::int64_t k) const override { return reference::packed_bytes(compute, n, k); }
  void pack(DType compute, std::int64_t n, std::int64_t k, std::int64_t row_first, View src, void* packed) const override {
    reference::pack(compute, n, k, row_first, src, packed);
  }
  void embed(const EmbedArgs& args) override { reference::embed(args); }
  void norm(const NormArgs& args) override { reference::norm(args); }
  void residual_norm(const ResidualNormArgs& args) override { reference::residual_norm(args); }
  void linear(const LinearArgs& args) override { reference::linear(args); }
  void linear_leaves(const LinearLeavesArgs& args) override { reference::linear_leaves(args); }
  void qk_norm_rope(const QkNormRopeArgs& args) override { reference::qk_norm_rope(args); }
  void attention(const AttentionArgs& args) override { reference::attention(args); }
  void route(const RouteArgs& args) override { reference::route(args); }
  void experts(const ExpertArgs& args) override { reference::experts(args); }
  void gather(const GatherArgs& args) override { reference::gather(args); }
  void sample(const SampleArgs& args) override { reference::sample(args); }
  void token_logprobs(const TokenLogprobArgs& args) override { reference::token_logprobs(args); }
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops() { return std::make_unique<ReferenceOps>(); }

}  // namespace qwell
