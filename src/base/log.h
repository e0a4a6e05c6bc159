#pragma once
// Log lines go to standard error through spdlog's default logger; standard output belongs to the commands' results.
// log::info("loaded {} tensors", n). The level is set once, by the program.

#include <spdlog/spdlog.h>

#include <string_view>

namespace qwell::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// level: trace, debug, info, warning, error, critical, off. Throws Error for another word.
void set_up(std::string_view level);

}  // namespace qwell::log
