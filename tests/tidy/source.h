#pragma once
// A source file as the rules of this folder read it.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace qwell::tidy {

struct Source {
  std::string path;                // from the root of the tree, with '/'
  std::vector<std::string> lines;  // as written
  std::vector<std::string> code;   // the same columns, with comments, and what stands between quotes, turned into spaces

  bool header() const;
  // "ops" of src/ops/cpu/kernels.h; "" outside src/ and for files directly in it.
  std::string_view module() const;
  bool under(std::string_view folder) const;  // "src/cli/": or a file's whole path
};

// What a rule found, and what to do instead. Line 0 means the whole file.
struct Finding {
  std::string path;
  int line = 0;
  std::string what;
  std::string instead;
};

// Reads C++ (also raw strings, continued lines and digit separators); other text is kept as it is.
Source parse_source(std::string path, std::string_view text);

// The C++ files of src, tests and fuzz, sorted by path.
std::vector<Source> read_cpp_tree(const std::filesystem::path& root);

// These, and the text files of the build and the tools: everything that people write except data and models.
std::vector<Source> read_text_tree(const std::filesystem::path& root);

// An identifier in a line of code, with what stands around it.
struct Word {
  std::string_view text;
  std::size_t column = 0;      // from 0
  std::string_view qualifier;  // "std" of std::abort, "::" of ::abort, ">" of List<T>::abort, "" of abort
  bool of_object = false;      // after '.' or '->'
  bool declared = false;       // right after a type's name: void abort(), not return abort()
  bool called = false;         // '(' comes next
};
std::vector<Word> words(std::string_view code);

}  // namespace qwell::tidy
