// Verifies tokens of Kubernetes service accounts: JSON Web Tokens (RFC 7519) that the kubelet
// projects into a pod for an audience. `AccessRulesOf` (server/main/settings_rules.h) makes one,
// and `Authorizer` asks it.
//
//   const TokenVerifier verifier({.issuer = issuer, .audience = "parplan"}, std::move(key_set));
//   PARPLAN_ASSIGN_OR_RETURN(const VerifiedToken verified, verifier.Verify(token, absl::Now()));

#ifndef PARPLAN_SERVER_ACCESS_TOKEN_VERIFIER_H_
#define PARPLAN_SERVER_ACCESS_TOKEN_VERIFIER_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/access/identity.h"
#include "server/access/web_key_set.h"

namespace parplan {

// The identity that a token proves, and the time until which it does.
struct VerifiedToken {
  Identity identity;
  // Its `exp`. The token passes until `TokenVerifier::kLeeway` later.
  absl::Time expiry;
};

// Immutable, so that any thread may use it.
class TokenVerifier {
 public:
  // The values that a token must have; `audience` may be one of several in its `aud`. REQUIRES:
  // neither is empty; not checked.
  struct Rules {
    std::string issuer;
    std::string audience;
  };

  // The difference of clocks that `exp` and `nbf` allow for.
  static constexpr absl::Duration kLeeway = absl::Seconds(30);
  // Bytes of a token. Those of Kubernetes have some 1,000.
  static constexpr size_t kMaxTokenBytes = 8192;

  TokenVerifier(Rules rules, WebKeySet keys) : rules_(std::move(rules)), keys_(std::move(keys)) {}

  // Returns the identity of a service account, `k8s:NAMESPACE/NAME`, and the end of its token.
  // UNAUTHENTICATED (ROLE_REQUIRED) with a message that says which of these is wrong: a text that
  // is no signed token, has more than `kMaxTokenBytes` or a member twice in an object; an algorithm
  // other than RS256 and ES256, or one that the key does not have; a header with `crit`; a
  // signature that is not by the key of the set that `kid` names, or, without a `kid`, by the only
  // key of the algorithm; claims that are no object; another issuer or audience; an `exp` that is
  // absent or past, an `nbf` that is to come, and either if it is no number of seconds from 1970 to
  // 9999; and a subject that is no service account. Asks no API server: the token of a pod or an
  // account that was deleted passes until its end. `iat` and all other claims are not looked at.
  absl::StatusOr<VerifiedToken> Verify(absl::string_view token, absl::Time now) const;

 private:
  Rules rules_;
  WebKeySet keys_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_TOKEN_VERIFIER_H_
