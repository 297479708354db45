#include "planner/planners/exact/exact_search.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/model/device_memory.h"
#include "planner/planners/exact/best_first_search.h"
#include "planner/planners/exact/block_search.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/first_plan.h"
#include "planner/planners/exact/memory/smallest_memory.h"
#include "planner/planners/exact/nested_spaces.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/planners/exact/space_search.h"
#include "planner/planners/exact/zero_bubble_search.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Plans of a front, at most: each is a search of its own, and a chart of more points is no clearer.
constexpr int kMaxFrontPlans = 64;
// Largest memory of a plan of the front relative to the one before. A step of 1 % keeps the front
// below about 70 plans per halving of memory; smaller steps give plans that hardly differ.
constexpr double kFrontStep = 0.99;

// Returns what an answer says of a search. `bound` is that of the time per sample of all plans, and
// `is_empty` whether it is proved that there is none.
SearchSummary SummaryOf(Seconds bound, bool is_empty, int64_t candidate_count,
                        const PredictedPlan* best, const SearchMeter& meter,
                        std::optional<double> wanted_gap_ratio) {
  SearchSummary summary{.expanded_state_count = meter.expanded_state_count(),
                        .pruned_state_count = meter.pruned_state_count(),
                        .candidate_count = candidate_count};
  bool proved = !meter.stopped() && is_empty;
  if (best != nullptr) {
    const Seconds time = best->time_per_sample();
    summary.bound =
        std::min(best->prediction.step, bound * static_cast<double>(best->plan.global_batch_size));
    summary.gap_ratio = std::clamp((time - bound) / time, 0.0, 1.0);
    proved = bound >= time * (1.0 - kProofTolerance);
    if (proved) summary.gap_ratio = 0.0;
  } else {
    summary.gap_ratio = proved ? 0.0 : 1.0;
  }
  summary.termination = proved ? Termination::kOptimal : Termination::kFeasible;
  if (proved) {
    summary.limit = SearchLimit::kNone;
  } else if (best != nullptr && summary.gap_ratio <= wanted_gap_ratio.value_or(-1.0)) {
    summary.limit = SearchLimit::kGap;
  } else {
    summary.limit = meter.stopped() ? meter.limit() : SearchLimit::kMethod;
  }
  return summary;
}

// `blocks` is the bound of `SearchBlocks`, or that of `SearchZeroBubble` if it is less.
SearchSummary SummaryOf(const BestFirstSearch& search, Seconds blocks, const PredictedPlan* best,
                        const SearchMeter& meter,
                        std::optional<double> wanted_gap_ratio = std::nullopt) {
  return SummaryOf(std::min(search.BoundPerSample(), blocks),
                   search.IsEmpty() && !blocks.is_finite(), search.candidate_count(), best, meter,
                   wanted_gap_ratio);
}

// Returns the plan that is there at once as the answer of a search that was stopped before it had
// one.
std::optional<PlanningResult> FirstPlanOf(const BestFirstSearch& search, Seconds blocks,
                                          const CostModel& costs, const SearchMeter& meter) {
  std::optional<PredictedPlan> first = FindFirstPlan(search.space(), costs);
  if (!first.has_value()) return std::nullopt;
  PlanFound found{.plan = std::move(first->plan), .prediction = std::move(first->prediction)};
  const PredictedPlan best{found.plan, found.prediction};
  found.search = SummaryOf(search, blocks, &best, meter);
  found.notes.push_back(
      "the search was stopped before it had a plan: this is one that all layers "
      "run alike");
  return found;
}

