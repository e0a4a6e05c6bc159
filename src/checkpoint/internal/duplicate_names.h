#pragma once
// Names that a JSON object gives twice. A parsed object keeps only the last of them, so the text is asked.

#include <string>
#include <string_view>

namespace qwell {

// `text` is one valid JSON document. Error that begins with `where` and tells the name when an object in it has two members of one name,
// in whatever way their letters are escaped.
void refuse_duplicate_names(std::string_view text, std::string_view where);

}  // namespace qwell
