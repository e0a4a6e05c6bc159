#include "group/member.h"

#include "group/cpu/exchange.h"
#include "group/cpu/link.h"

namespace qwell {

struct Member::State {
  State(std::shared_ptr<GroupWindow> window, int rank, Ops& ops, Duration deadline)
      : link(std::move(window), rank, deadline), exchange(link, ops) {}

  group::Link link;
  group::Exchange exchange;
};

Member::Member(std::shared_ptr<GroupWindow> window, int rank, Ops& ops, Duration deadline)
    : state_(std::make_unique<State>(std::move(window), rank, ops, deadline)) {}
Member::~Member() = default;

int Member::rank() const { return state_->link.rank(); }
int Member::size() const { return state_->link.size(); }
const GroupShape& Member::shape() const { return state_->link.shape(); }

Result<void> Member::publish_order(std::uint64_t step, std::span<const std::byte> order) { return state_->link.publish_order(step, order); }
Result<std::span<const std::byte>> Member::await_order(std::uint64_t step, Duration patience) {
  return state_->link.await_order(step, patience);
}
void Member::announce(std::uint64_t step) { state_->link.announce(step); }
bool Member::await_announced(std::uint64_t step, Duration patience) { return state_->link.await_announced(step, patience); }
void Member::wake() { state_->link.wake(); }

void Member::begin_step(std::uint64_t step) {
  state_->link.begin_step(step);
  state_->exchange.begin_step();
}
void Member::wish_kind(int kind) { state_->exchange.wish_kind(kind); }
int Member::agreed_kind() const { return state_->exchange.agreed_kind(); }
void Member::abort(const std::string& reason) {
  state_->link.abort(fmt::format("{}: rank {}, step {}: {}", shape().name, rank(), state_->link.step(), reason));
}
void Member::reincarnate(std::uint32_t incarnation) {
  state_->link.reincarnate(incarnation);
  state_->exchange.reincarnate();
}
std::uint32_t Member::incarnation() const { return state_->link.incarnation(); }

View Member::partial(int rows) { return state_->exchange.partial(rows); }
Result<JoinedRows> Member::join(const JoinArgs& args) { return state_->exchange.join(args); }
Result<DispatchedRows> Member::dispatch(View rows, View ids, View weights, const Placement& placement) {
  return state_->exchange.dispatch(rows, ids, weights, placement);
}
View Member::expert_sums(int count) { return state_->exchange.expert_sums(count); }
Result<void> Member::combine(View out) { return state_->exchange.combine(out); }
const Member::Counters& Member::counters() const { return state_->exchange.counters(); }

}  // namespace qwell
