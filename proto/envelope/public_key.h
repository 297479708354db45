// An Ed25519 public key (RFC 8032), which checks signatures and has an id. `TrustBundle` holds
// them.

#ifndef PARPLAN_PROTO_ENVELOPE_PUBLIC_KEY_H_
#define PARPLAN_PROTO_ENVELOPE_PUBLIC_KEY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// An immutable value. Safe to use from any thread.
class PublicKey {
 public:
  // Reads the 32 bytes of RFC 8032. INVALID_ARGUMENT (SPEC_INVALID) for any other length. Whether
  // they are a point of the curve is not checked.
  static absl::StatusOr<PublicKey> FromRaw32(absl::string_view raw);

  // Reads a PEM block `PUBLIC KEY` (SubjectPublicKeyInfo). INVALID_ARGUMENT (SPEC_INVALID) if there
  // is none, or if it is another kind of key.
  static absl::StatusOr<PublicKey> FromPem(absl::string_view pem);

  // Returns a PEM block `PUBLIC KEY`, as `openssl pkey -pubout` writes it.
  std::string ToPem() const;

  // Key as the 32 bytes of RFC 8032.
  const std::string& raw() const { return raw_; }

  // Id of the key (key_id.h).
  const std::string& key_id() const { return key_id_; }

  // Returns whether the holder of the private key signed exactly `message`. False for a malformed
  // signature, an empty one included.
  bool Verify(absl::string_view message, absl::string_view signature) const;

  friend bool operator==(const PublicKey& a, const PublicKey& b) { return a.raw_ == b.raw_; }

 private:
  explicit PublicKey(std::string raw);

  std::string raw_;
  std::string key_id_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_PUBLIC_KEY_H_
