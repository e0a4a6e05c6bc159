#include "text/jinja/template.h"

#include "base/check.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace qwell::jinja {

struct Template::Tree {
  Block block;
  Limits limits;
};

Template Template::parse(std::string_view source, std::string_view name, const Limits& limits) {
  return Template(std::make_shared<const Tree>(Tree{jinja::parse(source, name, limits), limits}));
}

Result<Text> Template::render(const Value& variables, std::time_t now) const {
  QWELL_CHECK(variables.is(Kind::kDict), "variables are {}", type_name(variables));
  Interpreter interpreter(tree_->block, variables, tree_->limits, now);
  try {
    return interpreter.run();
  } catch (const RenderError& error) {
    if (error.by_template) return Failure{error.code, error.message, {}};
    return failure(error.code, "chat template, line {}: {}", interpreter.line(), error.message);
  }
}

}  // namespace qwell::jinja
