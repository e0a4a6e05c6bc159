#pragma once
// Jinja templates as chat templates use them: those of Jinja2's immutable sandbox with trim_blocks, lstrip_blocks and loop controls, and
// Hugging Face's additions: raise_exception, strftime_now, the generation block, and a tojson that keeps key order and non-ASCII.
//
// Known: set (names, namespaces, several at once, blocks), if, for (condition, else, loop.*, break, continue), macro, call, filter, with,
// raw, generation; all of Jinja's expressions; the filters, tests and methods listed in text_filters.cpp, list_filters.cpp,
// value_tests.cpp and methods.cpp; range, namespace, dict. Results are Python's, with these differences: integers end at 128 bits,
// generators may be read again, and no string is "safe", so `escape` always escapes and `safe` changes nothing.

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace qwell::jinja {

// Immutable and cheap to copy; safe from many threads.
class Template {
 public:
  // Throws Error "`name`:line: what" for broken templates and for everything that is not known, wherever it stands.
  static Template parse(std::string_view source, std::string_view name, const Limits& limits = {});

  // `variables` is a dict. A template that fails (raise_exception, an undefined value, a wrong type) is kInvalidArgument with its message,
  // an exceeded limit kTooLarge. `now` is what strftime_now tells, in the local time zone.
  Result<Text> render(const Value& variables, std::time_t now = 0) const;

 private:
  struct Tree;
  explicit Template(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const Tree> tree_;
};

}  // namespace qwell::jinja
