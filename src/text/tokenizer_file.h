#pragma once
// Reads tokenizer.json. Internal to the tokenizer.

#include <string>
#include <string_view>
#include <vector>

#include "text/pretokenizer.h"
#include "text/tokenizer_bpe.h"

namespace qwell {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;  // left out of decoded text when the caller asks for that
};

struct TokenizerFile {
  bool nfc = true;
  SplitPattern pattern = SplitPattern::kQwen3;
  bool ignore_merges = false;
  std::vector<std::string> tokens;  // bytes by id, of the vocabulary and of added tokens; empty where no token has the id
  std::vector<AddedToken> added;
  BytePairMerges merges{0};
};

// Throws Error, beginning with `name`, that names the field or entry at fault.
TokenizerFile read_tokenizer_file(std::string_view json_text, std::string_view name);

}  // namespace qwell
