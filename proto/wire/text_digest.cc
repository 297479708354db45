#include "proto/wire/text_digest.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/escaping.h"
#include "base/check.h"

namespace parplan {

TextDigest::TextDigest() : context_(EVP_MD_CTX_new()) {
  // Looked up once: OpenSSL 3 would look for it again in each digest.
  static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  PARPLAN_CHECK(context_ != nullptr && sha256 != nullptr);
  PARPLAN_CHECK(EVP_DigestInit_ex(context_, sha256, nullptr) == 1);
}

TextDigest::~TextDigest() { EVP_MD_CTX_free(context_); }

void TextDigest::Append(absl::string_view text) {
  PARPLAN_CHECK(EVP_DigestUpdate(context_, text.data(), text.size()) == 1);
}

std::string TextDigest::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  PARPLAN_CHECK(EVP_DigestFinal_ex(context_, digest.data(), &size) == 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

}  // namespace parplan
