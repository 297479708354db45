// Builds the stages of plans layer by layer. The importers and exporters of plans make stages with
// it, and `planctl calibrate` those of published runs.

#ifndef PARPLAN_PLANNER_MODEL_STAGE_LAYERS_H_
#define PARPLAN_PLANNER_MODEL_STAGE_LAYERS_H_

#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Appends layer `layer` of the model, counted from 0, to a stage: to its last run if definition and
// strategy are the same, else as a new run. REQUIRES: the model has the layer, and it follows the
// last one of a stage that is not empty; neither is checked.
void AppendLayer(const ModelSpec& model, int layer, const Strategy& strategy, StagePlan* stage);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_STAGE_LAYERS_H_
