#include "planner/planners/galvatron/galvatron_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "planner/cost/predict_plan.h"
#include "planner/model/device_memory.h"
#include "planner/planners/galvatron/bi_objective.h"
#include "planner/planners/galvatron/galvatron_partition.h"
#include "planner/planners/galvatron/galvatron_stages.h"
#include "planner/planners/galvatron/galvatron_tables.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {
namespace {

// One part of the space.
struct Candidate {
  int64_t global_batch_size = 1;
  int64_t micro_batch_count = 1;
  const GalvatronTables* tables = nullptr;
  // Lower bound of the step of its plans.
  Seconds bound;
  // Lower bound of the peak of plans of the method's first partition.
  Bytes least_memory;
  Seconds per_sample() const { return bound / static_cast<double>(global_batch_size); }
};

bool MorePromising(const Candidate& a, const Candidate& b) {
  const auto rank = [](const Candidate& each) {
    return std::tuple(each.per_sample(), each.global_batch_size,
                      each.tables->pipeline_parallel_degree(), each.micro_batch_count);
  };
  return rank(a) < rank(b);
}

class GalvatronSearch {
 public:
  GalvatronSearch(const PlanningProblem& problem, const CostModel& costs, GalvatronVariant variant,
                  SearchMeter& meter, const SearchControl& control)
      : problem_(problem),
        costs_(costs),
        variant_(variant),
        meter_(meter),
        control_(control),
        space_(problem, costs),
        evaluator_(problem, costs),
        schedule_(problem.rules().schedule.value_or(kDefaultSchedule)) {}

  // Returns whether there is any candidate, regardless of memory.
  bool List() {
    for (int64_t batch : problem_.GlobalBatchSizes()) {
      for (int degree : space_.PipelineDegrees()) {
        const std::vector<Schedule> schedules = space_.Schedules(degree);
        if (std::find(schedules.begin(), schedules.end(), schedule_) == schedules.end()) continue;
        for (int64_t count : space_.MicroBatchCounts(batch)) {
          if (count > kMaxForwardPassCount / degree) break;
          if (!meter_.ShouldContinue()) return false;
          for (const GalvatronTables& tables : TablesOf(degree, batch / count)) {
            Add({.global_batch_size = batch, .micro_batch_count = count, .tables = &tables});
          }
        }
      }
    }
    std::stable_sort(candidates_.begin(), candidates_.end(), MorePromising);
    return !candidates_.empty();
  }

  // Searches all candidates for the best plan.
  void Run() {
    for (const Candidate& candidate : candidates_) {
      if (!meter_.ShouldContinue()) return;
      Report();
      ++done_;
      if (best_ && candidate.per_sample() > PerSample(*best_)) {
        meter_.Prune(1);
        continue;
      }
      if (candidate.least_memory > problem_.usable_memory()) continue;
      Visit(candidate);
    }
  }

  // Returns whether a plan was found, or `Run` would find one.
  bool FindsAny() {
    for (const Candidate& candidate : candidates_) {
      if (best_ || !meter_.ShouldContinue()) break;
      if (candidate.least_memory <= problem_.usable_memory()) Visit(candidate);
    }
    return best_.has_value();
  }

  Bytes LeastMemory() const {
    Bytes least = Bytes::Max();
    for (const Candidate& each : candidates_) least = std::min(least, each.least_memory);
    return least;
  }

  std::optional<PlanFound> TakeBest() {
    if (!best_) return std::nullopt;
    PlanFound found{std::move(best_->plan), std::move(best_->prediction)};
    found.notes = best_notes_;
    if (!found.notes.empty()) {
      found.notes.push_back(absl::StrFormat(
          "%.6g ms a sample at best with memory-balanced stages, %.6g ms after adjustment",
          least_start_.milliseconds(),
          (found.prediction.step / static_cast<double>(found.plan.global_batch_size))
              .milliseconds()));
    }
    return found;
  }

  SearchSummary Summary() const {
    SearchSummary summary{.termination = Termination::kFeasible,
                          .limit = meter_.stopped() ? meter_.limit() : SearchLimit::kMethod,
                          .gap_ratio = best_ ? 1.0 : 0.0,
                          .expanded_state_count = meter_.expanded_state_count(),
                          .pruned_state_count = meter_.pruned_state_count(),
                          .candidate_count = static_cast<int64_t>(candidates_.size())};
    if (!best_) return summary;
    // Over all plans of the tree with this batch size.
    summary.bound = best_->prediction.step;
    for (const Candidate& each : candidates_) {
      if (each.global_batch_size != best_->plan.global_batch_size) continue;
      summary.bound = std::min(summary.bound, each.bound);
    }
    summary.gap_ratio =
        std::clamp((best_->prediction.step - summary.bound) / best_->prediction.step, 0.0, 1.0);
    return summary;
  }

