// Checks of the addresses that a server listens on. The settings, main.cc and `RpcServer` check
// with it.

#ifndef PARPLAN_BASE_SERVICE_LISTEN_LISTEN_ADDRESS_H_
#define PARPLAN_BASE_SERVICE_LISTEN_LISTEN_ADDRESS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan {

// How the address of a Unix socket begins; its path follows.
inline constexpr absl::string_view kUnixAddressPrefix = "unix:";

// Checks that an address is `host:port` (an IPv6 host in brackets, a port from 0 to 65535) or
// `unix:PATH`. Host and path are not empty; nothing else of them is checked, not even the length
// of the path, and no name is resolved. Otherwise INVALID_ARGUMENT (SPEC_INVALID) naming `field`.
absl::Status CheckListenAddress(absl::string_view address, absl::string_view field = "listen");

// Returns whether only this machine can reach `address`: 127.0.0.0/8, [::1], localhost in any case,
// or a Unix socket. Goes by the text: other names and other spellings of a loopback address count
// as reachable. REQUIRES, unchecked: it passed `CheckListenAddress`.
bool IsLocalAddress(absl::string_view address);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_LISTEN_ADDRESS_H_
