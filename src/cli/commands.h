#pragma once
// The subcommands. Each add_...() declares its flags on the application and, when chosen, stores what is to run in `chosen`.

#include <functional>

namespace CLI {
class App;
}

namespace qwell {

using Command = std::function<int()>;

void add_serve(CLI::App& app, Command& chosen);
void add_demo(CLI::App& app, Command& chosen);
void add_generate(CLI::App& app, Command& chosen);
void add_chat(CLI::App& app, Command& chosen);
void add_logits(CLI::App& app, Command& chosen);
void add_tokenize(CLI::App& app, Command& chosen);
void add_eval(CLI::App& app, Command& chosen);
void add_inspect(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);

}  // namespace qwell
