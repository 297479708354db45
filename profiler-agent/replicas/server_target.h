// What the target of a channel names.

#ifndef PARPLAN_PROFILER_AGENT_REPLICAS_SERVER_TARGET_H_
#define PARPLAN_PROFILER_AGENT_REPLICAS_SERVER_TARGET_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// Read as gRPC does (https://github.com/grpc/grpc/blob/master/doc/naming.md).
struct ServerTarget {
  enum class Kind {
    // `HOST:PORT`, `dns:NAME:PORT`, `dns:///NAME:PORT`, `dns://DNS-SERVER/NAME:PORT`.
    kName,
    // A name that is an address, `ipv4:A:P,B:P`, `ipv6:[A]:P,[B]:P`.
    kAddresses,
    // `unix:PATH` and whatever else is gRPC's business alone: one server.
    kOther,
  };

  Kind kind = Kind::kOther;
  // Of kName. Without a port in the target it is that of https, as for gRPC.
  std::string name;
  int port = 0;
  // `ADDRESS[:PORT]`; empty for those of the system.
  std::string dns_server;
  // Of kAddresses: `A.B.C.D:PORT` or `[V6]:PORT`, in the one form of `AddressText`.
  std::vector<std::string> addresses;
};

// What cannot be understood is kOther, so that gRPC says what is wrong with it.
ServerTarget ReadServerTarget(absl::string_view target);

// An address of IPv4 or IPv6 without brackets, and its port, in one form whoever wrote it;
// empty where it is none.
std::string AddressText(const std::string& ip, int port);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_REPLICAS_SERVER_TARGET_H_
