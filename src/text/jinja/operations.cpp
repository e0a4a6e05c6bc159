#include "text/jinja/operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/jinja/print.h"
#include "text/unicode.h"

namespace qwell::jinja {

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  if (needle.size() > text.size() - from) return std::string_view::npos;
  const void* const found = ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

namespace {

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&budget](const Value& x, const Value& y) { return equal(x, y, budget); });
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    charge_key(entry.first, budget);
    const Value* const other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other, budget);
  });
}

bool comparable_sequences(const Value& a, const Value& b) {
  return a.is(Kind::kSequence) && b.is(Kind::kSequence) && a.sequence().kind == b.sequence().kind;
}

int order_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  const auto wide = [](const Value& v) {
    return v.is(Kind::kFloat) ? static_cast<long double>(v.number()) : static_cast<long double>(v.integer());
  };
  return wide(a) < wide(b) ? -1 : wide(a) > wide(b) ? 1 : 0;
}

// But for a tuple of something that is not.
bool is_hashable(const Value& v) {
  if (v.is(Kind::kSequence)) return v.sequence().kind == SequenceKind::kTuple || v.sequence().kind == SequenceKind::kRange;
  return !v.is(Kind::kDict);
}

bool is_nan(const Value& v) { return v.is(Kind::kFloat) && std::isnan(v.number()); }

}  // namespace

bool equal(const Value& a, const Value& b, Budget& budget) {
  const Budget::Level level(budget);
  budget.charge(1);
  if (a.is_number() && b.is_number()) return !is_nan(a) && !is_nan(b) && order_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::kText)) {
    if (a.text().size() != b.text().size()) return false;
    budget.charge_bytes(a.text().size());
    return a.text() == b.text();
  }
  if (a.same(b)) return true;
  if (comparable_sequences(a, b)) return equal_items(a.sequence().items, b.sequence().items, budget);
  return a.is(Kind::kDict) && equal_dicts(a.dict(), b.dict(), budget);
}

int order(const Value& a, const Value& b, Budget& budget, std::string_view op) {
  const Budget::Level level(budget);
  budget.charge(1);
  if (a.is(Kind::kUndefined)) a.raise_undefined();
  if (b.is(Kind::kUndefined)) b.raise_undefined();
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is(Kind::kText) && b.is(Kind::kText)) {
    budget.charge_bytes(std::min(a.text().size(), b.text().size()));
    return a.text().view().compare(b.text().view());
  }
  const bool ordered =
      comparable_sequences(a, b) && (a.sequence().kind == SequenceKind::kList || a.sequence().kind == SequenceKind::kTuple);
  if (!ordered) raise("'{}' not supported between instances of '{}' and '{}'", op, type_name(a), type_name(b));
  const auto& x = a.sequence().items;
  const auto& y = b.sequence().items;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!equal(x[i], y[i], budget)) return order(x[i], y[i], budget, op);
  }
  return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
}

bool compare(CompareOp op, const Value& a, const Value& b, Budget& budget) {
  const bool numbers_without_order = is_nan(a) || is_nan(b);
  switch (op) {
    case CompareOp::kEqual: return equal(a, b, budget);
    case CompareOp::kNotEqual: return !equal(a, b, budget);
    case CompareOp::kLess: return order(a, b, budget, "<") < 0 && !numbers_without_order;
    case CompareOp::kLessEqual: return order(a, b, budget, "<=") <= 0 && !numbers_without_order;
    case CompareOp::kGreater: return order(a, b, budget, ">") > 0 && !numbers_without_order;
    case CompareOp::kGreaterEqual: return order(a, b, budget, ">=") >= 0 && !numbers_without_order;
    case CompareOp::kIn: return contains(b, a, budget);
    case CompareOp::kNotIn: return !contains(b, a, budget);
  }
  return false;
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  switch (container.kind()) {
    case Kind::kUndefined: return false;
    case Kind::kText:
      if (item.is(Kind::kUndefined)) item.raise_undefined();
      if (!item.is(Kind::kText)) raise("'in <string>' requires string as left operand, not {}", type_name(item));
      budget.charge_bytes(container.text().size());
      return find_bytes(container.text().view(), item.text().view()) != std::string_view::npos;
    case Kind::kSequence:
      if (container.sequence().kind == SequenceKind::kKeys && !is_hashable(item)) raise("unhashable type: '{}'", type_name(item));
      for (const Value& candidate : container.sequence().items) {
        if (equal(candidate, item, budget)) return true;
      }
      return false;
    case Kind::kDict: charge_key(item, budget); return container.dict().find(item) != nullptr;
    default: raise("argument of type '{}' is not iterable", type_name(container));
  }
}

