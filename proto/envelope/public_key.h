// An Ed25519 public key (RFC 8032): checks signatures and knows its own id.

#ifndef PARPLAN_PROTO_ENVELOPE_PUBLIC_KEY_H_
#define PARPLAN_PROTO_ENVELOPE_PUBLIC_KEY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// A value: copied freely, never changed, safe to use from any thread.
class PublicKey {
 public:
  // From the 32 bytes of RFC 8032. INVALID_ARGUMENT for any other length.
  static absl::StatusOr<PublicKey> FromRaw32(absl::string_view raw);

  // From a PEM block `PUBLIC KEY` (SubjectPublicKeyInfo). INVALID_ARGUMENT where
  // there is none, or where it holds another kind of key.
  static absl::StatusOr<PublicKey> FromPem(absl::string_view pem);

  // One PEM block `PUBLIC KEY`, as `openssl pkey -pubout` writes it.
  std::string ToPem() const;

  // The 32 bytes of RFC 8032.
  const std::string& raw() const { return raw_; }

  // See proto/envelope/key_id.h.
  const std::string& key_id() const { return key_id_; }

  // Whether the holder of the private key signed exactly `message`. False for a
  // signature of any form that is not right, an empty one included.
  bool Verify(absl::string_view message, absl::string_view signature) const;

  friend bool operator==(const PublicKey& a, const PublicKey& b) { return a.raw_ == b.raw_; }

 private:
  explicit PublicKey(std::string raw);

  std::string raw_;
  std::string key_id_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_PUBLIC_KEY_H_
