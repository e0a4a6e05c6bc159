// Filters whose subject is a collection.

#include <algorithm>
#include <map>
#include <set>

#include "text/jinja/builtins.h"
#include "text/jinja/operations.h"
#include "text/jinja/print.h"
#include "text/jinja/text_functions.h"

namespace qwell::jinja {
namespace {

Value generator(std::vector<Value> items) { return make_sequence(SequenceKind::kGenerator, std::move(items)); }
Value pair(const Value& a, const Value& b) { return make_sequence(SequenceKind::kTuple, {a, b}); }

Value length(const Value& v, Arguments& a, Environment&) {
  a.done();
  switch (v.kind()) {
    case Kind::kUndefined: return Int{0};
    case Kind::kText: return integer(v.text().num_chars());
    case Kind::kDict: return integer(v.dict().size());
    case Kind::kLoop: return integer(v.loop().items->items.size());
    case Kind::kSequence:
      if (v.sequence().kind != SequenceKind::kGenerator) return integer(v.sequence().items.size());
      break;
    default: break;
  }
  raise("object of type '{}' has no len()", type_name(v));
}

// "a.b.0": items of items; whole numbers are indices. With a fallback (not none), it stands for what is undefined.
class AttributePath {
 public:
  explicit AttributePath(const Value& path, Value fallback = {}) : fallback_(std::move(fallback)) {
    if (path.is_integer()) {
      parts_.push_back(path);
      return;
    }
    if (path.is(Kind::kNone)) return;
    if (!path.is(Kind::kText)) raise("an attribute must be a string or an integer, got {}", type_name(path));
    add(path.text().view());
  }

  Value operator()(const Value& item, Environment& env) const {
    Value v = item;
    for (const Value& part : parts_) {
      v = item_of(v, part, env);
      if (v.is(Kind::kUndefined) && !fallback_.is(Kind::kNone)) v = fallback_;
    }
    return v;
  }

 private:
  void add(std::string_view path) {
    while (true) {
      const std::size_t dot = std::min(path.find('.'), path.size());
      const std::string_view part = path.substr(0, dot);
      const bool is_index = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string_view::npos;
      parts_.push_back(is_index ? Value(static_cast<Int>(std::stoll(std::string(part)))) : trusted(std::string(part)));
      if (dot == path.size()) return;
      path.remove_prefix(dot + 1);
    }
  }

  std::vector<Value> parts_;
  Value fallback_;
};

// Strings differ only by case unless asked otherwise.
Value sort_key(const Value& v, bool case_sensitive, Environment& env) {
  return v.is(Kind::kText) && !case_sensitive ? Value(change_case(v.text(), Case::kLower, env.budget)) : v;
}

using Keyed = std::pair<Value, Value>;  // key, item

std::vector<Value> sorted_by_key(std::vector<Keyed> items, bool reverse, Environment& env) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? order(b.first, a.first, env.budget) < 0 : order(a.first, b.first, env.budget) < 0;
  });
  std::vector<Value> out;
  for (auto& item : items) out.push_back(std::move(item.second));
  return out;
}

Value sorted(const Value& v, Arguments& a, Environment& env) {
  const bool reverse = truth(a.take_or("reverse", false));
  const bool case_sensitive = truth(a.take_or("case_sensitive", false));
  const Value attribute = a.take_or("attribute", {});
  a.done();
  std::vector<AttributePath> paths;
  if (attribute.is(Kind::kText)) {
    for (const Value& path : split(attribute.text(), trusted(","), -1, env.budget)) paths.emplace_back(path);
  } else {
    paths.emplace_back(attribute);
  }
  std::vector<Keyed> items;
  const auto all = iterate(v, env);
  for (const Value& item : all->items) {
    std::vector<Value> keys;
    for (const auto& path : paths) keys.push_back(sort_key(path(item, env), case_sensitive, env));
    items.emplace_back(make_list(std::move(keys)), item);
  }
  env.budget.charge_items(items.size());
  return make_list(sorted_by_key(std::move(items), reverse, env));
}

Value dict_sorted(const Value& v, Arguments& a, Environment& env) {
  const bool case_sensitive = truth(a.take_or("case_sensitive", false));
  const Value by = a.take_or("by", trusted("key"));
  const bool reverse = truth(a.take_or("reverse", false));
  a.done();
  const std::string_view by_name = by.is(Kind::kText) ? by.text().view() : std::string_view();
  if (by_name != "key" && by_name != "value") raise("You can only sort by either \"key\" or \"value\"");
  if (v.is(Kind::kUndefined)) v.raise_undefined();
  if (!v.is(Kind::kDict)) raise("'{} object' has no attribute 'items'", type_name(v));
  std::vector<Keyed> items;
  for (const auto& [key, value] : v.dict().entries()) {
    items.emplace_back(sort_key(by_name == "key" ? key : value, case_sensitive, env), pair(key, value));
  }
  env.budget.charge_items(items.size());
  return make_list(sorted_by_key(std::move(items), reverse, env));
}

