#pragma once
// The two old ways of Python to format a string, in what templates use of them.

#include "text/jinja/builtins.h"

namespace qwell::jinja {

// format % values: %s %r %d %i %u %f %F %e %g %x %X %o %c %%, flags "-+ 0#", width, precision, %(name)s.
Text printf_format(const Text& format, const Value& values, Environment& env);

// format.format(...): {} {0} {name} {{ }}, with !s and !r; no format specifications.
Text brace_format(const Text& format, Arguments& arguments, Environment& env);

}  // namespace qwell::jinja
