// The server's signing keys, for many threads at once.

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

// A key store with a lock around it. Safe to use from any thread.
class KeyRing {
 public:
  KeyRing(KeyStore store, absl::Time now);

  // Signs with every key that may sign at `now`. The error is the key store's
  // (FAILED_PRECONDITION, STORE_UNAVAILABLE) when there is none.
  absl::StatusOr<v1::SignedPlan> Sign(std::string payload_bytes, absl::Time now);

  // Checks with the keys of this ring, as an executor would.
  std::shared_ptr<const PlanVerifier> Verifier() const;

  // Every public key, to hand out.
  TrustBundle Bundle(absl::Time now) const;
  std::string bundle_path() const;

  // Makes a new key when the old ones end soon. Call it at start and once a day.
  absl::StatusOr<bool> RotateIfDue(absl::Time now);

  // Reads the folder again, after somebody else changed it.
  absl::Status Reload(absl::Time now);

 private:
  mutable std::mutex mutex_;
  KeyStore store_;                                // Guarded by mutex_.
  std::shared_ptr<const PlanVerifier> verifier_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_KEY_RING_H_
