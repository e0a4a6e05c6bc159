// Rules about files and modules: who includes whom, and what is built at all.

#include <algorithm>
#include <array>

#include "base/check.h"
#include "tidy/rules.h"

namespace qwell::tidy {
namespace {

using Names = std::set<std::string_view>;

struct Library {
  std::string_view prefix;
  Names modules;
  std::string_view instead;
};

// Libraries that are slow to compile or easy to misuse stay behind one module's interface.
const std::array kLibraries = {
    Library{"boost/json", {"base"}, "base/json.h"},
    Library{"boost/beast", {"net"}, "net/http_server.h or net/http_client.h"},
    Library{"boost/asio", {"net"}, "net/http_server.h or net/http_client.h"},
    Library{"spdlog/", {"base"}, "base/log.h"},
    Library{"CLI/", {"cli"}, "a plain config struct that cli fills"},
    Library{"unicode/", {"text"}, "text/unicode.h"},
    Library{"openssl/", {"cache", "checkpoint"}, "the digests of checkpoint and cache"},
    Library{"nlohmann/", {}, "base/json.h"},
};

struct Include {
  std::string_view path;
  bool quoted = false;
  int line = 0;
};

std::vector<Include> includes_of(const Source& source) {
  std::vector<Include> found;
  for (std::size_t i = 0; i < source.code.size(); ++i) {
    std::string_view line = source.code[i];
    const std::size_t hash = line.find_first_not_of(' ');
    if (hash == std::string_view::npos || line[hash] != '#') continue;
    const std::size_t word = line.find_first_not_of(' ', hash + 1);
    if (word == std::string_view::npos || !line.substr(word).starts_with("include")) continue;
    line = source.lines[i];  // the path itself is a literal
    const std::size_t open = line.find_first_of("<\"", word);
    if (open == std::string_view::npos) continue;
    const std::size_t close = line.find_first_of(">\"", open + 1);
    if (close == std::string_view::npos) continue;
    found.push_back({line.substr(open + 1, close - open - 1), line[open] == '"', static_cast<int>(i) + 1});
  }
  return found;
}

std::string_view first_folder(std::string_view path) {
  const std::size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

const Module* find_module(std::string_view name) {
  const auto table = module_table();
  const auto at = std::ranges::find(table, name, &Module::name);
  return at == table.end() ? nullptr : &*at;
}

std::string listed(const Names& names) { return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, " ")); }

void check_include(const Source& source, const Include& include, const std::set<std::string>& files, std::vector<Finding>& out) {
  const std::string_view from = source.module();
  if (!include.quoted) {
    for (const Library& library : kLibraries) {
      if (!include.path.starts_with(library.prefix) || library.modules.contains(from) || from.empty()) continue;
      out.push_back({source.path, include.line, fmt::format("<{}> in {}; it belongs to {}", include.path, from, listed(library.modules)),
                     fmt::format("use {}", library.instead)});
    }
    return;
  }
  const std::string_view to = first_folder(include.path);
  if (source.under("src/") && !files.contains("src/" + std::string(include.path))) {
    out.push_back(
        {source.path, include.line, fmt::format("\"{}\" is no file under src/", include.path), "name it from src/, as \"module/file.h\""});
    return;
  }
  if (from.empty()) return;
  const Module* module = find_module(from);
  if (module == nullptr || from == to) return;
  if (!module->may_include.contains(to)) {
    out.push_back(
        {source.path, include.line, fmt::format("{} includes {}", from, include.path),
         fmt::format("{} may include {}: move the shared part down, or hand it in from above", from, listed(module->may_include))});
  } else if (include.path.find("/internal/") != std::string_view::npos) {
    out.push_back({source.path, include.line, fmt::format("{} includes {}, internal to {}", from, include.path, to),
                   fmt::format("use a public header of {}", to)});
  }
}

// What stands between the parentheses of every call of `function`.
std::vector<std::vector<std::string>> cmake_calls(std::string_view cmake, std::string_view function) {
  std::vector<std::vector<std::string>> calls;
  const std::string call = std::string(function) + "(";
  for (std::size_t at = cmake.find(call); at != std::string_view::npos; at = cmake.find(call, at + 1)) {
    if (at > 0 && cmake[at - 1] != '\n') continue;  // a comment, or part of a longer name
    const std::string_view arguments = cmake.substr(at + call.size(), cmake.find(')', at) - at - call.size());
    auto& parts = calls.emplace_back();
    for (std::size_t begin = 0; (begin = arguments.find_first_not_of(" \n", begin)) != std::string_view::npos;) {
      const std::size_t end = std::min(arguments.find_first_of(" \n", begin), arguments.size());
      parts.emplace_back(arguments.substr(begin, end - begin));
      begin = end;
    }
  }
  return calls;
}

std::string without_extension(std::string_view path) { return std::string(path.substr(0, path.rfind('.'))); }

// The folder under tests/ of a test's source: "group" of tests/group/support/ranks.cpp.
std::string_view folder_under(std::string_view path, std::string_view top) { return first_folder(path.substr(top.size())); }

}  // namespace

