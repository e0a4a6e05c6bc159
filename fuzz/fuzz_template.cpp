// Fuzz target: any template either is refused or renders within its limits; trust never changes what is printed; a chat template that was
// accepted takes any messages. The input is a template, a zero byte, and JSON (an object of variables, or a list of messages).

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "text/chat_template.h"
#include "text/jinja/template.h"

namespace qwell {
namespace {

void want(bool condition) {
  if (!condition) std::abort();
}

constexpr std::string_view kVariables =
    R"({"messages": [{"role": "user", "content": "Hé <think>"}], "tools": [{"function": {"name": "f"}}],)"
    R"( "s": "a b", "n": 3, "f": 1.5, "t": true})";

void run(std::string_view input) {
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const std::string_view source = input.substr(0, cut);
  auto given = parse_json(cut < input.size() ? input.substr(cut + 1) : kVariables);
  const json::value variables = given ? std::move(given).value() : parse_json_file(kVariables, "variables");
  jinja::Limits limits;
  limits.steps_max = 50'000;
  limits.output_bytes_max = 100'000;
  try {
    if (variables.is_object()) {
      const auto code = jinja::Template::parse(source, "fuzz", limits);
      const auto untrusted = code.render(jinja::from_json(variables, false));
      const auto trusted = code.render(jinja::from_json(variables, true));
      want(untrusted.ok() == trusted.ok());
      if (untrusted) want(untrusted->view() == trusted->view());
      if (trusted) trusted->for_each_run([](std::string_view, bool is_trusted) { want(is_trusted); });
    } else if (variables.is_array()) {
      ChatRenderOptions options;
      options.add_generation_prompt = false;
      options.continue_final_message = source.size() % 2 == 0;
      (void)ChatTemplate::from_text(source, nullptr, "fuzz").render(variables.get_array(), options);
    }
  } catch (const Error&) {  // refused
  }
}

}  // namespace
}  // namespace qwell

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  qwell::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
