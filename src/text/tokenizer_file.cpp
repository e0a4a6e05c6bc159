#include "text/tokenizer_file.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/json.h"
#include "text/tokenizer_table.h"

namespace qwell {
namespace {

constexpr std::int64_t kIdMax = (1 << 21) - 1;  // the largest Qwen vocabulary has 2^18

// Reads values by the path of their fields and reports them by it.
class Reader {
 public:
  Reader(std::string_view name, const json::value& root) : name_(name), root_(root) {}

  template <class... Args>
  [[noreturn]] void refuse(std::string_view field, fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}: {}: {}", name_, field, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse_value(std::string_view field, const json::value& seen, std::string_view wanted) const {
    refuse(field, "{}, wanted {}", shown(seen), wanted);
  }

  // The value at a path like "model.vocab" or "pre_tokenizer.pretokenizers.0"; null where it is missing.
  const json::value& at(std::string_view path) const {
    static const json::value missing;
    const json::value* value = &root_;
    while (!path.empty()) {
      const std::string_view key = path.substr(0, path.find('.'));
      path.remove_prefix(std::min(path.size(), key.size() + 1));
      if (const auto* object = value->if_object()) {
        value = object->if_contains(key);
      } else if (const auto* array = value->if_array()) {
        value = array->if_contains(static_cast<std::size_t>(key[0] - '0'));
      } else {
        value = nullptr;
      }
      if (value == nullptr) return missing;
    }
    return *value;
  }
  const json::object& object(std::string_view path) const {
    if (const auto* object = at(path).if_object()) return *object;
    refuse_value(path, at(path), "an object");
  }
  const json::array& array(std::string_view path) const {
    if (const auto* array = at(path).if_array()) return *array;
    refuse_value(path, at(path), "an array");
  }
  void want_text(std::string_view path, std::string_view text) const {
    const auto* seen = at(path).if_string();
    if (seen == nullptr || *seen != text) refuse_value(path, at(path), fmt::format("\"{}\"", text));
  }
  void want_null_or_empty(std::string_view path) const {
    const json::value& seen = at(path);
    if (!seen.is_null() && !(seen.is_string() && seen.get_string().empty())) refuse_value(path, seen, "null or an empty string");
  }
  bool flag(std::string_view path, bool otherwise) const {
    const json::value& seen = at(path);
    if (seen.is_null()) return otherwise;
    if (!seen.is_bool()) refuse_value(path, seen, "true or false");
    return seen.get_bool();
  }
  void want_flag(std::string_view path, bool wanted, bool otherwise) const {
    if (flag(path, otherwise) != wanted) refuse_value(path, at(path), wanted ? "true" : "false");
  }

  // A value as it is quoted in an error: short.
  static std::string shown(const json::value& value) {
    JsonWriter writer;
    if (value.is_object()) return value.get_object().empty() ? "{}" : "{...}";
    if (value.is_array()) return value.get_array().empty() ? "[]" : "[...]";
    return quoted_part(writer.value(value).text());
  }
  static std::string quoted_part(std::string_view text) {
    constexpr std::size_t kShownMax = 200;
    return text.size() <= kShownMax ? std::string(text) : fmt::format("{}...", text.substr(0, kShownMax));
  }

