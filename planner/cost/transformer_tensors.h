// The activation tensors of a transformer layer: those of attention, of the feed-forward part and
// of both parts of the backward pass. `ActivationTensorsOf` (activation_tensors.h) calls it, and
// lists those of the other layers itself.

#ifndef PARPLAN_PLANNER_COST_TRANSFORMER_TENSORS_H_
#define PARPLAN_PLANNER_COST_TRANSFORMER_TENSORS_H_

#include "planner/cost/activation_tensors.h"
#include "planner/cost/structure_tensors.h"

namespace parplan {

// Adds the tensors of a decoder, an encoder, a decoder with cross-attention, a state space or a
// feed-forward layer. REQUIRES, unchecked: `shape` is `TensorSizesOf` for the definition.
void AddTransformer(const LayerDefinition& definition, const TensorSizes& shape,
                    const RuntimeTraits& traits, ActivationTensors& tensors);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_TRANSFORMER_TENSORS_H_
