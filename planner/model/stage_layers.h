// Builds the stages of plans layer by layer. The importers and exporters of plans make stages with
// it.

#ifndef PARPLAN_PLANNER_MODEL_STAGE_LAYERS_H_
#define PARPLAN_PLANNER_MODEL_STAGE_LAYERS_H_

#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Appends layer `layer` of the model to a stage: to its last run if definition and strategy are the
// same, else as a new run.
void AppendLayer(const ModelSpec& model, int layer, const Strategy& strategy, StagePlan* stage);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_STAGE_LAYERS_H_