Value unique(const Value& v, Arguments& a, Environment& env) {
  const bool case_sensitive = truth(a.take_or("case_sensitive", false));
  const AttributePath path(a.take_or("attribute", {}));
  a.done();
  Dict seen;
  std::vector<Value> out;
  const auto all = iterate(v, env);
  for (const Value& item : all->items) {
    const Value key = sort_key(path(item, env), case_sensitive, env);
    charge_key(key, env.budget);
    if (seen.find(key) != nullptr) continue;
    seen.set(key, {});
    out.push_back(item);
  }
  env.budget.charge_items(out.size());
  return generator(std::move(out));
}

Value extreme(const Value& v, Arguments& a, Environment& env, bool largest) {
  const bool case_sensitive = truth(a.take_or("case_sensitive", false));
  const AttributePath path(a.take_or("attribute", {}));
  a.done();
  const auto items = iterate(v, env);
  if (items->items.empty()) return undefined("No aggregated item, sequence was empty.");
  Value best = items->items.front();
  Value best_key = sort_key(path(best, env), case_sensitive, env);
  for (std::size_t i = 1; i < items->items.size(); ++i) {
    const Value key = sort_key(path(items->items[i], env), case_sensitive, env);
    const bool better = largest ? order(key, best_key, env.budget, ">") > 0 : order(key, best_key, env.budget) < 0;
    if (!better) continue;
    best = items->items[i];
    best_key = key;
  }
  return best;
}

Value smallest(const Value& v, Arguments& a, Environment& env) { return extreme(v, a, env, false); }
Value largest(const Value& v, Arguments& a, Environment& env) { return extreme(v, a, env, true); }

Value sum(const Value& v, Arguments& a, Environment& env) {
  const AttributePath path(a.take_or("attribute", {}));
  Value total = a.take_or("start", Int{0});
  a.done();
  if (total.is(Kind::kText)) raise("sum() can't sum strings [use ''.join(seq) instead]");
  const auto all = iterate(v, env);
  for (const Value& item : all->items) total = arithmetic(BinaryOp::kAdd, total, path(item, env), env);
  return total;
}

Value first(const Value& v, Arguments& a, Environment& env) {
  a.done();
  const auto items = iterate(v, env);
  return items->items.empty() ? undefined("No first item, sequence was empty.") : items->items.front();
}

Value last(const Value& v, Arguments& a, Environment& env) {
  a.done();
  if (v.is(Kind::kSequence) && v.sequence().kind == SequenceKind::kGenerator) {
    raise("'{}' object is not reversible", type_name(v));
  }
  const auto items = iterate(v, env);
  return items->items.empty() ? undefined("No last item, sequence was empty.") : items->items.back();
}

Value as_list(const Value& v, Arguments& a, Environment& env) {
  a.done();
  const auto items = iterate(v, env);
  env.budget.charge_items(items->items.size());
  return make_list(items->items);
}

Value reversed(const Value& v, Arguments& a, Environment& env) {
  a.done();
  if (v.is(Kind::kText)) return slice_of(v, {}, {}, Int{-1}, env);
  const auto items = iterate(v, env);
  env.budget.charge_items(items->items.size());
  return generator({items->items.rbegin(), items->items.rend()});
}

Value joined(const Value& v, Arguments& a, Environment& env) {
  const Value separator = a.take_or("d", Text());
  const Value attribute = a.take_or("attribute", {});
  a.done();
  const auto items = iterate(v, env);
  env.budget.charge_items(items->items.size());
  if (attribute.is(Kind::kNone)) return join(to_str(separator), items->items);
  const AttributePath path(attribute);
  std::vector<Value> values;
  for (const Value& item : items->items) values.push_back(path(item, env));
  return join(to_str(separator), values);
}

Value items_of(const Value& v, Arguments& a, Environment& env) {
  a.done();
  if (v.is(Kind::kUndefined)) return generator({});
  if (!v.is(Kind::kDict)) raise("Can only get item pairs from a mapping.");
  env.budget.charge_items(v.dict().size());
  std::vector<Value> out;
  for (const auto& [key, value] : v.dict().entries()) out.push_back(pair(key, value));
  return generator(std::move(out));
}