// Returns plans that need less and less memory, each the fastest within a little less than the
// memory of the one before. Sets `is_cut` if the front was not followed to its end or some plans
// may not be the fastest.
std::vector<PredictedPlan> FrontFrom(const PlanningProblem& problem, const CostModel& costs,
                                     const SearchControl& control, CandidateList candidates,
                                     const PredictedPlan& fastest, TableCache& tables,
                                     BlockTables& block_tables, SearchMeter& meter, bool& is_cut) {
  std::vector<PredictedPlan> front = {fastest};
  SearchControl quiet = control;
  quiet.on_progress = nullptr;
  while (meter.ShouldContinue()) {
    const Bytes usable = Bytes::Of(
        static_cast<int64_t>(front.back().prediction.peak_memory_upper.as_double() * kFrontStep));
    if (usable <= Bytes()) return front;
    if (static_cast<int>(front.size()) == kMaxFrontPlans) break;
    const PlanningProblem smaller = problem.WithUsableMemory(usable);
    BestFirstSearch search(smaller, costs, quiet, tables, meter, /*wanted=*/1);
    search.Take(std::move(candidates));
    search.DisableSeeding();
    search.Run();
    candidates = search.list();
    const Seconds blocks =
        SearchBlocks(search.space(), costs, block_tables, /*wanted=*/1,
                     control.wanted_gap_ratio.value_or(0.0), search.plans(), meter);
    if (search.plans().plans().empty()) {
      // Sums of least memory may decide what the search left open.
      const bool is_empty = search.IsEmpty() && !blocks.is_finite();
      is_cut |= meter.stopped() ||
                (!is_empty && AnyPlanFits(search.space(), costs, meter).value_or(true));
      return front;
    }
    if (meter.stopped()) break;
    PredictedPlan next = search.plans().plans().front();
    is_cut |= SummaryOf(search, blocks, &next, meter).termination != Termination::kOptimal;
    next.prediction.usable_memory = problem.usable_memory();
    // Among equally fast plans the smaller one stays.
    while (!front.empty() && front.back().time_per_sample() >= next.time_per_sample()) {
      front.pop_back();
    }
    front.push_back(std::move(next));
  }
  is_cut = true;
  return front;
}

// Searches the spaces within that of `search`, and all of them for smaller devices, if its limits
// left a gap, and adds what they find. `blocks` is the bound of `SearchBlocks`. Forgets the visits
// of `known`, which only these searches read.
void SearchWithin(const PlanningProblem& problem, const CostModel& costs,
                  const SearchControl& control, BestFirstSearch& search, Seconds blocks,
                  SharedKnowledge& known, SearchMeter& meter) {
  const std::vector<PredictedPlan>& plans = search.plans().plans();
  const SearchSummary summary = SummaryOf(search, blocks, plans.empty() ? nullptr : &plans.front(),
                                          meter, control.wanted_gap_ratio);
  if (summary.limit != SearchLimit::kMethod) return;
  SearchNestedSpaces(problem, {search.BoundsPerSample(), blocks, {}},
                     SearchesOfSpaces(problem, costs, control, search, known, meter),
                     search.plans(), meter);
  known.visits.Forget();
}

// Settles a search that found no plan. Adds the plan with the least memory to those of the search
// if it fits. Unless it is proved that nothing fits, searches the spaces within that of the search
// too: one of them may have a plan that the whole did not find. Returns nothing if there is a plan
// then, otherwise that nothing fits, with the least memory that would suffice; `kFeasible` if
// neither the search nor that memory proves it.
std::optional<PlanningResult> SettleEmpty(const PlanningProblem& problem, const CostModel& costs,
                                          const SearchControl& control, BestFirstSearch& search,
                                          Seconds blocks, SharedKnowledge& known,
                                          SearchMeter& meter) {
  const StoppedEmpty stopped{SummaryOf(search, blocks, nullptr, meter)};
  if (meter.stopped()) return stopped;
  const std::optional<SmallestMemory> smallest = FindSmallestMemory(search.space(), costs, meter);
  if (smallest.has_value() && smallest->usable_memory <= problem.usable_memory()) {
    search.plans().Offer({smallest->plan, PredictPlan(problem, costs, smallest->plan)});
  }
  const bool is_proved = smallest.has_value() && smallest->is_proved;
  if (!search.plans().plans().empty() || !is_proved) {
    SearchWithin(problem, costs, control, search, blocks, known, meter);
  }
  if (!search.plans().plans().empty()) return std::nullopt;
  if (!smallest.has_value()) return StoppedEmpty{SummaryOf(search, blocks, nullptr, meter)};
  NothingFits nothing{.smallest_usable_memory = smallest->usable_memory,
                      .smallest_device_memory = DeviceMemoryFor(problem, smallest->usable_memory),
                      .memory_is_proved = smallest->is_proved,
                      .smallest_plan = smallest->plan,
                      .smallest_device_count = FindSmallestDeviceCount(problem, meter),
                      .search = SummaryOf(search, blocks, nullptr, meter)};
  if (smallest->is_proved) {
    nothing.search.termination = Termination::kOptimal;
    nothing.search.limit = SearchLimit::kNone;
    nothing.search.gap_ratio = 0.0;
  }
  return nothing;
}

