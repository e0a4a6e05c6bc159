#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <string>

#include "base/error.h"

namespace qwell::log {

void set_up(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    fail("log level \"{}\" is not one of trace, debug, info, warning, error, critical, off", level);
  }
  auto logger = std::make_shared<spdlog::logger>("qwell", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace qwell::log
