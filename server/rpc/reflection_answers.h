// Answers questions about the contract: grpc.reflection.v1alpha as bytes, without gRPC's plugin for
// it, which decodes requests of any size and gives each stream a thread of its own.
// `ReflectionService` (reflection_service.h) is the transport.

#ifndef PARPLAN_SERVER_RPC_REFLECTION_ANSWERS_H_
#define PARPLAN_SERVER_RPC_REFLECTION_ANSWERS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// The largest question that is read. Names of the contract have less than 100 bytes.
inline constexpr size_t kMaxReflectionRequestBytes = 4096;

// Returns the serialized ServerReflectionResponse to `request`, a serialized
// ServerReflectionRequest: the names in `services`, or files of the contract, each with those that
// it imports, or an error of the protocol, which is NOT_FOUND for unknown names and extensions, as
// the contract has none. INVALID_ARGUMENT (SPEC_INVALID) for bytes that are no such request, or
// more than `kMaxReflectionRequestBytes`.
absl::StatusOr<std::string> AnswerReflection(const std::vector<std::string>& services,
                                             absl::string_view request);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_REFLECTION_ANSWERS_H_
