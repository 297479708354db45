#include "studies/papers/forward_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/galvatron/galvatron_stages.h"
#include "planner/planners/galvatron/galvatron_tables.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"
#include "planner/search/stage/dense_assignment.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

// Rates whose relative difference is smaller are equal: sums round.
constexpr double kSame = 1e-6;

// The dynamic program of one stage for one table of strategies, with a cap on transient memory.
class CappedProgram {
 public:
  // References must outlive this object.
  CappedProgram(const PlanningProblem& problem, const CostModel& costs,
                const GalvatronTables& tables, SearchMeter& meter)
      : problem_(problem),
        costs_(costs),
        tables_(tables),
        meter_(meter),
        evaluator_(problem, costs),
        stages_(problem, costs, tables, kSchedule, problem.rules().micro_batch_count, meter) {}

  // Returns the values that the transient memory of a layer can have, ascending.
  std::vector<Bytes> Caps() const { return stages_.LeastMemoryOfStages()->caps; }

  // Returns the samples a second of the plan of least time whose layers need at most `cap` of
  // transient memory; 0 if none fits. Capacities go down until the plan fits, as
  // `GalvatronStages::Solve` does, with the same ends: from the budget less the least of `caps` to
  // that less the largest, and from there to 0.
  double RateUnder(Bytes cap, const std::vector<Bytes>& caps) {
    const Bytes budget = costs_.searched_group().overheads().TensorBudget(
        problem_.usable_memory(), 1, problem_.device_count());
    const int64_t highest = UnitsWithin(budget - caps.front());
    if (highest < 0) return 0.0;
    const int64_t middle = std::clamp<int64_t>(UnitsWithin(budget - caps.back()), 0, highest);
    const DenseStage stage = StageUnder(cap, highest);
    for (const auto& [lowest, first] :
         {std::pair(middle, highest), std::pair(int64_t{0}, middle - 1)}) {
      if (first < lowest) continue;
      DenseAssignment program(stage, lowest, first, meter_);
      PARPLAN_CHECK(program.complete());
      for (int64_t capacity = first; capacity >= lowest;) {
        std::optional<DenseSolution> solution = program.At(capacity);
        if (!solution) return 0.0;
        const GalvatronStage solved{std::move(solution->options), solution->time, Bytes()};
        const Plan plan = stages_.PlanOf({UnitCount()}, problem_.global_batch_size(), {&solved});
        const Prediction prediction = evaluator_.Predict(plan);
        if (prediction.fits()) return prediction.samples_per_second;
        // Down to the units it uses, the answer is the same.
        capacity = solution->units - 1;
      }
    }
    return 0.0;
  }

 private:
  static constexpr Schedule kSchedule = kDefaultSchedule;

  int UnitCount() const { return static_cast<int>(tables_.kind_of_unit().size()); }
  // Returns the whole granules within `bytes`; -1 if there are fewer than 0 bytes.
  int64_t UnitsWithin(Bytes bytes) const {
    return bytes < Bytes() ? -1 : bytes.count() / problem_.rules().memory_granule.count();
  }

  // Returns the stage as `GalvatronStages` has it, where a strategy that needs more than `cap` of
  // transient memory has no room within `highest` units.
  DenseStage StageUnder(Bytes cap, int64_t highest) const {
    const int64_t granule = problem_.rules().memory_granule.count();
    const auto m = static_cast<double>(problem_.rules().micro_batch_count);
    DenseStage stage{.layout_count = tables_.layout_count(),
                     .kinds = {},
                     .kind_of_layer = tables_.kind_of_unit()};
    for (const GalvatronKind& kind : tables_.kinds()) {
      DenseKind dense;
      for (const GalvatronOption& option : kind.options) {
        // One stage has one micro-batch in flight.
        const int64_t kept = (option.states + option.kept).count();
        dense.options.push_back(
            {.layout = option.layout,
             .time = option.micro_batch * m + option.once,
             .units = option.transient > cap ? highest + 1 : (kept + granule - 1) / granule});
      }
      for (const Seconds transition : kind.transitions) {
        dense.transitions.push_back(transition * m);
      }
      stage.kinds.push_back(std::move(dense));
    }
    return stage;
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const GalvatronTables& tables_;
  SearchMeter& meter_;
  PlanEvaluator evaluator_;
  const GalvatronStages stages_;
};

void Count(const PlanningProblem& problem, const std::string& question, ForwardMemoryRow& row) {
  const Answer optimum = Ask(problem, kTreeOptimum);
  if (!optimum.fits) return;
  const Answer found = AskDynamicProgram(problem);
  ++row.question_count;
  if (!found.fits) {
    ++row.no_plan_count;
    return;
  }
  const double loss = 1.0 - found.rate / optimum.rate;
  row.mean_loss += std::max(loss, 0.0);
  if (loss <= kSame) {
    ++row.equal_count;
    return;
  }
  if (loss > row.worst_loss) {
    row.worst_loss = loss;
    row.worst_question = question;
  }
  const double coupled = RateWithoutDecoupling(problem, optimum.rate * (1.0 - kSame));
  const double decoupling_loss = coupled > 0.0 ? 1.0 - found.rate / coupled : 0.0;
  if (decoupling_loss <= kSame) {
    ++row.rounding_count;
    return;
  }
  ++row.decoupling_count;
  if (decoupling_loss <= row.worst_decoupling_loss) return;
  row.worst_decoupling_loss = decoupling_loss;
  row.worst_decoupling_question = question;
}

}  // namespace

double RateWithoutDecoupling(const PlanningProblem& problem, double enough) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  PARPLAN_CHECK(costs.ok());
  const StrategySpace space(problem, *costs);
  const SearchControl control;
  SearchMeter meter(control);
  const GalvatronTables all(space, *costs, /*pipeline_parallel_degree=*/1,
                            problem.global_batch_size() / problem.rules().micro_batch_count,
                            /*with_recompute=*/true);
  double best = 0.0;
  if (!all.usable()) return best;
  for (const GalvatronTables& tables : all.Choices(space)) {
    CappedProgram program(problem, *costs, tables, meter);
    const std::vector<Bytes> caps = program.Caps();
    for (const Bytes cap : caps) {
      best = std::max(best, program.RateUnder(cap, caps));
      if (best >= enough) return best;
    }
  }
  return best;
}

ForwardMemoryRow ForwardMemoryRowOf(Family family, int layer_count) {
  ForwardMemoryRow row{.model = ModelName(family, layer_count)};
  for (int memory_gb = 8; memory_gb <= 20; memory_gb += 2) {
    for (const int64_t batch : {8, 16, 32, 64}) {
      const PlanningProblem problem =
          ProblemOf(ModelOf(family, layer_count), {.count = 8, .memory_gb = memory_gb}, {0, batch});
      for (const int64_t micro_batch_count : {1, 2, 4, 8}) {
        if (micro_batch_count > batch) continue;
        PlanningRules rules = problem.rules();
        rules.max_pipeline_parallel_degree = 1;
        rules.micro_batch_count = micro_batch_count;
        Count(problem.WithRules(rules),
              absl::StrCat(memory_gb, " GB, batch ", batch, " in ", micro_batch_count), row);
      }
    }
  }
  const int both = row.question_count - row.no_plan_count;
  if (both > 0) row.mean_loss = SixDigits(row.mean_loss / both);
  row.worst_loss = SixDigits(row.worst_loss);
  row.worst_decoupling_loss = SixDigits(row.worst_decoupling_loss);
  return row;
}

}  // namespace parplan::papers
