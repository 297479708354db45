#include "studies/parity/galvatron_2022_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_tree.h"
#include "planner/search/stage/dense_assignment.h"
#include "planner/search/stage/greedy_split.h"

namespace parplan {
namespace {

constexpr int64_t kBatchStep = 8;
// Far beyond any batch that fits; ends a question in which activations take nothing.
constexpr int64_t kMaxBatch = 4096;
// Rates that differ by no more are equal: sums round.
constexpr double kSame = 1e-9;

bool InSubspace(Subspace2022 subspace, int pipeline_degree, const Strategy& strategy) {
  const bool sharded = strategy.sharding_level != ShardingLevel::kNone;
  const int tensor_degree = strategy.tensor_parallel_degree;
  const int data_degree = strategy.data_parallel_degree;
  switch (subspace) {
    case Subspace2022::kDp:
      return pipeline_degree == 1 && tensor_degree == 1 && !sharded;
    case Subspace2022::kSdp:
      return pipeline_degree == 1 && tensor_degree == 1 && (sharded || data_degree == 1);
    case Subspace2022::kTp:
      return pipeline_degree == 1 && data_degree == 1;
    case Subspace2022::kPp:
      return strategy.rank_count() == 1;
    case Subspace2022::kDpTp:
      return pipeline_degree == 1 && !sharded;
    case Subspace2022::kDpPp:
      return tensor_degree == 1 && !sharded;
    case Subspace2022::kThreeD:
      return pipeline_degree == 2 && tensor_degree == 2 && strategy.tensor_stride() == 1 &&
             !sharded;
    case Subspace2022::kFull:
      return true;
  }
  return false;
}

// One batch and depth: strategies, and what each kind of layer costs under each.
class Table2022 {
 public:
  static absl::StatusOr<Table2022> Create(const Question2022& question, Subspace2022 subspace,
                                          int pipeline_degree, int64_t batch) {
    Table2022 table;
    for (const Strategy& strategy :
         StageStrategies(question.device_count / pipeline_degree, /*with_recompute=*/false)) {
      if (InSubspace(subspace, pipeline_degree, strategy)) table.strategies_.push_back(strategy);
    }
    if (table.strategies_.empty()) return table;
    PARPLAN_RETURN_IF_ERROR(table.AddCosts(question, pipeline_degree, batch));
    return table;
  }

  const std::vector<Strategy>& strategies() const { return strategies_; }
  // MB of what is no layer.
  double other_mb() const { return other_mb_; }
  double least_mb(int run) const { return least_mb_[run]; }
  // Layers of `kinds`, indices of runs.
  DenseStage StageOf(std::vector<int> kinds) const {
    return {.layout_count = static_cast<int>(strategies_.size()),
            .kinds = kinds_,
            .kind_of_layer = std::move(kinds)};
  }
  double Ms(int run, int strategy) const {
    return kinds_[run].options[strategy].time.milliseconds();
  }

 private:
  absl::Status AddCosts(const Question2022& question, int pipeline_degree, int64_t batch) {
    std::vector<Seconds> transitions;
    for (const Strategy& from : strategies_) {
      for (const Strategy& to : strategies_) {
        PARPLAN_ASSIGN_OR_RETURN(
            const double ms,
            TransitionMsIn2022(question.hardware, pipeline_degree, from, to, batch));
        transitions.push_back(Seconds::Milliseconds(ms));
      }
    }
    for (const LayerRun2022& run : question.layers) {
      DenseKind kind{.transitions = transitions};
      double least = HUGE_VAL;
      for (size_t index = 0; index < strategies_.size(); ++index) {
        const double micro_batches = MicroBatchCountIn2022(
            question.micro_batch_rule, pipeline_degree, strategies_[index], batch);
        PARPLAN_ASSIGN_OR_RETURN(
            const Galvatron2022LayerCost cost,
            CostOfLayerIn2022(question.hardware, question.model, run.layer, pipeline_degree,
                              strategies_[index], batch, micro_batches));
        const double mb = cost.states_mb + cost.activation_mb;
        kind.options.push_back({.layout = static_cast<int>(index),
                                .time = Seconds::Milliseconds(cost.layer_ms()),
                                .units = static_cast<int64_t>(std::ceil(mb))});
        least = std::min(least, mb);
        other_mb_ = cost.other_mb;
      }
      kinds_.push_back(std::move(kind));
      least_mb_.push_back(least);
    }
    return absl::OkStatus();
  }

