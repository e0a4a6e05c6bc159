#pragma once
// Parts of the request parsers.

#include "server/api_request.h"
#include "server/field_reader.h"

namespace qwell::server {

// The object, or a failure that says what the body is instead.
Result<const json::object*> object_of(const json::value& body);

// Everything in GenerationOptions but what logprobs means, which differs between the two APIs.
GenerationOptions parse_generation_options(FieldReader& reader, const ApiOptions& options);

// messages, tools, tool_choice, add_generation_prompt, continue_final_message, chat_template_kwargs.
ChatInput parse_chat_input(FieldReader& reader, const ApiLimits& limits);

// Array items as token ids: integers in [0, 2^31).
std::vector<TokenId> parse_token_ids(FieldReader& reader, std::string_view param, const json::array& items);

}  // namespace qwell::server
