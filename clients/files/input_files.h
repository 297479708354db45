// Files that a client's caller names, read whole, as bytes or as what they hold.
//
// What cannot be read is INVALID_ARGUMENT (SPEC_INVALID) with the path as `field`; what is read and
// wrong gives the errors of the parser that each function names.

#ifndef PARPLAN_CLIENTS_FILES_INPUT_FILES_H_
#define PARPLAN_CLIENTS_FILES_INPUT_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/topology.h"
#include "proto/envelope/trust_bundle.h"

namespace parplan {

// All bytes, however many; of a pipe too.
absl::StatusOr<std::string> ReadInputFile(const std::string& path);

// Keys to verify plans with (JWKS): TrustBundle::FromJson.
absl::StatusOr<TrustBundle> ReadTrustFile(const std::string& path);

// A signed plan (DSSE, JSON), not verified yet: EnvelopeFromJson.
absl::StatusOr<v1::SignedPlan> ReadEnvelopeFile(const std::string& path);

// Model and cluster files (docs/files.md): ParseJson, and Create of the value.
absl::StatusOr<ModelSpec> ReadModelFile(const std::string& path);
absl::StatusOr<Topology> ReadTopologyFile(const std::string& path);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_FILES_INPUT_FILES_H_
