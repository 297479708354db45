// Stages of one depth, micro-batch count and schedule, solved by the dense programme.

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_STAGES_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_STAGES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/galvatron/galvatron_tables.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/stage/dense_assignment.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {

// A stage with a strategy for every unit.
struct GalvatronStage {
  // [unit] index into the options of its kind.
  std::vector<int> options;
  // m (forward + backward) + synchronisation: what the programme minimises (papers.md 2.3).
  Seconds time;
  // What a device shows at its fullest, as sure as the plan's risk asks.
  Bytes peak;
};

// Solves stages, each distinct one once. Memory is counted in MiB, each unit rounded up.
class GalvatronStages {
 public:
  // References must outlive it. `tables` are usable.
  GalvatronStages(const PlanningProblem& problem, const CostModel& costs,
                  const GalvatronTables& tables, Schedule schedule, int64_t micro_batch_count,
                  SearchMeter& meter);

  // The programme runs on what is kept from forward to backward, for the whole budget;
  // then the budget is lowered until what exists only while a layer runs fits as well
  // (the downward scan, papers.md 2.2). Null when nothing fits, or the meter ended it.
  // Lives as long as this.
  const GalvatronStage* Solve(int first_unit, int unit_count, int stage_index);

  // [unit] the least any option keeps in this stage.
  std::vector<Bytes> LeastKept(int stage_index) const;
  // The same as the partitions of stage_balance.h want it.
  LeastMemory LeastMemoryOfStages() const;
  // No assignment of the stage shows less than this.
  Bytes LeastPeak(int first_unit, int unit_count, int stage_index) const;
  // [unit] m (forward + backward) + synchronisation of the fastest option.
  std::vector<Seconds> FastestTimes() const;

  Plan PlanOf(const Partition& partition, int64_t global_batch_size,
              const std::vector<const GalvatronStage*>& stages) const;

 private:
  // In flight, first stage, last stage, kinds of units in runs.
  using Key = std::tuple<int64_t, bool, bool, std::vector<std::pair<int, int>>>;

  int64_t InFlight(int stage_index) const;
  Seconds TimeOf(const GalvatronOption& option) const;
  Bytes Kept(const GalvatronOption& option, int stage_index) const;
  const GalvatronOption& Option(int unit, int option) const;
  int CommunicatorsAt(int stage_index, int communicator_count) const;
  Bytes PeakOf(int first_unit, const std::vector<int>& options, int stage_index) const;
  DenseStage DenseOf(int first_unit, int unit_count, int stage_index) const;
  std::optional<GalvatronStage> SolveNew(int first_unit, int unit_count, int stage_index);

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const GalvatronTables& tables_;
  const Schedule schedule_;
  const int64_t micro_batch_count_;
  SearchMeter& meter_;
  std::map<Key, std::optional<GalvatronStage>> solved_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_STAGES_H_
