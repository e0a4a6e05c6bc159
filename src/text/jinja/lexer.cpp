#include "text/jinja/lexer.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/unicode.h"

namespace qwell::jinja {

bool is_python_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_spaces(std::string_view text, std::size_t i) {
  while (i < text.size()) {
    const Utf8Step step = next_valid_utf8(text, i);
    if (!is_python_space(step.value)) break;
    i += step.bytes;
  }
  return i;
}

// The length of `text` without white space at its end.
std::size_t stripped_size(std::string_view text) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Step step = next_valid_utf8(text, i);
    i += step.bytes;
    if (!is_python_space(step.value)) size = i;
  }
  return size;
}

// One kind of line break, and none at the end.
std::string normal_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name) : source_(normal_lines(source)), name_(name) {}

  std::vector<Token> run() {
    while (i_ < source_.size()) read_data();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const { fail("{}:{}: {}", name_, line_, message); }
  std::string_view rest() const { return std::string_view(source_).substr(i_); }
  bool at(std::string_view what) const { return rest().starts_with(what); }
  char peek(std::size_t offset = 0) const { return i_ + offset < source_.size() ? source_[i_ + offset] : '\0'; }
  void add(TokenKind kind, std::string text, Value number = {}) { tokens_.push_back({kind, line_, std::move(text), std::move(number)}); }

  void move_to(std::size_t position) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<std::ptrdiff_t>(i_), source_.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
    line_start_ = position > 0 && source_[position - 1] == '\n';
    i_ = position;
  }

  void read_data();
  void read_comment();
  bool read_raw();
  void read_tag(TokenKind begin, TokenKind end, std::string_view close);
  bool read_tag_end(TokenKind end, std::string_view close);
  void read_token();
  void read_string();
  void read_escape(std::string& out);
  void read_number();
  void read_prefixed_integer(unsigned base);
  void read_operator();
  std::size_t end_of_tag(std::size_t after, char sign, bool trim_newline) const;
  std::string_view strip_before_tag(std::string_view data, char sign, bool is_output, bool line_start) const;

  std::string source_;
  std::string_view name_;
  std::size_t i_ = 0;
  int line_ = 1;
  bool line_start_ = true;  // the last thing read ended a line, or nothing was read yet
  std::string brackets_;    // those open inside a tag, as their closing characters
  std::vector<Token> tokens_;
};

// Where the template goes on behind "%}" and the like: '-' eats all white space, a block its line break unless '+' keeps it.
std::size_t Lexer::end_of_tag(std::size_t after, char sign, bool trim_newline) const {
  if (sign == '-') return skip_spaces(source_, after);
  if (trim_newline && sign != '+' && after < source_.size() && source_[after] == '\n') return after + 1;
  return after;
}

std::string_view Lexer::strip_before_tag(std::string_view data, char sign, bool is_output, bool line_start) const {
  if (sign == '-') return data.substr(0, stripped_size(data));
  if (sign == '+' || is_output) return data;
  const std::size_t newline = data.rfind('\n');
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  if (begin == 0 && !line_start) return data;
  return skip_spaces(data, begin) == data.size() ? data.substr(0, begin) : data;
}

void Lexer::read_data() {
  std::size_t tag = i_;
  while (true) {
    tag = source_.find('{', tag);
    if (tag == std::string::npos || tag + 1 >= source_.size()) {
      tag = source_.size();
      break;
    }
    const char c = source_[tag + 1];
    if (c == '{' || c == '%' || c == '#') break;
    ++tag;
  }
  const std::string_view data = std::string_view(source_).substr(i_, tag - i_);
  if (tag == source_.size()) {
    if (!data.empty()) add(TokenKind::kData, std::string(data));
    return move_to(tag);
  }
  const char kind = source_[tag + 1];
  const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
  const bool signed_tag = sign == '-' || sign == '+';
  const std::string_view kept = strip_before_tag(data, sign, kind == '{', line_start_);
  if (!kept.empty()) add(TokenKind::kData, std::string(kept));
  move_to(tag);
  if (kind == '%' && read_raw()) return;
  move_to(tag + (signed_tag ? 3 : 2));
  if (kind == '#') return read_comment();
  if (kind == '{') return read_tag(TokenKind::kOutputBegin, TokenKind::kOutputEnd, "}}");
  read_tag(TokenKind::kBlockBegin, TokenKind::kBlockEnd, "%}");
}

void Lexer::read_comment() {
  const std::size_t close = source_.find("#}", i_);
  if (close == std::string::npos) refuse("missing end of comment");
  const char sign = close > i_ ? source_[close - 1] : '\0';
  move_to(end_of_tag(close + 2, sign, true));
}

