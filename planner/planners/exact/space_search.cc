#include "planner/planners/exact/space_search.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "planner/cost/predict_plan.h"
#include "planner/model/model_spec.h"
#include "planner/model/schedule_traits.h"
#include "planner/model/search_space.h"
#include "planner/model/tied_table.h"
#include "planner/planners/exact/block_search.h"
#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/memory/smallest_memory.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

std::string StrategyDimensions(const PlanningProblem& problem) {
  return problem.dimensions()
      .Without(SearchDimension::kInterleaved)
      .Without(SearchDimension::kGroupSize)
      .Without(SearchDimension::kUnevenStages)
      .ToString();
}

// Dimensions that multiply the strategies of layers or the plans of a candidate, each by two to
// some twenty. Without them DeepSeek-V3 on 2,048 devices is searched and proved in 0.6 s, with them
// in 20.
constexpr SearchDimension kManifold[] = {
    SearchDimension::kInterleaved,    SearchDimension::kGroupSize,
    SearchDimension::kHybridSharding, SearchDimension::kModuleRecompute,
    SearchDimension::kBlockRecompute, SearchDimension::kExpertTensor,
    SearchDimension::kZeroBubble,
};

// The search or the proof of one space, on a meter of its own, as if it had been asked for.
class PartOfQuestion {
 public:
  PartOfQuestion(const PlanningProblem& part, const CostModel& costs, const SearchControl& control,
                 BestFirstSearch& whole, SharedKnowledge& known, SearchMeter& meter)
      : part_(part),
        costs_(costs),
        control_(ControlOf(control, whole, meter)),
        known_(known),
        meter_(meter),
        own_(control_),
        search_(part, costs, control_, known.TablesOf(part), own_, part.rules().top_plan_count) {
    whole.ReportDuringPart(0);
    search_.set_visits(&known.visits);
  }

  SpaceAnswer Search(Seconds enough) {
    SpaceAnswer answer;
    if (!List()) return answer;
    const Seconds listed = search_.BoundPerSample();
    search_.set_enough(enough);
    search_.Run();
    SearchOneStrategy(part_, costs_, control_, search_, known_, own_);
    BlockTables block_tables;
    const double gap_ratio = control_.wanted_gap_ratio.value_or(0.0);
    answer.blocks = std::max(
        listed, SearchBlocks(search_.space(), costs_, block_tables, part_.rules().top_plan_count,
                             gap_ratio, search_.plans(), own_));
    answer.bounds = search_.BoundsPerSample();
    const bool is_settled = search_.IsEmpty() || search_.BoundPerSample() >= enough;
    if (search_.plans().plans().empty() && !is_settled && !own_.stopped()) {
      // `SettleEmpty` does the same where the space is asked for.
      const std::optional<SmallestMemory> smallest =
          FindSmallestMemory(search_.space(), costs_, own_);
      if (smallest.has_value() && smallest->usable_memory <= part_.usable_memory()) {
        search_.plans().Offer({smallest->plan, PredictPlan(part_, costs_, smallest->plan)});
      } else if (smallest.has_value() && smallest->is_proved) {
        const Seconds none = Seconds::Infinite();
        answer.bounds = {.plain = none, .listed = none, .uneven = none, .grouped = none};
        answer.blocks = none;
      }
    }
    Finish(answer);
    return answer;
  }

  SpaceAnswer Prove(const SpaceAnswer& known, Seconds enough) {
    SpaceAnswer answer;
    if (!List()) return answer;
    answer.is_settled = search_.Prove(known.bounds, enough);
    if (answer.is_settled) SearchOneStrategy(part_, costs_, control_, search_, known_, own_);
    answer.bounds = search_.BoundsPerSample();
    // The proof did not look at these.
    if (known.bounds.plain >= enough) answer.bounds.plain = Seconds();
    if (known.bounds.listed >= enough) answer.bounds.listed = Seconds();
    if (known.bounds.uneven >= enough) answer.bounds.uneven = Seconds();
    if (known.bounds.grouped >= enough) answer.bounds.grouped = Seconds();
    Finish(answer);
    return answer;
  }

 private:
  static SearchControl ControlOf(const SearchControl& control, BestFirstSearch& whole,
                                 const SearchMeter& meter) {
    SearchControl own = control;
    if (control.on_progress) {
      own.on_progress = [&whole](const SearchProgress& progress) {
        whole.ReportDuringPart(progress.expanded_state_count);
      };
    }
    own.effort = 1;
    if (control.max_state_count > 0) {
      own.max_state_count =
          std::max<int64_t>(1, control.max_state_count - meter.expanded_state_count());
    }
    return own;
  }

  bool List() {
    if (ListOnce(search_, known_)) return true;
    meter_.Stop(own_.limit());
    return false;
  }