// Searches plans with block recomputation after all others and then, if a gap is left, smaller
// spaces. Repeats the search of all plans and that of block recomputation with twice the effort
// again and again until the gap is as small as wanted, if any gap is. `control` is that of
// `search`. Returns the bound of the plans with block recomputation: `listed`, which holds for all
// plans, or more.
Seconds Deepen(const PlanningProblem& problem, const CostModel& costs, SearchControl& control,
               BestFirstSearch& search, BlockTables& block_tables, Seconds listed,
               SharedKnowledge& known, SearchMeter& meter) {
  const double gap_ratio = control.wanted_gap_ratio.value_or(0.0);
  const auto search_blocks = [&] {
    return std::max(
        listed, SearchBlocks(search.space(), costs, block_tables, problem.rules().top_plan_count,
                             gap_ratio, search.plans(), meter));
  };
  Seconds blocks = search_blocks();
  // `SettleEmpty` does it where there is no plan.
  if (!search.plans().plans().empty()) {
    SearchWithin(problem, costs, control, search, blocks, known, meter);
  }
  if (!control.wanted_gap_ratio.has_value()) return blocks;
  // Visits with more effort find more.
  search.set_visits(nullptr);
  while (control.effort * 2 <= kMaxEffort && !search.plans().plans().empty()) {
    const SearchSummary summary =
        SummaryOf(search, blocks, &search.plans().plans().front(), meter, control.wanted_gap_ratio);
    if (summary.limit != SearchLimit::kMethod) break;
    control.effort *= 2;
    search.Reopen();
    search.Run();
    SearchOneStrategy(problem, costs, control, search, known, meter);
    blocks = std::max(blocks, search_blocks());
  }
  return blocks;
}

// Appends the plans after the best as alternatives, as many as the rules want.
void AddAlternatives(std::vector<PredictedPlan> plans, int top_plan_count, PlanFound& found) {
  for (size_t index = 1; index < plans.size(); ++index) {
    if (static_cast<int>(found.alternatives.size()) + 1 == top_plan_count) break;
    if (IsBetterPlan(plans[index], plans.front()) || AreAlike(plans[index].plan, found.plan)) {
      continue;
    }
    found.alternatives.push_back(std::move(plans[index]));
  }
}

// Answers a question that asks for the schedule with split backward passes.
std::optional<PlanningResult> SearchZeroBubbleAlone(const PlanningProblem& problem,
                                                    const CostModel& costs,
                                                    const SearchControl& control) {
  SearchMeter meter(control);
  PlanList plans(problem.rules().top_plan_count);
  const Seconds bound =
      SearchZeroBubble(problem, costs, control.wanted_gap_ratio.value_or(0.0), plans, meter);
  std::vector<PredictedPlan> found_plans = plans.Take();
  const PredictedPlan* const best = found_plans.empty() ? nullptr : &found_plans.front();
  SearchSummary summary =
      SummaryOf(bound, !bound.is_finite(), 0, best, meter, control.wanted_gap_ratio);
  if (best == nullptr) {
    if (summary.limit == SearchLimit::kNone) {
      // Nothing fits. If there are plans at all, how much memory they need is not searched.
      PlanList any(1);
      SearchZeroBubble(problem.WithUsableMemory(Bytes::Of(int64_t{1} << 50)), costs, 0.0, any,
                       meter);
      if (any.plans().empty() && !meter.stopped()) return std::nullopt;
      summary.termination = Termination::kFeasible;
      summary.limit = meter.stopped() ? meter.limit() : SearchLimit::kMethod;
      summary.gap_ratio = 1.0;
    }
    return StoppedEmpty{summary};
  }
  PlanFound found{.plan = best->plan, .prediction = best->prediction, .search = summary};
  if (problem.rules().wants_memory_front) {
    found.memory_front = {*best};
    found.notes.push_back(
        "the memory front has one plan: those of the schedule zb-h1 are not searched for less "
        "memory");
  }
  AddAlternatives(std::move(found_plans), problem.rules().top_plan_count, found);
  return found;
}

}  // namespace