namespace {

std::string object_name(const Value& v) { return v.is(Kind::kNone) ? "None" : std::string(type_name(v)) + " object"; }

Value no_attribute(const Value& v, std::string_view name) { return undefined("'{}' has no attribute '{}'", object_name(v), name); }

Value loop_attribute(const Value& v, std::string_view name) {
  const LoopState& loop = v.loop();
  const std::size_t count = loop.items->items.size();
  if (name == "index") return integer(loop.index + 1);
  if (name == "index0") return integer(loop.index);
  if (name == "revindex") return integer(count - loop.index);
  if (name == "revindex0") return integer(count - loop.index - 1);
  if (name == "first") return loop.index == 0;
  if (name == "last") return loop.index + 1 == count;
  if (name == "length") return integer(count);
  if (name == "depth") return Int{1};  // counts recursive loops only
  if (name == "depth0") return Int{0};
  if (name == "previtem") return loop.index > 0 ? loop.items->items[loop.index - 1] : undefined("there is no previous item");
  if (name == "nextitem") return loop.index + 1 < count ? loop.items->items[loop.index + 1] : undefined("there is no next item");
  return no_attribute(v, name);
}

// What getattr() finds: methods, and what namespaces and loops have.
bool own_attribute(const Value& v, std::string_view name, Value& out) {
  if (v.is(Kind::kNamespace)) {
    const Value* const found = v.name_space().attributes.find(name);
    if (found == nullptr) return false;
    out = *found;
    return true;
  }
  if (v.is(Kind::kLoop)) {
    out = loop_attribute(v, name);
    if (!out.is(Kind::kUndefined) || name == "previtem" || name == "nextitem") return true;
  }
  if (!has_method(v, name)) return false;
  out = std::make_shared<const Method>(Method{v, std::string(name)});
  return true;
}

// An index that counts from the end when negative; false when it is outside.
bool resolve_index(Int index, std::size_t count, std::size_t& out) {
  const Int size = static_cast<Int>(count);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return false;
  out = static_cast<std::size_t>(index);
  return true;
}

bool is_indexable(const Sequence& s) {
  return s.kind == SequenceKind::kList || s.kind == SequenceKind::kTuple || s.kind == SequenceKind::kRange;
}

bool own_item(const Value& v, const Value& key, Environment& env, Value& out) {
  std::size_t index = 0;
  if (v.is(Kind::kSequence) && is_indexable(v.sequence()) && key.is_integer()) {
    if (!resolve_index(key.integer(), v.sequence().items.size(), index)) return false;
    out = v.sequence().items[index];
    return true;
  }
  if (v.is(Kind::kText) && key.is_integer()) {
    const Text& text = v.text();
    if (!resolve_index(key.integer(), text.num_chars(), index)) return false;
    if (!text.is_ascii()) env.budget.charge_bytes(text.size());
    const std::size_t begin = text.position_of(index);
    out = text.slice(begin, begin + next_valid_utf8(text.view(), begin).bytes);
    return true;
  }
  if (v.is(Kind::kDict)) {
    if (!is_hashable(key)) return false;
    charge_key(key, env.budget);
    const Value* const found = v.dict().find(key);
    if (found == nullptr) return false;
    out = *found;
    return true;
  }
  return false;
}

}  // namespace

Value attribute_of(const Value& v, std::string_view name) {
  if (v.is(Kind::kUndefined)) v.raise_undefined();
  Value out;
  if (own_attribute(v, name, out)) return out;
  if (v.is(Kind::kDict)) {
    if (const Value* const found = v.dict().find(name)) return *found;
  }
  return no_attribute(v, name);
}

Value item_of(const Value& v, const Value& key, Environment& env) {
  if (v.is(Kind::kUndefined)) v.raise_undefined();
  Value out;
  if (own_item(v, key, env, out)) return out;
  if (!key.is(Kind::kText)) return undefined("{} has no element {}", object_name(v), to_repr(key).view());
  if (own_attribute(v, key.text().view(), out)) return out;
  return no_attribute(v, key.text().view());
}

