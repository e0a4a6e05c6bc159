#pragma once
// Tokens to a tree. Whatever this interpreter does not know (a tag, filter, test, function, method) is refused here, not at first use.

#include <string_view>

#include "text/jinja/ast.h"

namespace qwell::jinja {

// Throws Error "`name`:line: what".
Block parse(std::string_view source, std::string_view name, const Limits& limits);

}  // namespace qwell::jinja
