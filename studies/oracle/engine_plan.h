// Plans under the engine's own cost model: the step time of its answer there, by formula and by
// simulation, and better plans by the same numbers. `CompareOracle` calls them.

#ifndef PARPLAN_STUDIES_ORACLE_ENGINE_PLAN_H_
#define PARPLAN_STUDIES_ORACLE_ENGINE_PLAN_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/cost/pipeline_schedule.h"
#include "studies/oracle/engine_model.h"

namespace parplan::oracle {

// A plan of the engine in its own terms.
struct EnginePlan {
  EngineShape shape;
  // The strategy of embedding and head.
  EngineStrategy ends;
  // [stage][transformer layer of the stage]
  std::vector<std::vector<EngineStrategy>> stages;
};

// Reads the plan in a strategy file of the engine (`OracleAnswer::strategy_file`). Returns
// INVALID_ARGUMENT (SPEC_INVALID) with file and field for a file that is no JSON, keys that are
// missing, and lists or degrees that do not fit model and devices. Lists of switches that are
// absent count as off. REQUIRES: the case has an answer, which is not checked.
absl::StatusOr<EnginePlan> ReadEnginePlan(const OracleCase& oracle);

// Returns the kind of each transformer layer, first to last, as an index into
// `OracleQuestion::runs`.
std::vector<int> LayerTypes(const OracleQuestion& question);

// Times of one stage for one micro-batch: the sum over its layers, and what embedding and head add.
struct EngineStage {
  EngineTime layers;
  EngineTime ends;
  // Returns the time of the stage without the synchronisation of gradients.
  double without_sync() const { return layers.without_sync() + ends.without_sync(); }
};
// Returns the times of all stages, first to last. REQUIRES, unchecked, as the functions below that
// take a plan: `EngineModel::Knows` is true for every strategy of the plan.
std::vector<EngineStage> EngineStages(const EngineModel& model, const EnginePlan& plan);

// Returns the times of the same stages for a simulation of the schedule pass by pass: a third of
// each time is forward; the part of the layers' synchronisation that the ends do not hide follows
// the last backward pass. `SimulatedEngineStep` returns the simulated step in seconds.
std::vector<StageTimes> EngineStageTimes(const std::vector<EngineStage>& stages);
double SimulatedEngineStep(const EngineModel& model, const EnginePlan& plan);

// Returns the megabytes of a device of each stage as the engine counts them: each layer and the
// ends rounded up, its buffer rounded down.
std::vector<double> EngineMegabytes(const EngineModel& model, const EnginePlan& plan);

// A plan that is good by the engine's own numbers, and its step in seconds: the fastest one found
// under the simulated schedule, over the engine's strategies, micro-batch counts, pipeline degrees
// and limits of degrees, within its memory, with stages of any sizes. The batch is `global_batch`.
//
// Each stage is solved exactly (AssignStrategies) for the least sum of its time in all
// micro-batches and its weighted synchronisation, for several weights; the division into stages is
// searched over suffixes, pruned by the bound of docs/search.md. The plan is not proved to be
// optimal: a stage may do better with another weight, and the engine's own plan may even be faster.
// Absent if no plan fits.
struct BetterEnginePlan {
  EnginePlan plan;
  // Seconds.
  double simulated_step = 0.0;
};
// Returns such a plan, or nothing as said above. `global_batch` counts samples of a step.
std::optional<BetterEnginePlan> FindBetterEnginePlan(const EngineModel& model,
                                                     int64_t global_batch);

}  // namespace parplan::oracle

#endif  // PARPLAN_STUDIES_ORACLE_ENGINE_PLAN_H_
