#include "text/jinja/text.h"

#include <algorithm>

#include "text/jinja/limits.h"
#include "text/unicode.h"

namespace qwell::jinja {
namespace {

std::size_t count_chars(std::string_view bytes) {
  return static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

Text::Text(std::string bytes, bool trusted) {
  if (bytes.empty()) return;
  const std::size_t num_chars = count_chars(bytes);
  rep_ = std::make_shared<const Rep>(Rep{std::move(bytes), {}, trusted, num_chars});
}

std::size_t Text::run_at(std::size_t position) const {
  const auto& borders = rep_->borders;
  return static_cast<std::size_t>(std::upper_bound(borders.begin(), borders.end(), position) - borders.begin());
}

bool Text::trusted_at(std::size_t position) const { return rep_->first_trusted == (run_at(position) % 2 == 0); }

Text Text::slice(std::size_t begin, std::size_t end) const {
  if (begin == 0 && end == size()) return *this;
  TextBuilder out;
  out.append(*this, begin, end);
  return out.build();
}

std::size_t Text::position_of(std::size_t index) const {
  if (is_ascii()) return index;
  const std::string_view bytes = view();
  std::size_t i = 0;
  for (; index > 0 && i < bytes.size(); --index) i += next_valid_utf8(bytes, i).bytes;
  return i;
}

void TextBuilder::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  if (bytes.size() > kTextBytesMax - bytes_.size()) raise_limit("bytes in a string", kTextBytesMax);
  if (bytes_.empty()) {
    first_trusted_ = last_trusted_ = trusted;
  } else if (trusted != last_trusted_) {
    borders_.push_back(bytes_.size());
    last_trusted_ = trusted;
  }
  bytes_ += bytes;
}

void TextBuilder::append(const Text& text, std::size_t begin, std::size_t end) {
  text.for_each_run_in(begin, end, [this](std::string_view bytes, bool trusted) { append(bytes, trusted); });
}

void TextBuilder::append_char(char32_t c, bool trusted) {
  std::string bytes;
  append_utf8(bytes, c);
  append(bytes, trusted);
}

Text TextBuilder::build() {
  if (bytes_.empty()) return {};
  auto rep = std::make_shared<Text::Rep>();
  rep->num_chars = count_chars(bytes_);
  rep->bytes = std::move(bytes_);
  rep->borders = std::move(borders_);
  rep->first_trusted = first_trusted_;
  bytes_.clear();
  borders_.clear();
  return Text(std::move(rep));
}

}  // namespace qwell::jinja
