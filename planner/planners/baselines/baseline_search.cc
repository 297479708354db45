#include "planner/planners/baselines/baseline_search.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/model/device_memory.h"
#include "planner/model/tied_table.h"
#include "planner/planners/baselines/candidate_search.h"
#include "planner/planners/baselines/stage_tables.h"
#include "planner/planners/baselines/step_bound.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// One part of the space: all plans with these numbers and in one of the `Spaces`.
struct Candidate {
  size_t batch_index = 0;
  int pipeline_parallel_degree = 1;
  int64_t micro_batch_count = 1;
  size_t space = 0;
  // Lower bounds of the step and of the time per sample of its plans.
  Seconds bound;
  Seconds bound_per_sample;
};

bool MorePromisingCandidate(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) {
    return std::tie(c.bound_per_sample, c.batch_index, c.pipeline_parallel_degree,
                    c.micro_batch_count, c.space);
  };
  return key(a) < key(b);
}

// Returns whether a runtime keeps memory that the tables of a stage do not include.
bool KeepsMoreThanTables(const RuntimeTraits& runtime) {
  return runtime.keep_stage_outputs || runtime.widens_gradients_in_step ||
         runtime.flatten_gradient_buckets || !runtime.keep_16_bit_parameters;
}

class BaselineSearch {
 public:
  BaselineSearch(const PlanningProblem& problem, const CostModel& costs, const SearchSpace& space,
                 const SearchControl& control)
      : problem_(problem), costs_(costs), space_(space), control_(control), meter_(control) {
    for (const int64_t size : problem.GlobalBatchSizes()) {
      batches_.push_back(problem.WithGlobalBatchSize(size));
    }
    best_of_batch_.resize(batches_.size());
  }

  // Searches the space. Returns nothing if no candidate has a strategy for every layer.
  std::optional<PlanningResult> Run() {
    ListCandidates();
    if (candidates_.empty() && !meter_.stopped()) return std::nullopt;
    std::sort(candidates_.begin(), candidates_.end(), MorePromisingCandidate);
    for (size_t index = 0; index < candidates_.size() && meter_.ShouldContinue(); ++index) {
      next_ = index;
      Visit(candidates_[index]);
      if (meter_.stopped()) break;
      next_ = index + 1;
      Report();
    }
    return Result();
  }

 private:
  // Returns the bytes available for tensors on a device of a stage.
  Bytes StageBudget(int pipeline_parallel_degree) const {
    return costs_.searched_group().overheads().TensorBudget(
        problem_.usable_memory(), pipeline_parallel_degree,
        problem_.device_count() / pipeline_parallel_degree);
  }

  // Returns the strategies that all transformer layers of a plan may share; one empty choice if
  // they need not share one.
  std::vector<std::optional<Strategy>> TransformerStrategies(int pipeline_parallel_degree,
                                                             int64_t micro_batch_size) const {
    const DimensionSet dimensions = problem_.dimensions();
    if (dimensions.has(SearchDimension::kPerLayer) &&
        dimensions.has(SearchDimension::kEndStrategies)) {
      return {std::nullopt};
    }
    for (const ModelLayerRun& run : problem_.model().layer_runs()) {
      const LayerDefinition& definition =
          problem_.model().layer_definitions()[run.definition_index];
      if (!IsTransformer(definition.kind)) continue;
      std::vector<std::optional<Strategy>> choices;
      for (const Strategy& strategy :
           AllowedStrategies(problem_, space_, run.definition_index,
                             problem_.device_count() / pipeline_parallel_degree, micro_batch_size,
                             costs_.searched_group().sequence_parallel(run.definition_index))) {
        choices.emplace_back(strategy);
      }
      return choices;
    }
    return {std::nullopt};
  }

