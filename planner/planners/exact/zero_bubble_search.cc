#include "planner/planners/exact/zero_bubble_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "planner/planners/exact/zero_bubble_bound.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {
namespace {

// Candidates searched, times the effort, and states of each. Not measured for other values: the
// first ones nearly always have the best plan, and each takes milliseconds.
constexpr int64_t kMaxSearchedCandidates = 8;
constexpr int64_t kMaxStatesOfCandidate = 100'000;
// Operations that pricing a strategy, and a path of a bound, count as.
constexpr int64_t kWorkOfLeastTimes = 40;
constexpr int64_t kWorkOfBoundedStage = 20;

struct SplitCandidate {
  PipelineCandidate pipeline;
  double bound_per_sample = 0.0;
};

// Returns the rules of the plans of 1F1B from which those of ZB-H1 come: without what does not go
// with split backward passes (planner/check/plan_structure.cc).
PlanningRules RulesOfWholePasses(const PlanningProblem& problem) {
  using enum SearchDimension;
  PlanningRules rules = problem.rules();
  rules.schedule = kDefaultSchedule;
  rules.top_plan_count = 1;
  rules.wants_memory_front = false;
  for (const SearchDimension dimension :
       {kOptimizerSharding, kGradientSharding, kParameterSharding, kSelectiveRecompute,
        kFullRecompute, kBlockRecompute, kModuleRecompute, kGpipe, kInterleaved, kGroupSize}) {
    rules.dimensions = rules.dimensions.Without(dimension);
  }
  return rules;
}

class ZeroBubbleSearch {
 public:
  ZeroBubbleSearch(const PlanningProblem& part, const CostModel& costs, double gap_ratio,
                   PlanList& plans, SearchMeter& meter)
      : part_(part),
        costs_(costs),
        space_(part, costs),
        closing_factor_(1.0 - std::max(gap_ratio, kProofTolerance)),
        overhead_(costs.step_overhead().value()),
        plans_(plans),
        meter_(meter) {}

