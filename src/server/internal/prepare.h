#pragma once
// From a request's body to what the Generator is asked and how the answer is to be shaped. Everything that can be refused is refused here,
// before it costs anything. Safe on any thread.

#include <string_view>
#include <variant>
#include <vector>

#include "server/answer_format.h"
#include "server/api_error.h"
#include "server/internal/context.h"

namespace qwell::server {

// Choice i is sample i % n of prompt i / n.
struct Job {
  std::vector<PromptPart> prompts;
  std::vector<GenerationRequest> requests;  // one per prompt, for sample 0
  int n = 1;
  AnswerRules rules;
  std::vector<TokenId> named_stop_ids;  // those of the request itself
  bool skip_special_tokens = true;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  std::shared_ptr<const AnswerFormat> format;
};

using Prepared = std::variant<Job, ApiError>;

Prepared prepare_chat(const Context& context, std::string_view body);
Prepared prepare_completion(const Context& context, std::string_view body);

// The name under which the answer is given, or model_not_found. A request without a name means the model there is.
std::variant<std::string, ApiError> resolve_model(const Context& context, bool given, const std::string& name);

}  // namespace qwell::server
