// Makes channels to a server, or to several replicas of it. Every program that speaks to a server
// makes its channel here.

#ifndef PARPLAN_CLIENTS_CPP_CHANNEL_H_
#define PARPLAN_CLIENTS_CPP_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

// The address of the server, and how to reach it.
struct ChannelOptions {
  // `HOST:PORT`, `unix:PATH`, `dns:///NAME:PORT` or `ipv4:A:P,B:P`. Calls go to the
  // replicas in turn, and only to those that report themselves as serving.
  std::string target = "127.0.0.1:9477";

  // Whether to use TLS. `ca_file`, `certificate_file` and `key_file` turn it on, too, if given.
  bool use_tls = false;
  // PEM file of the CAs that are trusted. Empty: the CAs of the system. `MakeChannel` reads this
  // file and the next two once: after a renewal a new channel is needed.
  std::string ca_file;
  // PEM files of the client's certificate, for servers that ask for one; both or neither.
  std::string certificate_file;
  std::string key_file;
  // The name in the server's certificate. Empty: that of the target. Ignored without TLS.
  std::string server_name;

  // File with a token of a Kubernetes service account, which each call sends; empty for none. Read
  // anew for each call. Needs TLS or a target `unix:PATH`.
  std::string token_file;
};

// Makes a channel, not connected yet. It repeats no calls; the clients of this folder do (retry.h).
// Answers may have up to 64 MiB; HTTP proxies of the environment are not used. INVALID_ARGUMENT
// (SPEC_INVALID) naming the setting (`server`, `tls_ca`, `tls_certificate`, `tls_key`,
// `token_file`) if the target is empty or has a port above 65535, if only one of certificate and
// key is given, for files that can't be used (base/service/tls/pem_files.h, bearer_token.h), and
// for a token over plain TCP, where anybody on the way could read it. Whether there is a server is
// known at the first call. Safe from any thread, and so is the channel.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options);

// Options of one call.
struct CallOptions {
  // Time for the call with all its attempts; then DEADLINE_EXCEEDED. REQUIRES, unchecked: finite.
  // The server ends a search shortly before it with the best plan so far: in a call of
  // `CreatePlan`, `SearchPlan` or `ShapePlan` a short timeout gives a worse plan, or
  // SEARCH_TIMED_OUT.
  absl::Duration timeout = absl::Minutes(1);
  // Name of the call in the server's log: 1 to 64 ASCII letters, digits, `.`, `_` and `-`. Empty:
  // the server makes one, as it does for a name of another form.
  std::string log_request_id;
};

// Sets the deadline, from now on, and the name for the log in `context`, which serves one call.
void ApplyCallOptions(const CallOptions& options, grpc::ClientContext& context);

// Returns a random UUID (version 4), for the `request_id` of requests. Safe from any thread.
std::string MakeUuid();

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_CHANNEL_H_
