#pragma once
// Conversations as token ids, by a checkpoint's own template: the text of the template may become control tokens, text of the request may
// not.

#include "server/tokenizer_codec.h"
#include "text/chat_template.h"

namespace qwell::server {

// For TokenizerCodec; kInvalidArgument with the template's own words when it refuses, or when there is no template.
TokenizerCodec::ChatEncoder make_chat_encoder(ChatTemplate chat_template);

}  // namespace qwell::server
