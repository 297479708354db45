// The Python module of a plan for torchtitan. Only torchtitan_plan_export.cc uses it.

#ifndef PARPLAN_EXPORTS_TORCHTITAN_MODULE_H_
#define PARPLAN_EXPORTS_TORCHTITAN_MODULE_H_

#include <string>

#include "exports/exported_files.h"
#include "exports/uniform_plan.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Returns `parplan_config.py`, whose function `plan` returns a `Trainer.Config` of
// `kTorchtitanRelease` and refuses models of other sizes. REQUIRES, unchecked:
// `CheckTorchtitanPlan` (torchtitan_plan_export.h) accepts `plan`, and `UniformPlanOf` made it of a
// plan for `model`.
std::string TorchtitanModule(const UniformPlan& plan, const ModelSpec& model,
                             const ExportFacts& facts);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_TORCHTITAN_MODULE_H_