  Seconds Run() {
    if (!List()) return Seconds();
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const SplitCandidate& a, const SplitCandidate& b) {
                       return a.bound_per_sample < b.bound_per_sample;
                     });
    int64_t searched = 0;
    for (SplitCandidate& candidate : candidates_) {
      const bool is_open = candidate.bound_per_sample < Cutoff();
      if (is_open && searched < kMaxSearchedCandidates * meter_.effort() &&
          meter_.ShouldContinue()) {
        ++searched;
        Search(candidate);
      }
      least_ = std::min(least_, candidate.bound_per_sample);
    }
    return Seconds::Of(least_);
  }

 private:
  // Returns the time per sample that a plan must stay below.
  double Cutoff() const { return plans_.CutoffPerSample().value() * closing_factor_; }

  // Lists and bounds the candidates. Returns false if the meter stopped.
  bool List() {
    for (const int64_t batch : part_.GlobalBatchSizes()) {
      for (const int degree : space_.PipelineDegrees()) {
        if (degree == 1) continue;
        for (const int64_t count : space_.MicroBatchCounts(batch)) {
          if (count > kMaxForwardPassCount / degree) continue;
          if (!meter_.Work(kWorkOfBoundedStage * degree)) return false;
          const PipelineCandidate pipeline = {.global_batch_size = batch,
                                              .micro_batch_count = count,
                                              .pipeline_parallel_degree = degree,
                                              .schedule = Schedule::kZeroBubble};
          const std::optional<ZeroBubbleBound>& bound = BoundOf(pipeline);
          if (!bound.has_value()) continue;
          const auto samples = static_cast<double>(batch);
          const double cutoff = plans_.CutoffPerSample().value() * samples - overhead_;
          const double step = bound->Of(degree, count, cutoff) + overhead_;
          candidates_.push_back({pipeline, step / samples});
        }
      }
    }
    return !meter_.stopped();
  }

  // Returns the bound for the candidate's degree and size of micro-batches; nothing if some layer
  // has no strategy.
  const std::optional<ZeroBubbleBound>& BoundOf(const PipelineCandidate& candidate) {
    const TableCache::Key key = TableCache::KeyOf(candidate);
    const auto known = bounds_.find(key);
    if (known != bounds_.end()) return known->second;
    const ModelSpec& model = part_.model();
    std::vector<std::optional<LeastLayerTimes>> of_definition(model.layer_definitions().size());
    std::vector<LeastLayerTimes> layers;
    std::optional<ZeroBubbleBound>& bound = bounds_[key];
    for (const int definition : model.definition_of_layer()) {
      std::optional<LeastLayerTimes>& least = of_definition[definition];
      if (!least.has_value()) least = LeastOf(definition, candidate);
      if (!(least->work < kInfinity)) return bound;
      layers.push_back(*least);
    }
    bound.emplace(layers);
    return bound;
  }

  LeastLayerTimes LeastOf(int definition, const PipelineCandidate& candidate) {
    LeastLayerTimes least = {kInfinity, kInfinity, kInfinity, kInfinity, kInfinity};
    const int64_t size = candidate.global_batch_size / candidate.micro_batch_count;
    const int degree = candidate.pipeline_parallel_degree;
    for (const Strategy& strategy : space_.Strategies(definition, degree, size)) {
      const LayerCost cost =
          costs_.searched_group().CostOfLayer(definition, strategy, size, degree);
      const double work = (cost.forward + cost.backward).value();
      const double weights = cost.backward_weights.value();
      least.forward = std::min(least.forward, cost.forward.value());
      least.forward_and_inputs = std::min(least.forward_and_inputs, work - weights);
      least.weights = std::min(least.weights, weights);
      least.work = std::min(least.work, work);
      least.sync = std::min(least.sync, (cost.gradient_sync + cost.optimizer_step).value());
      meter_.Work(kWorkOfLeastTimes);
    }
    return least;
  }

  // Finds plans of a candidate, and its bound if nothing fits.
  void Search(SplitCandidate& candidate) {
    const int64_t size =
        candidate.pipeline.global_batch_size / candidate.pipeline.micro_batch_count;
    const OptionTable table(part_, costs_, space_, candidate.pipeline.pipeline_parallel_degree,
                            size, OptionTable::Keeps::kUndominated,
                            [this] { return !meter_.ShouldContinue(); });
    if (!table.usable()) return;
    const SearchControl control = meter_.PartOf(kMaxStatesOfCandidate * meter_.effort());
    SearchMeter part(control);
    // Times of 1F1B are no bounds of those of ZB-H1, so nothing is cut off by them.
    PipelineOutcome outcome = SearchPipeline(space_, costs_, table, candidate.pipeline,
                                             Seconds::Infinite(), /*wanted=*/1, part);
    if (!part.stopped() && !outcome.bound.is_finite()) candidate.bound_per_sample = kInfinity;
    meter_.Add(part);
    for (PredictedPlan& plan : outcome.plans) plans_.Offer(std::move(plan));
  }

  const PlanningProblem& part_;
  const CostModel& costs_;
  const StrategySpace space_;
  // Share of the cutoff at which a bound closes a candidate.
  const double closing_factor_;
  const double overhead_;
  PlanList& plans_;
  SearchMeter& meter_;
  std::map<TableCache::Key, std::optional<ZeroBubbleBound>> bounds_;
  std::vector<SplitCandidate> candidates_;
  double least_ = kInfinity;
};

}  // namespace

Seconds SearchZeroBubble(const PlanningProblem& problem, const CostModel& costs, double gap_ratio,
                         PlanList& plans, SearchMeter& meter) {
  const Schedule wanted = problem.rules().schedule.value_or(Schedule::kZeroBubble);
  // The dimension of a target whose questions name another runtime, which has no weight passes.
  const bool can_run = problem.rules().runtime.splits_backward &&
                       !problem.rules().runtime.blocking_pipeline_messages;
  if (!problem.dimensions().has(SearchDimension::kZeroBubble) || !can_run ||
      wanted != Schedule::kZeroBubble) {
    return Seconds::Infinite();
  }
  const PlanningProblem part = problem.WithRules(RulesOfWholePasses(problem));
  return ZeroBubbleSearch(part, costs, gap_ratio, plans, meter).Run();
}

}  // namespace parplan
