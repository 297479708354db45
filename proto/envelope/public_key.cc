#include "proto/envelope/public_key.h"

#include <openssl/pem.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/system/openssl_handles.h"
#include "proto/envelope/key_id.h"

namespace parplan {
namespace {

constexpr size_t kRawSize = 32;
constexpr size_t kSignatureSize = 64;

const unsigned char* AsBytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Refuses passphrases, since a public key has none; without a callback OpenSSL would ask for one on
// the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

}  // namespace

PublicKey::PublicKey(std::string raw)
    : raw_(std::move(raw)), key_id_(KeyIdOf(Ed25519SubjectPublicKeyInfo(raw_))) {}

absl::StatusOr<PublicKey> PublicKey::FromRaw32(absl::string_view raw) {
  if (raw.size() != kRawSize) {
    return FieldError(
        Reason::kSpecInvalid, "public_key",
        absl::StrCat("an Ed25519 public key has 32 bytes; give those instead of ", raw.size()));
  }
  return PublicKey(std::string(raw));
}

absl::StatusOr<PublicKey> PublicKey::FromPem(absl::string_view pem) {
  const OpensslErrorScope errors;
  const BioHandle bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  PARPLAN_CHECK(bio != nullptr);
  const KeyHandle key(PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    return FieldError(Reason::kSpecInvalid, "public_key",
                      "is no PEM block `PUBLIC KEY`; write one with `openssl pkey -pubout`");
  }
  std::string raw(kRawSize, '\0');
  size_t raw_size = raw.size();
  if (EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(raw.data()),
                                  &raw_size) != 1 ||
      raw_size != kRawSize) {
    return FieldError(Reason::kSpecInvalid, "public_key",
                      "is a key of another kind; plans are signed with Ed25519");
  }
  return PublicKey(std::move(raw));
}

std::string PublicKey::ToPem() const {
  // 44 bytes are 60 base64 digits: one line.
  return absl::StrCat("-----BEGIN PUBLIC KEY-----\n",
                      absl::Base64Escape(Ed25519SubjectPublicKeyInfo(raw_)),
                      "\n-----END PUBLIC KEY-----\n");
}

bool PublicKey::Verify(absl::string_view message, absl::string_view signature) const {
  if (signature.size() != kSignatureSize) return false;
  const OpensslErrorScope errors;
  const KeyHandle key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, AsBytes(raw_), raw_.size()));
  const DigestContextHandle context(EVP_MD_CTX_new());
  PARPLAN_CHECK(key != nullptr && context != nullptr);
  if (EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1) return false;
  return EVP_DigestVerify(context.get(), AsBytes(signature), signature.size(), AsBytes(message),
                          message.size()) == 1;
}

}  // namespace parplan
