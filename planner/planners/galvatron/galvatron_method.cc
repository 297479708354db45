#include "planner/planners/galvatron/galvatron_method.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "planner/planners/galvatron/bi_objective.h"
#include "planner/planners/galvatron/bmw_walk.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/stage/greedy_split.h"
#include "planner/search/stage/partition_moves.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {
namespace {

// States that a candidate expands for further partitions than the even one, so that models of many
// layers end. In the 120 cells of the papers' grid (`parplan-study papers --section grid`) 2^20 and
// 2^24 give the same answers, 2^18 one that is 0.9 % slower; the time of the grid hardly changes.
constexpr int64_t kMaxMoveStates = int64_t{1} << 22;

int SlowestStageOf(const PredictedPlan& plan) {
  const auto work = [&plan](const StagePrediction& stage) {
    return (stage.forward + stage.backward) * static_cast<double>(plan.plan.micro_batch_count) +
           stage.gradient_sync + stage.optimizer_step;
  };
  const std::vector<StagePrediction>& stages = plan.prediction.stages;
  return static_cast<int>(
      std::max_element(stages.begin(), stages.end(),
                       [&work](const auto& a, const auto& b) { return work(a) < work(b); }) -
      stages.begin());
}

}  // namespace

const std::vector<GalvatronTables>& GalvatronTableCache::Of(int pipeline_parallel_degree,
                                                            int64_t micro_batch_size,
                                                            bool with_recompute) {
  const auto [found, is_new] =
      tables_.try_emplace(std::tuple(pipeline_parallel_degree, micro_batch_size, with_recompute));
  if (!is_new) return found->second;
  const GalvatronTables tables(space_, costs_, pipeline_parallel_degree, micro_batch_size,
                               with_recompute, meter_);
  if (tables.usable()) found->second = tables.Choices(space_);
  return found->second;
}

GalvatronMethodSearch::GalvatronMethodSearch(const PlanningProblem& problem, const CostModel& costs,
                                             const StrategySpace& space,
                                             GalvatronTableCache& tables, GalvatronMethod method,
                                             SearchMeter& meter)
    : problem_(problem),
      searched_(&problem),
      costs_(costs),
      space_(space),
      tables_(tables),
      method_(method),
      meter_(meter),
      evaluator_(problem, costs),
      schedule_(problem.rules().schedule.value_or(kDefaultSchedule)) {}

bool GalvatronMethodSearch::MorePromising(const Candidate& a, const Candidate& b) {
  const auto rank = [](const Candidate& each) {
    return std::tuple(each.per_sample(), each.global_batch_size,
                      each.tables->pipeline_parallel_degree(), each.micro_batch_count);
  };
  return rank(a) < rank(b);
}

void GalvatronMethodSearch::List() {
  if (method_.adjusts && !AllowsUneven()) return;
  for (const int64_t batch : problem_.GlobalBatchSizes()) {
    for (const int degree : space_.PipelineDegrees()) {
      if (method_.adjusts && degree == 1) continue;
      const std::vector<Schedule> schedules = space_.Schedules(degree);
      if (std::find(schedules.begin(), schedules.end(), schedule_) == schedules.end()) continue;
      for (const int64_t count : space_.MicroBatchCounts(batch)) {
        if (count > kMaxForwardPassCount / degree) break;
        if (!meter_.ShouldContinue()) return;
        for (const GalvatronTables& tables :
             tables_.Of(degree, batch / count, method_.with_recompute)) {
          Add({.global_batch_size = batch, .micro_batch_count = count, .tables = &tables});
        }
      }
    }
  }
  std::stable_sort(candidates_.begin(), candidates_.end(), MorePromising);
}

bool GalvatronMethodSearch::Run(std::optional<PredictedPlan>& best,
                                const std::function<void()>& on_candidate) {
  bool improved = false;
  for (Candidate& candidate : candidates_) {
    if (!meter_.ShouldContinue()) break;
    on_candidate();
    if (best && candidate.per_sample() > best->time_per_sample()) {
      meter_.Prune(1);
      continue;
    }
    std::optional<PredictedPlan> found = BestOf(candidate);
    if (!found || (best && !IsBetterPlan(*found, *best))) continue;
    best = std::move(found);
    improved = true;
  }
  return improved;
}

