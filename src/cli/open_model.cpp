#include "cli/chat_text.h"
#include "cli/engine_flags.h"
#include "server/chat_encoder.h"

namespace qwell {

SamplingParams sampling_defaults(const GenerationDefaults& defaults) {
  SamplingParams s;
  s.temperature = defaults.do_sample ? defaults.temperature : 0.0F;
  s.top_p = defaults.top_p;
  s.top_k = defaults.top_k;
  s.min_p = defaults.min_p;
  s.repetition_penalty = defaults.repetition_penalty;
  return s;
}

OpenModel open_model(const std::string& path) {
  OpenModel model;
  model.path = path;
  model.config = load_config(path);
  model.defaults = load_generation_config(path);
  model.checkpoint = std::make_unique<Checkpoint>(path);
  if (std::filesystem::exists(std::filesystem::path(path) / "tokenizer.json")) {
    model.tokenizer = Tokenizer::load(path);
    if (model.tokenizer->size() > model.config.vocab_size) {
      fail("{}: tokenizer.json has {} tokens, config.json: vocab_size {}", path, model.tokenizer->size(), model.config.vocab_size);
    }
  }
  model.stop_ids = stop_ids(model.config, model.defaults);
  model.model_id = model.checkpoint->digest();
  return model;
}

ChatText::ChatText(const OpenModel& model) : codec_(model.text(), server::make_chat_encoder(ChatTemplate::load(model.path))) {}

std::vector<TokenId> ChatText::render(const json::array& messages, bool add_generation_prompt) const {
  server::ChatInput chat;
  chat.messages = messages;
  chat.add_generation_prompt = add_generation_prompt;
  auto ids = codec_.encode_chat(chat);
  if (!ids) fail("chat template: {}", ids.failure().message);
  return std::move(*ids);
}

std::vector<TokenId> ChatText::user_turn(const std::string& text) const {
  return render({json::object{{"role", "user"}, {"content", text}}}, true);
}

}  // namespace qwell
