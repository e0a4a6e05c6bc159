#pragma once
// Messages as chat templates want them: what ChatTemplate::render does before rendering.

#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace qwell {

// See ChatTemplate::render. `keep_parts`: lists of parts stay lists, of {"type": "text", "text": ...}.
Result<json::array> prepare_messages(const json::array& messages, bool keep_parts);

// Appends to the text of a prepared message's content.
void append_to_content(json::value& message, std::string_view text);

// Whether a string anywhere in `v` has `text` in it.
bool mentions(const json::value& v, std::string_view text);

}  // namespace qwell