bool GalvatronMethodSearch::RunSmaller(const PlanningProblem& smaller,
                                       std::optional<PredictedPlan>& best) {
  searched_ = &smaller;
  bool improved = false;
  for (Candidate& candidate : candidates_) {
    if (!meter_.ShouldContinue()) break;
    if (candidate.tables->pipeline_parallel_degree() == 1) continue;
    // Equally fast plans with less memory do not count.
    const Seconds least =
        best ? best->time_per_sample() * (1.0 - kProofTolerance) : Seconds::Infinite();
    if (candidate.per_sample() >= least) {
      meter_.Prune(1);
      continue;
    }
    std::optional<PredictedPlan> found = BestOf(candidate);
    if (!found || found->time_per_sample() >= least) continue;
    best = std::move(found);
    improved = true;
  }
  searched_ = &problem_;
  return improved;
}

bool GalvatronMethodSearch::FindsAny() {
  for (Candidate& candidate : candidates_) {
    if (!meter_.ShouldContinue()) return false;
    if (BestOf(candidate)) return true;
  }
  return false;
}

Bytes GalvatronMethodSearch::LeastUsableMemory() {
  Bytes least = Bytes::Max();
  for (Candidate& each : candidates_) {
    if (meter_.stopped()) return least;
    least = std::min(least, LeastMemoryOf(each));
  }
  return least;
}

Seconds GalvatronMethodSearch::LowerBound(int64_t global_batch_size) const {
  Seconds bound = Seconds::Infinite();
  for (const Candidate& each : candidates_) {
    if (each.global_batch_size == global_batch_size) bound = std::min(bound, each.bound);
  }
  return bound;
}

bool GalvatronMethodSearch::AllowsUneven() const {
  return space_.dimensions().has(SearchDimension::kUnevenStages);
}

GalvatronStages GalvatronMethodSearch::StagesOf(const Candidate& candidate) {
  return GalvatronStages(*searched_, costs_, *candidate.tables, schedule_,
                         candidate.micro_batch_count, meter_);
}

void GalvatronMethodSearch::Add(Candidate candidate) {
  candidate.bound =
      candidate.tables->LowerBound(candidate.micro_batch_count) + costs_.step_overhead();
  candidates_.push_back(candidate);
}

Bytes GalvatronMethodSearch::LeastMemoryOf(Candidate& candidate) {
  if (candidate.least_memory) return *candidate.least_memory;
  const GalvatronTables& tables = *candidate.tables;
  const GalvatronStages stages = StagesOf(candidate);
  std::optional<Partition> least;
  if (!method_.adjusts) least = OnlyPartition(tables, stages);
  if (!least) {
    const std::optional<LeastMemory> memory = stages.LeastMemoryOfStages();
    // The search has ended; no plan is looked for.
    if (!memory) return Bytes::Max();
    const std::optional<MemoryBalancedPartition> balanced =
        MemoryBalancedSplit(tables.kind_of_unit(), *memory, EvenUnits(tables), meter_.Worker());
    if (!balanced) return Bytes::Max();
    least = balanced->layer_counts;
  }
  // Other partitions of the rules need at least as much for their fullest stage.
  Bytes peak;
  int unit = 0;
  for (size_t stage = 0; stage < least->size(); ++stage) {
    peak = std::max(peak, stages.LeastPeak(unit, (*least)[stage], static_cast<int>(stage)));
    unit += (*least)[stage];
  }
  candidate.least_memory = peak;
  return peak;
}

std::optional<Partition> GalvatronMethodSearch::OnlyPartition(const GalvatronTables& tables,
                                                              const GalvatronStages& stages) const {
  const Partition even = EvenUnits(tables);
  const Partitioner partitioner = problem_.rules().partitioner;
  if (even.size() == 1 || !AllowsUneven() || partitioner == Partitioner::kEven) return even;
  if (partitioner != Partitioner::kGreedy) return std::nullopt;
  // One number per layer, as in Galvatron's public code: that of the first stage.
  std::vector<double> memory;
  for (const Bytes kept : stages.LeastKept(0)) memory.push_back(kept.as_double());
  return GreedyMemorySplitOr(memory, even);
}

