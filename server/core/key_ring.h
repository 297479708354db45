// The server's signing keys, shared by threads. `PlanCore` signs with it; the program reloads it on
// SIGHUP.

#ifndef PARPLAN_SERVER_CORE_KEY_RING_H_
#define PARPLAN_SERVER_CORE_KEY_RING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "proto/envelope/key_store.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verifier.h"

namespace parplan {

// A `KeyStore` behind a lock. Safe to use from any thread; calls wait while another one uses the
// disk, as `RotateIfDue` and `Reload` do, and `Sign` and `TrustVersion` if the folder changed.
//
// `Sign` and `TrustVersion` look, at most once a second, whether another program changed the
// folder, and read it again then: a key that `parplan-server keys revoke` revoked signs no more a
// second later, also on other servers with the same folder. If the folder cannot be read, the keys
// are those from before.
class KeyRing {
 public:
  // Time between two looks: a call of the system each. Not measured; a folder on a network may take
  // milliseconds.
  static constexpr absl::Duration kLookInterval = absl::Seconds(1);

  // Takes over `store`, which has been opened. `now` is the time of day, here and in the methods.
  KeyRing(KeyStore store, absl::Time now);

  // Signs `payload_bytes`, a serialized `PlanPayload`, with every key that may sign at `now`, and
  // puts the bytes unchanged into the envelope. Returns FAILED_PRECONDITION (STORE_UNAVAILABLE) if
  // there is none.
  absl::StatusOr<v1::SignedPlan> Sign(std::string payload_bytes, absl::Time now);

  // Returns the number of keys that sign at `now`, at least 1; the error of `Sign` if there is
  // none.
  absl::StatusOr<int> SigningKeyCount(absl::Time now) const;

  // Returns a number that grows when the keys that `Verifier` trusts change. A plan that the
  // verifier accepted under one number need not be verified again, except for time, while the
  // number is the same.
  int64_t TrustVersion(absl::Time now);

  // Returns a verifier that trusts the keys of this ring as of the last `RotateIfDue`, `Reload` or
  // look at the folder, as an executor would: every key that `Sign` uses is among them, and no
  // revoked one. It may outlive the ring.
  std::shared_ptr<const PlanVerifier> Verifier() const;

  // Returns every public key, also waiting, retired and revoked ones, for `GetCapabilities` and for
  // verifiers of this process. It has no version; the bundle's file has one.
  TrustBundle Bundle(absl::Time now) const;
  // Returns the path of the bundle's file.
  std::string bundle_path() const;

  // Makes a new key if the old ones end soon (`KeyStore::RotateIfDue`); returns whether it did. To
  // be called at start and once a day. Errors of this and `Reload` are those of the key store:
  // FAILED_PRECONDITION, NOT_FOUND and UNAVAILABLE, all STORE_UNAVAILABLE. After UNAVAILABLE new
  // keys may sign although the bundle on disk lacks them; the next call writes it again.
  absl::StatusOr<bool> RotateIfDue(absl::Time now);

  // Reads the folder again, after another program changed it. If its keys cannot be read, they are
  // those from before.
  absl::Status Reload(absl::Time now);

 private:
  // Returns whether `kLookInterval` has passed since the last look, and begins the next one if so.
  bool IsLookDue(absl::Time now);

  // Reads the folder again if another program changed it. REQUIRES: mutex_ is held.
  void LookAgain(absl::Time now);

  // Makes the verifier of the present keys. REQUIRES: mutex_ is held.
  void TrustPresentKeys(absl::Time now);

  std::atomic<int64_t> last_look_;  // Nanoseconds since 1970.
  std::atomic<int64_t> trust_version_ = 1;
  mutable std::mutex mutex_;
  KeyStore store_;                                // Guarded by mutex_.
  std::vector<TrustedKey> trusted_;               // Those of verifier_. Guarded by mutex_.
  std::shared_ptr<const PlanVerifier> verifier_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_KEY_RING_H_
