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
