// Explains why the engine's model and ours give one plan different times. `CompareOracle` calls it
// for plans that our model can predict.

#ifndef PARPLAN_STUDIES_ORACLE_MODEL_DIFFERENCES_H_
#define PARPLAN_STUDIES_ORACLE_MODEL_DIFFERENCES_H_

#include <vector>

#include "studies/oracle/engine_plan.h"
#include "studies/oracle/oracle_comparison.h"

namespace parplan::oracle {

// Splits the difference `prediction.step - said`, in seconds, into kinds of cost: each item is the
// change of the simulated step if the engine's numbers of that kind are replaced by ours in all
// stages, after those of earlier items. The first item is the way from `said` to the simulated
// step, the last one is the rest. They add up to the whole difference, and an item may be negative
// or 0. Their sizes depend on the order, which is fixed; every kind has its item.
//
//   said         step that the engine predicts for `plan` ours         the same plan in our terms,
//   with as many stages (not checked); its schedule and micro-batches are those of the simulation
//   prediction   prediction of `ours`
std::vector<Difference> ModelDifferences(const EngineModel& model, const EnginePlan& plan,
                                         Seconds said, const Plan& ours,
                                         const Prediction& prediction);

}  // namespace parplan::oracle

#endif  // PARPLAN_STUDIES_ORACLE_MODEL_DIFFERENCES_H_
