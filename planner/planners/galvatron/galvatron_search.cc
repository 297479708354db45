#include "planner/planners/galvatron/galvatron_search.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/model/device_memory.h"
#include "planner/planners/baselines/baseline_search.h"
#include "planner/planners/galvatron/bmw_walk.h"

namespace parplan {
namespace {

// Returns the methods of a variant, those of the variant before it first.
std::vector<GalvatronMethod> MethodsOf(const PlanningProblem& problem, GalvatronVariant variant) {
  const bool can_recompute = problem.dimensions().has(SearchDimension::kFullRecompute);
  std::vector<GalvatronMethod> methods = {{}};
  if (variant == GalvatronVariant::kGalvatron) return methods;
  if (can_recompute) methods.push_back({.with_recompute = true});
  if (variant == GalvatronVariant::kGalvatronBase) return methods;
  methods.push_back({.adjusts = true});
  if (can_recompute) methods.push_back({.with_recompute = true, .adjusts = true});
  return methods;
}

std::string TextOf(GalvatronMethod method, Partitioner partitioner) {
  return absl::StrCat("found by the dynamic programme ", method.with_recompute ? "with" : "without",
                      " recomputation, ",
                      method.adjusts
                          ? "stages adjusted from balanced memory"
                          : absl::StrCat("stages by partitioner ", PartitionerName(partitioner)));
}

// Says with which options a plan was searched, and what found it.
std::vector<std::string> NotesOf(const PlanningRules& rules, const std::string& found_by) {
  std::vector<std::string> notes = {
      absl::StrCat("partitioner ", PartitionerName(rules.partitioner)), found_by};
  if (rules.memory_granule != kMinMemoryGranule) {
    notes.push_back(absl::StrCat("memory counted in units of ",
                                 rules.memory_granule.count() / kMinMemoryGranule.count(), " MiB"));
  }
  if (rules.fused_layer_count > 1) {
    notes.push_back(
        absl::StrCat("one strategy for each ", rules.fused_layer_count, " equal layers in a row"));
  }
  return notes;
}

// The search of several methods and baselines.
class GalvatronSearch {
 public:
  GalvatronSearch(const PlanningProblem& problem, const CostModel& costs,
                  const std::vector<GalvatronMethod>& methods,
                  absl::Span<const absl::string_view> baselines, SearchMeter& meter,
                  const SearchControl& control)
      : problem_(problem),
        costs_(costs),
        methods_(methods),
        baselines_(baselines),
        meter_(meter),
        control_(control),
        space_(problem, costs),
        tables_(space_, costs, &meter) {
    for (const GalvatronMethod& method : methods) {
      searches_.emplace_back(problem, costs, space_, tables_, method, meter);
    }
  }

  // Lists the candidates of all methods, and returns how many there are.
  int64_t List() {
    for (GalvatronMethodSearch& search : searches_) {
      search.List();
      total_ += search.candidate_count();
    }
    listed_all_ = !meter_.stopped();
    return total_;
  }

  // Searches the baselines, which take least time, and the methods in order, so that what a variant
  // with fewer methods does is the first part of what one with more does.
  void Run() {
    for (const absl::string_view baseline : baselines_) RunBaseline(baseline);
    List();
    for (size_t index = 0; index < searches_.size(); ++index) {
      if (!meter_.ShouldContinue()) return;
      const bool improved = searches_[index].Run(best_, [this] {
        Report();
        ++done_;
      });
      if (improved) found_by_ = TextOf(methods_[index], problem_.rules().partitioner);
    }
  }

  // Searches as if devices were smaller, after `Run`, so that larger ones are never slower than
  // these (docs/galvatron.md, *More memory*).
  void RunSmallerDevices() {
    if (!best_) return;
    for (const auto& [gibibytes, usable] : SmallerDevices(problem_)) {
      if (!meter_.ShouldContinue()) return;
      const PlanningProblem smaller = problem_.WithUsableMemory(usable);
      for (size_t index = 0; index < searches_.size(); ++index) {
        if (!searches_[index].RunSmaller(smaller, best_)) continue;
        found_by_ = absl::StrCat(TextOf(methods_[index], problem_.rules().partitioner),
                                 ", for devices with ", gibibytes, " GiB");
      }
    }
  }

  // Returns whether any method finds a plan.
  bool FindsAny() {
    List();
    return std::any_of(searches_.begin(), searches_.end(),
                       [](GalvatronMethodSearch& search) { return search.FindsAny(); });
  }

  // Returns whether a method or a baseline had candidates.
  bool had_candidates() const { return total_ > 0 || baseline_count_ > 0; }
  const std::optional<PredictedPlan>& best() const { return best_; }
  const std::string& found_by() const { return found_by_; }

  // Returns a lower bound of the memory with which a method finds a plan, and the least memory with
  // which a baseline does; `Bytes::Max()` without one.
  Bytes LeastUsableMemory() {
    Bytes least = Bytes::Max();
    for (GalvatronMethodSearch& search : searches_) {
      least = std::min(least, search.LeastUsableMemory());
    }
    return least;
  }
  Bytes least_of_baselines() const { return least_of_baselines_; }

