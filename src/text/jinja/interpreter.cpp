// Statements.

#include "text/jinja/interpreter.h"

#include "text/jinja/operations.h"
#include "text/jinja/print.h"

namespace qwell::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_.get()) {
    for (const auto& [n, value] : scope->variables_) {
      if (n == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [n, v] : variables_) {
    if (n != name) continue;
    v = std::move(value);
    return;
  }
  variables_.emplace_back(name, std::move(value));
}

void Scope::clear() {
  for (Scope* scope = this; scope != nullptr; scope = scope->outer_.get()) scope->variables_.clear();
}

namespace {

// A variable that has another value while the object lives.
template <class T>
class Replaced {
 public:
  Replaced(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Replaced() { place_ = std::move(before_); }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  T& place_;
  T before_;
};

}  // namespace

Interpreter::Interpreter(const Block& block, const Value& variables, const Limits& limits, std::time_t now)
    : block_(block), variables_(variables), env_{Budget(limits), now}, scope_(std::make_shared<Scope>(nullptr)) {}

Interpreter::~Interpreter() {
  for (const auto& scope : captured_) scope->clear();
}

Text Interpreter::run() {
  TextBuilder out;
  out_ = &out;
  execute(block_);
  return out.build();
}

void Interpreter::emit(const Text& text) {
  env_.budget.charge_bytes(text.size());
  if (out_->size() + text.size() > env_.budget.limits().output_bytes_max) {
    raise_limit("bytes of output", env_.budget.limits().output_bytes_max);
  }
  out_->append(text);
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  const Budget::Level level(env_.budget);
  for (const Statement& statement : block) {
    env_.budget.charge(1);
    line_ = statement.line;
    const Flow flow = std::visit([this](const auto& node) { return execute(node); }, statement.node);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Data& node) {
  emit(node.text);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Output& node) {
  emit(to_str(evaluate(*node.value)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const If& node) {
  for (const auto& [condition, body] : node.branches) {
    if (truth(evaluate(*condition))) return execute(body);
  }
  return execute(node.otherwise);
}

// What the loop visits: with a condition, what passes it. The condition sees the loop's variables, but not `loop`.
std::shared_ptr<const Sequence> Interpreter::loop_items(const For& node) {
  auto items = iterate(evaluate(*node.items), env_);
  env_.budget.charge_items(items->items.size());
  if (node.condition == nullptr) return items;
  auto kept = std::make_shared<Sequence>();
  for (const Value& item : items->items) {
    const Replaced scope(scope_, std::make_shared<Scope>(scope_));
    assign(node.target, item);
    if (truth(evaluate(*node.condition))) kept->items.push_back(item);
  }
  return kept;
}

Interpreter::Flow Interpreter::execute(const For& node) {
  const auto items = loop_items(node);
  bool completed = false;  // an iteration reached its end: Jinja's reason not to run `else`
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    env_.budget.charge(1);
    const Replaced scope(scope_, std::make_shared<Scope>(scope_));
    assign(node.target, items->items[i]);
    scope_->set("loop", std::make_shared<const LoopState>(LoopState{items, i}));
    const Flow flow = execute(node.body);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) completed = true;
  }
  if (completed || node.otherwise.empty()) return Flow::kNext;
  const Replaced scope(scope_, std::make_shared<Scope>(scope_));
  return execute(node.otherwise);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) {
    const auto items = iterate(value, env_);
    if (items->items.size() < target.parts.size()) {
      raise("not enough values to unpack (expected {}, got {})", target.parts.size(), items->items.size());
    }
    if (items->items.size() > target.parts.size()) raise("too many values to unpack (expected {})", target.parts.size());
    for (std::size_t i = 0; i < target.parts.size(); ++i) assign(target.parts[i], items->items[i]);
    return;
  }
  if (target.attribute.empty()) return scope_->set(target.name, value);
  const Value* const place = scope_->find(target.name);
  if (place == nullptr || !place->is(Kind::kNamespace)) raise("cannot assign attribute on non-namespace object");
  place->name_space().attributes.set(trusted(target.attribute), value);
}

Interpreter::Flow Interpreter::execute(const Set& node) {
  assign(node.target, evaluate(*node.value));
  return Flow::kNext;
}

Text Interpreter::capture(const Block& block) {
  TextBuilder out;
  const Replaced sink(out_, &out);
  const Replaced scope(scope_, std::make_shared<Scope>(scope_));
  execute(block);
  return out.build();
}

Interpreter::Flow Interpreter::execute(const SetBlock& node) {
  Value value = capture(node.body);
  if (node.filters != nullptr) value = filter_text(*node.filters, value.text());
  assign(node.target, value);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const FilterBlock& node) {
  const Text text = capture(node.body);
  emit(to_str(filter_text(*node.filters, text)));
  return Flow::kNext;
}

Value Interpreter::filter_text(const Expr& chain, const Text& text) {
  const Replaced<const Text*> subject(filtered_, &text);
  return evaluate(chain);
}

Interpreter::Flow Interpreter::execute(const DefineMacro& node) {
  scope_->set(node.macro->name, std::make_shared<const Macro>(Macro{node.macro.get(), scope_}));
  captured_.push_back(scope_);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const CallBlock& node) {
  const Value caller = std::make_shared<const Macro>(Macro{node.caller.get(), scope_});
  captured_.push_back(scope_);
  emit(to_str(call_expression(std::get<Call>(node.call->node), &caller)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const With& node) {
  auto inner = std::make_shared<Scope>(scope_);
  std::vector<Value> values;
  for (const auto& [target, expr] : node.assignments) values.push_back(evaluate(*expr));
  const Replaced scope(scope_, std::move(inner));
  for (std::size_t i = 0; i < values.size(); ++i) assign(node.assignments[i].first, values[i]);
  return execute(node.body);
}

}  // namespace qwell::jinja
