#pragma once
// A string that remembers which of its characters the template wrote (trusted) and which came in with a request (untrusted).

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace qwell::jinja {

// Immutable, valid UTF-8, cheap to copy. Positions are bytes and always between characters, unless a name says otherwise.
class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool trusted);

  std::string_view view() const { return rep_ == nullptr ? std::string_view() : std::string_view(rep_->bytes); }
  std::size_t size() const { return view().size(); }
  bool empty() const { return size() == 0; }
  std::size_t num_chars() const { return rep_ == nullptr ? 0 : rep_->num_chars; }
  bool is_ascii() const { return num_chars() == size(); }

  Text slice(std::size_t begin, std::size_t end) const;
  bool trusted_at(std::size_t position) const;
  // Where character `index` begins; index may be num_chars(). O(size) for text that is not ASCII.
  std::size_t position_of(std::size_t index) const;

  // f(std::string_view bytes, bool trusted) for every stretch of equal trust, in order.
  template <class F>
  void for_each_run(F&& f) const {
    for_each_run_in(0, size(), std::forward<F>(f));
  }
  template <class F>
  void for_each_run_in(std::size_t begin, std::size_t end, F&& f) const {
    if (begin >= end) return;
    for (std::size_t run = run_at(begin); begin < end; ++run) {
      const std::size_t stop = run < rep_->borders.size() && rep_->borders[run] < end ? rep_->borders[run] : end;
      f(view().substr(begin, stop - begin), rep_->first_trusted == (run % 2 == 0));
      begin = stop;
    }
  }

  friend bool operator==(const Text& a, const Text& b) { return a.rep_ == b.rep_ || a.view() == b.view(); }

 private:
  friend class TextBuilder;
  struct Rep {
    std::string bytes;
    std::vector<std::size_t> borders;  // ascending, inside the text: trust changes at each of them
    bool first_trusted = true;
    std::size_t num_chars = 0;
  };
  explicit Text(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}
  std::size_t run_at(std::size_t position) const;

  std::shared_ptr<const Rep> rep_;  // null: empty
};

// Builds a Text piece by piece. Raises where the text would exceed kTextBytesMax.
class TextBuilder {
 public:
  void append(std::string_view bytes, bool trusted);
  void append(const Text& text) { append(text, 0, text.size()); }
  void append(const Text& text, std::size_t begin, std::size_t end);
  void append_char(char32_t c, bool trusted);
  std::size_t size() const { return bytes_.size(); }
  // Leaves the builder empty.
  Text build();

 private:
  std::string bytes_;
  std::vector<std::size_t> borders_;
  bool first_trusted_ = true;
  bool last_trusted_ = true;
};

}  // namespace qwell::jinja