std::optional<PlanningResult> SearchExact(const PlanningProblem& problem, const CostModel& costs,
                                          const SearchControl& given_control) {
  if (problem.rules().schedule == Schedule::kZeroBubble) {
    return SearchZeroBubbleAlone(problem, costs, given_control);
  }
  // `Deepen` changes the effort.
  SearchControl control = given_control;
  SearchMeter meter(control);
  SharedKnowledge known;
  known.memory_of_visits = problem.usable_memory();
  TableCache& tables = known.TablesOf(problem);
  BestFirstSearch search(problem, costs, control, tables, meter, problem.rules().top_plan_count);
  // Nothing else reads what these keep.
  const bool is_nesting_cheap = IsNestingCheap(problem);
  if (!(is_nesting_cheap ? ListOnce(search, known) : search.List())) {
    return FirstPlanOf(search, Seconds(), costs, meter)
        .value_or(StoppedEmpty{SummaryOf(search, Seconds(), nullptr, meter)});
  }
  if (search.has_none()) return std::nullopt;
  // Holds for all plans, since it leaves memory out.
  const Seconds listed = search.BoundPerSample();
  if (is_nesting_cheap) {
    search.set_visits(&known.visits);
    SearchFewDimensions(problem, costs, control, search, known, meter);
  }
  search.Run();
  SearchOneStrategy(problem, costs, control, search, known, meter);
  BlockTables block_tables;
  Seconds blocks = Deepen(problem, costs, control, search, block_tables, listed, known, meter);
  if (search.plans().plans().empty()) {
    std::optional<PlanningResult> nothing =
        SettleEmpty(problem, costs, control, search, blocks, known, meter);
    if (nothing.has_value() && meter.stopped()) {
      std::optional<PlanningResult> first = FirstPlanOf(search, blocks, costs, meter);
      if (first.has_value()) return first;
    }
    // No limit ended it, and no memory suffices: there is no plan at all.
    const auto* const stopped = nothing ? std::get_if<StoppedEmpty>(&*nothing) : nullptr;
    if (stopped != nullptr && stopped->search.limit == SearchLimit::kNone) return std::nullopt;
    if (nothing.has_value()) return nothing;
  }
  // A plan of ZB-H1 needs no less memory than the same of 1F1B, so where there is none of the other
  // schedules there is none of this one.
  const Seconds zero_bubble = SearchZeroBubble(
      problem, costs, control.wanted_gap_ratio.value_or(0.0), search.plans(), meter);
  blocks = std::min(blocks, zero_bubble);
  std::vector<PredictedPlan> plans = search.plans().plans();
  PlanFound found{
      .plan = plans.front().plan,
      .prediction = plans.front().prediction,
      .search = SummaryOf(search, blocks, &plans.front(), meter, control.wanted_gap_ratio)};
  if (problem.rules().wants_memory_front) {
    bool is_cut = false;
    found.memory_front = FrontFrom(problem, costs, control, search.list(), plans.front(), tables,
                                   block_tables, meter, is_cut);
    // Plans of ZB-H1 are not searched for less memory.
    is_cut |= zero_bubble.is_finite();
    // Among equally fast plans, the smallest is the answer.
    const PredictedPlan& first = found.memory_front.front();
    found.plan = first.plan;
    found.prediction = first.prediction;
    if (IsBetterPlan(first, plans.front())) plans.insert(plans.begin(), first);
    found.search.bound = std::min(found.search.bound, found.prediction.step);
    if (is_cut) {
      found.notes.push_back(
          "the memory front was cut short: smaller plans, or faster ones of its sizes, may exist");
    }
  }
  AddAlternatives(std::move(plans), problem.rules().top_plan_count, found);
  return found;
}

}  // namespace parplan
