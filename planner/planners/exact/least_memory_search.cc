#include "planner/planners/exact/least_memory_search.h"

#include <algorithm>
#include <utility>

#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/best_first_search.h"
#include "planner/planners/exact/block_search.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/memory/smallest_memory.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// States of one search within a memory. A budget that only the smallest plans meet leaves few
// states; more would delay answers for models of many unlike layers, which use them up. With these
// all models of table 2 of the paper are proved (not measured for other values).
constexpr int64_t kStatesWithinMemory = 50'000;
// Searches for a smaller plan, each of which gains at least a byte. Not measured for other values.
constexpr int kMaxDescents = 16;

// The outcome of a search within a memory.
struct Within {
  std::optional<PredictedPlan> fastest;
  // Whether no plan within the memory is faster; without a plan, whether there is none.
  bool is_proved = false;
};

class LeastMemorySearch {
 public:
  LeastMemorySearch(const PlanningProblem& problem, const CostModel& costs, SearchMeter& meter)
      : problem_(problem), costs_(costs), meter_(meter) {}

  std::optional<LeastMemoryPlan> Run() {
    std::optional<SmallestMemory> smallest =
        FindSmallestMemory(StrategySpace(problem_, costs_), costs_, meter_);
    if (!smallest) return std::nullopt;
    LeastMemoryPlan best{.predicted = Predicted(std::move(smallest->plan)),
                         .memory_is_proved = smallest->is_proved};
    for (int round = 0; !best.memory_is_proved && round < kMaxDescents; ++round) {
      Within less = FastestWithin(UpperOf(best) - Bytes::Of(1));
      if (!less.fastest) {
        best.memory_is_proved = less.is_proved;
        break;
      }
      best.predicted = *std::move(less.fastest);
    }
    Within same = FastestWithin(UpperOf(best));
    best.time_is_proved = same.is_proved;
    if (same.fastest && IsBetterPlan(*same.fastest, best.predicted)) {
      best.predicted = *std::move(same.fastest);
    }
    return best;
  }

 private:
  static Bytes UpperOf(const LeastMemoryPlan& plan) {
    return plan.predicted.prediction.peak_memory_upper;
  }

  PredictedPlan Predicted(Plan plan) const {
    Prediction prediction = PredictPlan(problem_, costs_, plan);
    return {std::move(plan), std::move(prediction)};
  }

  Within FastestWithin(Bytes usable) {
    Within answer;
    if (usable <= Bytes() || !meter_.ShouldContinue()) return answer;
    PlanningRules rules = problem_.rules();
    rules.top_plan_count = 1;
    const PlanningProblem smaller = problem_.WithRules(rules).WithUsableMemory(usable);
    SearchControl part = meter_.PartOf(kStatesWithinMemory);
    part.on_progress = nullptr;
    // The least memory and its fastest plan are wanted to the byte and the second.
    part.wanted_gap_ratio.reset();
    SearchMeter meter(part);
    BestFirstSearch search(smaller, costs_, part, tables_, meter, /*wanted=*/1);
    search.DisableSeeding();
    if (search.List()) search.Run();
    const Seconds blocks = SearchBlocks(search.space(), costs_, block_tables_, /*wanted=*/1,
                                        /*gap_ratio=*/0.0, search.plans(), meter);
    answer.is_proved = !meter.stopped() && search.IsEmpty() && !blocks.is_finite();
    if (!search.plans().plans().empty()) {
      PredictedPlan fastest = search.plans().plans().front();
      answer.is_proved = std::min(search.BoundPerSample(), blocks) >=
                         fastest.time_per_sample() * (1.0 - kProofTolerance);
      answer.fastest = Predicted(std::move(fastest.plan));
    }
    meter_.Add(meter);
    return answer;
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  SearchMeter& meter_;
  TableCache tables_;
  BlockTables block_tables_;
};

}  // namespace

std::optional<LeastMemoryPlan> FindLeastMemoryPlan(const PlanningProblem& problem,
                                                   const CostModel& costs, SearchMeter& meter) {
  return LeastMemorySearch(problem, costs, meter).Run();
}

}  // namespace parplan