  SearchSummary Summary() const {
    SearchSummary summary{.termination = Termination::kFeasible,
                          .limit = meter_.stopped() ? meter_.limit() : SearchLimit::kMethod,
                          .gap_ratio = best_ ? 1.0 : 0.0,
                          .expanded_state_count = meter_.expanded_state_count(),
                          .pruned_state_count = meter_.pruned_state_count(),
                          .candidate_count = total_};
    if (!best_ || !listed_all_) return summary;
    // Over all plans of the methods and baselines with this batch size.
    const int64_t batch = best_->plan.global_batch_size;
    summary.bound =
        std::min(best_->prediction.step, baseline_bound_per_sample_ * static_cast<double>(batch));
    for (const GalvatronMethodSearch& search : searches_) {
      summary.bound = std::min(summary.bound, search.LowerBound(batch));
    }
    summary.gap_ratio =
        std::clamp((best_->prediction.step - summary.bound) / best_->prediction.step, 0.0, 1.0);
    return summary;
  }

 private:
  void RunBaseline(absl::string_view baseline) {
    if (!meter_.ShouldContinue()) return;
    SearchControl part = meter_.PartOf(std::numeric_limits<int64_t>::max());
    part.on_progress = nullptr;
    std::optional<PlanningResult> result =
        SearchBaseline(problem_, costs_, *SpaceOfBaseline(baseline, problem_), part);
    if (!result) return;
    ++baseline_count_;
    const SearchSummary& summary = std::visit(
        [](const auto& answer) -> const SearchSummary& { return answer.search; }, *result);
    meter_.Expand(summary.expanded_state_count);
    if (summary.limit == SearchLimit::kTime) meter_.Stop(SearchLimit::kTime);
    if (const auto* nothing = std::get_if<NothingFits>(&*result)) {
      least_of_baselines_ = std::min(least_of_baselines_, nothing->smallest_usable_memory);
    }
    auto* const found = std::get_if<PlanFound>(&*result);
    if (found == nullptr) return;
    baseline_bound_per_sample_ =
        std::min(baseline_bound_per_sample_,
                 summary.bound / static_cast<double>(found->plan.global_batch_size));
    PredictedPlan plan{std::move(found->plan), std::move(found->prediction)};
    if (best_ && !IsBetterPlan(plan, *best_)) return;
    best_ = std::move(plan);
    found_by_ = absl::StrCat("found by baseline ", baseline, ", whose plans are in the space");
  }

