#include "base/service/listen/transport_settings.h"

#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

namespace parplan {
namespace {

// For the handshake of TLS and the first settings of HTTP/2.
constexpr int kHandshakeTimeoutMs = 10000;

// Until a client that is gone is found out. The wait for the answer to a ping is well above 5 s
// because an idle gRPC client looks at its connection only every 5 s: a shorter one would break
// healthy connections.
constexpr int kKeepaliveTimeMs = 30000;
constexpr int kKeepaliveTimeoutMs = 15000;
constexpr int kMinClientPingIntervalMs = 10000;

}  // namespace

void ConfigureTransport(const TransportLimits& limits, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(limits.max_message_bytes);
  // gRPC inflates a message before it looks at its size, so a megabyte could become a gigabyte.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  grpc::ResourceQuota quota(limits.quota_name);
  quota.Resize(limits.max_transport_bytes);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinClientPingIntervalMs);
}

}  // namespace parplan
