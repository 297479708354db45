#include "proto/envelope/key_id.h"

#include <openssl/evp.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace parplan {
namespace {

// SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING of 32 bytes follows }.
constexpr char kEd25519Prefix[] = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

}  // namespace

std::string Ed25519SubjectPublicKeyInfo(absl::string_view raw_public_key) {
  PARPLAN_CHECK(raw_public_key.size() == 32);
  return absl::StrCat(absl::string_view(kEd25519Prefix, sizeof(kEd25519Prefix) - 1),
                      raw_public_key);
}

std::string HexDigest(absl::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int digest_size = 0;
  const int made =
      EVP_Digest(bytes.data(), bytes.size(), digest, &digest_size, EVP_sha256(), nullptr);
  PARPLAN_CHECK(made == 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), digest_size));
}

std::string KeyIdOf(absl::string_view subject_public_key_info) {
  return HexDigest(subject_public_key_info);
}

bool HasKeyIdForm(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace parplan