// {% raw %} ... {% endraw %}; false when something else is here.
bool Lexer::read_raw() {
  const auto word_tag = [this](std::size_t tag, std::string_view word, std::size_t& after, char& sign) {
    std::size_t i = tag + 2;
    if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
    i = skip_spaces(source_, i);
    if (!std::string_view(source_).substr(i).starts_with(word)) return false;
    i = skip_spaces(source_, i + word.size());
    sign = i < source_.size() ? source_[i] : '\0';
    if (sign == '-' || sign == '+') ++i;
    after = i + 2;
    return std::string_view(source_).substr(i).starts_with("%}");
  };
  std::size_t after = 0;
  char sign = '\0';
  if (!word_tag(i_, "raw", after, sign) || sign == '+') return false;
  const std::size_t begin = sign == '-' ? skip_spaces(source_, after) : after;
  const bool line_start = source_[begin - 1] == '\n';
  for (std::size_t tag = source_.find("{%", begin); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
    if (!word_tag(tag, "endraw", after, sign)) continue;
    const std::string_view data = std::string_view(source_).substr(begin, tag - begin);
    const std::string_view kept = strip_before_tag(data, source_[tag + 2], false, line_start);
    if (!kept.empty()) add(TokenKind::kData, std::string(kept));
    move_to(end_of_tag(after, sign, true));
    return true;
  }
  refuse("missing end of raw block");
}

void Lexer::read_tag(TokenKind begin, TokenKind end, std::string_view close) {
  add(begin, "");
  brackets_.clear();
  while (true) {
    move_to(skip_spaces(source_, i_));
    if (i_ >= source_.size()) refuse(fmt::format("the template ends within a tag, \"{}\" is missing", close));
    if (brackets_.empty() && read_tag_end(end, close)) return;
    read_token();
  }
}

bool Lexer::read_tag_end(TokenKind end, std::string_view close) {
  const char sign = peek();
  // Only blocks know '+': elsewhere it is an operator.
  const bool has_sign = sign == '-' || (sign == '+' && end == TokenKind::kBlockEnd);
  if (!rest().substr(has_sign ? 1 : 0).starts_with(close)) return false;
  add(end, "");
  move_to(end_of_tag(i_ + (has_sign ? 3 : 2), has_sign ? sign : '\0', end == TokenKind::kBlockEnd));
  return true;
}

void Lexer::read_token() {
  const char c = peek();
  if (c == '\'' || c == '"') return read_string();
  if (is_digit(c)) return read_number();
  const Utf8Step first = next_valid_utf8(source_, i_);
  const auto value = static_cast<UChar32>(first.value);
  if (c != '_' && u_hasBinaryProperty(value, UCHAR_XID_START) == 0) return read_operator();
  std::size_t end = i_ + first.bytes;
  while (end < source_.size()) {
    const Utf8Step step = next_valid_utf8(source_, end);
    if (u_hasBinaryProperty(static_cast<UChar32>(step.value), UCHAR_XID_CONTINUE) == 0) break;
    end += step.bytes;
  }
  add(TokenKind::kName, source_.substr(i_, end - i_));
  move_to(end);
}

void Lexer::read_string() {
  const char quote = peek();
  std::string out;
  std::size_t plain = i_ + 1;
  const int line = line_;
  while (true) {
    const std::size_t stop = source_.find_first_of(std::string{quote, '\\'}, plain);
    if (stop == std::string::npos) refuse("a string has no end");
    out.append(source_, plain, stop - plain);
    move_to(stop);
    if (source_[stop] == quote) break;
    read_escape(out);
    plain = i_;
  }
  move_to(i_ + 1);
  tokens_.push_back({TokenKind::kString, line, std::move(out), {}});
}

// Python's escapes; an unknown one stands for itself.
void Lexer::read_escape(std::string& out) {
  static constexpr std::string_view kFrom = "abfnrtv\\'\"";
  static constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
  const char c = peek(1);
  if (const std::size_t k = kFrom.find(c); c != '\0' && k != std::string_view::npos) {
    out.push_back(kTo[k]);
    return move_to(i_ + 2);
  }
  if (c == '\n') return move_to(i_ + 2);
  const bool octal = c >= '0' && c <= '7';
  const std::size_t digits_max = octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits_max == 0) {
    if (c == 'N') refuse("unsupported escape \\N in a string");
    out.push_back('\\');
    return move_to(i_ + 1);
  }
  const char* const begin = source_.data() + i_ + (octal ? 1 : 2);
  const char* const limit = std::min(begin + digits_max, static_cast<const char*>(source_.data() + source_.size()));
  std::uint32_t value = 0;
  const char* const end = begin >= limit ? begin : std::from_chars(begin, limit, value, octal ? 8 : 16).ptr;
  if (!octal && static_cast<std::size_t>(end - begin) != digits_max) refuse("a string has a broken escape");
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) refuse("a string has an escape that is no character");
  append_utf8(out, value);
  move_to(static_cast<std::size_t>(end - source_.data()));
}

