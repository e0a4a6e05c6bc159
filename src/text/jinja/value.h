#pragma once
// The values of a template: Python's, as far as templates meet them. Values are immutable (but for namespaces) and cheap to copy.

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/jinja/limits.h"
#include "text/jinja/text.h"

namespace qwell::jinja {

// Python's integers have no bounds; ours hold all of JSON's, and an operation that leaves 128 bits is an error.
__extension__ typedef __int128 Int;

struct Sequence;
class Dict;
struct Namespace;
struct LoopState;
struct Macro;
struct Method;
enum class Global { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

struct Undefined {
  std::shared_ptr<const std::string> message;  // what to say where it is used; null: "a value is undefined"
};
struct None {};

// In the order of Value::State.
enum class Kind { kUndefined, kNone, kBool, kInt, kFloat, kText, kSequence, kDict, kNamespace, kLoop, kMacro, kMethod, kGlobal };

class Value {
 public:
  Value() = default;  // none
  Value(Undefined v) : state_(std::move(v)) {}
  Value(bool v) : state_(v) {}
  Value(Int v) : state_(v) {}
  Value(double v) : state_(v) {}
  Value(Text v) : state_(std::move(v)) {}
  Value(std::shared_ptr<const Sequence> v) : state_(std::move(v)) {}
  Value(std::shared_ptr<const Dict> v) : state_(std::move(v)) {}
  Value(Namespace* v) : state_(v) {}
  Value(std::shared_ptr<const LoopState> v) : state_(std::move(v)) {}
  Value(std::shared_ptr<const Macro> v) : state_(std::move(v)) {}
  Value(std::shared_ptr<const Method> v) : state_(std::move(v)) {}
  Value(Global v) : state_(v) {}

  Kind kind() const { return static_cast<Kind>(state_.index()); }
  bool is(Kind k) const { return kind() == k; }
  bool is_number() const { return is(Kind::kInt) || is(Kind::kFloat) || is(Kind::kBool); }
  bool is_integer() const { return is(Kind::kInt) || is(Kind::kBool); }  // True is 1, as in Python

  bool boolean() const { return std::get<bool>(state_); }
  Int integer() const { return is(Kind::kBool) ? Int{boolean()} : std::get<Int>(state_); }
  double number() const { return is(Kind::kFloat) ? std::get<double>(state_) : static_cast<double>(integer()); }
  const Text& text() const { return std::get<Text>(state_); }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(state_); }
  const std::shared_ptr<const Sequence>& sequence_pointer() const { return std::get<std::shared_ptr<const Sequence>>(state_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(state_); }
  Namespace& name_space() const { return *std::get<Namespace*>(state_); }
  const LoopState& loop() const { return *std::get<std::shared_ptr<const LoopState>>(state_); }
  const Macro& macro() const { return *std::get<std::shared_ptr<const Macro>>(state_); }
  const Method& method() const { return *std::get<std::shared_ptr<const Method>>(state_); }
  Global global() const { return std::get<Global>(state_); }

  // The same object, not just an equal one.
  bool same(const Value& other) const;
  int nesting() const;  // 0 for what holds no values

  // Raises the error that using an undefined value is.
  [[noreturn]] void raise_undefined() const;

 private:
  using State =
      std::variant<Undefined, None, bool, Int, double, Text, std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Namespace*,
                   std::shared_ptr<const LoopState>, std::shared_ptr<const Macro>, std::shared_ptr<const Method>, Global>;
  State state_ = None{};
};

template <class... Args>
Value undefined(fmt::format_string<Args...> format, Args&&... args) {
  return Undefined{std::make_shared<const std::string>(fmt::format(format, std::forward<Args>(args)...))};
}

inline Value trusted(std::string text) { return Text(std::move(text), true); }
inline Value integer(std::size_t v) { return static_cast<Int>(v); }

// Everything that Python iterates by index: how it prints and what may be done with it differs.
enum class SequenceKind { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int nesting = 1;
};

// Raises where the nesting limit is exceeded.
Value make_sequence(SequenceKind kind, std::vector<Value> items);
inline Value make_list(std::vector<Value> items) { return make_sequence(SequenceKind::kList, std::move(items)); }

// The cost of looking a key up; before every use of a key that the template made.
void charge_key(const Value& key, Budget& budget);

// Keeps the order of insertion. Keys are what Python can hash; 1, 1.0 and true are one key.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  int nesting() const { return nesting_; }
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;  // raises for a key that can't be hashed
  // Replaces the value of a key that is there.
  void set(const Value& key, Value value);

 private:
  static constexpr std::size_t kIndexFrom = 9;  // smaller ones are searched one by one
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;  // canonical key -> entry; empty below kIndexFrom entries
  int nesting_ = 1;
};

Value make_dict(Dict dict);  // raises where the nesting limit is exceeded

struct Namespace {
  Dict attributes;
};

struct LoopState {
  std::shared_ptr<const Sequence> items;  // all that the loop visits
  std::size_t index = 0;
};

// `receiver.name`, not called yet.
struct Method {
  Value receiver;
  std::string name;
};

// What a request brings in is untrusted. Order of keys and the difference between 1 and 1.0 are kept; ill-formed UTF-8 becomes U+FFFD.
Value from_json(const json::value& v, bool trusted, int level = 0);

// Python's words for a value's type: "str", "NoneType".
std::string_view type_name(const Value& v);
bool truth(const Value& v);

}  // namespace qwell::jinja
