#include "server/access/authorizer.h"

#include <utility>

namespace parplan {

std::shared_ptr<const Caller> Authorizer::CallerOf(const CertificateNames& names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Find(Identity::OfCertificate(names, rules_.name_sources));
}

std::shared_ptr<const Caller> Authorizer::AnonymousCaller() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Find(Identity::Anonymous());
}

bool Authorizer::ReadsTokens() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return rules_.tokens != nullptr;
}

std::shared_ptr<const Caller> Authorizer::CallerOfToken(absl::string_view token, absl::Time now) {
  std::shared_ptr<const TokenVerifier> tokens;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tokens = rules_.tokens;
  }
  // A reload may have turned them off since.
  if (tokens == nullptr) return AnonymousCaller();
  // Others do not wait for the verification, which takes some 0.1 ms.
  const absl::StatusOr<Identity> identity = tokens->Verify(token, now);
  if (!identity.ok()) return Caller::Refused(identity.status());
  const std::lock_guard<std::mutex> lock(mutex_);
  return Find(*identity);
}

void Authorizer::Replace(AccessRules rules) {
  const std::lock_guard<std::mutex> lock(mutex_);
  rules_ = std::move(rules);
  known_.clear();
}

std::shared_ptr<const Caller> Authorizer::Find(const Identity& identity) {
  const auto found = known_.find(identity.text());
  if (found != known_.end()) return found->second;
  // Starting anew costs each caller one look through the rules; callers come and go slowly.
  if (known_.size() >= kMaxKnownCallers) known_.clear();
  return known_[identity.text()] = rules_.policy.CallerOf(identity);
}

}  // namespace parplan
