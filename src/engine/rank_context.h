#pragma once
// What one rank is made of: its threads, its executor, its end of the group, its part of the model.

#include <memory>

#include "device/team.h"
#include "group/member.h"
#include "model/rank_model.h"
#include "ops/ops.h"

namespace qwell {

struct RankContext {
  RankContext(const ModelWeights& weights, std::shared_ptr<GroupWindow> window, int rank, int threads, int spin_us, CpuIsa isa,
              Duration step_deadline)
      : team(threads, spin_us),
        ops(make_cpu_ops(team, isa)),
        member(std::move(window), rank, *ops, step_deadline),
        model(weights, member, *ops, member.shape().rows_max, kHeadRows) {}

  static constexpr int kHeadRows = 64;

  Team team;
  std::unique_ptr<Ops> ops;
  Member member;
  RankModel model;
};

}  // namespace qwell
