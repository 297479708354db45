// The settings of HTTP/2 and of messages that all gRPC servers with a `ConnectionGate` share.
// `RpcServer` (server/rpc) and `HealthServer` (base/service/health) apply them before they start:
//
//   ConfigureTransport({.quota_name = "parplan-health", .max_message_bytes = 4096, ...}, builder);

#ifndef PARPLAN_BASE_SERVICE_LISTEN_TRANSPORT_SETTINGS_H_
#define PARPLAN_BASE_SERVICE_LISTEN_TRANSPORT_SETTINGS_H_

#include <cstddef>

namespace grpc {
class ServerBuilder;
}  // namespace grpc

namespace parplan {

// In what the servers differ.
struct TransportLimits {
  // Name of the quota of memory, which gRPC's traces show.
  const char* quota_name = "";
  // The largest message that is received; gRPC refuses larger ones before it decodes them.
  int max_message_bytes = 0;
  // Memory of messages on their way and of calls in progress, over all connections. gRPC closes
  // connections above it.
  size_t max_transport_bytes = 0;
  // Calls in progress on one connection.
  int max_concurrent_streams = 0;
};

// Sets the limits; that no message is inflated; that a connection ends if TLS and the settings of
// HTTP/2 take longer than 10 s, or if a ping after 30 s without anything from the client is not
// answered within 15 s; and that a client may ping every 10 s without a call.
void ConfigureTransport(const TransportLimits& limits, grpc::ServerBuilder& builder);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_TRANSPORT_SETTINGS_H_
