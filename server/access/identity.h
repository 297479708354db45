// Who calls, as the transport or a token proved it. server/rpc reads the names of the caller's
// certificate or its token, `Authorizer` and `TokenVerifier` make the value, and `Caller` holds it.

#ifndef PARPLAN_SERVER_ACCESS_IDENTITY_H_
#define PARPLAN_SERVER_ACCESS_IDENTITY_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parplan {

// The names of a verified certificate, in its order.
struct CertificateNames {
  // URIs among the alternative names.
  std::vector<std::string> uris;
  // DNS names among the alternative names.
  std::vector<std::string> dns_names;
  // Common names of the subject.
  std::vector<std::string> common_names;
};

// Names that may stand for the holder of a certificate without a SPIFFE id: those of
// `CertificateNames::dns_names` and `common_names`.
enum class NameSource { kDns, kCommonName };

// An immutable text of one of these forms, which no two kinds of callers share:
//
//   spiffe://lab.example/node/a   the SPIFFE id of the certificate
//   dns:slurm.lab.example         its first DNS name, in lower case
//   cn:operator                   its common name
//   k8s:lab/trainer               the namespace and the name of a Kubernetes service account
//   uid:1000                      the user who connected to a Unix socket
//   unnamed                       a certificate without a name that counts, a refused token, or a
//                                 user whom the system cannot name
//   anonymous                     nothing of these that the server reads
class Identity {
 public:
  static Identity Anonymous() { return Identity("anonymous"); }
  static Identity Unnamed() { return Identity("unnamed"); }

  // Returns the identity of a certificate: its SPIFFE id if it has a URI of that scheme, else the
  // first name of the first of `sources` of which it has any. `Unnamed` if there is none; if there
  // are several URIs of the scheme, or one that is no `IsSpiffeId`; and if the name is empty, has
  // more than 253 bytes (a DNS name) or 256 (a common name), or has other characters than letters,
  // digits, `.`, `-` and `_` (a DNS name) or than printable ASCII without `*` (a common name):
  // another name of the same certificate does not stand in for it. With empty `sources` only a
  // SPIFFE id counts.
  static Identity OfCertificate(const CertificateNames& names,
                                absl::Span<const NameSource> sources);

  // Returns the identity of a Kubernetes service account from the subject of its token,
  // `system:serviceaccount:NAMESPACE:NAME`. Nothing for another subject, which includes a namespace
  // or a name of characters or of a length that Kubernetes does not allow.
  static std::optional<Identity> OfServiceAccount(absl::string_view subject);

  // Returns the identity of a user of this machine. `Unnamed` for 65534, which the system gives all
  // users whom the user namespace of this process lacks.
  static Identity OfLocalUser(uid_t user);

  // The text in one of the forms above.
  const std::string& text() const { return text_; }

  friend bool operator==(const Identity&, const Identity&) = default;

 private:
  explicit Identity(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

// Returns whether `text` is a SPIFFE id: `spiffe://`, a trust domain of lower-case letters, digits,
// `.`, `-` and `_`, and a path, which may be absent and whose segments are not empty, `.` or `..`
// and may also have upper-case letters; at most 2048 bytes (SPIFFE-ID, sections 2.1 to 2.3).
bool IsSpiffeId(absl::string_view text);

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_IDENTITY_H_
