#include "proto/envelope/private_key.h"

#include <openssl/pem.h>

#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace parplan {
namespace {

// Refuses encrypted files; without a callback OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

}  // namespace

PrivateKey::PrivateKey(KeyHandle key, PublicKey public_key)
    : key_(std::move(key)), public_key_(std::move(public_key)) {}

PrivateKey PrivateKey::Adopt(KeyHandle key) {
  std::string raw(32, '\0');
  size_t raw_size = raw.size();
  PARPLAN_CHECK(EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(raw.data()),
                                            &raw_size) == 1);
  absl::StatusOr<PublicKey> public_key = PublicKey::FromRaw32(raw);
  PARPLAN_CHECK(public_key.ok());
  return PrivateKey(std::move(key), *std::move(public_key));
}

PrivateKey PrivateKey::Generate() {
  const OpensslErrorScope errors;
  const KeyContextHandle context(EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, nullptr));
  EVP_PKEY* key = nullptr;
  PARPLAN_CHECK(context != nullptr && EVP_PKEY_keygen_init(context.get()) == 1 &&
                EVP_PKEY_keygen(context.get(), &key) == 1);
  return Adopt(KeyHandle(key));
}

absl::StatusOr<PrivateKey> PrivateKey::FromPem(absl::string_view pem) {
  const OpensslErrorScope errors;
  const BioHandle bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  PARPLAN_CHECK(bio != nullptr);
  KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    return FieldError(Reason::kSpecInvalid, "private_key",
                      "is no unencrypted PEM block `PRIVATE KEY`; write one with `openssl genpkey "
                      "-algorithm ed25519`");
  }
  if (EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return FieldError(Reason::kSpecInvalid, "private_key",
                      "is a key of another kind; plans are signed with Ed25519");
  }
  return Adopt(std::move(key));
}

std::string PrivateKey::ToPem() const {
  const OpensslErrorScope errors;
  // OpenSSL wipes the memory of a BIO when it frees it.
  const BioHandle bio(BIO_new(BIO_s_mem()));
  PARPLAN_CHECK(bio != nullptr && PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr,
                                                                nullptr, 0, nullptr, nullptr) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

std::string PrivateKey::Sign(absl::string_view message) const {
  const OpensslErrorScope errors;
  const DigestContextHandle context(EVP_MD_CTX_new());
  std::string signature(64, '\0');
  size_t size = signature.size();
  PARPLAN_CHECK(context != nullptr &&
                EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
                EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()),
                               &size, reinterpret_cast<const unsigned char*>(message.data()),
                               message.size()) == 1 &&
                size == signature.size());
  return signature;
}

}  // namespace parplan
