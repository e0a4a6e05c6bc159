#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/print.h"
#include "text/unicode.h"

namespace qwell::jinja {
namespace {

void check_nesting(int nesting) {
  if (nesting > kValueNestingMax) raise_limit("nested values", kValueNestingMax);
}

// Equal for keys that Python takes for the same, different for all others.
std::string canonical_key(const Value& key) {
  switch (key.kind()) {
    case Kind::kText: return "s" + std::string(key.text().view());
    case Kind::kNone: return "n";
    case Kind::kBool:
    case Kind::kInt: return "i" + print_integer(key.integer());
    case Kind::kFloat: {
      const double v = key.number();
      if (v == std::floor(v) && std::fabs(v) < 1e18) return "i" + print_integer(static_cast<Int>(v));
      return "f" + print_float(v);
    }
    case Kind::kSequence:
      if (key.sequence().kind == SequenceKind::kTuple || key.sequence().kind == SequenceKind::kRange) {
        std::string out = key.sequence().kind == SequenceKind::kTuple ? "t" : "r";
        for (const Value& item : key.sequence().items) {
          const std::string part = canonical_key(item);
          out += fmt::format("{}:{}", part.size(), part);
        }
        return out;
      }
      break;
    case Kind::kUndefined: return "u";
    default: break;
  }
  raise("unhashable type: '{}'", type_name(key));
}

}  // namespace

bool Value::same(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kBool: return boolean() == other.boolean();
    case Kind::kInt: return integer() == other.integer();
    case Kind::kFloat: return number() == other.number();
    case Kind::kText: return text() == other.text();
    case Kind::kSequence: return &sequence() == &other.sequence();
    case Kind::kDict: return &dict() == &other.dict();
    case Kind::kNamespace: return &name_space() == &other.name_space();
    case Kind::kLoop: return &loop() == &other.loop();
    case Kind::kMacro: return &macro() == &other.macro();
    case Kind::kMethod: return &method() == &other.method();
    case Kind::kGlobal: return global() == other.global();
  }
  return false;
}

int Value::nesting() const {
  if (is(Kind::kSequence)) return sequence().nesting;
  if (is(Kind::kDict)) return dict().nesting();
  if (is(Kind::kMethod)) return method().receiver.nesting() + 1;
  return 0;
}

void Value::raise_undefined() const {
  const auto& message = std::get<Undefined>(state_).message;
  raise("{}", message == nullptr ? "a value is undefined" : *message);
}

Value make_sequence(SequenceKind kind, std::vector<Value> items) {
  int nesting = 0;
  for (const Value& item : items) nesting = std::max(nesting, item.nesting());
  check_nesting(nesting + 1);
  return std::make_shared<const Sequence>(Sequence{kind, std::move(items), nesting + 1});
}

void charge_key(const Value& key, Budget& budget) {
  budget.charge(1);
  if (key.is(Kind::kText)) budget.charge_bytes(key.text().size());
  if (!key.is(Kind::kSequence)) return;
  for (const Value& item : key.sequence().items) charge_key(item, budget);
}

Value make_dict(Dict dict) {
  check_nesting(dict.nesting());
  return std::make_shared<const Dict>(std::move(dict));
}

const Value* Dict::find(std::string_view key) const {
  if (index_.empty()) {
    for (const auto& [k, v] : entries_) {
      if (k.is(Kind::kText) && k.text().view() == key) return &v;
    }
    return nullptr;
  }
  const auto found = index_.find("s" + std::string(key));
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Dict::find(const Value& key) const {
  if (key.is(Kind::kText)) return find(key.text().view());
  const std::string canonical = canonical_key(key);
  if (!index_.empty()) {
    const auto found = index_.find(canonical);
    return found == index_.end() ? nullptr : &entries_[found->second].second;
  }
  for (const auto& [k, v] : entries_) {
    if (!k.is(Kind::kText) && canonical_key(k) == canonical) return &v;
  }
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  nesting_ = std::max({nesting_, value.nesting() + 1, key.nesting() + 1});
  check_nesting(nesting_);
  if (const Value* const there = find(key)) {
    const auto entry = std::find_if(entries_.begin(), entries_.end(), [there](const Entry& e) { return &e.second == there; });
    entry->second = std::move(value);
    return;
  }
  entries_.emplace_back(key, std::move(value));
  if (entries_.size() < kIndexFrom) return;
  if (index_.empty()) {
    for (std::size_t i = 0; i + 1 < entries_.size(); ++i) index_.emplace(canonical_key(entries_[i].first), i);
  }
  index_.emplace(canonical_key(key), entries_.size() - 1);
}

namespace {

Value text_from_json(std::string_view bytes, bool trusted) {
  if (valid_utf8(bytes)) return Text(std::string(bytes), trusted);
  std::string repaired;
  append_repaired_utf8(repaired, bytes);
  return Text(std::move(repaired), trusted);
}

}  // namespace

Value from_json(const json::value& v, bool trusted, int level) {
  check_nesting(level);
  switch (v.kind()) {
    case json::kind::null: return {};
    case json::kind::bool_: return v.get_bool();
    case json::kind::int64: return Int{v.get_int64()};
    case json::kind::uint64: return Int{v.get_uint64()};
    case json::kind::double_: return v.get_double();
    case json::kind::string: return text_from_json(v.get_string(), trusted);
    case json::kind::array: {
      std::vector<Value> items;
      items.reserve(v.get_array().size());
      for (const auto& item : v.get_array()) items.push_back(from_json(item, trusted, level + 1));
      return make_list(std::move(items));
    }
    case json::kind::object: {
      Dict dict;
      for (const auto& item : v.get_object()) dict.set(text_from_json(item.key(), trusted), from_json(item.value(), trusted, level + 1));
      return make_dict(std::move(dict));
    }
  }
  return {};
}

std::string_view type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kText: return "str";
    case Kind::kSequence:
      switch (v.sequence().kind) {
        case SequenceKind::kList: return "list";
        case SequenceKind::kTuple: return "tuple";
        case SequenceKind::kRange: return "range";
        case SequenceKind::kKeys: return "dict_keys";
        case SequenceKind::kValues: return "dict_values";
        case SequenceKind::kItems: return "dict_items";
        case SequenceKind::kGenerator: return "generator";
      }
      break;
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "Namespace";
    case Kind::kLoop: return "LoopContext";
    case Kind::kMacro: return "Macro";
    case Kind::kMethod: return "builtin_function_or_method";
    case Kind::kGlobal: return "function";
  }
  return "object";
}

bool truth(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool: return v.boolean();
    case Kind::kInt: return v.integer() != 0;
    case Kind::kFloat: return v.number() != 0.0;
    case Kind::kText: return !v.text().empty();
    case Kind::kSequence: return v.sequence().kind == SequenceKind::kGenerator || !v.sequence().items.empty();
    case Kind::kDict: return v.dict().size() != 0;
    default: return true;
  }
}

}  // namespace qwell::jinja