  void Finish(SpaceAnswer& answer) {
    answer.plans = search_.plans().Take();
    meter_.Expand(own_.expanded_state_count());
    meter_.Prune(own_.pruned_state_count());
    if (own_.stopped()) meter_.Stop(own_.limit());
  }

  const PlanningProblem& part_;
  const CostModel& costs_;
  const SearchControl control_;
  SharedKnowledge& known_;
  SearchMeter& meter_;
  SearchMeter own_;
  BestFirstSearch search_;
};

}  // namespace

TableCache& SharedKnowledge::TablesOf(const PlanningProblem& problem) {
  return tables[StrategyDimensions(problem)];
}

void SharedKnowledge::KeepVisitsOf(Bytes usable_memory) {
  if (usable_memory == memory_of_visits) return;
  visits.Forget();
  memory_of_visits = usable_memory;
}

bool ListOnce(BestFirstSearch& search, SharedKnowledge& known) {
  const std::string dimensions = search.space().dimensions().ToString();
  if (const auto list = known.lists.find(dimensions); list != known.lists.end()) {
    search.Take(list->second);
    return true;
  }
  if (!search.List(known.least_times)) return false;
  known.lists.emplace(dimensions, search.list());
  return true;
}

void SearchOneStrategy(const PlanningProblem& problem, const CostModel& costs,
                       const SearchControl& control, BestFirstSearch& search,
                       SharedKnowledge& known, SearchMeter& meter) {
  const DimensionSet dimensions = problem.dimensions();
  if (!dimensions.has(SearchDimension::kPerLayer) ||
      !dimensions.has(SearchDimension::kUnevenStages) || meter.stopped() ||
      (search.plans().plans().empty() && !search.ceiling().is_finite()) ||
      HasTiedTable(problem.model()) ||
      problem.model().layer_definitions().size() > kMaxDefinitionsChosen ||
      search.InterleavedBoundPerSample() >= search.WantedPerSample() * (1.0 - kProofTolerance)) {
    return;
  }
  PlanningRules rules = problem.rules();
  rules.schedule = Schedule::kInterleaved;
  rules.dimensions = dimensions & LimitsOf(Target::kMegatron).dimensions;
  rules.top_plan_count = 1;
  const PlanningProblem part = problem.WithRules(rules);
  SearchControl quiet = control;
  quiet.on_progress = nullptr;
  TableCache& tables = known.one_strategy_tables[StrategyDimensions(part)];
  BestFirstSearch one(part, costs, quiet, tables, meter, /*wanted=*/1);
  const std::string list_key = part.dimensions().ToString();
  if (const auto list = known.one_strategy_lists.find(list_key);
      list != known.one_strategy_lists.end()) {
    one.Take(list->second);
  } else {
    if (!one.ListUneven(known.least_times)) return;
    known.one_strategy_lists.emplace(list_key, one.list());
  }
  one.set_ceiling(search.ceiling());
  if (!search.plans().plans().empty()) one.plans().Offer(search.plans().plans().front());
  one.RunUneven();
  for (const PredictedPlan& plan : one.plans().plans()) search.plans().Offer(plan);
}

void SearchFewDimensions(const PlanningProblem& problem, const CostModel& costs,
                         const SearchControl& control, BestFirstSearch& search,
                         SharedKnowledge& known, SearchMeter& meter) {
  if (!HasExperts(problem.model())) return;
  PlanningRules rules = problem.rules();
  if (rules.schedule.has_value() && TraitsOf(*rules.schedule).has_virtual_stages) return;
  rules.dimensions = problem.dimensions();
  for (const SearchDimension dimension : kManifold) {
    rules.dimensions = rules.dimensions.Without(dimension);
  }
  if (rules.dimensions == problem.dimensions()) return;
  const PlanningProblem part = problem.WithRules(rules);
  SpaceAnswer answer = SearchesOfSpaces(problem, costs, control, search, known, meter)
                           .search(part, Seconds::Infinite());
  for (PredictedPlan& plan : answer.plans) search.plans().Offer(std::move(plan));
}

SpaceSearches SearchesOfSpaces(const PlanningProblem& problem, const CostModel& costs,
                               const SearchControl& control, BestFirstSearch& whole,
                               SharedKnowledge& known, SearchMeter& meter) {
  known.KeepVisitsOf(problem.usable_memory());
  const auto part_of = [&costs, &control, &whole, &known, &meter](const PlanningProblem& part) {
    // No later part has the memory of an earlier one.
    known.KeepVisitsOf(part.usable_memory());
    return PartOfQuestion(part, costs, control, whole, known, meter);
  };
  return {.search = [part_of](const PlanningProblem& part,
                              Seconds enough) { return part_of(part).Search(enough); },
          .prove = [part_of](const PlanningProblem& part, const SpaceAnswer& space,
                             Seconds enough) { return part_of(part).Prove(space, enough); }};
}

}  // namespace parplan
