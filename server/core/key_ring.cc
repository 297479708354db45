#include "server/core/key_ring.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "proto/envelope/signer.h"

namespace parplan {

KeyRing::KeyRing(KeyStore store, absl::Time now)
    : last_look_(absl::ToUnixNanos(now)), store_(std::move(store)) {
  TrustPresentKeys(now);
}

bool KeyRing::IsLookDue(absl::Time now) {
  int64_t last = last_look_;
  const int64_t present = absl::ToUnixNanos(now);
  // The clock may be set back.
  return std::abs(present - last) >= absl::ToInt64Nanoseconds(kLookInterval) &&
         last_look_.compare_exchange_strong(last, present);
}

void KeyRing::LookAgain(absl::Time now) {
  if (!store_.HasChanged()) return;
  // Keys from before an error go on; the next look tries again.
  (void)store_.Reload(now);
  TrustPresentKeys(now);
}

void KeyRing::TrustPresentKeys(absl::Time now) {
  const TrustBundle bundle = store_.PublicBundle(now);
  if (verifier_ != nullptr && bundle.keys() == trusted_) return;
  trusted_ = bundle.keys();
  verifier_ = std::make_shared<const PlanVerifier>(bundle);
  ++trust_version_;
}

int64_t KeyRing::TrustVersion(absl::Time now) {
  if (IsLookDue(now)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    LookAgain(now);
  }
  return trust_version_;
}

absl::StatusOr<int> KeyRing::SigningKeyCount(absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<const PrivateKey*> keys, store_.SigningKeys(now));
  return static_cast<int>(keys.size());
}

absl::StatusOr<v1::SignedPlan> KeyRing::Sign(std::string payload_bytes, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (IsLookDue(now)) LookAgain(now);
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
  TrustPresentKeys(now);
  return rotated;
}

absl::Status KeyRing::Reload(absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::Status reloaded = store_.Reload(now);
  TrustPresentKeys(now);
  return reloaded;
}

}  // namespace parplan
