// Why the engine's model and ours give one plan different times.

#ifndef PARPLAN_STUDIES_ORACLE_MODEL_DIFFERENCES_H_
#define PARPLAN_STUDIES_ORACLE_MODEL_DIFFERENCES_H_

#include <vector>

#include "studies/oracle/engine_plan.h"
#include "studies/oracle/oracle_comparison.h"

namespace parplan::oracle {

// From `said` to `prediction.step`, one kind of cost after another: each item is how much
// the simulated step changes when the engine's numbers of that kind are replaced by ours
// in all stages, with those before it replaced already. They add up to the whole
// difference; how much falls to which depends on the order, which is fixed.
std::vector<Difference> ModelDifferences(const EngineModel& model, const EnginePlan& plan,
                                         Seconds said, const Plan& ours,
                                         const Prediction& prediction);

}  // namespace parplan::oracle

#endif  // PARPLAN_STUDIES_ORACLE_MODEL_DIFFERENCES_H_