  std::vector<Strategy> strategies_;
  std::vector<DenseKind> kinds_;
  std::vector<double> least_mb_;
  double other_mb_ = 0.0;
};

std::vector<int> RunOfLayer(const Question2022& question) {
  std::vector<int> run_of_layer;
  for (size_t run = 0; run < question.layers.size(); ++run) {
    run_of_layer.insert(run_of_layer.end(), question.layers[run].layer_count,
                        static_cast<int>(run));
  }
  return run_of_layer;
}

std::vector<int> Sizes(const Question2022& question, const Table2022& table,
                       const std::vector<int>& run_of_layer, int stage_count, int64_t batch) {
  const int layer_count = static_cast<int>(run_of_layer.size());
  if (!question.balances_memory || stage_count == 1) {
    // The remainder goes to the last stage.
    std::vector<int> sizes(stage_count, layer_count / stage_count);
    sizes.back() += layer_count % stage_count;
    return sizes;
  }
  std::vector<double> layer_mb;
  for (int run : run_of_layer) layer_mb.push_back(table.least_mb(run));
  const double shared_mb = question.model.other_states_mb + question.model.context_mb +
                           question.model.other_activation_mb_per_sample *
                               static_cast<double>(batch) / question.device_count;
  return GreedyMemorySplit(layer_mb, shared_mb, stage_count,
                           std::numeric_limits<double>::infinity());
}

// Plans of one batch and depth, by budget; nothing where none fits.
std::vector<std::optional<Plan2022>> PlansOf(const Question2022& question, const Table2022& table,
                                             int stage_count, int64_t batch,
                                             absl::Span<const int> budgets_mb) {
  std::vector<std::optional<Plan2022>> plans(budgets_mb.size());
  const std::vector<int> run_of_layer = RunOfLayer(question);
  const std::vector<int> sizes = Sizes(question, table, run_of_layer, stage_count, batch);
  if (*std::min_element(sizes.begin(), sizes.end()) < 1) return plans;
  const auto [least, most] = std::minmax_element(budgets_mb.begin(), budgets_mb.end());
  // Stages of the same layers have the same answers.
  std::map<std::pair<std::vector<int>, int64_t>, std::vector<std::optional<DenseSolution>>> solved;
  std::vector<double> seconds(budgets_mb.size(), 0.0);
  std::fill(plans.begin(), plans.end(), Plan2022{.global_batch_size = batch});
  int first = 0;
  for (int size : sizes) {
    const std::vector<int> kinds(run_of_layer.begin() + first, run_of_layer.begin() + first + size);
    // Only the first stage has what is no layer; equal stages are solved as the first.
    const bool has_other = first == 0 || !question.balances_memory;
    const auto other = has_other ? static_cast<int64_t>(std::ceil(table.other_mb())) : 0;
    first += size;
    auto found = solved.find({kinds, other});
    if (found == solved.end()) {
      const DenseStage stage = table.StageOf(kinds);
      const SearchControl control;
      SearchMeter meter(control);
      DenseAssignment dense(stage, *least - other, *most - other, meter);
      std::vector<std::optional<DenseSolution>> solutions;
      for (int budget_mb : budgets_mb) solutions.push_back(dense.At(budget_mb - other));
      found = solved.emplace(std::pair(kinds, other), std::move(solutions)).first;
    }
    for (size_t budget = 0; budget < budgets_mb.size(); ++budget) {
      const std::optional<DenseSolution>& solution = found->second[budget];
      if (!solution) plans[budget].reset();
      if (!plans[budget]) continue;
      std::vector<Strategy> stage;
      for (int option : solution->options) stage.push_back(table.strategies()[option]);
      plans[budget]->stages.push_back(std::move(stage));
      seconds[budget] += solution->time.value();
      plans[budget]->samples_per_second = static_cast<double>(batch) / seconds[budget];
    }
  }
  return plans;
}

}  // namespace

absl::string_view SubspaceName(Subspace2022 subspace) {
  constexpr absl::string_view kNames[] = {"DP",    "TP",    "PP",        "SDP",
                                          "DP+TP", "DP+PP", "3D(2,2,2)", "Full"};
  return kNames[static_cast<int>(subspace)];
}

std::string Plan2022::Gist() const {
  std::vector<std::string> texts;
  for (const std::vector<Strategy>& stage : stages) {
    std::vector<std::string> runs;
    for (size_t first = 0, end = 0; first < stage.size(); first = end) {
      while (end < stage.size() && stage[end] == stage[first]) ++end;
      runs.push_back(absl::StrCat(StrategyNotation(static_cast<int>(stages.size()), stage[first]),
                                  " x", end - first));
    }
    texts.push_back(absl::StrJoin(runs, ", "));
  }
  return absl::StrJoin(texts, " | ");
}

absl::StatusOr<std::vector<std::optional<Plan2022>>> Search2022(const Question2022& question,
                                                                Subspace2022 subspace,
                                                                absl::Span<const int> budgets_mb) {
  PARPLAN_CHECK(!question.layers.empty());
  const size_t layer_count = RunOfLayer(question).size();
  std::vector<std::optional<Plan2022>> best(budgets_mb.size());
  std::vector<char> open(budgets_mb.size(), 1);
  for (int64_t batch = kBatchStep; batch <= kMaxBatch; batch += kBatchStep) {
    // Each budget ends with the first batch that does not fit.
    std::vector<int> budgets;
    for (size_t index = 0; index < open.size(); ++index) {
      if (open[index]) budgets.push_back(budgets_mb[index]);
    }
    if (budgets.empty()) break;
    std::vector<char> fits(open.size(), 0);
    for (int64_t degree : Divisors(question.device_count)) {
      const auto stage_count = static_cast<int>(degree);
      if (static_cast<size_t>(stage_count) > layer_count) break;
      PARPLAN_ASSIGN_OR_RETURN(const Table2022 table,
                               Table2022::Create(question, subspace, stage_count, batch));
      if (table.strategies().empty()) continue;
      std::vector<std::optional<Plan2022>> plans =
          PlansOf(question, table, stage_count, batch, budgets);
      for (size_t index = 0, next = 0; index < open.size(); ++index) {
        if (!open[index]) continue;
        std::optional<Plan2022>& plan = plans[next++];
        if (!plan) continue;
        fits[index] = 1;
        if (best[index] &&
            plan->samples_per_second <= best[index]->samples_per_second * (1.0 + kSame)) {
          continue;
        }
        best[index] = std::move(plan);
      }
    }
    open = fits;
  }
  return best;
}

}  // namespace parplan
