// The rules of model.proto for one layer. Only `LayerDefinition::Create` calls it.

#ifndef PARPLAN_PLANNER_MODEL_LAYER_RULES_H_
#define PARPLAN_PLANNER_MODEL_LAYER_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "planner/model/layer_definition.h"

namespace parplan {

// Checks all rules but that of `parameter_count`, and fills in sizes that follow from others.
// Returns INVALID_ARGUMENT (SPEC_INVALID) with the first field that breaks a rule; `field` is the
// path of the definition, for example `model.layer_definitions[2]`. After an error some of the
// sizes may have been filled in.
absl::Status ApplyLayerRules(const std::string& field, LayerDefinition& layer);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_LAYER_RULES_H_