  // Returns parts of the space in which layers choose independently: one for each strategy of the
  // transformer layers, if they share one, for each sharding of a tied table, and for each choice
  // that the target has once for a plan.
  std::vector<SearchSpace> Spaces(int pipeline_parallel_degree, int64_t micro_batch_size) const {
    std::vector<SearchSpace> spaces;
    for (const SearchSpace& space : SpacesOfLayers(pipeline_parallel_degree, micro_batch_size)) {
      const std::vector<SearchSpace> parts = WithCommonChoices(
          space, problem_.device_count() / pipeline_parallel_degree, micro_batch_size);
      spaces.insert(spaces.end(), parts.begin(), parts.end());
    }
    return spaces;
  }

  std::vector<SearchSpace> SpacesOfLayers(int pipeline_parallel_degree,
                                          int64_t micro_batch_size) const {
    std::vector<SearchSpace> spaces;
    for (const std::optional<Strategy>& choice :
         TransformerStrategies(pipeline_parallel_degree, micro_batch_size)) {
      SearchSpace space = space_;
      space.transformer_strategy = choice;
      if (!HasTiedTable(problem_.model())) {
        spaces.push_back(space);
        continue;
      }
      const int head = problem_.model().definition_of_layer().back();
      std::vector<Strategy> shardings;
      for (const Strategy& table_sharding : AllowedStrategies(
               problem_, space, head, problem_.device_count() / pipeline_parallel_degree,
               micro_batch_size, costs_.searched_group().sequence_parallel(head))) {
        if (std::any_of(shardings.begin(), shardings.end(),
                        [&table_sharding](const Strategy& other) {
                          return HoldTableAlike(other, table_sharding);
                        })) {
          continue;
        }
        shardings.push_back(table_sharding);
        spaces.push_back(space);
        spaces.back().table_strategy = table_sharding;
      }
    }
    return spaces;
  }

  // Returns the definitions that are no transformer layers.
  std::vector<int> Ends() const {
    std::vector<int> ends;
    for (const ModelLayerRun& run : problem_.model().layer_runs()) {
      const LayerDefinition& layer = problem_.model().layer_definitions()[run.definition_index];
      if (!IsTransformer(layer.kind)) ends.push_back(run.definition_index);
    }
    return ends;
  }

  // Returns whether some layers were measured with sequence parallelism and others without.
  bool DiffersInSequenceParallel() const {
    const std::vector<ModelLayerRun>& runs = problem_.model().layer_runs();
    const auto has_it = [this](const ModelLayerRun& run) {
      return costs_.searched_group().sequence_parallel(run.definition_index);
    };
    return std::any_of(runs.begin(), runs.end(), has_it) &&
           !std::all_of(runs.begin(), runs.end(), has_it);
  }

  // Returns the parts of a space in which layers agree on what the target has once for a plan.
  std::vector<SearchSpace> WithCommonChoices(const SearchSpace& space, int rank_count,
                                             int64_t micro_batch_size) const {
    const TargetLimits& target = LimitsOf(problem_.rules().target);
    std::vector<SearchSpace> spaces = {space};
    if (target.one_sequence_parallel && DiffersInSequenceParallel()) {
      spaces.assign(2, space);
      spaces.front().sequence_parallel = false;
      spaces.back().sequence_parallel = true;
    }
    const std::vector<int> ends = Ends();
    if (!target.ends_alike || ends.empty()) return spaces;
    std::vector<SearchSpace> alike;
    for (const SearchSpace& each : spaces) {
      for (const Strategy& strategy :
           AllowedStrategies(problem_, each, ends.front(), rank_count, micro_batch_size,
                             costs_.searched_group().sequence_parallel(ends.front()))) {
        alike.push_back(each);
        alike.back().end_strategy = strategy;
      }
    }
    return alike;
  }

