// Where a server listens.

#ifndef PARPLAN_SERVER_RPC_LISTEN_ADDRESS_H_
#define PARPLAN_SERVER_RPC_LISTEN_ADDRESS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan {

// `host:port` (an IPv6 host in brackets), or `unix:PATH`. INVALID_ARGUMENT
// (SPEC_INVALID), which names `field`, for anything else.
absl::Status CheckListenAddress(absl::string_view address, absl::string_view field = "listen");

// Whether only this machine can reach a checked address: 127.0.0.0/8, [::1],
// localhost, or a Unix socket.
bool IsLocalAddress(absl::string_view address);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_LISTEN_ADDRESS_H_
