// An Ed25519 private key (RFC 8032). Only programs that sign plans link this. `KeyStore` holds
// them, and `SignPayload` signs with them.

#ifndef PARPLAN_PROTO_ENVELOPE_PRIVATE_KEY_H_
#define PARPLAN_PROTO_ENVELOPE_PRIVATE_KEY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/system/openssl_handles.h"
#include "proto/envelope/public_key.h"

namespace parplan {

// A private key: movable, not copyable. OpenSSL wipes the secret when the object is destroyed.
// `Sign` may be called from several threads at once. A failure of OpenSSL itself, such as no
// memory, aborts the process.
class PrivateKey {
 public:
  // Makes a new key from OpenSSL's random numbers for private values.
  static PrivateKey Generate();

  // Reads an unencrypted PEM block `PRIVATE KEY` (PKCS#8, RFC 8410 §7). INVALID_ARGUMENT
  // (SPEC_INVALID) for all else, another kind of key included; the message never quotes the text.
  static absl::StatusOr<PrivateKey> FromPem(absl::string_view pem);

  PrivateKey(PrivateKey&&) = default;
  PrivateKey& operator=(PrivateKey&&) = default;

  // Returns a PEM block `PRIVATE KEY`. The text is the secret; the caller must wipe it.
  std::string ToPem() const;

  // Returns the public half, valid as long as this object.
  const PublicKey& public_key() const { return public_key_; }

  // Returns the signature of `message`, 64 bytes. Deterministic: the same key and message give the
  // same signature.
  std::string Sign(absl::string_view message) const;

 private:
  PrivateKey(KeyHandle key, PublicKey public_key);

  // REQUIRES: `key` is an Ed25519 private key.
  static PrivateKey Adopt(KeyHandle key);

  KeyHandle key_;
  PublicKey public_key_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_PRIVATE_KEY_H_
