#include "text/jinja/text_format.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/operations.h"
#include "text/jinja/print.h"

namespace qwell::jinja {
namespace {

constexpr std::size_t kWidthMax = 4096;

struct Conversion {
  bool left = false;
  bool plus = false;
  bool space = false;
  bool zero = false;
  std::size_t width = 0;
  std::optional<std::size_t> precision;
  char type = 's';
};

class PrintfFormat {
 public:
  PrintfFormat(const Text& format, const Value& values) : format_(format), bytes_(format.view()), values_(values) {}

  Text run() {
    while (i_ < bytes_.size()) {
      const std::size_t percent = std::min(bytes_.find('%', i_), bytes_.size());
      out_.append(format_, i_, percent);
      i_ = percent;
      if (i_ == bytes_.size()) break;
      ++i_;
      convert();
    }
    // What can be indexed counts as a mapping, which need not be used.
    const bool is_mapping = values_.is(Kind::kDict) || values_.is(Kind::kUndefined) || is_list();
    const bool all_used = by_name_ || is_mapping || next_ >= count();
    if (!all_used) raise("not all arguments converted during string formatting");
    return out_.build();
  }

 private:
  bool is_list() const {
    return values_.is(Kind::kSequence) &&
           (values_.sequence().kind == SequenceKind::kList || values_.sequence().kind == SequenceKind::kRange);
  }
  bool is_tuple() const { return values_.is(Kind::kSequence) && values_.sequence().kind == SequenceKind::kTuple; }
  std::size_t count() const { return is_tuple() ? values_.sequence().items.size() : 1; }
  char take() {
    if (i_ >= bytes_.size()) raise("incomplete format");
    return bytes_[i_++];
  }

  Value next_value() {
    if (next_ >= count()) raise("not enough arguments for format string");
    ++next_;
    return is_tuple() ? values_.sequence().items[next_ - 1] : values_;
  }

  std::size_t number() {
    std::size_t value = 0;
    while (i_ < bytes_.size() && bytes_[i_] >= '0' && bytes_[i_] <= '9') {
      value = value * 10 + static_cast<std::size_t>(bytes_[i_++] - '0');
      if (value > kWidthMax) raise("a width in a format string is too large");
    }
    return value;
  }

  void convert() {
    std::optional<Value> named;
    if (i_ < bytes_.size() && bytes_[i_] == '(') {
      const std::size_t close = bytes_.find(')', i_);
      if (close == std::string_view::npos) raise("incomplete format key");
      if (!values_.is(Kind::kDict)) raise("format requires a mapping");
      const Value* const found = values_.dict().find(bytes_.substr(i_ + 1, close - i_ - 1));
      if (found == nullptr) raise("'{}'", bytes_.substr(i_ + 1, close - i_ - 1));
      named = *found;
      by_name_ = true;
      i_ = close + 1;
    }
    Conversion c;
    for (; i_ < bytes_.size(); ++i_) {
      if (bytes_[i_] == '-')
        c.left = true;
      else if (bytes_[i_] == '+')
        c.plus = true;
      else if (bytes_[i_] == ' ')
        c.space = true;
      else if (bytes_[i_] == '0')
        c.zero = true;
      else
        break;
    }
    c.width = number();
    if (i_ < bytes_.size() && bytes_[i_] == '.') {
      ++i_;
      c.precision = number();
    }
    c.type = take();
    if (c.type == '%') return out_.append("%", true);
    append(c, named ? *named : next_value());
  }

  void append(const Conversion& c, const Value& v) {
    Text body;
    switch (c.type) {
      case 's':
      case 'r':
        body = c.type == 's' ? to_str(v) : to_repr(v);
        if (c.precision && *c.precision < body.num_chars()) body = body.slice(0, body.position_of(*c.precision));
        return append_padded(c, body, 0);
      case 'd':
      case 'i':
      case 'u':
        if (!v.is_number()) raise("%{} format: a real number is required, not {}", c.type, type_name(v));
        if (v.is(Kind::kFloat) && !(std::fabs(v.number()) < 1e30)) raise("cannot convert float to integer");
        return append_number(c, print_integer(v.is(Kind::kFloat) ? static_cast<Int>(v.number()) : v.integer()));
      case 'f':
      case 'F':
      case 'e':
      case 'g':
        if (!v.is_number()) raise("must be real number, not {}", type_name(v));
        return append_number(c, format_float(c, v.number()));
      case 'x':
      case 'X':
      case 'o':
        if (!v.is_integer()) raise("%{} format: an integer is required, not {}", c.type, type_name(v));
        return append_number(c, format_in_base(c, v.integer()));
      default: raise("unsupported format character '{}'", c.type);
    }
  }