 private:
  std::string_view name_;
  const json::value& root_;
};

std::string_view view_of(const json::string& text) { return {text.data(), text.size()}; }

// An id in [0, kIdMax], or nothing.
std::optional<std::int32_t> id_of(const json::value& value) {
  const auto* id = value.if_int64();
  if (id == nullptr || *id < 0 || *id > kIdMax) return std::nullopt;
  return static_cast<std::int32_t>(*id);
}

void read_byte_level(const Reader& reader, const std::string& path) {
  reader.want_text(path + ".type", "ByteLevel");
  if (path.starts_with("pre_tokenizer")) {
    reader.want_flag(path + ".add_prefix_space", false, true);
    reader.want_flag(path + ".use_regex", false, true);
  }
}

// Everything but vocabulary and merges. `truncation` and `padding` are settings for batches of training data and change no text.
void read_pipeline(const Reader& reader, TokenizerFile& file) {
  file.nfc = !reader.at("normalizer").is_null();
  if (file.nfc) reader.want_text("normalizer.type", "NFC");

  reader.want_text("pre_tokenizer.type", "Sequence");
  if (const auto& steps = reader.array("pre_tokenizer.pretokenizers"); steps.size() != 2) {
    reader.refuse("pre_tokenizer.pretokenizers", "{} entries, wanted a Split and a ByteLevel", steps.size());
  }
  const std::string split = "pre_tokenizer.pretokenizers.0";
  reader.want_text(split + ".type", "Split");
  reader.want_text(split + ".behavior", "Isolated");
  reader.want_flag(split + ".invert", false, false);
  const auto* regex = reader.at(split + ".pattern.Regex").if_string();
  const auto pattern = regex == nullptr ? std::nullopt : split_pattern_of(view_of(*regex));
  if (!pattern)
    reader.refuse_value(split + ".pattern.Regex", reader.at(split + ".pattern.Regex"), "the split pattern of Qwen3 or of Qwen3.5");
  file.pattern = *pattern;
  read_byte_level(reader, "pre_tokenizer.pretokenizers.1");
  read_byte_level(reader, "decoder");
  if (!reader.at("post_processor").is_null()) read_byte_level(reader, "post_processor");

  reader.want_text("model.type", "BPE");
  const json::value& dropout = reader.at("model.dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.to_number<double>() == 0.0))
    reader.refuse_value("model.dropout", dropout, "null");
  reader.want_null_or_empty("model.continuing_subword_prefix");
  reader.want_null_or_empty("model.end_of_word_suffix");
  reader.want_flag("model.byte_fallback", false, false);
  file.ignore_merges = reader.flag("model.ignore_merges", false);
}

void read_added_tokens(const Reader& reader, TokenizerFile& file) {
  if (reader.at("added_tokens").is_null()) return;
  std::unordered_map<std::string_view, std::int32_t> seen;
  for (const json::value& entry : reader.array("added_tokens")) {
    const auto* content = Reader("", entry).at("content").if_string();
    if (content == nullptr || content->empty()) reader.refuse_value("added_tokens", entry, "entries with a \"content\" that is not empty");
    const std::string field = fmt::format("added_tokens: \"{}\"", Reader::quoted_part(view_of(*content)));
    const Reader token(field, entry);
    const auto id = id_of(token.at("id"));
    if (!id) reader.refuse(field, "id {}, wanted 0 to {}", Reader::shown(token.at("id")), kIdMax);
    for (const char* flag : {"normalized", "lstrip", "rstrip", "single_word"}) {
      const json::value& value = token.at(flag);
      if (!value.is_null() && !(value.is_bool() && !value.get_bool())) {
        reader.refuse(field, "{} is {}, wanted false", flag, Reader::shown(value));
      }
    }
    const json::value& special = token.at("special");
    if (!special.is_bool()) reader.refuse(field, "special is {}, wanted true or false", Reader::shown(special));
    const auto [earlier, fresh] = seen.emplace(view_of(*content), *id);
    if (!fresh) reader.refuse(field, "listed twice, with id {} and id {}", earlier->second, *id);
    file.added.push_back({*id, std::string(view_of(*content)), special.get_bool()});
  }
}

// The vocabulary while it is read: names are those of the file, in the byte alphabet.
class Vocabulary {
 public:
  Vocabulary(const Reader& reader, TokenizerFile& file) : reader_(reader), file_(file), vocab_(reader.object("model.vocab")) {
    names_.reserve(vocab_.size());
    for (const auto& [key, value] : vocab_) place(key, value);
    std::unordered_set<std::string_view> added;
    for (const AddedToken& token : file.added) {
      place_added(token);
      added.insert(token.content);
    }
    file_.tokens.resize(names_.size());
    const ByteAlphabet alphabet;
    for (const auto& [key, value] : vocab_) {
      std::string& bytes = file_.tokens[static_cast<std::size_t>(value.get_int64())];
      if (alphabet.append_bytes(bytes, key)) continue;
      if (!added.contains(key)) reader_.refuse("model.vocab", "\"{}\" is not written in the byte alphabet", Reader::quoted_part(key));
    }
    for (const AddedToken& token : file.added) {
      std::string& bytes = file_.tokens[static_cast<std::size_t>(token.id)];
      if (bytes.empty()) bytes = token.content;  // else it is a token of the vocabulary and written in the byte alphabet
    }
    read_bytes(alphabet);
  }

  std::optional<std::int32_t> find(std::string_view name) const {
    const auto* value = vocab_.if_contains(name);
    return value == nullptr ? std::nullopt : std::optional(static_cast<std::int32_t>(value->get_int64()));
  }

 private:
  void claim(std::string_view field, std::int32_t id, std::string_view name) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= names_.size()) names_.resize(index + 1);
    if (!names_[index].empty() && names_[index] != name) {
      reader_.refuse(field, "\"{}\" has id {}, and so has \"{}\"", Reader::quoted_part(name), id, Reader::quoted_part(names_[index]));
    }
    names_[index] = name;
  }

