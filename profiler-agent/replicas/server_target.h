// Parses the target of a channel. `Replicas` does this once for its target.

#ifndef PARPLAN_PROFILER_AGENT_REPLICAS_SERVER_TARGET_H_
#define PARPLAN_PROFILER_AGENT_REPLICAS_SERVER_TARGET_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// A target, parsed as gRPC does (https://github.com/grpc/grpc/blob/master/doc/naming.md).
struct ServerTarget {
  // How the target names servers.
  enum class Kind {
    // `HOST:PORT`, `dns:NAME:PORT`, `dns:///NAME:PORT`, `dns://DNS-SERVER/NAME:PORT`.
    kName,
    // An address in place of a name, `ipv4:A:P,B:P`, `ipv6:[A]:P,[B]:P`.
    kAddresses,
    // `unix:PATH` and every other form that only gRPC understands: a single server.
    kOther,
  };

  Kind kind = Kind::kOther;
  // Name and port, for kName. The default port is 443, that of https, as in gRPC.
  std::string name;
  int port = 0;
  // Name server to ask, `ADDRESS[:PORT]`; empty for those of the system.
  std::string dns_server;
  // Addresses, for kAddresses: `A.B.C.D:PORT` or `[V6]:PORT` in the form of `AddressText`.
  std::vector<std::string> addresses;
};

// Parses a target. One that cannot be understood is kOther, so that gRPC reports what is wrong.
ServerTarget ReadServerTarget(absl::string_view target);

// Returns the canonical text of an IPv4 or IPv6 address, given without brackets, and its port;
// empty if `ip` is not an address, as one with a zone (`fe80::1%eth0`). The port is not checked.
std::string AddressText(const std::string& ip, int port);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_REPLICAS_SERVER_TARGET_H_
