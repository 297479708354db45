// The public keys that a verifier trusts, each with the time in which it may issue plans. Written
// as a JSON Web Key Set (RFC 7517, keys of RFC 8037), a file that the owner of a cluster hands out;
// a verifier never gets its keys from the server that it checks.
//
//   {"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA",
//              "kid": "<key id>", "x": "<public key, base64url>",
//              "parplan_not_before": "2026-01-01T00:00:00Z",
//              "parplan_not_after": "2026-04-01T00:00:00Z",
//              "parplan_status": "active"}]}

#ifndef PARPLAN_PROTO_ENVELOPE_TRUST_BUNDLE_H_
#define PARPLAN_PROTO_ENVELOPE_TRUST_BUNDLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "parplan/v1/plan_service.pb.h"
#include "proto/envelope/public_key.h"

namespace parplan {

// State of a key, for people and tools. A verifier looks at the window alone.
enum class TrustStatus {
  // Signs new plans, now or later.
  kActive,
  // Signs nothing any more. Its plans stay valid until they expire.
  kRetired,
};

// A public key and the half-open window [not_before, not_after) in which the issue time of its
// plans must lie.
struct TrustedKey {
  PublicKey public_key;
  absl::Time not_before;
  absl::Time not_after;
  TrustStatus status = TrustStatus::kActive;

  bool MayIssueAt(absl::Time time) const { return not_before <= time && time < not_after; }
  friend bool operator==(const TrustedKey& a, const TrustedKey& b) = default;
};

// An immutable set of at most 64 different keys, ordered by the start of their windows, then by key
// id.
class TrustBundle {
 public:
  static constexpr size_t kMaxKeyCount = 64;

  // Makes a bundle that trusts no key.
  TrustBundle() = default;

  // Returns the bundle of `keys`. INVALID_ARGUMENT (SPEC_INVALID), naming `keys[i]...`, for too
  // many keys, two equal keys, and a window that is empty or outside the years 1 to 9999.
  static absl::StatusOr<TrustBundle> Create(std::vector<TrustedKey> keys);

  // Reads a key set of at least one key. INVALID_ARGUMENT (SPEC_INVALID) naming the field for
  // another `kty`, `crv`, `use` or `alg`, a `kid` that is not the key id of `x`, the private member
  // `d`, an unknown or repeated member, everything that `Create` refuses, and text that is not JSON
  // or above 1 MiB. `use`, `alg` and `parplan_status` may be absent.
  static absl::StatusOr<TrustBundle> FromJson(absl::string_view json);

  // Returns the key set as indented JSON. Equal bundles give equal texts.
  std::string ToJson() const;

  // Returns the messages of `Capabilities.verification_keys`, which carry no status.
  google::protobuf::RepeatedPtrField<v1::VerificationKey> ToProto() const;

  // Returns the key with this id, or null. The pointer is valid as long as the bundle.
  const TrustedKey* Find(absl::string_view key_id) const;

  const std::vector<TrustedKey>& keys() const { return keys_; }

 private:
  std::vector<TrustedKey> keys_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_TRUST_BUNDLE_H_
