// `ModelSpec` and `LayerDefinition` of the contract and of the planner.

#ifndef PARPLAN_PROTO_WIRE_MODEL_WIRE_H_
#define PARPLAN_PROTO_WIRE_MODEL_WIRE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "parplan/v1/model.pb.h"
#include "planner/model/model_spec.h"

namespace parplan {

// With the defaults of model.proto filled in (key/value heads, head size,
// parameter count). INVALID_ARGUMENT (`reason`) with the path of the field below
// `field`, for example `model.layer_definitions[2]`, when a rule is broken.
absl::StatusOr<LayerDefinition> LayerDefinitionFromProto(const v1::LayerDefinition& message,
                                                         absl::string_view field,
                                                         Reason reason = Reason::kSpecInvalid);

// Total, defaults written out: `LayerDefinitionFromProto` gives the same value
// back.
v1::LayerDefinition LayerDefinitionToProto(const LayerDefinition& definition);

// INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below `field` when
// a rule of model.proto is broken, a run refers to no definition, or there are
// more than kMaxLayerCount layers, definitions or runs.
absl::StatusOr<ModelSpec> ModelFromProto(const v1::ModelSpec& message,
                                         absl::string_view field = "model");

// Total: `ModelFromProto` gives the same value back.
v1::ModelSpec ModelToProto(const ModelSpec& model);

// INVALID_ARGUMENT (`reason`) naming `field` for UNSPECIFIED or a number that
// is no value of this release.
absl::StatusOr<Precision> PrecisionFromProto(v1::Precision precision, absl::string_view field,
                                             Reason reason = Reason::kSpecInvalid);
absl::StatusOr<Optimizer> OptimizerFromProto(v1::Optimizer optimizer, absl::string_view field,
                                             Reason reason = Reason::kSpecInvalid);

v1::Precision PrecisionToProto(Precision precision);
v1::Optimizer OptimizerToProto(Optimizer optimizer);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_MODEL_WIRE_H_
