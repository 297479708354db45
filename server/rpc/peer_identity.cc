#include "server/rpc/peer_identity.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <string>
#include <vector>

namespace parplan {
namespace {

std::vector<std::string> ValuesOf(const grpc::AuthContext& peer, const char* property) {
  std::vector<std::string> values;
  for (const grpc::string_ref& value : peer.FindPropertyValues(property)) {
    values.emplace_back(value.data(), value.size());
  }
  return values;
}

}  // namespace

std::shared_ptr<const Caller> CallerOf(const grpc::ServerContextBase& context,
                                       Authorizer& authorizer) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  // `IsPeerAuthenticated` is false also for a certificate without any name, which is no anonymous
  // caller. The server asks for certificates only to verify them (server_credentials.cc).
  if (peer == nullptr || peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME).empty()) {
    return authorizer.AnonymousCaller();
  }
  CertificateNames names;
  names.uris = ValuesOf(*peer, GRPC_PEER_URI_PROPERTY_NAME);
  names.dns_names = ValuesOf(*peer, GRPC_PEER_DNS_PROPERTY_NAME);
  names.common_names = ValuesOf(*peer, GRPC_X509_CN_PROPERTY_NAME);
  return authorizer.CallerOf(names);
}

}  // namespace parplan
