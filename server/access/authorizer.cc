#include "server/access/authorizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan {
namespace {

absl::Status Ended(const std::string& what) {
  return MakeError(absl::StatusCode::kUnauthenticated, Reason::kRoleRequired, what);
}

absl::Status Expired(const Credential& credential, const Caller& held) {
  const bool is_token = credential.kind == Credential::Kind::kToken;
  return Ended(absl::StrCat(
      is_token ? "the token" : "the client certificate", " of `", held.identity().text(),
      "` expired at ", absl::FormatTime(absl::RFC3339_sec, credential.expiry, absl::UTCTimeZone()),
      ", and a stream ends with it; ",
      is_token ? "read the renewed token and begin the stream anew"
               : "renew the certificate and connect anew"));
}

// Returns whether `now` may do all that `before` could.
bool HasRolesOf(const Caller& now, const Caller& before) {
  if (!now.is_restricted()) return true;
  if (!before.is_restricted()) return false;
  return std::all_of(before.roles().begin(), before.roles().end(), [&now](const HeldRole& role) {
    return std::find(now.roles().begin(), now.roles().end(), role) != now.roles().end();
  });
}

}  // namespace

std::shared_ptr<const Caller> Authorizer::CallerOf(const CertificateNames& names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Find(Identity::OfCertificate(names, rules_.name_sources));
}

std::shared_ptr<const Caller> Authorizer::AnonymousCaller() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Find(Identity::Anonymous());
}

std::shared_ptr<const Caller> Authorizer::CallerOfLocalUser(uid_t user) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Find(rules_.knows_local_users ? Identity::OfLocalUser(user) : Identity::Anonymous());
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
  const absl::StatusOr<VerifiedToken> verified = tokens->Verify(token, now);
  if (!verified.ok()) return Caller::Refused(verified.status());
  const std::lock_guard<std::mutex> lock(mutex_);
  return Find(verified->identity);
}

Credential Authorizer::CredentialOfToken(absl::string_view token, absl::Time now) {
  std::shared_ptr<const TokenVerifier> tokens;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tokens = rules_.tokens;
  }
  if (tokens == nullptr) return {};
  const absl::StatusOr<VerifiedToken> verified = tokens->Verify(token, now);
  const absl::Time expiry = verified.ok() ? verified->expiry : absl::InfinitePast();
  return {.kind = Credential::Kind::kToken,
          .token = std::string(token),
          .names = {},
          .user = 0,
          .expiry = expiry,
          .end = expiry + TokenVerifier::kLeeway};
}

absl::Status Authorizer::Recheck(const Credential& credential, const Caller& held, absl::Time now) {
  const bool passed = credential.end != absl::InfinitePast();
  if (passed && now >= credential.end) return Expired(credential, held);
  const std::shared_ptr<const Caller> caller =
      credential.kind == Credential::Kind::kToken         ? CallerOfToken(credential.token, now)
      : credential.kind == Credential::Kind::kCertificate ? CallerOf(credential.names)
      : credential.kind == Credential::Kind::kLocalUser   ? CallerOfLocalUser(credential.user)
                                                          : AnonymousCaller();
  if (!caller->refusal().ok()) {
    return Ended(absl::StrCat(passed ? "the configuration was read again, and since then "
                                     : "the token passed when this stream began and then no more: ",
                              caller->refusal().message()));
  }
  if (caller->identity() != held.identity() || !HasRolesOf(*caller, held)) {
    return Ended(absl::StrCat("the configuration was read again and takes a role from `",
                              held.identity().text(),
                              "` with which this stream began; begin it anew"));
  }
  return absl::OkStatus();
}

void Authorizer::Replace(AccessRules rules) {
  const std::lock_guard<std::mutex> lock(mutex_);
  rules_ = std::move(rules);
  known_.clear();
  ++generation_;
}

int64_t Authorizer::generation() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return generation_;
}

std::shared_ptr<const Caller> Authorizer::Find(const Identity& identity) {
  const auto found = known_.find(identity.text());
  if (found != known_.end()) return found->second;
  // Starting anew costs each caller one look through the rules; callers come and go slowly.
  if (known_.size() >= kMaxKnownCallers) known_.clear();
  return known_[identity.text()] = rules_.policy.CallerOf(identity);
}

}  // namespace parplan
