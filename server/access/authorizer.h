// Finds the caller behind a certificate, a token, a user of a Unix socket or none of them, by the
// policy of the moment. `CallerOf` (server/rpc/peer_identity.h) asks it at the beginning of each
// call, and `parplan-server access show` for a certificate that a person describes.

#ifndef PARPLAN_SERVER_ACCESS_AUTHORIZER_H_
#define PARPLAN_SERVER_ACCESS_AUTHORIZER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/access/caller.h"
#include "server/access/credential.h"
#include "server/access/identity.h"
#include "server/access/policy.h"
#include "server/access/token_verifier.h"

namespace parplan {

// The part of a configuration that is about callers; `AccessRulesOf` (server/main/settings_rules.h)
// makes it.
struct AccessRules {
  Policy policy = Policy::AllowAll();
  // The names of a certificate without a SPIFFE id that count, the preferred first.
  std::vector<NameSource> name_sources = {NameSource::kDns, NameSource::kCommonName};
  // Null if tokens are not read.
  std::shared_ptr<const TokenVerifier> tokens;
  // Whether the user of a Unix socket is an identity.
  bool knows_local_users = false;
};

// Safe to use from any thread. No caller that it returns is null; callers go on as they are after a
// `Replace`, and may outlive the authorizer. Nothing here waits for a disk or network; a token
// takes some 0.1 ms.
class Authorizer {
 public:
  explicit Authorizer(AccessRules rules) : rules_(std::move(rules)) {}

  // Return the caller with these names (`Identity::OfCertificate`), and the one without a
  // certificate or token; never null. Callers that are not kept cost a look through all patterns of
  // the policy.
  std::shared_ptr<const Caller> CallerOf(const CertificateNames& names);
  std::shared_ptr<const Caller> AnonymousCaller();

  // Returns the caller with this token of a service account, given without `Bearer `, at the time
  // of day `now`; a refused one (`Caller::Refused`) if the token does not prove who it is. The
  // token is verified anew each time. Ask `ReadsTokens` first: if tokens are not read, perhaps
  // since a `Replace` a moment ago, the caller is the anonymous one.
  std::shared_ptr<const Caller> CallerOfToken(absl::string_view token, absl::Time now);
  bool ReadsTokens();

  // Returns the caller who is this user of the machine and connected to a Unix socket; the
  // anonymous one if users are not known.
  std::shared_ptr<const Caller> CallerOfLocalUser(uid_t user);

  // Returns the token as a credential with its end. If the token does not pass now, `expiry` and
  // `end` are InfinitePast, and `Recheck` refuses the credential until the token passes. Kind kNone
  // if tokens are not read.
  Credential CredentialOfToken(absl::string_view token, absl::Time now);

  // Returns OK if the credential, with which the caller `held` was found at an earlier time, still
  // is good for as much: it has not ended, it still proves the same identity, and that identity has
  // every role of `held`, each with the very clusters, nodes and jobs, in the same order: a wider
  // role instead of it does not count, an unrestricted caller does. Else UNAUTHENTICATED
  // (ROLE_REQUIRED) with a message that names what has ended and what to do. A token is verified
  // anew, a certificate not.
  absl::Status Recheck(const Credential& credential, const Caller& held, absl::Time now);

  // Later calls follow these rules. Streams that are open go on with the caller they began with
  // until `CredentialWatch` (server/rpc/credential_watch.h) ends those that lost a role.
  void Replace(AccessRules rules);

  // Returns the number of calls of `Replace`, from 0.
  int64_t generation();

  // Callers kept, by identity; when there are more, all are forgotten. More than agents of a server
  // (`Limits::max_agent_count`), so that theirs and those of as many others are found at once.
  static constexpr size_t kMaxKnownCallers = 16384;

 private:
  std::shared_ptr<const Caller> Find(const Identity& identity);

  std::mutex mutex_;
  AccessRules rules_;                                           // Guarded by mutex_.
  int64_t generation_ = 0;                                      // Guarded by mutex_.
  std::map<std::string, std::shared_ptr<const Caller>> known_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_AUTHORIZER_H_
