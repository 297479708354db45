// The release of parplan. The server, the clients, the agent and the executor write it, for example
// in payloads, plan keys, provenance and metrics, and for `--version`.

#ifndef PARPLAN_PROTO_WIRE_VERSION_H_
#define PARPLAN_PROTO_WIRE_VERSION_H_

namespace parplan {

// Equal to the version of the CMake project; a test compares them.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_VERSION_H_
