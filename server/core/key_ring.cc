#include "server/core/key_ring.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "proto/envelope/signer.h"

namespace parplan {

KeyRing::KeyRing(KeyStore store, absl::Time now)
    : store_(std::move(store)),
      verifier_(std::make_shared<const PlanVerifier>(store_.PublicBundle(now))) {}

absl::StatusOr<v1::SignedPlan> KeyRing::Sign(std::string payload_bytes, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<const PrivateKey*> keys, store_.SigningKeys(now));
  return SignPayload(std::move(payload_bytes), keys);
}

std::shared_ptr<const PlanVerifier> KeyRing::Verifier() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return verifier_;
}

TrustBundle KeyRing::Bundle(absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return store_.PublicBundle(now);
}

std::string KeyRing::bundle_path() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return store_.bundle_path();
}

absl::StatusOr<bool> KeyRing::RotateIfDue(absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::StatusOr<bool> rotated = store_.RotateIfDue(now);
  // After an error the store may have new keys all the same, and sign with them.
  verifier_ = std::make_shared<const PlanVerifier>(store_.PublicBundle(now));
  return rotated;
}

absl::Status KeyRing::Reload(absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::Status reloaded = store_.Reload(now);
  verifier_ = std::make_shared<const PlanVerifier>(store_.PublicBundle(now));
  return reloaded;
}

}  // namespace parplan