  static std::string format_float(const Conversion& c, double v) {
    const int precision = static_cast<int>(std::min<std::size_t>(c.precision.value_or(6), 300));
    if (c.type == 'e') return fmt::format("{:.{}e}", v, precision);
    if (c.type == 'g') return fmt::format("{:.{}g}", v, precision);
    return fmt::format("{:.{}f}", v, precision);
  }

  static std::string format_in_base(const Conversion& c, Int v) {
    const unsigned base = c.type == 'o' ? 8 : 16;
    const std::string_view alphabet = c.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    std::string digits;
    Int rest = v < 0 ? v : -v;
    do {
      digits.push_back(alphabet[static_cast<std::size_t>(-(rest % static_cast<Int>(base)))]);
      rest /= static_cast<Int>(base);
    } while (rest != 0);
    if (v < 0) digits.push_back('-');
    std::reverse(digits.begin(), digits.end());
    return digits;
  }

  void append_number(const Conversion& c, std::string digits) {
    if (digits.front() != '-' && (c.plus || c.space)) digits.insert(digits.begin(), c.plus ? '+' : ' ');
    const std::size_t sign = digits.front() == '-' || digits.front() == '+' || digits.front() == ' ' ? 1 : 0;
    append_padded(c, Text(std::move(digits), true), c.zero && !c.left ? sign + 1 : 0);
  }

  // zeros_at: 0 for spaces; else one more than where zeros go in.
  void append_padded(const Conversion& c, const Text& body, std::size_t zeros_at) {
    const std::size_t length = body.num_chars();
    const std::string fill(c.width > length ? c.width - length : 0, zeros_at != 0 ? '0' : ' ');
    const std::size_t cut = zeros_at != 0 ? zeros_at - 1 : 0;
    if (c.left) {
      out_.append(body);
      return out_.append(fill, true);
    }
    out_.append(body, 0, cut);
    out_.append(fill, true);
    out_.append(body, cut, body.size());
  }

  const Text& format_;
  std::string_view bytes_;
  const Value& values_;
  TextBuilder out_;
  std::size_t i_ = 0;
  std::size_t next_ = 0;
  bool by_name_ = false;
};

const Value& brace_argument(std::string_view field, const Arguments& arguments, std::size_t& next) {
  const bool is_place = field.find_first_not_of("0123456789") == std::string_view::npos;
  if (is_place && field.size() > 6) raise("Replacement index {} out of range for positional args tuple", field);
  if (is_place) {
    const std::size_t place = field.empty() ? next++ : std::stoul(std::string(field));
    if (place >= arguments.positional().size()) raise("Replacement index {} out of range for positional args tuple", place);
    return arguments.positional()[place];
  }
  const auto& named = arguments.named();
  const auto found = std::find_if(named.begin(), named.end(), [field](const auto& n) { return n.first == field; });
  if (found == named.end()) raise("'{}'", field);
  return found->second;
}

}  // namespace

Text printf_format(const Text& format, const Value& values, Environment& env) {
  env.budget.charge_bytes(format.size());
  return PrintfFormat(format, values).run();
}

Text brace_format(const Text& format, Arguments& arguments, Environment& env) {
  env.budget.charge_bytes(format.size());
  TextBuilder out;
  const std::string_view bytes = format.view();
  std::size_t next = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t brace = std::min(bytes.find_first_of("{}", i), bytes.size());
    out.append(format, i, brace);
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      out.append(format, brace, brace + 1);
      i = brace + 2;
      continue;
    }
    if (bytes[brace] == '}') raise("Single '}}' encountered in format string");
    const std::size_t close = bytes.find('}', brace);
    if (close == std::string_view::npos) raise("expected '}}' before end of string");
    std::string_view field = bytes.substr(brace + 1, close - brace - 1);
    if (field.find_first_of(":.[{") != std::string_view::npos) raise("unsupported replacement field {{{}}} in a format string", field);
    const bool as_repr = field.ends_with("!r");
    if (as_repr || field.ends_with("!s")) field.remove_suffix(2);
    const Value& v = brace_argument(field, arguments, next);
    out.append(as_repr ? to_repr(v) : to_str(v));
    i = close + 1;
  }
  return out.build();
}

}  // namespace qwell::jinja
