// Conversion between `ModelSpec` and `LayerDefinition` of the contract and of the planner.
// Everything that reads or writes a model as a message does it here.

#ifndef PARPLAN_PROTO_WIRE_MODEL_WIRE_H_
#define PARPLAN_PROTO_WIRE_MODEL_WIRE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "parplan/v1/model.pb.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Returns the value of a message, with the defaults of model.proto filled in (key/value heads, head
// size, parameter count). INVALID_ARGUMENT (`reason`) with the path of the field below `field`, for
// example `model.layer_definitions[2]`, if a rule is broken.
absl::StatusOr<LayerDefinition> LayerDefinitionFromProto(const v1::LayerDefinition& message,
                                                         absl::string_view field,
                                                         Reason reason = Reason::kSpecInvalid);

// Returns the message of any value, with defaults written out. `LayerDefinitionFromProto` returns
// the same value, if `LayerDefinition::Create` made it.
v1::LayerDefinition LayerDefinitionToProto(const LayerDefinition& definition);

// Write the fields of a structure into an empty message.
void LatentAttentionToProto(const LatentAttention& latent, v1::LatentAttention& message);
void StateSpaceToProto(const StateSpace& space, v1::StateSpace& message);
void OpaqueLayerToProto(const OpaqueLayer& opaque, v1::OpaqueLayer& message);

// Returns the value of a message. INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below
// `field` if a rule of model.proto is broken, a run refers to no definition, or there are more than
// kMaxLayerCount layers, definitions or runs.
absl::StatusOr<ModelSpec> ModelFromProto(const v1::ModelSpec& message,
                                         absl::string_view field = "model");

// Returns the message of any value. `ModelFromProto` returns the same value.
v1::ModelSpec ModelToProto(const ModelSpec& model);

// Return the planner's value. INVALID_ARGUMENT (`reason`) naming `field` for UNSPECIFIED and for
// numbers that this release does not know.
absl::StatusOr<Precision> PrecisionFromProto(v1::Precision precision, absl::string_view field,
                                             Reason reason = Reason::kSpecInvalid);
absl::StatusOr<Optimizer> OptimizerFromProto(v1::Optimizer optimizer, absl::string_view field,
                                             Reason reason = Reason::kSpecInvalid);

// Return the numbers of the contract.
v1::Precision PrecisionToProto(Precision precision);
v1::Optimizer OptimizerToProto(Optimizer optimizer);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_MODEL_WIRE_H_
