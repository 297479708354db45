#include "server/rpc/peer_identity.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/service/listen/connection_gate.h"
#include "base/service/tls/pem_files.h"
#include "server/core/lru_cache.h"

namespace parplan {
namespace {

constexpr char kBearer[] = "Bearer ";

std::vector<std::string> ValuesOf(const grpc::AuthContext& peer, const char* property) {
  std::vector<std::string> values;
  for (const grpc::string_ref& value : peer.FindPropertyValues(property)) {
    values.emplace_back(value.data(), value.size());
  }
  return values;
}

absl::Status Refused(absl::string_view why) {
  return MakeError(absl::StatusCode::kUnauthenticated, Reason::kRoleRequired,
                   absl::StrCat("the token in the metadata `authorization` is refused: ", why));
}

// Returns whether the caller alone can have read what it sent.
bool IsPrivate(const grpc::ServerContextBase& context, const grpc::AuthContext* peer) {
  const std::string name = context.peer();
  if (absl::StartsWith(name, "unix:") || absl::StartsWith(name, kDescriptorPeer)) return true;
  if (peer == nullptr) return false;
  const std::vector<std::string> types =
      ValuesOf(*peer, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return types.size() == 1 && (types[0] == GRPC_SSL_TRANSPORT_SECURITY_TYPE ||
                               types[0] == GRPC_TLS_TRANSPORT_SECURITY_TYPE);
}

// Returns the caller of a call without a certificate.
std::shared_ptr<const Caller> CallerOfMetadata(const grpc::ServerContextBase& context,
                                               const grpc::AuthContext* peer,
                                               const ConnectionGate& gate, Authorizer& authorizer,
                                               absl::Time now) {
  const auto& metadata = context.client_metadata();
  const auto [begin, end] = metadata.equal_range("authorization");
  if (begin == end || !authorizer.ReadsTokens()) {
    const std::optional<uid_t> user = gate.UserOf(context.peer());
    return user.has_value() ? authorizer.CallerOfLocalUser(*user) : authorizer.AnonymousCaller();
  }
  if (std::next(begin) != end) return Caller::Refused(Refused("there are two of them"));
  if (!IsPrivate(context, peer)) {
    return Caller::Refused(
        Refused("it came over a connection without TLS, where anybody on the way may have read it; "
                "use TLS or a Unix socket"));
  }
  absl::string_view value(begin->second.data(), begin->second.size());
  if (!absl::StartsWithIgnoreCase(value, kBearer)) {
    return Caller::Refused(Refused("it must begin with `Bearer `"));
  }
  value.remove_prefix(sizeof(kBearer) - 1);
  return authorizer.CallerOfToken(value, now);
}

// Memory for the ends of certificates that were read: of some 500, with 4 KB each.
constexpr size_t kCertificateCacheBytes = size_t{4} << 20;

// Returns the end of a certificate, which TLS verified, so it can be read. OpenSSL reads it once:
// when it did so for each of 8,000 streams that began at once, on gRPC's threads, the last silent
// one was gone after 14.8 s; 6.6 s since. All streams of a connection have one certificate.
absl::Time CachedEndOfCertificate(const std::string& pem, absl::Time now) {
  static auto& ends = *new LruCache<absl::Time>(kCertificateCacheBytes);
  if (const std::optional<absl::Time> known = ends.Get(pem)) return *known;
  const std::optional<absl::Time> end = EndOfCertificate(pem);
  if (end.has_value()) ends.Put(pem, *end, sizeof(*end));
  return end.value_or(now);
}

CertificateNames NamesOf(const grpc::AuthContext& peer) {
  CertificateNames names;
  names.uris = ValuesOf(peer, GRPC_PEER_URI_PROPERTY_NAME);
  names.dns_names = ValuesOf(peer, GRPC_PEER_DNS_PROPERTY_NAME);
  names.common_names = ValuesOf(peer, GRPC_X509_CN_PROPERTY_NAME);
  return names;
}

}  // namespace

std::shared_ptr<const Caller> CallerOf(const grpc::ServerContextBase& context,
                                       const ConnectionGate& gate, Authorizer& authorizer,
                                       absl::Time now) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  // `IsPeerAuthenticated` is false also for a certificate without any name, which is no anonymous
  // caller. The server asks for certificates only to verify them (server_credentials.cc).
  if (peer == nullptr || peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME).empty()) {
    return CallerOfMetadata(context, peer.get(), gate, authorizer, now);
  }
  return authorizer.CallerOf(NamesOf(*peer));
}

Credential CredentialOf(const grpc::ServerContextBase& context, const ConnectionGate& gate,
                        Authorizer& authorizer, absl::Time now) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer != nullptr) {
    const std::vector<std::string> certificates = ValuesOf(*peer, GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (!certificates.empty()) {
      const absl::Time end = CachedEndOfCertificate(certificates.front(), now);
      return {.kind = Credential::Kind::kCertificate,
              .token = "",
              .names = NamesOf(*peer),
              .user = 0,
              .expiry = end,
              .end = end};
    }
  }
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end() || !authorizer.ReadsTokens()) {
    const std::optional<uid_t> user = gate.UserOf(context.peer());
    if (!user.has_value()) return {};
    return {.kind = Credential::Kind::kLocalUser, .token = "", .names = {}, .user = *user};
  }
  absl::string_view value(found->second.data(), found->second.size());
  if (value.size() >= sizeof(kBearer)) value.remove_prefix(sizeof(kBearer) - 1);
  return authorizer.CredentialOfToken(value, now);
}

}  // namespace parplan
