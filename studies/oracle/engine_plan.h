// Plans in the eyes of the engine's own model: what its answer takes there, formula and
// simulation, and better ones that its own numbers hold.

#ifndef PARPLAN_STUDIES_ORACLE_ENGINE_PLAN_H_
#define PARPLAN_STUDIES_ORACLE_ENGINE_PLAN_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/cost/pipeline_schedule.h"
#include "studies/oracle/engine_model.h"

namespace parplan::oracle {

struct EnginePlan {
  EngineShape shape;
  // The strategy of embedding and head.
  EngineStrategy ends;
  // [stage][transformer layer of the stage]
  std::vector<std::vector<EngineStrategy>> stages;
};

// The plan in a strategy file of the engine (`OracleAnswer::strategy_file`).
// INVALID_ARGUMENT (SPEC_INVALID) for lists that do not go with the model.
absl::StatusOr<EnginePlan> ReadEnginePlan(const OracleCase& oracle);

// Kind of each transformer layer, first to last.
std::vector<int> LayerTypes(const OracleQuestion& question);

// Layers, then what embedding and head add, of one stage.
struct EngineStage {
  EngineTime layers;
  EngineTime ends;
  double without_sync() const { return layers.without_sync() + ends.without_sync(); }
};
std::vector<EngineStage> EngineStages(const EngineModel& model, const EnginePlan& plan);

// T of the engine's ranking, seconds.
double EngineStep(const EngineModel& model, const EnginePlan& plan);

// The same stages under the schedule simulated pass by pass: a third of each time is
// forward; what of the synchronisation of layers the ends do not hide follows the last
// backward pass.
std::vector<StageTimes> EngineStageTimes(const std::vector<EngineStage>& stages);
double SimulatedEngineStep(const EngineModel& model, const EnginePlan& plan);

// Megabytes of each stage as the engine counts them: layers and ends rounded up, its
// buffer rounded down.
std::vector<double> EngineMegabytes(const EngineModel& model, const EnginePlan& plan);

// A better plan for the engine's own numbers: the fastest found under the simulated
// schedule, over its strategies, micro-batch counts, depths and caps, within its memory,
// with stages of any sizes. `global_batch` as given.
//
// Each stage is solved exactly (AssignStrategies) for the least of micro-batches times
// time plus synchronisation; partitions by the bound of docs/search.md over suffixes. Not
// a proof of anything: a stage may do better with another weight of the two. Nothing when
// no plan fits.
struct BetterEnginePlan {
  EnginePlan plan;
  double simulated_step = 0.0;
};
std::optional<BetterEnginePlan> FindBetterEnginePlan(const EngineModel& model,
                                                     int64_t global_batch);

}  // namespace parplan::oracle

#endif  // PARPLAN_STUDIES_ORACLE_ENGINE_PLAN_H_