void Lexer::read_prefixed_integer(unsigned base) {
  Int value = 0;
  std::size_t digits = 0;
  std::size_t i = i_ + 2;
  for (; i < source_.size(); ++i) {
    const char c = source_[i];
    if (c == '_') continue;
    const char lower = static_cast<char>(c | 0x20);
    const unsigned digit = is_digit(c)                    ? static_cast<unsigned>(c - '0')
                           : lower >= 'a' && lower <= 'f' ? static_cast<unsigned>(lower - 'a' + 10)
                                                          : 99;
    if (digit >= base) break;
    if (__builtin_mul_overflow(value, static_cast<Int>(base), &value) || __builtin_add_overflow(value, static_cast<Int>(digit), &value)) {
      refuse("an integer is too large");
    }
    ++digits;
  }
  if (digits == 0) refuse("an integer has no digits");
  add(TokenKind::kInteger, "", value);
  move_to(i);
}

void Lexer::read_number() {
  const char second = static_cast<char>(peek(1) | 0x20);
  if (peek() == '0' && (second == 'x' || second == 'o' || second == 'b'))
    return read_prefixed_integer(second == 'x' ? 16 : second == 'o' ? 8 : 2);
  std::string digits;
  std::size_t i = i_;
  const auto read_digits = [&] {
    while (i < source_.size() && (is_digit(source_[i]) || (source_[i] == '_' && i + 1 < source_.size() && is_digit(source_[i + 1])))) {
      if (source_[i] != '_') digits.push_back(source_[i]);
      ++i;
    }
  };
  const auto digit_at = [&](std::size_t k) { return k < source_.size() && is_digit(source_[k]); };
  read_digits();
  bool is_float = false;
  const bool after_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
  if (!after_dot && i < source_.size() && source_[i] == '.' && digit_at(i + 1)) {  // x.0.1 are two subscripts
    is_float = true;
    digits.push_back('.');
    ++i;
    read_digits();
  }
  if (!after_dot && i < source_.size() && (source_[i] | 0x20) == 'e') {
    const std::size_t sign = i + 1 < source_.size() && (source_[i + 1] == '+' || source_[i + 1] == '-') ? 1 : 0;
    if (digit_at(i + 1 + sign)) {
      is_float = true;
      digits += sign != 0 ? std::string{'e', source_[i + 1]} : "e";
      i += 1 + sign;
      read_digits();
    }
  }
  if (is_float) {
    double value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec != std::errc()) value = digits.find("e-") == std::string::npos ? HUGE_VAL : 0.0;
    add(TokenKind::kFloat, "", value);
    return move_to(i);
  }
  if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) refuse("an integer begins with 0");
  Int value = 0;
  for (const char c : digits) {
    if (__builtin_mul_overflow(value, Int{10}, &value) || __builtin_add_overflow(value, Int{c - '0'}, &value))
      refuse("an integer is too large");
  }
  add(TokenKind::kInteger, "", value);
  move_to(i);
}

void Lexer::read_operator() {
  static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
  static constexpr std::string_view kOne = "+-*/%~[](){}<>=.:|,;";
  for (const std::string_view op : kTwo) {
    if (!at(op)) continue;
    add(TokenKind::kOperator, std::string(op));
    return move_to(i_ + 2);
  }
  const char c = peek();
  if (c == '\0' || kOne.find(c) == std::string_view::npos) {
    const std::size_t bytes = next_valid_utf8(source_, i_).bytes;
    refuse(fmt::format("unexpected character \"{}\"", rest().substr(0, bytes)));
  }
  if (c == '(') brackets_.push_back(')');
  if (c == '[') brackets_.push_back(']');
  if (c == '{') brackets_.push_back('}');
  if (c == ')' || c == ']' || c == '}') {
    if (brackets_.empty() || brackets_.back() != c) refuse(fmt::format("unexpected \"{}\"", c));
    brackets_.pop_back();
  }
  add(TokenKind::kOperator, std::string(1, c));
  move_to(i_ + 1);
}

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::string_view name) {
  if (!valid_utf8(source)) fail("{}: the template is not valid UTF-8", name);
  return Lexer(source, name).run();
}

}  // namespace qwell::jinja
