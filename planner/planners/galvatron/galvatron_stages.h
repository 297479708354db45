// The stages of one pipeline degree, micro-batch count and schedule, solved by the dense dynamic
// programme. Used by `GalvatronMethodSearch`, the walks of bmw_walk.h and studies of the papers.
//
// Words (docs/glossary.md): a meter counts states and says when a search must end (search_meter.h);
// an option is a strategy of a unit with its costs (galvatron_tables.h); micro-batches in flight
// have done their forward pass and not yet their backward pass; a unit is one or more consecutive
// layers that are solved as one (galvatron_tables.h).

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_STAGES_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_STAGES_H_

#include <cstdint>
#include <functional>
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
  // m (forward + backward) + synchronisation: the objective of the programme (docs/papers.md 2.3).
  Seconds time;
  // Peak memory of a device, an upper bound at the plan's accepted risk.
  Bytes peak;
};

// Solves stages, each distinct one once. Memory is counted in the granules of the rules
// (`PlanningRules::memory_granule`), rounded up per unit. Not thread-safe.
class GalvatronStages {
 public:
  // References must outlive this object. REQUIRES: `tables.usable()`, which is not checked.
  GalvatronStages(const PlanningProblem& problem, const CostModel& costs,
                  const GalvatronTables& tables, Schedule schedule, int64_t micro_batch_count,
                  SearchMeter& meter);

  // Solves a stage. The programme runs on what is kept from forward to backward, for the whole
  // budget; then the budget is lowered until transient memory fits as well (the downward scan,
  // docs/papers.md 2.2). Returns null if nothing fits or the meter ended it, and then again for an
  // equal stage. The result lives as long as this object. Units and stages count from 0. REQUIRES:
  // at least one unit; aborts otherwise.
  const GalvatronStage* Solve(int first_unit, int unit_count, int stage_index);

  // Returns [unit] the least bytes any option keeps in this stage.
  std::vector<Bytes> LeastKept(int stage_index) const;
  // Returns the same in the form of stage_balance.h, where layers are units and their kinds those
  // of `GalvatronTables::kinds`, over the options that recompute nothing unless `with_recompute`.
  // Nothing if the meter ended the search, also for the next.
  std::optional<LeastMemory> LeastMemoryOfStages(bool with_recompute = true) const;
  // Returns, in the same form, what the fastest option within each cap of transient memory keeps,
  // the smaller one of two equally fast.
  std::optional<LeastMemory> MemoryAtFastest() const;
  // Returns a lower bound of the peak of any assignment of the stage.
  Bytes LeastPeak(int first_unit, int unit_count, int stage_index) const;
  // Returns [unit] m (forward + backward) + synchronisation of the fastest option.
  std::vector<Seconds> FastestTimes() const;

  // Returns the states that all searches on this meter expanded.
  int64_t expanded_state_count() const { return meter_.expanded_state_count(); }

  // Returns the plan with these units in each stage and these solutions of them, one for each
  // stage. REQUIRES: no solution is null, which is not checked.
  Plan PlanOf(const Partition& partition, int64_t global_batch_size,
              const std::vector<const GalvatronStage*>& stages) const;

 private:
  // Micro-batches in flight, whether it is the first stage, whether the last, and runs of (kind of
  // unit, count).
  using Key = std::tuple<int64_t, bool, bool, std::vector<std::pair<int, int>>>;

  // Returns the whole granules that hold `bytes`, and those within `bytes`, which may be negative.
  int64_t UnitsFor(Bytes bytes) const;
  int64_t UnitsWithin(Bytes bytes) const;
  int64_t InFlight(int stage_index) const;
  // Returns the bytes that each kind of layer keeps in each stage, within each cap of transient
  // memory: those of the option within the cap that comes first by `rank_of(option, stage)`, of
  // which the second is what it keeps. Options without a rank do not count.
  using Rank = std::pair<Seconds, Bytes>;
  std::optional<LeastMemory> MemoryOfStages(
      const std::function<std::optional<Rank>(const GalvatronOption& option, int stage)>& rank_of)
      const;
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