std::vector<Partition> GalvatronMethodSearch::Starts(const GalvatronTables& tables,
                                                     const GalvatronStages& stages) const {
  std::vector<Partition> starts;
  const auto add = [&starts](Partition partition) {
    if (std::find(starts.begin(), starts.end(), partition) == starts.end()) {
      starts.push_back(std::move(partition));
    }
  };
  const Partition even = EvenUnits(tables);
  const std::optional<LeastMemory> known = stages.LeastMemoryOfStages();
  if (!known) return {};
  const LeastMemory& memory = *known;
  const Partition by_time = TimeBalancedSplit(stages.FastestTimes(), even);
  add(even);
  add(by_time);
  std::vector<double> kept_in_first;
  for (const Bytes kept : stages.LeastKept(0)) kept_in_first.push_back(kept.as_double());
  add(GreedyMemorySplitOr(kept_in_first, even));
  if (const std::optional<MemoryBalancedPartition> balanced =
          MemoryBalancedSplit(tables.kind_of_unit(), memory, even, meter_.Worker())) {
    add(balanced->layer_counts);
  }
  const Bytes budget = costs_.searched_group().overheads().TensorBudget(
      searched_->usable_memory(), static_cast<int>(even.size()),
      problem_.device_count() / static_cast<int>(even.size()));
  if (const std::optional<Partition> limited =
          MemoryLimitedSplit(tables.kind_of_unit(), memory, budget, by_time)) {
    add(*limited);
  }
  return starts;
}

std::optional<PredictedPlan> GalvatronMethodSearch::BestOf(Candidate& candidate) {
  if (LeastMemoryOf(candidate) > searched_->usable_memory()) return std::nullopt;
  GalvatronStages stages = StagesOf(candidate);
  return method_.adjusts ? BestByAdjustment(candidate, stages)
                         : BestByPartitioner(candidate, stages);
}

std::optional<PredictedPlan> GalvatronMethodSearch::PlanOf(const Candidate& candidate,
                                                           GalvatronStages& stages,
                                                           const Partition& partition) {
  std::vector<const GalvatronStage*> solved;
  int unit = 0;
  for (size_t stage = 0; stage < partition.size(); ++stage) {
    solved.push_back(stages.Solve(unit, partition[stage], static_cast<int>(stage)));
    if (solved.back() == nullptr) return std::nullopt;
    unit += partition[stage];
  }
  PredictedPlan plan{stages.PlanOf(partition, candidate.global_batch_size, solved), {}};
  plan.prediction = evaluator_.Predict(plan.plan);
  if (!Fits(plan.prediction)) return std::nullopt;
  return plan;
}

std::optional<PredictedPlan> GalvatronMethodSearch::BestByPartitioner(const Candidate& candidate,
                                                                      GalvatronStages& stages) {
  if (const std::optional<Partition> only = OnlyPartition(*candidate.tables, stages)) {
    return PlanOf(candidate, stages, *only);
  }
  std::optional<PredictedPlan> best;
  int64_t last_state = std::numeric_limits<int64_t>::max();
  const auto improves = [&](const Partition& partition) {
    if (meter_.stopped() || meter_.expanded_state_count() > last_state) return false;
    std::optional<PredictedPlan> plan = PlanOf(candidate, stages, partition);
    if (!plan || (best && !IsBetterPlan(*plan, *best))) return false;
    best = std::move(plan);
    return true;
  };
  Partition start;
  for (const Partition& partition : Starts(*candidate.tables, stages)) {
    if (improves(partition)) start = partition;
    last_state = std::min(last_state, meter_.expanded_state_count() + kMaxMoveStates);
  }
  if (!best) return best;
  MoveLayers(
      start, MoveTrialCount(static_cast<int>(start.size()), candidate.micro_batch_count),
      [&best] { return SlowestStageOf(*best); }, improves);
  return best;
}

std::optional<PredictedPlan> GalvatronMethodSearch::BestByAdjustment(const Candidate& candidate,
                                                                     GalvatronStages& stages) {
  std::optional<PredictedPlan> best;
  WalkPartitions(
      *candidate.tables, stages,
      [&](MemoryMeasure, const AdjustmentStep& step,
          const std::vector<const GalvatronStage*>& solved) {
        // A partition that a test keeps out of the queue may still have the fastest plan.
        if (!step.figures) return !meter_.stopped();
        // The work of a stage alone takes longer than the best plan of the walk.
        const Seconds slowest =
            *std::max_element(step.figures->times.begin(), step.figures->times.end());
        if (best && slowest * (1.0 - 1e-9) > best->prediction.step) {
          return !meter_.stopped();
        }
        PredictedPlan plan{stages.PlanOf(step.partition, candidate.global_batch_size, solved), {}};
        plan.prediction = evaluator_.Predict(plan.plan);
        if (Fits(plan.prediction) && (!best || IsBetterPlan(plan, *best))) {
          best = std::move(plan);
        }
        return !meter_.stopped();
      });
  return best;
}

}  // namespace parplan