std::span<const Module> module_table() {
  static const std::vector<Module> kTable = {
      {"base", {}},
      {"net", {"base"}},
      {"tensor", {"base"}},
      {"request", {"base"}},
      {"text", {"base"}},
      {"device", {"base", "tensor"}},
      {"checkpoint", {"base", "tensor"}},
      {"ops", {"base", "tensor", "device"}},
      {"cache", {"base", "tensor", "request", "device"}},
      {"group", {"base", "net", "tensor", "device", "ops"}},
      {"transfer", {"base", "net", "tensor", "device", "cache"}},
      {"model", {"base", "tensor", "device", "checkpoint", "ops", "cache", "group"}},
      {"engine", {"base", "net", "tensor", "request", "text", "device", "checkpoint", "ops", "cache", "group", "transfer", "model"}},
      {"control", {"base", "net", "request", "checkpoint", "transfer", "engine"}},
      {"server", {"base", "net", "text", "request", "control"}},
      {"forecast", {"base", "device", "checkpoint", "ops", "cache", "model", "engine", "control"}},
      {"convert", {"base", "tensor", "checkpoint", "device", "ops"}},
      {"bench",
       {"base", "net", "tensor", "request", "text", "device", "checkpoint", "ops", "cache", "group", "transfer", "model", "engine",
        "control", "forecast", "convert"}},
      {"cli",
       {"base", "net", "tensor", "request", "text", "device", "checkpoint", "ops", "cache", "group", "transfer", "model", "engine",
        "control", "server", "forecast", "convert", "bench"}},
  };
  return kTable;
}

std::map<std::string, std::set<std::string>> modules_in_cmake(std::string_view cmake) {
  std::map<std::string, std::set<std::string>> modules;
  for (const auto& call : cmake_calls(cmake, "qwell_module")) {
    QWELL_CHECK(!call.empty(), "a qwell_module() without a name in {} bytes", cmake.size());
    const auto depends = std::ranges::find(call, "DEPENDS");
    const auto packages = std::find(depends, call.end(), "PACKAGES");
    modules[call.front()] = depends == call.end() ? std::set<std::string>{} : std::set<std::string>(depends + 1, packages);
  }
  return modules;
}

std::set<std::string> names_in_cmake(std::string_view cmake, std::string_view function) {
  std::set<std::string> names;
  for (const auto& call : cmake_calls(cmake, function)) {
    if (!call.empty()) names.insert(call.front());
  }
  return names;
}

std::vector<Finding> check_includes(std::span<const Source> tree) {
  std::set<std::string> files;
  for (const Source& source : tree) files.insert(source.path);
  std::vector<Finding> out;
  for (const Source& source : tree) {
    if (source.under("src/") && !source.module().empty() && find_module(source.module()) == nullptr) {
      out.push_back({source.path, 0, fmt::format("src/{} is not in the table of modules", source.module()),
                     "put the file into a module, or add one to docs/architecture.md and tests/tidy/rules_modules.cpp"});
    }
    for (const Include& include : includes_of(source)) check_include(source, include, files, out);
  }
  return out;
}

std::vector<Finding> check_modules_in_cmake(std::span<const Source> tree, const std::map<std::string, std::set<std::string>>& modules) {
  std::vector<Finding> out;
  for (const auto& [name, depends] : modules) {
    const Module* module = find_module(name);
    for (const std::string& other : depends) {
      if (module == nullptr || module->may_include.contains(other)) continue;
      out.push_back({"CMakeLists.txt", 0, fmt::format("{} depends on {}", name, other),
                     fmt::format("it may depend on {}", listed(module->may_include))});
    }
  }
  for (const Source& source : tree) {
    const auto own = modules.find(std::string(source.module()));
    if (own == modules.end()) continue;
    for (const Include& include : includes_of(source)) {
      const std::string to(first_folder(include.path));
      if (!include.quoted || to == own->first || !modules.contains(to) || own->second.contains(to)) continue;
      out.push_back({source.path, include.line,
                     fmt::format("{} includes {}, which its line in CMakeLists.txt does not name", own->first, to),
                     fmt::format("add {} to its DEPENDS, if the table of modules allows it", to)});
    }
  }
  return out;
}

std::vector<Finding> check_dead_files(std::span<const Source> tree, const Targets& targets) {
  std::set<std::string> used;  // by somebody else than the .cpp of the same name
  for (const Source& source : tree) {
    for (const Include& include : includes_of(source)) {
      for (const char* folder : {"src/", "tests/"}) {
        const std::string path = folder + std::string(include.path);
        if (include.quoted && without_extension(path) != without_extension(source.path)) used.insert(path);
      }
    }
  }
  std::vector<Finding> out;
  for (const Source& source : tree) {
    const bool unit = source.path.ends_with(".cpp");
    if (!unit && !used.contains(source.path)) {
      out.push_back({source.path, 0, "nobody includes it", "remove it, or move what it declares into the .cpp"});
    } else if (unit && source.under("src/") && source.path != "src/main.cpp" && !targets.modules.contains(std::string(source.module()))) {
      out.push_back({source.path, 0, "no target builds it", "add a qwell_module line to CMakeLists.txt"});
    } else if (unit && source.under("tests/") && !targets.tests.contains(std::string(folder_under(source.path, "tests/")))) {
      out.push_back({source.path, 0, "no target builds it", "add a qwell_test line to tests/CMakeLists.txt"});
    } else if (unit && source.under("fuzz/") &&
               !targets.fuzz.contains(without_extension(source.path.substr(std::string_view("fuzz/fuzz_").size())))) {
      out.push_back({source.path, 0, "no target builds it", "name it fuzz_NAME.cpp and add a qwell_fuzz line to fuzz/CMakeLists.txt"});
    }
  }
  return out;
}

}  // namespace qwell::tidy