  void place(std::string_view key, const json::value& value) {
    const auto id = id_of(value);
    const auto shown = [&] { return Reader::quoted_part(key); };
    if (!id) reader_.refuse("model.vocab", "\"{}\" has id {}, wanted 0 to {}", shown(), Reader::shown(value), kIdMax);
    if (key.empty()) reader_.refuse("model.vocab", "an empty token has id {}", *id);
    claim("model.vocab", *id, key);
  }

  void place_added(const AddedToken& token) {
    const auto id = find(token.content);
    if (id && *id != token.id) {
      reader_.refuse("added_tokens", "\"{}\" has id {}, model.vocab gives it {}", Reader::quoted_part(token.content), token.id, *id);
    }
    claim("added_tokens", token.id, token.content);
  }

  void read_bytes(const ByteAlphabet& alphabet) {
    std::array<std::int32_t, 256> ids{};
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::string name = alphabet.text_of(static_cast<unsigned char>(byte));
      const auto id = find(name);
      if (!id) reader_.refuse("model.vocab", "no token \"{}\" for the byte {:#04x}", name, byte);
      ids[byte] = *id;
    }
    file_.merges.set_byte_ids(ids);
  }

  const Reader& reader_;
  TokenizerFile& file_;
  const json::object& vocab_;
  std::vector<std::string_view> names_;  // by id; empty where there is none
};

// The two sides of a merge, written as ["a", "b"] or as "a b".
std::optional<std::pair<std::string_view, std::string_view>> sides_of(const json::value& merge) {
  if (const auto* pair = merge.if_array()) {
    if (pair->size() != 2 || !(*pair)[0].is_string() || !(*pair)[1].is_string()) return std::nullopt;
    return std::pair(view_of((*pair)[0].get_string()), view_of((*pair)[1].get_string()));
  }
  const auto* text = merge.if_string();
  if (text == nullptr) return std::nullopt;
  const std::string_view both = view_of(*text);
  const std::size_t blank = both.find(' ');
  if (blank == std::string_view::npos || both.find(' ', blank + 1) != std::string_view::npos) return std::nullopt;
  return std::pair(both.substr(0, blank), both.substr(blank + 1));
}

void read_merges(const Reader& reader, const Vocabulary& vocabulary, TokenizerFile& file) {
  const json::array& merges = reader.array("model.merges");
  std::string joined;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto sides = sides_of(merges[rank]);
    const std::string field = "model.merges";
    if (!sides) reader.refuse(field, "entry {} is {}, wanted [\"a\", \"b\"] or \"a b\"", rank, Reader::shown(merges[rank]));
    joined.assign(sides->first).append(sides->second);
    const auto id = [&](std::string_view token) {
      const auto found = vocabulary.find(token);
      if (!found) reader.refuse(field, "entry {} needs the token \"{}\", which model.vocab lacks", rank, Reader::quoted_part(token));
      return *found;
    };
    const BytePairMerges::Merge merge{id(sides->first), id(sides->second), id(joined)};
    if (!file.merges.add(merge)) reader.refuse(field, "entry {} repeats the pair \"{}\" \"{}\"", rank, sides->first, sides->second);
  }
}

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view json_text, std::string_view name) {
  const json::value root = parse_json_file(json_text, name);
  const Reader reader(name, root);
  if (!root.is_object()) fail("{}: {}, wanted an object", name, Reader::shown(root));
  TokenizerFile file;
  read_pipeline(reader, file);
  read_added_tokens(reader, file);
  file.merges = BytePairMerges(reader.array("model.merges").size());
  const Vocabulary vocabulary(reader, file);
  read_merges(reader, vocabulary, file);
  return file;
}

}  // namespace qwell
