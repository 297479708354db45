// Explains why the engine's model and ours give one plan different times. `CompareOracle` calls it
// for plans that our model can predict.

#ifndef PARPLAN_STUDIES_ORACLE_MODEL_DIFFERENCES_H_
#define PARPLAN_STUDIES_ORACLE_MODEL_DIFFERENCES_H_

#include <vector>

#include "studies/oracle/engine_plan.h"
#include "studies/oracle/oracle_comparison.h"

namespace parplan::oracle {

// Splits the difference of `said` and `prediction.step` into kinds of cost: each item is the change
// of the simulated step if the engine's numbers of that kind are replaced by ours in all stages,
// after those of earlier items. They add up to the whole difference. Their sizes depend on the
// order, which is fixed.
std::vector<Difference> ModelDifferences(const EngineModel& model, const EnginePlan& plan,
                                         Seconds said, const Plan& ours,
                                         const Prediction& prediction);

}  // namespace parplan::oracle

#endif  // PARPLAN_STUDIES_ORACLE_MODEL_DIFFERENCES_H_
