// The server's signing keys, shared by threads. `PlanCore` signs with it; the program reloads it on
// SIGHUP.

#ifndef PARPLAN_SERVER_CORE_KEY_RING_H_
#define PARPLAN_SERVER_CORE_KEY_RING_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "proto/envelope/key_store.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verifier.h"

namespace parplan {

// A `KeyStore` behind a lock. Safe to use from any thread; calls wait while `RotateIfDue` or
// `Reload` uses the disk.
class KeyRing {
 public:
  KeyRing(KeyStore store, absl::Time now);

  // Signs with every key that may sign at `now`. The error of the key store (FAILED_PRECONDITION,
  // STORE_UNAVAILABLE) if there is none. Reads no file.
  absl::StatusOr<v1::SignedPlan> Sign(std::string payload_bytes, absl::Time now);

  // Returns a verifier that trusts the keys of this ring as of the last `RotateIfDue` or `Reload`,
  // as an executor would: every key that `Sign` uses is among them. It may outlive the ring.
  std::shared_ptr<const PlanVerifier> Verifier() const;

  // Returns every public key, to hand out.
  TrustBundle Bundle(absl::Time now) const;
  std::string bundle_path() const;

  // Makes a new key if the old ones end soon (`KeyStore::RotateIfDue`); returns whether it did. To
  // be called at start and once a day. Errors of this and `Reload` are those of the key store:
  // FAILED_PRECONDITION, NOT_FOUND and UNAVAILABLE, all STORE_UNAVAILABLE. After UNAVAILABLE new
  // keys may sign although the bundle on disk lacks them; the next call writes it again.
  absl::StatusOr<bool> RotateIfDue(absl::Time now);

  // Reads the folder again, after another program changed it.
  absl::Status Reload(absl::Time now);

 private:
  mutable std::mutex mutex_;
  KeyStore store_;                                // Guarded by mutex_.
  std::shared_ptr<const PlanVerifier> verifier_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_KEY_RING_H_