namespace {

// The positions of a slice, by Python's rules.
struct SliceRange {
  Int start;
  Int step;
  std::size_t count;
};

Int bound(const Value& v, Int fallback, Int size, Int low, Int high) {
  if (v.is(Kind::kNone)) return fallback;
  if (!v.is_integer()) raise("slice indices must be integers or None or have an __index__ method");
  const Int index = v.integer() < 0 ? v.integer() + size : v.integer();
  return std::clamp(index, low, high);
}

SliceRange resolve_slice(const Value& start, const Value& stop, const Value& step, std::size_t count) {
  const Int size = static_cast<Int>(count);
  Int by = 1;
  if (!step.is(Kind::kNone)) {
    if (!step.is_integer()) raise("slice indices must be integers or None or have an __index__ method");
    by = step.integer();
    if (by == 0) raise("slice step cannot be zero");
    by = std::clamp<Int>(by, -size - 1, size + 1);  // a longer step ends as well, and does not overflow
  }
  const Int low = by < 0 ? -1 : 0;
  const Int high = by < 0 ? size - 1 : size;
  const Int from = bound(start, by < 0 ? size - 1 : 0, size, low, high);
  const Int to = bound(stop, by < 0 ? -1 : size, size, low, high);
  const Int distance = by < 0 ? from - to : to - from;
  const Int stride = by < 0 ? -by : by;
  return {from, by, distance <= 0 ? 0 : static_cast<std::size_t>((distance + stride - 1) / stride)};
}

Value slice_text(const Text& text, const SliceRange& range, Environment& env) {
  env.budget.charge_bytes(text.size());
  if (range.step == 1) {
    const std::size_t begin = text.position_of(static_cast<std::size_t>(range.start));
    return text.slice(begin, text.position_of(static_cast<std::size_t>(range.start) + range.count));
  }
  env.budget.charge_items(text.num_chars());
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < text.size(); i += next_valid_utf8(text.view(), i).bytes) positions.push_back(i);
  positions.push_back(text.size());
  TextBuilder out;
  for (std::size_t i = 0; i < range.count; ++i) {
    const auto at = static_cast<std::size_t>(range.start + static_cast<Int>(i) * range.step);
    out.append(text, positions[at], positions[at + 1]);
  }
  return out.build();
}

}  // namespace

Value slice_of(const Value& v, const Value& start, const Value& stop, const Value& step, Environment& env) {
  if (v.is(Kind::kUndefined)) v.raise_undefined();
  if (v.is(Kind::kText)) return slice_text(v.text(), resolve_slice(start, stop, step, v.text().num_chars()), env);
  if (!v.is(Kind::kSequence) || !is_indexable(v.sequence())) raise("'{}' object can't be sliced", type_name(v));
  const Sequence& s = v.sequence();
  const SliceRange range = resolve_slice(start, stop, step, s.items.size());
  env.budget.charge_items(range.count);
  std::vector<Value> items;
  items.reserve(range.count);
  for (std::size_t i = 0; i < range.count; ++i) {
    items.push_back(s.items[static_cast<std::size_t>(range.start + static_cast<Int>(i) * range.step)]);
  }
  return make_sequence(s.kind, std::move(items));
}

std::shared_ptr<const Sequence> iterate(const Value& v, Environment& env) {
  auto out = std::make_shared<Sequence>();
  switch (v.kind()) {
    case Kind::kUndefined: return out;
    case Kind::kSequence: return v.sequence_pointer();
    case Kind::kText: {
      const Text& text = v.text();
      env.budget.charge_items(text.num_chars());
      for (std::size_t i = 0; i < text.size();) {
        const std::size_t end = i + next_valid_utf8(text.view(), i).bytes;
        out->items.emplace_back(text.slice(i, end));
        i = end;
      }
      return out;
    }
    case Kind::kDict:
      env.budget.charge_items(v.dict().size());
      for (const auto& entry : v.dict().entries()) out->items.push_back(entry.first);
      return out;
    default: raise("'{}' object is not iterable", type_name(v));
  }
}

}  // namespace qwell::jinja
