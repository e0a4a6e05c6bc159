#pragma once
// Conversations to prompts, by the checkpoint's own chat template.

#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/jinja/template.h"

namespace qwell {

// A stretch of a prompt. Trusted text was written by the template's author (and the special tokens of tokenizer_config.json); untrusted
// characters stem from strings of the request, whatever was done to them: they may spell control tokens, but never should become them
// where an operator wants user content to be text.
struct PromptSegment {
  std::string text;
  bool trusted = true;
};

struct ChatRenderOptions {
  json::value tools;  // array of OpenAI tools; null or empty: the template sees none
  bool add_generation_prompt = true;
  // The last message is a prefix that the answer goes on from: the prompt ends with its content, without an end of turn.
  // Can't be together with add_generation_prompt.
  bool continue_final_message = false;
  json::object kwargs;  // more variables (chat_template_kwargs), for example enable_thinking
  std::time_t now = 0;  // for strftime_now; 0: the time of the call
};

// Immutable and cheap to copy; safe from many threads.
class ChatTemplate {
 public:
  // From a checkpoint's folder: chat_template.jinja, else chat_template of tokenizer_config.json (a string, or a list of {name, template}
  // where "default" is used, and "tool_use", if there, when tools are given). Without any of them, or with an empty one, has_template() is
  // false. Throws Error that names file, line and construct: whatever the interpreter does not know is refused here.
  static ChatTemplate load(const std::filesystem::path& folder);

  // The same from texts; errors begin with `name`. `tokenizer_config` may be null.
  static ChatTemplate from_text(std::string_view source, const json::value& tokenizer_config, std::string_view name);

  bool has_template() const { return plain_.has_value(); }
  // Whether the template itself knows content that is a list of parts; found out by trying. Where it does not, it is given the texts of
  // the parts, joined by line breaks.
  bool takes_content_parts() const { return plain_.has_value() && plain_->takes_parts; }

  // The prompt; joining the segments' texts gives what Jinja2 would. Before rendering:
  //  - content that is null or missing becomes "", and an empty list too; parts are text (or refusal) or else refused;
  //  - tool_calls[].function.arguments that is a string of a JSON object becomes that object ("" an empty one), since templates print
  //    objects in the form that the model was trained on; other strings stay.
  // Failures: kInvalidArgument with the template's own words where it refuses (raise_exception) or can't be evaluated, for messages and
  // kwargs of a wrong form (`param` names the field), and without a template; kTooLarge for exceeded limits.
  Result<std::vector<PromptSegment>> render(const json::array& messages, const ChatRenderOptions& options) const;

 private:
  struct Variant {
    jinja::Template code;
    bool takes_parts = false;
  };
  void read_special_tokens(const json::object& config);
  void read_templates(const json::value& given, const std::string& name);
  Variant make_variant(std::string_view source, const std::string& name) const;
  Result<jinja::Text> run(const Variant& variant, const json::array& messages, const ChatRenderOptions& options) const;

  std::optional<Variant> plain_;
  std::optional<Variant> with_tools_;
  std::vector<std::pair<std::string, std::string>> special_tokens_;  // bos_token and the like
};

// The segments as one text.
std::string join_segments(const std::vector<PromptSegment>& segments);

}  // namespace qwell
