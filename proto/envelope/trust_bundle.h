// The public keys that a verifier trusts, each with the time in which it may issue plans. Written
// as a JSON Web Key Set (RFC 7517, keys of RFC 8037), a file that the owner of a cluster hands out;
// a verifier never gets its keys from the server that it checks.
//
//   {"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA",
//              "kid": "<key id>", "x": "<public key, base64url>",
//              "parplan_not_before": "2026-01-01T00:00:00Z",
//              "parplan_not_after": "2026-04-01T00:00:00Z",
//              "parplan_status": "active"}],
//    "parplan_sequence": 1795669200,
//    "parplan_issue_time": "2026-01-01T00:00:00Z",
//    "parplan_expire_time": "2026-04-01T00:00:00Z",
//    "parplan_signatures": [{"keyid": "<key id>", "sig": "<base64>"}]}
//
// A revoked key has a `parplan_revoke_time` too. The last four members are the version of a bundle,
// as key stores write it since 0.1.0. A bundle without them is unsigned: it never expires and is
// older than every other. `PlanVerifier` has one, and `KeyStore` writes it.

#ifndef PARPLAN_PROTO_ENVELOPE_TRUST_BUNDLE_H_
#define PARPLAN_PROTO_ENVELOPE_TRUST_BUNDLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "parplan/v1/plan_service.pb.h"
#include "proto/envelope/public_key.h"

namespace parplan {

// State of a key. A verifier asks only whether it is revoked, and looks at the window.
enum class TrustStatus {
  // Signs new plans, now or later.
  kActive,
  // Signs nothing any more. Its plans stay valid until they expire.
  kRetired,
  // A thief may have the private key. Nothing that it signed is trusted, whenever.
  kRevoked,
};

// A public key and the half-open window [not_before, not_after) in which the issue time of its
// plans must lie.
struct TrustedKey {
  PublicKey public_key;
  absl::Time not_before;
  absl::Time not_after;
  TrustStatus status = TrustStatus::kActive;
  // When the key was revoked; set if and only if it was.
  std::optional<absl::Time> revoke_time = std::nullopt;

  // Returns whether the key was revoked.
  bool is_revoked() const { return status == TrustStatus::kRevoked; }
  // Returns whether `time` is in the window; a revoked key is not refused here.
  bool MayIssueAt(absl::Time time) const { return not_before <= time && time < not_after; }
  friend bool operator==(const TrustedKey& a, const TrustedKey& b) = default;
};

// The place of a bundle among those of its key store, and how long verifiers may use it.
struct BundleVersion {
  // From 1 to `kMaxSequence`; a later bundle has a higher one.
  int64_t sequence = 1;
  // Half-open time [issue_time, expire_time). Verifiers look at its end alone.
  absl::Time issue_time;
  absl::Time expire_time;

  // The largest number that every reader of JSON keeps exact.
  static constexpr int64_t kMaxSequence = (int64_t{1} << 53) - 1;
  friend bool operator==(const BundleVersion& a, const BundleVersion& b) = default;
};

// A signature of a whole bundle, 64 bytes, and the id of the key to try first.
struct BundleSignature {
  // Only selects the key to try first; the signature decides.
  std::string key_id;
  std::string sig;
};

// An immutable set of at most 64 different keys, ordered by the start of their windows, then by key
// id. Safe to use from any thread.
class TrustBundle {
 public:
  static constexpr size_t kMaxKeyCount = 64;

  // Largest number of signatures; more are refused.
  static constexpr size_t kMaxSignatureCount = 16;

  // Makes a bundle that trusts no key.
  TrustBundle() = default;

  // Returns the bundle of `keys`. INVALID_ARGUMENT (SPEC_INVALID), naming `keys[i]...`, for too
  // many keys, two equal keys, a window that is empty or outside the years 1 to 9999, a revoked key
  // without the time of that, and such a time for another key.
  static absl::StatusOr<TrustBundle> Create(std::vector<TrustedKey> keys);

  // Returns the bundle of `keys` with a version, not signed yet. INVALID_ARGUMENT (SPEC_INVALID) as
  // for `Create`, and for a version out of its ranges.
  static absl::StatusOr<TrustBundle> Create(std::vector<TrustedKey> keys,
                                            const BundleVersion& version);

  // Reads a key set of at least one key. INVALID_ARGUMENT (SPEC_INVALID) naming the field for
  // another `kty`, `crv`, `use` or `alg`, a `kid` that is not the key id of `x`, the private member
  // `d`, an unknown or repeated member, everything that `Create` refuses, and text that is not JSON
  // or above 1 MiB. `use`, `alg` and `parplan_status` may be absent, and all members of the version
  // together; a version without a signature by one of the bundle's own keys that is not revoked is
  // refused, since the file was edited. Whether the bundle has expired (`CheckLife`) or is the one
  // to trust (`CheckSuccessor`) is not checked: anybody can sign a bundle with keys of their own.
  static absl::StatusOr<TrustBundle> FromJson(absl::string_view json);

  // Returns the key set as indented JSON. Equal bundles give equal texts.
  std::string ToJson() const;

  // Returns the bytes that the signatures of the bundle cover: the pre-authentication encoding of a
  // text that has the version and every key. REQUIRES: the bundle has a version; aborts otherwise.
  std::string SignedBytes() const;

  // Returns this bundle with other signatures, which are not verified. REQUIRES: it has a version,
  // and `signatures` are 1 to 16; aborts otherwise.
  TrustBundle WithSignatures(std::vector<BundleSignature> signatures) const;

  // Returns PERMISSION_DENIED (SIGNATURE_INVALID) if the bundle has expired at `now`: it trusts no
  // key any more. A bundle without a version never expires.
  absl::Status CheckLife(absl::Time now) const;

  // Decides whether a verifier that accepted this bundle may go on to `next`. PERMISSION_DENIED
  // (SIGNATURE_INVALID) if `next` is older: its sequence is lower, or the same with other contents,
  // or it has no version although this one does; and if it is newer and no key of this bundle that
  // is not revoked here signed it. A key store signs with all its keys, so that whoever knows one
  // of them can follow. The same bundle again is accepted. A bundle without a version accepts any,
  // signed or not. The life of neither bundle is looked at.
  absl::Status CheckSuccessor(const TrustBundle& next) const;

  // Returns the messages of `Capabilities.verification_keys`, which carry no status; revoked keys
  // are left out.
  google::protobuf::RepeatedPtrField<v1::VerificationKey> ToProto() const;

  // Returns the key with this id, or null. The pointer is valid as long as the bundle.
  const TrustedKey* Find(absl::string_view key_id) const;

  // Returns all keys, in the order stated above, revoked ones included.
  const std::vector<TrustedKey>& keys() const { return keys_; }

  // The version; nothing for an unsigned bundle.
  const std::optional<BundleVersion>& version() const { return version_; }
  // Returns the signatures, which were not verified; none for an unsigned bundle.
  const std::vector<BundleSignature>& signatures() const { return signatures_; }

 private:
  // Returns whether a key of `trust` that it does not list as revoked signed this bundle.
  bool IsSignedByKeyOf(const TrustBundle& trust) const;

  std::vector<TrustedKey> keys_;
  std::optional<BundleVersion> version_;
  std::vector<BundleSignature> signatures_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_TRUST_BUNDLE_H_
