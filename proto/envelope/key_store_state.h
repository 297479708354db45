// What a `KeyStore` knows of its keys, without the keys: the file keys.json.
//
//   {"keys": [{"key_id": "<64 digits>", "create_time": "2026-01-01T00:00:00Z",
//              "not_before": "...", "not_after": "...", "status": "active"}]}

#ifndef PARPLAN_PROTO_ENVELOPE_KEY_STORE_STATE_H_
#define PARPLAN_PROTO_ENVELOPE_KEY_STORE_STATE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parplan {

enum class KeyStatus {
  // Signs every new plan.
  kActive,
  // Published, so that verifiers learn it, but does not sign before the next
  // rotation.
  kNext,
  // Signs no more; verifiers still accept its plans until these expire.
  kRetired,
};

// `active`, `next` or `retired`.
absl::string_view KeyStatusName(KeyStatus status);

// One key of a store. It may issue plans within [not_before, not_after).
struct KeyInfo {
  std::string key_id;
  absl::Time create_time;
  absl::Time not_before;
  absl::Time not_after;
  KeyStatus status = KeyStatus::kActive;

  // The status seen at `now`: a key whose window is over is retired, whatever
  // was last written down.
  KeyStatus StatusAt(absl::Time now) const {
    return now < not_after ? status : KeyStatus::kRetired;
  }
  friend bool operator==(const KeyInfo& a, const KeyInfo& b) = default;
};

// The text of keys.json, in the order given.
std::string KeyInfosToJson(const std::vector<KeyInfo>& keys);

// FAILED_PRECONDITION (STORE_UNAVAILABLE) naming the field for any text that
// `KeyInfosToJson` would not write, white space aside.
absl::StatusOr<std::vector<KeyInfo>> KeyInfosFromJson(absl::string_view json);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_KEY_STORE_STATE_H_
