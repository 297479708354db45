// Reads of files that the user of a client names, as bytes or as the values they hold. planctl, the
// sidecar, the executor and the agent read their inputs by it.
//
// A file that cannot be read, or is larger than the limit, is INVALID_ARGUMENT (SPEC_INVALID) with
// the path as `field`. A file with wrong contents gives the errors of the parser that each function
// names: INVALID_ARGUMENT too, with SPEC_INVALID except for EnvelopeFromJson (PAYLOAD_MALFORMED).
// Errors of ParseJson name the file and the field; those of the other parsers name only the field.
// Safe to call from any thread; reading a pipe waits for its end. Results refer to nothing else.

#ifndef PARPLAN_CLIENTS_FILES_INPUT_FILES_H_
#define PARPLAN_CLIENTS_FILES_INPUT_FILES_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/topology.h"
#include "proto/envelope/trust_bundle.h"

namespace parplan {

// Largest file that is read, in bytes. Profiles of large clusters have a few MiB.
inline constexpr size_t kMaxInputFileBytes = size_t{64} << 20;

// Returns all bytes of a file, a pipe or a device, if these are at most `max_bytes`.
absl::StatusOr<std::string> ReadInputFile(const std::string& path,
                                          size_t max_bytes = kMaxInputFileBytes);

// Reads a file of the keys that plans are verified with (JWKS), and accepts it as
// `AcceptTrustBundle` does with an empty `memory_path`.
absl::StatusOr<TrustBundle> ReadTrustFile(const std::string& path);

// Parses a trust bundle and compares it with the bundle that was accepted last. The memory is the
// file that holds a copy of that one: `memory_path`, or if that is empty the file that the
// environment variable PARPLAN_TRUST_MEMORY names. If both are empty, any bundle is accepted and
// nothing is written. If the file does not exist yet, any bundle is accepted. A bundle that may
// follow the last one replaces the copy. The same bundle again writes nothing, so the folder need
// not be writable then. Bundles that do not follow each other, such as those of two servers, need a
// memory each, in a folder that whoever replaces the bundle cannot write. Does not ask whether the
// bundle has expired: `PlanVerifier` does.
//
// Threads and processes may call it at once for one memory: a new bundle is compared and written
// under a lock on the file `memory_path`.lock, so the newest accepted one is remembered.
//
// Parser: TrustBundle::FromJson. PERMISSION_DENIED (SIGNATURE_INVALID) for a bundle that is older
// than the accepted one, or newer and signed by none of the accepted one's keys
// (`TrustBundle::CheckSuccessor`); INVALID_ARGUMENT (SPEC_INVALID) naming the memory's path if that
// file cannot be read or written, is no regular file, or holds no bundle.
absl::StatusOr<TrustBundle> AcceptTrustBundle(absl::string_view text, std::string memory_path = "");

// Reads a signed plan (DSSE, JSON) without verifying it. Parser: EnvelopeFromJson.
absl::StatusOr<v1::SignedPlan> ReadEnvelopeFile(const std::string& path);

// Reads a model or cluster file (docs/files.md). Parser: ParseJson, then `ModelFromProto` or
// `TopologyFromProto`, whose errors have fields below `model` or `topology`.
absl::StatusOr<ModelSpec> ReadModelFile(const std::string& path);
absl::StatusOr<Topology> ReadTopologyFile(const std::string& path);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_FILES_INPUT_FILES_H_
