// The proof of a caller's identity, kept to ask later whether it still holds. `CredentialOf`
// (server/rpc/peer_identity.h) makes one for a stream, `Authorizer::Recheck` judges it. A caller
// with both a certificate and a token has that of the certificate.

#ifndef PARPLAN_SERVER_ACCESS_CREDENTIAL_H_
#define PARPLAN_SERVER_ACCESS_CREDENTIAL_H_

#include <sys/types.h>

#include <string>

#include "absl/time/time.h"
#include "server/access/identity.h"

namespace parplan {

// A token, the names of a certificate, or the user of a Unix socket, with the time at which it
// ends.
struct Credential {
  // The form in which the caller proves who it is.
  enum class Kind {
    // None of the others, or the server does not read it.
    kNone,
    kToken,
    kCertificate,
    kLocalUser,
  };

  Kind kind = Kind::kNone;
  // The token of kToken, without `Bearer `.
  std::string token;
  // The names of kCertificate.
  CertificateNames names;
  // The user of kLocalUser.
  uid_t user = 0;
  // The end that the token or certificate states; infinite for kNone and
  // kLocalUser. InfinitePast for a token that
  // does not pass when the credential is made; if the end of a certificate cannot be read, that
  // moment.
  absl::Time expiry = absl::InfiniteFuture();
  // When it is refused: `expiry`, for a token `TokenVerifier::kLeeway` later.
  absl::Time end = absl::InfiniteFuture();
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_CREDENTIAL_H_
