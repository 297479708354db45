// The rules of model.proto for one layer. Only `LayerDefinition::Create` calls it.

#ifndef PARPLAN_PLANNER_MODEL_LAYER_RULES_H_
#define PARPLAN_PLANNER_MODEL_LAYER_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "planner/model/layer_definition.h"

namespace parplan {

// Checks all rules but that of `parameter_count`, and fills in sizes of layers with attention that
// are 0 and follow from others: `head_size` is then `hidden_size` over the heads, and
// `key_value_head_count` the `attention_head_count`. No other size is filled in: the sequence
// length and the hidden size must be at least 1. Rules between layers are not checked here.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) with one field that breaks a rule, the first in this
// order: id, kind, ranges of sizes, adapters, then what the kind needs and what it must not have.
// `field` is the path of the definition, for example `model.layer_definitions[2]`. After an error
// some of the sizes may have been filled in.
absl::Status ApplyLayerRules(const std::string& field, LayerDefinition& layer);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_LAYER_RULES_H_
