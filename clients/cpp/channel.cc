#include "clients/cpp/channel.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/service/tls/pem_files.h"
#include "base/status_macros.h"
#include "clients/cpp/bearer_token.h"

namespace parplan {
namespace {

// There is no retry policy: where gRPC itself repeats a call, the answers before the last one are
// lost, and with them why the server could not answer. The clients repeat calls (retry.h).
constexpr char kServiceConfig[] = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "healthCheckConfig": {"serviceName": "parplan.v1.PlanService"}
})";

// An idle client looks at its connection every 5 s only; see server/rpc.
constexpr int kKeepaliveTimeMs = 60000;
// A quarter of the time between two probes; a round trip and a loaded server take much less.
constexpr int kKeepaliveTimeoutMs = 15000;

// A list of plans and an error with a hundred facts both fit.
constexpr int kMaxReceiveBytes = 64 << 20;
constexpr int kMaxMetadataBytes = 64 << 10;

// gRPC's own are two minutes. A server that restarts is back within seconds, and a job waits for
// it.
constexpr int kMaxReconnectBackoffMs = 5000;

constexpr int kMaxPort = 65535;

// Replicas that end one after the other come back at new addresses: a client that may ask for
// them every 30 s only, as gRPC would have it, may know none that is left.
constexpr int kMinResolutionIntervalMs = 5000;

// Returns whether a port of the target is above 65535. gRPC takes it modulo 65536, and so asks
// whoever listens there. Five decimal digits are no group of an IPv6 address without brackets.
bool HasPortTooLarge(absl::string_view target) {
  if (absl::StartsWith(target, "unix:") || absl::StartsWith(target, "unix-abstract:")) return false;
  for (const absl::string_view address : absl::StrSplit(target, ',')) {
    const size_t colon = address.rfind(':');
    if (colon == absl::string_view::npos) continue;
    const absl::string_view port = address.substr(colon + 1);
    const bool is_number = !port.empty() && std::all_of(port.begin(), port.end(), [](char c) {
      return absl::ascii_isdigit(static_cast<unsigned char>(c));
    });
    int number = 0;
    if (is_number && (!absl::SimpleAtoi(port, &number) || number > kMaxPort)) return true;
  }
  return false;
}

bool UsesTls(const ChannelOptions& options) {
  return options.use_tls || !options.ca_file.empty() || !options.certificate_file.empty() ||
         !options.key_file.empty();
}

// Returns the credentials of the connection alone.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeTransport(
    const ChannelOptions& options) {
  if (!UsesTls(options)) {
    // gRPC adds no token to a connection of the other kind. Servers see no difference.
    return options.token_file.empty() ? grpc::InsecureChannelCredentials()
                                      : grpc::experimental::LocalCredentials(UDS);
  }
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return FieldError(Reason::kSpecInvalid, "tls_certificate",
                      "a certificate and its key go together; give both or none");
  }
  grpc::SslCredentialsOptions ssl;
  if (!options.ca_file.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadCertificates("tls_ca", options.ca_file));
  }
  if (!options.certificate_file.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(
        TlsKeyPair pair, ReadTlsKeyPair(options.certificate_file, options.key_file, absl::Now()));
    ssl.pem_cert_chain = std::move(pair.certificates);
    ssl.pem_private_key = std::move(pair.key);
  }
  return grpc::SslCredentials(ssl);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const ChannelOptions& options) {
  if (options.token_file.empty()) return MakeTransport(options);
  if (!UsesTls(options) && !absl::StartsWith(options.target, "unix:")) {
    return FieldError(Reason::kSpecInvalid, "token_file",
                      "a token is sent over TLS or a Unix socket only; name the CA of the server's "
                      "certificate, or a server at unix:PATH");
  }
  PARPLAN_RETURN_IF_ERROR(ReadBearerToken(options.token_file).status());
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> transport,
                           MakeTransport(options));
  return grpc::CompositeChannelCredentials(transport, BearerTokenCredentials(options.token_file));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options) {
  if (options.target.empty()) {
    return FieldError(Reason::kSpecInvalid, "server", "is empty; write HOST:PORT");
  }
  if (HasPortTooLarge(options.target)) {
    return FieldError(
        Reason::kSpecInvalid, "server",
        absl::StrCat("is `", options.target, "`, whose port is above 65535; write HOST:PORT"));
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                           MakeCredentials(options));
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(kServiceConfig);
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  // No channel shares a connection with another one: where it joins one that is just failing,
  // gRPC 1.51 takes a failure without a cause for a success, and crashes.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kMinResolutionIntervalMs);
  // Plans never travel through a proxy meant for the web.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!options.server_name.empty()) arguments.SetSslTargetNameOverride(options.server_name);
  return grpc::CreateCustomChannel(options.target, credentials, arguments);
}

void ApplyCallOptions(const CallOptions& options, grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(options.timeout));
  if (!options.log_request_id.empty()) {
    context.AddMetadata("x-request-id", options.log_request_id);
  }
}

std::string MakeUuid() {
  // Version 4, RFC 4122.
  std::random_device device;
  const auto draw = [&device] { return (static_cast<uint64_t>(device()) << 32) | device(); };
  const uint64_t high = (draw() & ~uint64_t{0xf000}) | 0x4000;
  const uint64_t low = (draw() >> 2) | (uint64_t{1} << 63);
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", high >> 32, (high >> 16) & 0xffff,
                         high & 0xffff, low >> 48, low & 0xffffffffffff);
}

}  // namespace parplan