 private:
  static Seconds PerSample(const PredictedPlan& plan) {
    return plan.prediction.step / static_cast<double>(plan.plan.global_batch_size);
  }

  // Returns the tables of a degree and micro-batch size, made once.
  const std::vector<GalvatronTables>& TablesOf(int degree, int64_t micro_batch_size) {
    const auto [found, is_new] = tables_.try_emplace(std::pair(degree, micro_batch_size));
    if (!is_new) return found->second;
    const GalvatronTables tables(space_, costs_, degree, micro_batch_size,
                                 variant_ != GalvatronVariant::kGalvatron);
    if (tables.usable()) found->second = tables.Choices(space_);
    return found->second;
  }

  void Add(Candidate candidate) {
    GalvatronStages stages(problem_, costs_, *candidate.tables, schedule_,
                           candidate.micro_batch_count, meter_);
    candidate.bound =
        candidate.tables->LowerBound(candidate.micro_batch_count) + costs_.step_overhead();
    const Partition first = FirstPartition(*candidate.tables, stages);
    if (*std::min_element(first.begin(), first.end()) < 1) return;
    int unit = 0;
    for (size_t stage = 0; stage < first.size(); ++stage) {
      candidate.least_memory = std::max(
          candidate.least_memory, stages.LeastPeak(unit, first[stage], static_cast<int>(stage)));
      unit += first[stage];
    }
    candidates_.push_back(candidate);
  }

  static Partition Even(const GalvatronTables& tables) {
    std::vector<char> counts;
    for (int kind : tables.kind_of_unit()) {
      counts.push_back(tables.kinds()[kind].has_transformer ? 1 : 0);
    }
    return EvenSplit(counts, tables.pipeline_parallel_degree());
  }

  bool HasKindsOfTransformers(const GalvatronTables& tables) const {
    return std::count_if(tables.kinds().begin(), tables.kinds().end(),
                         [](const GalvatronKind& kind) { return kind.has_transformer; }) > 1;
  }

  bool AllowsUneven() const { return space_.dimensions().has(SearchDimension::kUnevenStages); }

  Partition FirstPartition(const GalvatronTables& tables, const GalvatronStages& stages) const {
    const int degree = tables.pipeline_parallel_degree();
    if (degree == 1 || !AllowsUneven()) return Even(tables);
    if (variant_ == GalvatronVariant::kGalvatronBmw) {
      return MemoryBalancedSplit(tables.kind_of_unit(), stages.LeastMemoryOfStages(), Even(tables))
          ->layer_counts;
    }
    if (!HasKindsOfTransformers(tables)) return Even(tables);
    // One number per layer, as published: that of the first stage.
    std::vector<double> memory;
    for (Bytes kept : stages.LeastKept(0)) memory.push_back(kept.as_double());
    return GreedyMemorySplit(memory, 0.0, degree);
  }

  void Visit(const Candidate& candidate) {
    const GalvatronTables& tables = *candidate.tables;
    GalvatronStages stages(problem_, costs_, tables, schedule_, candidate.micro_batch_count,
                           meter_);
    const Partition first = FirstPartition(tables, stages);
    const bool adjusts = variant_ == GalvatronVariant::kGalvatronBmw && AllowsUneven() &&
                         tables.pipeline_parallel_degree() > 1;
    std::vector<const GalvatronStage*> solved;
    const auto solve = [&](const Partition& partition) -> std::optional<StageFigures> {
      StageFigures figures;
      solved.clear();
      int unit = 0;
      for (size_t stage = 0; stage < partition.size(); ++stage) {
        const GalvatronStage* const each =
            stages.Solve(unit, partition[stage], static_cast<int>(stage));
        if (each == nullptr) return std::nullopt;
        // The work of a stage alone takes longer than the best plan.
        if (!adjusts && best_ &&
            each->time * (1.0 - 1e-9) >
                PerSample(*best_) * static_cast<double>(candidate.global_batch_size)) {
          return std::nullopt;
        }
        solved.push_back(each);
        figures.times.push_back(each->time);
        figures.peaks.push_back(each->peak);
        unit += partition[stage];
      }
      return figures;
    };
    std::optional<BalanceDegrees> start;
    const auto visit = [&](const Partition& partition, const StageFigures& figures) {
      const BalanceDegrees degrees = DegreesOf(figures);
      const bool is_start = !start;
      if (is_start) start = degrees;
      Offer(stages.PlanOf(partition, candidate.global_batch_size, solved), is_start, *start,
            degrees);
      return !meter_.stopped();
    };
    if (adjusts) {
      AdjustPartitions(first, TimeBalancedSplit(stages.FastestTimes(), first), solve, visit);
    } else if (const std::optional<StageFigures> figures = solve(first)) {
      visit(first, *figures);
    }
  }

