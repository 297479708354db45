// The state of a `KeyStore`, without the keys themselves: the file keys.json.
//
//   {"bundle_sequence": 1795669200,
//    "keys": [{"key_id": "<64 digits>", "create_time": "2026-01-01T00:00:00Z",
//              "not_before": "...", "not_after": "...", "status": "active"}]}
//
// A revoked key has a `revoke_time` too. `KeyStore` reads and writes the file. The number of the
// last bundle may be absent, as in files of earlier releases.

#ifndef PARPLAN_PROTO_ENVELOPE_KEY_STORE_STATE_H_
#define PARPLAN_PROTO_ENVELOPE_KEY_STORE_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parplan {

// State of a key of a store.
enum class KeyStatus {
  // Signs every new plan.
  kActive,
  // Is published, so that verifiers get it, but does not sign before the next rotation.
  kNext,
  // Signs nothing any more; verifiers accept its plans until they expire.
  kRetired,
  // Signs nothing and is not trusted any more, its plans included.
  kRevoked,
};

// Returns `active`, `next`, `retired` or `revoked`.
absl::string_view KeyStatusName(KeyStatus status);

// One key of a store. It may issue plans within [not_before, not_after).
struct KeyInfo {
  // Id in signatures and trust bundles.
  std::string key_id;
  absl::Time create_time;
  absl::Time not_before;
  absl::Time not_after;
  KeyStatus status = KeyStatus::kActive;
  // When the key was revoked; set if and only if it was.
  std::optional<absl::Time> revoke_time = std::nullopt;

  // Returns the status at `now`: a key whose window has ended is retired, unless it is revoked.
  KeyStatus StatusAt(absl::Time now) const {
    return now < not_after || status == KeyStatus::kRevoked ? status : KeyStatus::kRetired;
  }
  // Returns whether the key signs plans at `now`.
  bool SignsAt(absl::Time now) const {
    return not_before <= now && StatusAt(now) == KeyStatus::kActive;
  }
  friend bool operator==(const KeyInfo& a, const KeyInfo& b) = default;
};

// The contents of keys.json.
struct KeyStoreState {
  // Number of the last trust bundle that was written; 0 if none had a number.
  int64_t bundle_sequence = 0;
  std::vector<KeyInfo> keys;
};

// Returns the text of keys.json, with the keys in their order.
std::string KeyStoreStateToJson(const KeyStoreState& state);

// Parses keys.json. FAILED_PRECONDITION (STORE_UNAVAILABLE) naming the field if a member is
// missing, unknown, repeated or of another form, a window does not end after it begins, or there is
// no key, one twice, or more than `TrustBundle::kMaxKeyCount`.
absl::StatusOr<KeyStoreState> KeyStoreStateFromJson(absl::string_view json);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_KEY_STORE_STATE_H_