  bool AllowsDepth(int64_t degree) const {
    if (space_.pipeline_parallel_degree && degree != *space_.pipeline_parallel_degree) return false;
    const DimensionSet dimensions = problem_.dimensions();
    const TargetLimits& target = LimitsOf(problem_.rules().target);
    if (target.only_powers_of_two && (degree & (degree - 1)) != 0) return false;
    if (degree == 1) return true;
    if (!dimensions.has(SearchDimension::kPipeline) || !AllowsPipeline(target, problem_.model())) {
      return false;
    }
    const std::optional<SearchDimension> needed =
        TraitsOf(problem_.rules().schedule.value_or(kDefaultSchedule)).dimension;
    if (needed.has_value() && !dimensions.has(*needed)) return false;
    const bool is_uneven = dimensions.has(SearchDimension::kUnevenStages);
    if (is_uneven && !target.transformer_in_each_stage) return true;
    const std::vector<int>& layers = problem_.model().definition_of_layer();
    const auto transformer_count = std::count_if(layers.begin(), layers.end(), [this](int index) {
      return IsTransformer(problem_.model().layer_definitions()[index].kind);
    });
    return is_uneven ? transformer_count >= degree : transformer_count % degree == 0;
  }

  void ListCandidates() {
    // These planners have one stage per device.
    if (TraitsOf(problem_.rules().schedule.value_or(kDefaultSchedule)).has_virtual_stages) {
      listed_all_ = true;
      return;
    }
    for (size_t batch = 0; batch < batches_.size(); ++batch) {
      std::vector<int64_t> counts = Divisors(batches_[batch].global_batch_size());
      if (const int64_t wanted = problem_.rules().micro_batch_count; wanted != 0) {
        std::erase_if(counts, [wanted](int64_t count) { return count != wanted; });
      }
      for (const int64_t degree : Divisors(problem_.device_count())) {
        if (degree > problem_.max_pipeline_parallel_degree()) break;
        if (!AllowsDepth(degree)) continue;
        for (const int64_t count : counts) {
          if (!meter_.ShouldContinue()) return;
          if (count > kMaxForwardPassCount / degree) continue;
          if (!AddCandidates(batch, static_cast<int>(degree), count)) return;
        }
      }
    }
    listed_all_ = true;
  }

  // Returns false if the meter stopped.
  bool AddCandidates(size_t batch, int degree, int64_t count) {
    const PlanningProblem& problem = batches_[batch];
    const std::vector<SearchSpace> spaces = Spaces(degree, problem.global_batch_size() / count);
    for (size_t space = 0; space < spaces.size(); ++space) {
      // There can be a space for each strategy, and each bound takes as long as its table.
      if (!meter_.ShouldContinue()) return false;
      const StageTables tables(problem, costs_, spaces[space], degree, count, &meter_);
      if (meter_.stopped()) return false;
      if (!tables.usable()) continue;
      const Seconds bound = StepLowerBound(tables, StageBudget(degree));
      candidates_.push_back({batch, degree, count, space, bound,
                             bound / static_cast<double>(problem.global_batch_size())});
    }
    return true;
  }

  void Visit(const Candidate& candidate) {
    if (best_ && candidate.bound_per_sample >= best_->time_per_sample()) {
      meter_.Prune(1);
      return;
    }
    const PlanningProblem& problem = batches_[candidate.batch_index];
    const int degree = candidate.pipeline_parallel_degree;
    const std::vector<SearchSpace> spaces =
        Spaces(degree, problem.global_batch_size() / candidate.micro_batch_count);
    const StageTables tables(problem, costs_, spaces[candidate.space], degree,
                             candidate.micro_batch_count, best_.has_value() ? &meter_ : nullptr);
    if (meter_.stopped()) return;
    std::optional<PredictedPlan>& best = best_of_batch_[candidate.batch_index];
    const CandidateOutcome outcome = SearchCandidate(problem, costs_, tables, meter_, best);
    if (best && (!best_ || IsBetterPlan(*best, *best_))) best_ = best;
    smallest_usable_memory_ = std::min(smallest_usable_memory_, outcome.smallest_usable_memory);
    if (meter_.stopped()) return;
    const Seconds proved =
        std::max(candidate.bound, outcome.proved_bound.value_or(candidate.bound));
    visited_bound_per_sample_ = std::min(visited_bound_per_sample_,
                                         proved / static_cast<double>(problem.global_batch_size()));
  }

