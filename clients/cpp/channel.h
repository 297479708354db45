// The way to a server, or to several.

#ifndef PARPLAN_CLIENTS_CPP_CHANNEL_H_
#define PARPLAN_CLIENTS_CPP_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

struct ChannelOptions {
  // `HOST:PORT`, `unix:PATH`, `dns:///NAME:PORT` or `ipv4:A:P,B:P`. Calls go to the
  // replicas in turn, and to none that says it does not serve.
  std::string target = "127.0.0.1:9477";

  // Speak TLS. Set by any of the files below.
  bool use_tls = false;
  // PEM files. Empty: the CAs of the system.
  std::string ca_file;
  // Shown to servers that ask for it; both or none.
  std::string certificate_file;
  std::string key_file;
  // The name in the server's certificate, where it is not that of the target.
  std::string server_name;
};

// Does not connect yet. A call that finds no server, or one that just ends, is
// tried again up to 4 times within its deadline; so are only those that may be
// repeated without harm, which all are but `DeleteProfile` and the uploading
// streams. INVALID_ARGUMENT (SPEC_INVALID) when the target is empty, and as
// base/service/tls/pem_files.h for files that cannot hold.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options);

// What a call of a client may be told.
struct CallOptions {
  // Never infinite: a call that waits for a search takes as long as it is let.
  absl::Duration timeout = absl::Minutes(1);
  // Names the call in the server's log; empty: the server makes a name.
  std::string log_request_id;
};

// Puts `options` into `context`.
void ApplyCallOptions(const CallOptions& options, grpc::ClientContext& context);

// A random UUID, for the `request_id` of requests.
std::string MakeUuid();

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_CHANNEL_H_
