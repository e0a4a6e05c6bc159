#pragma once
// What Python's str can do, on texts that keep their trust. Positions are bytes.

#include <vector>

#include "text/jinja/builtins.h"

namespace qwell::jinja {

enum class Sides { kLeft, kRight, kBoth };
// Without `chars` (none) white space is stripped; chars is a set of characters.
Text strip(const Text& text, Sides sides, const Value& chars = {});

// At most `splits_max` cuts, negative: all of them. Without a separator (none) runs of white space separate, and nothing is empty.
std::vector<Value> split(const Text& text, const Value& separator, Int splits_max, Budget& budget);
std::vector<Value> split_from_right(const Text& text, const Value& separator, Int splits_max, Budget& budget);
std::vector<Value> split_lines(const Text& text, bool keep_ends, Budget& budget);

// The first `count` occurrences, negative: all of them.
Text replace(const Text& text, const Text& from, const Text& to, Int count);
Text join(const Text& separator, const std::vector<Value>& items);

enum class Case { kUpper, kLower, kSwapped };
Text change_case(const Text& text, Case to, Budget& budget);
Text capitalize(const Text& text, Budget& budget);      // first character to title case, the rest to lower case
Text title(const Text& text, Budget& budget);           // str.title(): every run of letters
Text title_by_words(const Text& text, Budget& budget);  // the filter: what follows a space, '-' or an opening bracket
bool is_cased_as(const Text& text, Case to);            // str.isupper(), str.islower()

// Adds `fill` on both sides up to `width` characters; `left` says how much of it goes to the left of the total.
Text pad(const Text& text, Int width, const Text& fill, std::size_t (*left)(std::size_t total, Int width));

}  // namespace qwell::jinja