  // Returns the lower bound over the candidates visited and, since they are sorted, those to come,
  // for the batch size of the best plan.
  Seconds Bound() const {
    Seconds bound = visited_bound_per_sample_;
    if (next_ < candidates_.size()) bound = std::min(bound, candidates_[next_].bound_per_sample);
    if (!listed_all_) bound = Seconds();
    const int64_t batch =
        best_ ? best_->plan.global_batch_size : batches_.back().global_batch_size();
    bound = bound * static_cast<double>(batch);
    if (best_) bound = std::min(bound, best_->prediction.step);
    return bound.is_finite() ? bound : Seconds();
  }

  void Report() const {
    if (!control_.on_progress) return;
    SearchProgress progress{.done_candidate_count = static_cast<int64_t>(next_),
                            .total_candidate_count = static_cast<int64_t>(candidates_.size()),
                            .bound = Bound(),
                            .expanded_state_count = meter_.expanded_state_count()};
    if (best_) progress.incumbent = best_->prediction.step;
    control_.on_progress(progress);
  }

  SearchSummary Summary() const {
    SearchSummary summary{.bound = Bound(),
                          .expanded_state_count = meter_.expanded_state_count(),
                          .pruned_state_count = meter_.pruned_state_count(),
                          .candidate_count = static_cast<int64_t>(candidates_.size())};
    bool proved = !meter_.stopped();
    if (best_) {
      const Seconds step = best_->prediction.step;
      summary.gap_ratio = std::clamp((step - summary.bound) / step, 0.0, 1.0);
      proved = summary.bound >= step * (1.0 - kProofTolerance);
    } else {
      summary.gap_ratio = proved ? 0.0 : 1.0;
    }
    summary.termination = proved ? Termination::kOptimal : Termination::kFeasible;
    summary.limit = proved             ? SearchLimit::kNone
                    : meter_.stopped() ? meter_.limit()
                                       : SearchLimit::kMethod;
    return summary;
  }

  PlanningResult Result() {
    SearchSummary summary = Summary();
    if (best_) {
      return PlanFound{
          .plan = std::move(best_->plan),
          .prediction = std::move(best_->prediction),
          .search = summary,
          .alternatives = {},
          .memory_front = {},
          .notes = {absl::StrCat("partitioner ", PartitionerName(problem_.rules().partitioner))},
      };
    }
    if (meter_.stopped()) return StoppedEmpty{summary};
    return NothingFits{.smallest_usable_memory = smallest_usable_memory_,
                       .smallest_device_memory = DeviceMemoryFor(problem_, smallest_usable_memory_),
                       .memory_is_proved = !KeepsMoreThanTables(costs_.runtime()),
                       .smallest_device_count = std::nullopt,
                       .search = summary};
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const SearchSpace& space_;
  const SearchControl& control_;
  SearchMeter meter_;
  // [batch] the problem with that batch size only, and the best plan for it.
  std::vector<PlanningProblem> batches_;
  std::vector<std::optional<PredictedPlan>> best_of_batch_;
  std::vector<Candidate> candidates_;
  // False if the search was stopped while it listed candidates.
  bool listed_all_ = false;
  // Index of the next candidate.
  size_t next_ = 0;
  std::optional<PredictedPlan> best_;
  Seconds visited_bound_per_sample_ = Seconds::Infinite();
  Bytes smallest_usable_memory_ = Bytes::Max();
};

}  // namespace

std::optional<PlanningResult> SearchBaseline(const PlanningProblem& problem, const CostModel& costs,
                                             const SearchSpace& space,
                                             const SearchControl& control) {
  return BaselineSearch(problem, costs, space, control).Run();
}

}  // namespace parplan
