#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace qwell {
namespace {

constexpr std::size_t kSampleBytes = 4096;

class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    QWELL_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256 is not there");
  }
  void add(std::span<const std::byte> bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  void add_size(std::uint64_t size) { add(std::as_bytes(std::span(&size, 1))); }
  std::string hex32() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
    unsigned int size = 0;
    QWELL_CHECK(EVP_DigestFinal_ex(context_.get(), out.data(), &size) == 1 && size >= 16, "{} bytes", size);
    std::string text;
    for (std::size_t i = 0; i < 16; ++i) text += fmt::format("{:02x}", out[i]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string Checkpoint::digest() const {
  Hash hash;
  const std::string config = read_file(folder_ / "config.json");
  hash.add_size(config.size());
  hash.add(std::as_bytes(std::span(config)));
  for (const SafetensorsFile& file : files_) {
    hash.add_size(file.size());
    hash.add(file.header());
  }
  for (const auto& [name, item] : tensors_) {
    const TensorView* tensor = item.view;
    const std::size_t count = std::min(kSampleBytes, tensor->data.size());
    hash.add(tensor->data.first(count));
    hash.add(tensor->data.last(count));
  }
  return hash.hex32();
}

}  // namespace qwell