  void Offer(Plan plan, bool is_start, const BalanceDegrees& before, const BalanceDegrees& after) {
    PredictedPlan predicted{std::move(plan), {}};
    predicted.prediction = evaluator_.Predict(predicted.plan);
    if (!predicted.prediction.fits()) return;
    if (is_start && PerSample(predicted) < least_start_) least_start_ = PerSample(predicted);
    if (best_ && !IsBetterPlan(predicted, *best_)) return;
    best_ = std::move(predicted);
    best_notes_.clear();
    if (variant_ != GalvatronVariant::kGalvatronBmw) return;
    const int depth = best_->plan.pipeline_parallel_degree();
    best_notes_ = {
        absl::StrFormat("alpha_t %.4f with memory-balanced stages, %.4f after adjustment "
                        "(%.4f is perfect balance of time)",
                        before.time, after.time, 1.0 - 1.0 / depth),
        absl::StrFormat("alpha_m %.4f with memory-balanced stages, %.4f after adjustment "
                        "(%.4f is perfect balance of memory)",
                        before.memory, after.memory, 1.0 - 1.0 / depth)};
  }

  void Report() const {
    if (!control_.on_progress) return;
    SearchProgress progress{.done_candidate_count = done_,
                            .total_candidate_count = static_cast<int64_t>(candidates_.size()),
                            .bound = Summary().bound,
                            .expanded_state_count = meter_.expanded_state_count()};
    if (best_) progress.incumbent = best_->prediction.step;
    control_.on_progress(progress);
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const GalvatronVariant variant_;
  SearchMeter& meter_;
  const SearchControl& control_;
  const StrategySpace space_;
  PlanEvaluator evaluator_;
  const Schedule schedule_;
  // [degree, micro-batch size]
  std::map<std::pair<int, int64_t>, std::vector<GalvatronTables>> tables_;
  std::vector<Candidate> candidates_;
  int64_t done_ = 0;
  std::optional<PredictedPlan> best_;
  std::vector<std::string> best_notes_;
  // Least time per sample of the first partition of any candidate.
  Seconds least_start_ = Seconds::Infinite();
};

// Returns the least memory with which the method finds a plan, searched between `bound`, with which
// it finds none, and what doubling finds. Because memory is rounded to the grid, it is slightly
// more than any plan needs, so it is found by trying. Returns nothing if a limit ended that.
std::optional<Bytes> SmallestMemory(const PlanningProblem& problem, const CostModel& costs,
                                    GalvatronVariant variant, Bytes bound, SearchMeter& meter) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  const SearchControl quiet;
  const auto finds = [&](Bytes usable) {
    const PlanningProblem larger = problem.WithUsableMemory(usable);
    GalvatronSearch search(larger, costs, variant, meter, quiet);
    return search.List() && search.FindsAny();
  };
  Bytes none = std::max(bound - Bytes::Of(1), problem.usable_memory());
  Bytes enough = std::max(bound, problem.usable_memory() + Bytes::Of(kMebibyte));
  for (int64_t step = kMebibyte; !finds(enough); step *= 2) {
    if (meter.stopped() || step > (int64_t{1} << 60)) return std::nullopt;
    none = enough;
    enough += Bytes::Of(step);
  }
  while ((enough - none).count() > kMebibyte) {
    const Bytes middle = none + Bytes::Of((enough - none).count() / 2);
    (finds(middle) ? enough : none) = middle;
  }
  if (meter.stopped()) return std::nullopt;
  return enough;
}

}  // namespace

std::optional<PlanningResult> SearchGalvatron(const PlanningProblem& problem,
                                              const CostModel& costs, GalvatronVariant variant,
                                              const SearchControl& control) {
  // The papers have one stage per device.
  if (TraitsOf(problem.rules().schedule.value_or(kDefaultSchedule)).has_virtual_stages) {
    return std::nullopt;
  }
  SearchMeter meter(control);
  GalvatronSearch search(problem, costs, variant, meter, control);
  if (!search.List()) {
    if (!meter.stopped()) return std::nullopt;
    return StoppedEmpty{search.Summary()};
  }
  search.Run();
  SearchSummary summary = search.Summary();
  if (std::optional<PlanFound> found = search.TakeBest()) {
    found->search = summary;
    return *std::move(found);
  }
  if (meter.stopped()) return StoppedEmpty{summary};
  const std::optional<Bytes> smallest =
      SmallestMemory(problem, costs, variant, search.LeastMemory(), meter);
  summary = search.Summary();
  if (!smallest) return StoppedEmpty{summary};
  // The whole method was tried.
  summary.termination = Termination::kOptimal;
  summary.limit = SearchLimit::kNone;
  return NothingFits{.smallest_usable_memory = *smallest,
                     .smallest_device_memory = DeviceMemoryFor(problem, *smallest),
                     // Other plans of the same strategies may need less, because the method rounds
                     // memory up.
                     .memory_is_proved = false,
                     .search = summary};
}

}  // namespace parplan
