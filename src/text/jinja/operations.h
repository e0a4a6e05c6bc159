#pragma once
// Python's operators and Jinja's ways to reach into values.

#include "text/jinja/ast.h"

namespace qwell::jinja {

Value arithmetic(BinaryOp op, const Value& a, const Value& b, Environment& env);
Value negate(const Value& v);
bool equal(const Value& a, const Value& b, Budget& budget);
// Negative, zero, positive. Raises for values without an order; `op` is for its message.
int order(const Value& a, const Value& b, Budget& budget, std::string_view op = "<");
bool compare(CompareOp op, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);

// v.name: a method or attribute, else the item of that name, else undefined. Raises when v is undefined, as item_of does.
Value attribute_of(const Value& v, std::string_view name);
// v[key]: the item, else the attribute of that name, else undefined.
Value item_of(const Value& v, const Value& key, Environment& env);
// v[start:stop:step]; none where a bound is absent.
Value slice_of(const Value& v, const Value& start, const Value& stop, const Value& step, Environment& env);

// What a loop over v visits: items, keys, characters; nothing for undefined. Raises for values that can't be iterated.
std::shared_ptr<const Sequence> iterate(const Value& v, Environment& env);

// Position of `needle` at or behind `from`, or npos; linear time.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from = 0);

}  // namespace qwell::jinja
