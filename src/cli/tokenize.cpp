#include <CLI/CLI.hpp>

#include "base/file.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "text/tokenizer.h"

namespace qwell {
namespace {

struct Flags {
  std::string model, text, file, decode;
  bool json = false;
};

int print_text(const Tokenizer& tokenizer, const Flags& flags) {
  const std::string text = tokenizer.decode(parse_token_ids(flags.decode), false);
  if (!flags.json) {
    fmt::print("{}\n", text);
    return 0;
  }
  JsonWriter w;
  w.begin_object().field("text", text).end_object();
  fmt::print("{}\n", w.text());
  return 0;
}

int print_ids(const Tokenizer& tokenizer, const std::string& text, bool as_json) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  if (!as_json) {
    fmt::print("{}\n", fmt::join(ids, " "));
    return 0;
  }
  JsonWriter w;
  w.begin_object().key("ids").begin_array();
  for (const std::int32_t id : ids) w.value(id);
  w.end_array().key("pieces").begin_array();
  for (const std::int32_t id : ids) w.value(tokenizer.token_bytes(id));  // bytes that are no character become U+FFFD
  w.end_array().end_object();
  fmt::print("{}\n", w.text());
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("tokenize", "Encode text to token ids, or decode ids to text");
  command->add_option("--model", flags->model, "checkpoint folder; one that holds only tokenizer.json is enough")->required();
  auto* what = command->add_option_group("what", "exactly one of");
  what->add_option("--text", flags->text, "text to encode");
  what->add_option("--file", flags->file, "file whose bytes are encoded");
  what->add_option("--decode", flags->decode, "token ids to decode, as 1,2,3");
  what->require_option(1);
  command->add_flag("--json", flags->json, "print {\"ids\": [...], \"pieces\": [...]} or {\"text\": \"...\"}");
  command->callback([flags, command, &chosen] {
    const bool from_text = command->count("--text") > 0;
    const bool decodes = command->count("--decode") > 0;
    chosen = [flags, from_text, decodes] {
      const Tokenizer tokenizer = Tokenizer::load(flags->model);
      if (decodes) return print_text(tokenizer, *flags);
      return print_ids(tokenizer, from_text ? flags->text : read_file(flags->file), flags->json);
    };
  });
}

}  // namespace qwell