  void Report() const {
    if (!control_.on_progress) return;
    SearchProgress progress{.done_candidate_count = done_,
                            .total_candidate_count = total_,
                            .bound = Summary().bound,
                            .expanded_state_count = meter_.expanded_state_count()};
    if (best_) progress.incumbent = best_->prediction.step;
    control_.on_progress(progress);
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const std::vector<GalvatronMethod>& methods_;
  const absl::Span<const absl::string_view> baselines_;
  SearchMeter& meter_;
  const SearchControl& control_;
  const StrategySpace space_;
  GalvatronTableCache tables_;
  // [method]
  std::deque<GalvatronMethodSearch> searches_;
  int64_t total_ = 0;
  // Whether no limit ended the listing of candidates, so that their bounds are proved.
  bool listed_all_ = false;
  int64_t done_ = 0;
  int baseline_count_ = 0;
  Bytes least_of_baselines_ = Bytes::Max();
  Seconds baseline_bound_per_sample_ = Seconds::Infinite();
  std::optional<PredictedPlan> best_;
  std::string found_by_;
};

// Returns the least memory with which the methods or baselines find a plan, searched between
// `bound`, with which no method does, and what a baseline needs or doubling finds. Because memory
// is rounded to the grid, a method needs slightly more than any plan, so it is found by trying.
// Returns nothing if a limit ended that.
std::optional<Bytes> SmallestMemory(const PlanningProblem& problem, const CostModel& costs,
                                    const std::vector<GalvatronMethod>& methods, Bytes bound,
                                    Bytes least_of_baselines, SearchMeter& meter) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  if (bound >= least_of_baselines) return least_of_baselines;
  const SearchControl quiet;
  const auto finds = [&](Bytes usable) {
    if (usable >= least_of_baselines) return true;
    const PlanningProblem larger = problem.WithUsableMemory(usable);
    return GalvatronSearch(larger, costs, methods, {}, meter, quiet).FindsAny();
  };
  Bytes none = std::max(bound - Bytes::Of(1), problem.usable_memory());
  Bytes enough = std::max(bound, problem.usable_memory() + Bytes::Of(kMebibyte));
  for (int64_t step = kMebibyte; !finds(enough); step *= 2) {
    if (meter.stopped() || step > (int64_t{1} << 60)) return std::nullopt;
    none = enough;
    enough += Bytes::Of(step);
  }
  enough = std::min(enough, least_of_baselines);
  while ((enough - none).count() > kMebibyte && !meter.stopped()) {
    const Bytes middle = none + Bytes::Of((enough - none).count() / 2);
    (finds(middle) ? enough : none) = middle;
  }
  if (meter.stopped()) return std::nullopt;
  return enough;
}

// Returns alpha_t and alpha_m of the plan, and of both ends of each walk of its batch, depth and
// number of micro-batches.
std::vector<std::string> BalanceNotes(const PlanningProblem& problem, const CostModel& costs,
                                      const PredictedPlan& plan, const SearchControl& control) {
  const int depth = plan.plan.pipeline_parallel_degree();
  if (depth == 1) return {"one stage: there is no balance of stages to adjust"};
  const double perfect = 1.0 - 1.0 / depth;
  const BalanceDegrees answer = DegreesOfPlan(plan);
  std::vector<std::string> notes = {
      absl::StrFormat("alpha_t %.4f, alpha_m %.4f in the answer (%.4f is perfect balance)",
                      answer.time, answer.memory, perfect)};
  SearchControl quiet = control;
  quiet.on_progress = nullptr;
  for (const ExplainedWalk& walk : ExplainWalks(problem, costs, plan.plan, quiet)) {
    const bool ends_at_start = std::none_of(
        walk.steps.begin(), walk.steps.end(),
        [](const ExplainedStep& each) { return each.step.verdict == PartitionVerdict::kEnd; });
    for (const ExplainedStep& step : walk.steps) {
      const bool is_start = step.step.verdict == PartitionVerdict::kStart;
      if (!is_start && step.step.verdict != PartitionVerdict::kEnd) continue;
      const std::string end = absl::StrCat(
          is_start ? "memory-balanced" : "time-balanced",
          is_start && ends_at_start ? " and time-balanced stages " : " stages ",
          walk.with_recompute ? "with" : "without", " recomputation",
          walk.measure == MemoryMeasure::kFastest                        ? ", memory at full speed"
          : walk.measure == MemoryMeasure::kLeast && walk.with_recompute ? ", least memory"
                                                                         : "");
      if (!step.degrees) {
        notes.push_back(absl::StrCat("no plan of ", end, " fits"));
        continue;
      }
      notes.push_back(absl::StrFormat("alpha_t %.4f, alpha_m %.4f with %s", step.degrees->time,
                                      step.degrees->memory, end));
    }
  }
  return notes;
}

std::optional<PlanningResult> SearchMethods(const PlanningProblem& problem, const CostModel& costs,
                                            const std::vector<GalvatronMethod>& methods,
                                            absl::Span<const absl::string_view> baselines,
                                            const SearchControl& control) {
  // Neither text nor code of Galvatron has several stages per device.
  if (TraitsOf(problem.rules().schedule.value_or(kDefaultSchedule)).has_virtual_stages) {
    return std::nullopt;
  }
  SearchMeter meter(control);
  GalvatronSearch search(problem, costs, methods, baselines, meter, control);
  search.Run();
  // A method alone stays the method of the texts.
  if (!baselines.empty()) search.RunSmallerDevices();
  SearchSummary summary = search.Summary();
  if (const std::optional<PredictedPlan>& best = search.best()) {
    return PlanFound{
        .plan = best->plan,
        .prediction = best->prediction,
        .search = summary,
        .alternatives = {},
        .memory_front = {},
        .notes = NotesOf(problem.rules(), search.found_by()),
    };
  }
  if (meter.stopped()) return StoppedEmpty{summary};
  if (!search.had_candidates()) return std::nullopt;
  const Bytes bound = search.LeastUsableMemory();
  if (meter.stopped()) return StoppedEmpty{search.Summary()};
  const std::optional<Bytes> smallest =
      SmallestMemory(problem, costs, methods, bound, search.least_of_baselines(), meter);
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

}  // namespace

std::optional<PlanningResult> SearchGalvatron(const PlanningProblem& problem,
                                              const CostModel& costs, GalvatronVariant variant,
                                              const SearchControl& control) {
  std::optional<PlanningResult> result =
      SearchMethods(problem, costs, MethodsOf(problem, variant), PaperBaselineNames(), control);
  if (!result || variant != GalvatronVariant::kGalvatronBmw) return result;
  auto* const found = std::get_if<PlanFound>(&*result);
  if (found != nullptr && found->search.limit == SearchLimit::kTime) {
    found->notes.push_back("the search had to end before the balance of the stages was looked at");
  } else if (found != nullptr) {
    for (std::string& note :
         BalanceNotes(problem, costs, {found->plan, found->prediction}, control)) {
      found->notes.push_back(std::move(note));
    }
  }
  return result;
}

std::optional<PlanningResult> SearchGalvatronMethod(const PlanningProblem& problem,
                                                    const CostModel& costs, GalvatronMethod method,
                                                    const SearchControl& control) {
  std::optional<PlanningResult> result = SearchMethods(problem, costs, {method}, {}, control);
  if (result && std::holds_alternative<PlanFound>(*result))
    std::get<PlanFound>(*result).notes.clear();
  return result;
}

}  // namespace parplan