Value attribute(const Value& v, Arguments& a, Environment&) {
  const Value name = a.required("name");
  a.done();
  // Only what the type itself has: the items of a dict are not its attributes.
  if (v.is(Kind::kDict)) {
    const Text text = to_str(name);
    if (!has_method(v, text.view())) return undefined("'dict object' has no attribute '{}'", text.view());
  }
  return attribute_of(v, to_str(name).view());
}

// What is false need not be iterable.
std::shared_ptr<const Sequence> iterate_if_true(const Value& v, Environment& env) {
  return truth(v) ? iterate(v, env) : std::make_shared<const Sequence>();
}

Value mapped(const Value& v, Arguments& a, Environment& env) {
  const auto items = iterate_if_true(v, env);
  env.budget.charge_items(items->items.size());
  std::vector<Value> out;
  if (a.positional().empty()) {
    const Value path_given = a.required("attribute");
    const AttributePath path(path_given, a.take_or("default", {}));
    a.done();
    for (const Value& item : items->items) out.push_back(path(item, env));
    return generator(std::move(out));
  }
  const Text name = to_str(a.positional().front());
  Filter* const filter = find_filter(name.view());
  if (filter == nullptr) raise("No filter named '{}'.", name.view());
  for (const Value& item : items->items) {
    const Budget::Level level(env.budget);
    Arguments rest = a.rest(name.view(), 1);
    out.push_back(filter(item, rest, env));
  }
  return generator(std::move(out));
}

Value chosen(const Value& v, Arguments& a, Environment& env, bool by_attribute, bool wanted) {
  if (by_attribute && a.positional().empty()) raise("Missing parameter for attribute name");
  const AttributePath path(by_attribute ? a.positional().front() : Value());
  const std::size_t place = by_attribute ? 1 : 0;
  Test* test = nullptr;
  Text name;
  if (a.positional().size() > place) {
    name = to_str(a.positional()[place]);
    test = find_test(name.view());
    if (test == nullptr) raise("No test named '{}'.", name.view());
  }
  const auto items = iterate_if_true(v, env);
  env.budget.charge_items(items->items.size());
  std::vector<Value> out;
  for (const Value& item : items->items) {
    const Value subject = path(item, env);
    bool passes = false;
    if (test == nullptr) {
      passes = truth(subject);
    } else {
      Arguments rest = a.rest(name.view(), place + 1);
      passes = test(subject, rest, env);
    }
    if (passes == wanted) out.push_back(item);
  }
  return generator(std::move(out));
}

Value selected(const Value& v, Arguments& a, Environment& env) { return chosen(v, a, env, false, true); }
Value rejected(const Value& v, Arguments& a, Environment& env) { return chosen(v, a, env, false, false); }
Value selected_by(const Value& v, Arguments& a, Environment& env) { return chosen(v, a, env, true, true); }
Value rejected_by(const Value& v, Arguments& a, Environment& env) { return chosen(v, a, env, true, false); }

Value batched(const Value& v, Arguments& a, Environment& env) {
  const Value size_given = a.required("linecount");
  const Value fill = a.take_or("fill_with", {});
  a.done();
  if (!size_given.is_integer() || size_given.integer() < 1) raise("batch(): linecount must be a positive integer");
  const auto items = iterate(v, env);
  env.budget.charge_items(items->items.size());
  const auto size = static_cast<std::size_t>(std::min<Int>(size_given.integer(), static_cast<Int>(kListItemsMax)));
  std::vector<Value> out;
  for (std::size_t i = 0; i < items->items.size(); i += size) {
    const std::size_t end = std::min(i + size, items->items.size());
    std::vector<Value> row(items->items.begin() + static_cast<std::ptrdiff_t>(i), items->items.begin() + static_cast<std::ptrdiff_t>(end));
    if (!fill.is(Kind::kNone)) {
      env.budget.charge_items(size - row.size());
      row.resize(size, fill);
    }
    out.push_back(make_list(std::move(row)));
  }
  return generator(std::move(out));
}

}  // namespace

Filter* find_list_filter(std::string_view name) {
  static const std::map<std::string_view, Filter*> kFilters = {{"length", length},
                                                               {"count", length},
                                                               {"first", first},
                                                               {"last", last},
                                                               {"list", as_list},
                                                               {"reverse", reversed},
                                                               {"join", joined},
                                                               {"items", items_of},
                                                               {"sort", sorted},
                                                               {"dictsort", dict_sorted},
                                                               {"unique", unique},
                                                               {"min", smallest},
                                                               {"max", largest},
                                                               {"sum", sum},
                                                               {"attr", attribute},
                                                               {"map", mapped},
                                                               {"select", selected},
                                                               {"reject", rejected},
                                                               {"selectattr", selected_by},
                                                               {"rejectattr", rejected_by},
                                                               {"batch", batched}};
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace qwell::jinja
