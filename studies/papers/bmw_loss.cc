#include "studies/papers/bmw_loss.h"

#include <optional>
#include <vector>

#include "base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/galvatron/galvatron_stages.h"
#include "planner/planners/galvatron/galvatron_tables.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

// Sums are rounded to 2^-29 of the longest by the program (dense_assignment.h).
constexpr double kSameSum = 1e-6;

// Returns [layer] the strategies of a plan.
std::vector<Strategy> StrategiesOf(const Plan& plan) {
  std::vector<Strategy> strategies;
  for (const StagePlan& stage : plan.stages) {
    for (const auto& run : stage.layer_runs) {
      strategies.insert(strategies.end(), run.layer_count, run.strategy);
    }
  }
  return strategies;
}

// Returns [stage] the units of `tables` in a plan, or nothing if a stage ends within a unit.
std::optional<Partition> UnitsOf(const Plan& plan, const GalvatronTables& tables) {
  Partition units;
  size_t unit = 0;
  for (const StagePlan& stage : plan.stages) {
    int layers = stage.layer_count();
    units.push_back(0);
    while (layers > 0 && unit < tables.kind_of_unit().size()) {
      layers -= static_cast<int>(tables.kinds()[tables.kind_of_unit()[unit++]].definitions.size());
      ++units.back();
    }
    if (layers != 0) return std::nullopt;
  }
  return units;
}

// Returns the sum that the program minimises for units with these strategies [layer of the model]
// from `first_layer` on; nothing if some strategy is not in the tables.
std::optional<Seconds> SumOf(const GalvatronTables& tables, int first_unit, int unit_count,
                             const std::vector<Strategy>& strategies, int first_layer,
                             int64_t micro_batch_count) {
  const auto m = static_cast<double>(micro_batch_count);
  Seconds sum;
  int layer = first_layer, last_layout = -1;
  for (int unit = first_unit; unit < first_unit + unit_count; ++unit) {
    const GalvatronKind& kind = tables.kinds()[tables.kind_of_unit()[unit]];
    const std::vector<Strategy> wanted(
        strategies.begin() + layer,
        strategies.begin() + layer + static_cast<int>(kind.definitions.size()));
    const GalvatronOption* found = nullptr;
    for (const GalvatronOption& option : kind.options) {
      if (option.strategies == wanted) found = &option;
    }
    if (found == nullptr) return std::nullopt;
    sum += found->micro_batch * m + found->once;
    if (last_layout >= 0) {
      sum += kind.transitions[last_layout * tables.layout_count() + found->layout] * m;
    }
    last_layout = found->layout;
    layer += static_cast<int>(wanted.size());
  }
  return sum;
}

}  // namespace

BmwLoss LossOnOptimumStages(const PlanningProblem& problem, const Plan& optimum) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  PARPLAN_CHECK(costs.ok());
  const StrategySpace space(problem, *costs);
  const std::vector<Strategy> strategies = StrategiesOf(optimum);
  const SearchControl control;
  SearchMeter meter(control);
  PlanEvaluator evaluator(problem, *costs);
  BmwLoss loss{.stage_count = static_cast<int>(optimum.stages.size())};
  const GalvatronTables all(space, *costs, loss.stage_count,
                            optimum.global_batch_size / optimum.micro_batch_count,
                            /*with_recompute=*/true);
  PARPLAN_CHECK(all.usable());
  for (const GalvatronTables& tables : all.Choices(space)) {
    const std::optional<Partition> units = UnitsOf(optimum, tables);
    PARPLAN_CHECK(units.has_value());
    GalvatronStages stages(problem, *costs, tables, optimum.schedule, optimum.micro_batch_count,
                           meter);
    std::vector<const GalvatronStage*> solved;
    int refused_count = 0, unit = 0, layer = 0;
    bool has_optimum = true, fits = true;
    for (int stage = 0; stage < loss.stage_count; ++stage) {
      const int unit_count = (*units)[stage];
      solved.push_back(stages.Solve(unit, unit_count, stage));
      const std::optional<Seconds> sum =
          SumOf(tables, unit, unit_count, strategies, layer, optimum.micro_batch_count);
      has_optimum = has_optimum && sum.has_value();
      fits = fits && solved.back() != nullptr;
      if (sum && (solved.back() == nullptr || *sum < solved.back()->time * (1.0 - kSameSum))) {
        ++refused_count;
      }
      unit += unit_count;
      layer += optimum.stages[stage].layer_count();
    }
    if (has_optimum) {
      loss.has_strategies = true;
      loss.refused_stage_count = refused_count;
    }
    if (!fits) continue;
    const Prediction prediction =
        evaluator.Predict(stages.PlanOf(*units, optimum.global_batch_size, solved));
    if (prediction.fits() && prediction.samples_per_second > loss.rate_on_optimum_stages) {
      loss.rate_on_optimum_stages = SixDigits(prediction.samples_per_second);
    }
  }
  return loss;
}

}  // namespace parplan::papers
