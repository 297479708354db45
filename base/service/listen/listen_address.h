// Checks of the addresses that a server listens on. The server's settings, its main.cc, `RpcServer`
// and `HealthServer` call them, and `planctl` asks whether the address of a server is local.

#ifndef PARPLAN_BASE_SERVICE_LISTEN_LISTEN_ADDRESS_H_
#define PARPLAN_BASE_SERVICE_LISTEN_LISTEN_ADDRESS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan {

// How the address of a Unix socket begins; its path follows.
inline constexpr absl::string_view kUnixAddressPrefix = "unix:";

// Returns OK if `address` is `host:port` (an IPv6 host in brackets, a port from 0 to 65535) or
// `unix:PATH`, with a host or path that is not empty, else INVALID_ARGUMENT (SPEC_INVALID) naming
// `field`. Nothing else is checked, not even the length of the path, and no name is resolved.
absl::Status CheckListenAddress(absl::string_view address, absl::string_view field = "listen");

// Returns whether only this machine can reach `address`: a Unix socket, or a host that is
// 127.0.0.0/8, [::1] or localhost in upper or lower case. Goes by the text: false for other names
// and other spellings of a loopback address. An `address` that does not pass `CheckListenAddress`
// is allowed; the result then says only how its text begins.
bool IsLocalAddress(absl::string_view address);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_LISTEN_ADDRESS_H_
