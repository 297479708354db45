#include "planner/search/exact_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/model/device_memory.h"
#include "planner/search/exact_candidates.h"
#include "planner/search/interleaved_search.h"
#include "planner/search/option_table.h"
#include "planner/search/pipeline_search.h"
#include "planner/search/plan_assembly.h"
#include "planner/search/search_meter.h"
#include "planner/search/smallest_memory.h"
#include "planner/search/strategy_space.h"

namespace parplan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Steps are as long where they differ by less than rounding can explain.
constexpr double kProofTolerance = 1e-9;
// Candidates that are bounded, or searched, side by side. Part of the method: the same on
// any number of threads.
constexpr size_t kBoundedTogether = 8;
constexpr size_t kSearchedTogether = 2;
// States expanded without any plan, after which other methods are asked for one.
constexpr int64_t kMostStatesWithoutPlan = 300'000;
constexpr int kMostFrontPlans = 64;
// Memory of a plan of a front, as a share of that of the one before, at most.
constexpr double kFrontStep = 0.99;

// The search in one problem; for fronts in several that differ in memory only.
class ExactSearch {
 public:
  ExactSearch(const PlanningProblem& problem, const CostModel& costs, const SearchControl& control,
              TableCache& tables, SearchMeter& meter, int wanted)
      : costs_(costs),
        control_(control),
        tables_(tables),
        meter_(meter),
        space_(problem, costs),
        wanted_(wanted),
        plans_(wanted) {}

  // False when a limit ended it.
  bool List() {
    CandidateList list = ListCandidates(space_, costs_, meter_);
    candidates_ = std::move(list.candidates);
    listed_all_ = list.complete;
    return listed_all_;
  }

  // Instead of `List`: those of a search with more memory, whose bounds hold here too.
  void Take(std::vector<ExactCandidate> candidates) {
    candidates_ = std::move(candidates);
    listed_all_ = true;
    for (ExactCandidate& candidate : candidates_) candidate.state = ExactCandidate::State::kListed;
    std::sort(candidates_.begin(), candidates_.end(), MorePromising);
  }

  void Run() {
    while (meter_.Ask()) {
      const std::vector<size_t> batch = NextBatch();
      if (batch.empty()) break;
      Visit(batch);
      Seed();
      Report();
    }
  }

  // Other methods are not asked for a plan.
  void KeepUnseeded() { was_seeded_ = true; }
  // Whether it is proved that no plan of the space fits.
  bool IsEmpty() const {
    return listed_all_ &&
           std::all_of(candidates_.begin(), candidates_.end(),
                       [](const ExactCandidate& each) { return each.bound == kInfinite; });
  }

  const std::vector<ExactCandidate>& candidates() const { return candidates_; }
  int64_t candidate_count() const { return static_cast<int64_t>(candidates_.size()); }
  PlanList& plans() { return plans_; }
  const StrategySpace& space() const { return space_; }

  // No plan of the space is faster, in seconds a sample.
  double BoundPerSample() const {
    if (!listed_all_) return 0.0;
    double bound = kInfinite;
    for (const ExactCandidate& candidate : candidates_) {
      bound = std::min(bound, candidate.bound_per_sample());
    }
    if (!plans_.plans().empty()) bound = std::min(bound, TimePerSample(plans_.plans().front()));
    return bound < kInfinite ? bound : 0.0;
  }

  static double TimePerSample(const PredictedPlan& plan) {
    return plan.prediction.step.value() / static_cast<double>(plan.plan.global_batch_size);
  }

 private:
  struct Visited {
    double bound = 0.0;
    std::vector<PredictedPlan> plans;
    int64_t expanded = 0;
    int64_t pruned = 0;
    SearchLimit limit = SearchLimit::kNone;
  };

  // Batch, pipeline degree, micro-batch count.
  using PlaceInSpace = std::tuple<int64_t, int, int64_t>;
  static PlaceInSpace PlaceOf(const ExactCandidate& candidate) {
    return {candidate.pipeline.global_batch_size, candidate.pipeline.pipeline_parallel_degree,
            candidate.pipeline.micro_batch_count};
  }
  // Seconds a sample, by 1F1B.
  std::map<PlaceInSpace, double> BoundsOfPlain() const {
    std::map<PlaceInSpace, double> bounds;
    for (const ExactCandidate& candidate : candidates_) {
      if (candidate.pipeline.schedule != Schedule::kOneForwardOneBackward) continue;
      bounds[PlaceOf(candidate)] = candidate.bound_per_sample();
    }
    return bounds;
  }

  // The most promising candidates whose bound allows a plan worth having, of one state.
  std::vector<size_t> NextBatch() const {
    const double most = plans_.MostTimePerSample() * (1.0 - kProofTolerance);
    std::vector<size_t> open;
    for (size_t index = 0; index < candidates_.size(); ++index) {
      const ExactCandidate& candidate = candidates_[index];
      if (candidate.state == ExactCandidate::State::kSearched) continue;
      if (candidate.bound_per_sample() >= most) continue;
      open.push_back(index);
    }
    const std::map<PlaceInSpace, double> bounds = BoundsOfPlain();
    // Interleaved plans last, since their bounds know no memory and so they need a plan to
    // beat; and first where plain ones of the same numbers are promising.
    const auto order = [&](size_t index) {
      const ExactCandidate& candidate = candidates_[index];
      const bool interleaves = candidate.pipeline.schedule == Schedule::kInterleaved;
      double plain = 0.0;
      if (interleaves) {
        const auto found = bounds.find(PlaceOf(candidate));
        if (found != bounds.end()) plain = found->second;
      }
      return std::pair(interleaves, plain);
    };
    std::sort(open.begin(), open.end(), [&](size_t a, size_t b) {
      const auto first = order(a);
      const auto second = order(b);
      if (first != second) return first < second;
      return MorePromising(candidates_[a], candidates_[b]);
    });
    if (open.empty()) return open;
    const ExactCandidate::State state = candidates_[open.front()].state;
    // Before there is a plan, one candidate at a time: the next are most likely closed by it.
    const size_t together = state == ExactCandidate::State::kListed ? kBoundedTogether
                            : plans_.plans().empty()                ? 1
                                                                    : kSearchedTogether;
    size_t count = 0;
    while (count < open.size() && count < together && candidates_[open[count]].state == state) {
      ++count;
    }
    open.resize(count);
    return open;
  }

  // Once, where the search is hard: a plan to beat.
  void Seed() {
    if (was_seeded_ || !plans_.plans().empty()) return;
    const bool is_hard =
        meter_.expanded_state_count() > kMostStatesWithoutPlan ||
        std::any_of(candidates_.begin(), candidates_.end(), [](const ExactCandidate& candidate) {
          return candidate.state == ExactCandidate::State::kSearched && candidate.bound < kInfinite;
        });
    if (!is_hard) return;
    was_seeded_ = true;
    for (PredictedPlan& plan : SeedPlans(space_.problem(), costs_, control_, meter_)) {
      plans_.Offer(std::move(plan));
    }
  }

  void Visit(const std::vector<size_t>& batch) {
    std::vector<TableCache::Key> keys;
    for (const size_t index : batch) {
      keys.push_back(TableCache::KeyOf(candidates_[index].pipeline));
    }
    tables_.Prepare(space_, costs_, std::move(keys), control_.parallel_for);
    SearchControl control = control_;
    if (control.max_state_count > 0) {
      control.max_state_count =
          std::max<int64_t>(1, control.max_state_count - meter_.expanded_state_count());
    }
    std::vector<Visited> visited(batch.size());
    ForEach(control_.parallel_for, static_cast<int64_t>(batch.size()),
            [&](int64_t k) { visited[k] = VisitOne(candidates_[batch[k]], control); });
    for (size_t k = 0; k < batch.size(); ++k) {
      ExactCandidate& candidate = candidates_[batch[k]];
      candidate.bound = std::max(candidate.bound, visited[k].bound);
      const bool ended = visited[k].limit != SearchLimit::kNone;
      if (!ended) {
        candidate.state = candidate.state == ExactCandidate::State::kListed
                              ? ExactCandidate::State::kBounded
                              : ExactCandidate::State::kSearched;
      }
      for (PredictedPlan& plan : visited[k].plans) plans_.Offer(std::move(plan));
      meter_.Expand(visited[k].expanded);
      meter_.Prune(visited[k].pruned);
      if (ended) meter_.Stop(visited[k].limit);
    }
  }

  Visited VisitOne(const ExactCandidate& candidate, const SearchControl& control) const {
    Visited visited;
    const OptionTable& table = tables_.At(TableCache::KeyOf(candidate.pipeline));
    if (!table.usable()) {
      visited.bound = kInfinite;
      return visited;
    }
    SearchMeter meter(control);
    const Seconds most = Seconds::Of(plans_.MostTimePerSample() *
                                     static_cast<double>(candidate.pipeline.global_batch_size));
    const bool interleaves = candidate.pipeline.schedule == Schedule::kInterleaved;
    if (candidate.state == ExactCandidate::State::kListed) {
      // Interleaved plans have no bound between that of the least times and the search.
      if (!interleaves) {
        const Seconds bound = PipelineBound(space_, costs_, table, candidate.pipeline, most, meter);
        if (!meter.stopped()) visited.bound = bound.value();
      }
    } else {
      PipelineOutcome outcome = (interleaves ? SearchInterleaved : SearchPipeline)(
          space_, costs_, table, candidate.pipeline, most, wanted_, meter);
      visited.bound = outcome.bound.value();
      visited.plans = std::move(outcome.plans);
    }
    visited.expanded = meter.expanded_state_count();
    visited.pruned = meter.pruned_state_count();
    visited.limit = meter.limit();
    return visited;
  }

  void Report() const {
    if (!control_.on_progress) return;
    SearchProgress progress{.total_candidate_count = candidate_count(),
                            .expanded_state_count = meter_.expanded_state_count()};
    const double most = plans_.MostTimePerSample() * (1.0 - kProofTolerance);
    for (const ExactCandidate& candidate : candidates_) {
      if (candidate.state == ExactCandidate::State::kSearched ||
          candidate.bound_per_sample() >= most) {
        ++progress.done_candidate_count;
      }
    }
    double batch = static_cast<double>(space_.problem().global_batch_size());
    if (!plans_.plans().empty()) {
      const PredictedPlan& best = plans_.plans().front();
      progress.incumbent = best.prediction.step;
      batch = static_cast<double>(best.plan.global_batch_size);
    }
    progress.bound = Seconds::Of(BoundPerSample() * batch);
    control_.on_progress(progress);
  }

  const CostModel& costs_;
  const SearchControl& control_;
  TableCache& tables_;
  SearchMeter& meter_;
  const StrategySpace space_;
  const int wanted_;
  std::vector<ExactCandidate> candidates_;
  bool listed_all_ = false;
  bool was_seeded_ = false;
  PlanList plans_;
};

SearchSummary SummaryOf(const ExactSearch& search, const PredictedPlan* best,
                        const SearchMeter& meter) {
  SearchSummary summary{.expanded_state_count = meter.expanded_state_count(),
                        .pruned_state_count = meter.pruned_state_count(),
                        .candidate_count = search.candidate_count()};
  const double bound = search.BoundPerSample();
  bool proved = !meter.stopped() && search.IsEmpty();
  if (best != nullptr) {
    const double time = ExactSearch::TimePerSample(*best);
    summary.bound = Seconds::Of(std::min(
        best->prediction.step.value(), bound * static_cast<double>(best->plan.global_batch_size)));
    summary.gap_ratio = std::clamp((time - bound) / time, 0.0, 1.0);
    proved = bound >= time * (1.0 - kProofTolerance);
    if (proved) summary.gap_ratio = 0.0;
  } else {
    summary.gap_ratio = proved ? 0.0 : 1.0;
  }
  summary.termination = proved ? Termination::kOptimal : Termination::kFeasible;
  summary.limit = proved            ? SearchLimit::kNone
                  : meter.stopped() ? meter.limit()
                                    : SearchLimit::kMethod;
  return summary;
}

// Plans that need less and less memory, each the fastest there is within a little less than
// what the one before needs. `is_cut` is set where that was not followed to its end, or some
// may not be the fastest.
std::vector<PredictedPlan> FrontFrom(const PlanningProblem& problem, const CostModel& costs,
                                     const SearchControl& control,
                                     std::vector<ExactCandidate> candidates,
                                     const PredictedPlan& fastest, TableCache& tables,
                                     SearchMeter& meter, bool& is_cut) {
  std::vector<PredictedPlan> front = {fastest};
  SearchControl quiet = control;
  quiet.on_progress = nullptr;
  while (meter.Ask()) {
    const Bytes usable = Bytes::Of(
        static_cast<int64_t>(front.back().prediction.peak_memory_upper.as_double() * kFrontStep));
    if (usable <= Bytes()) return front;
    if (static_cast<int>(front.size()) == kMostFrontPlans) break;
    const PlanningProblem smaller = problem.WithUsableMemory(usable);
    ExactSearch search(smaller, costs, quiet, tables, meter, /*wanted=*/1);
    search.Take(std::move(candidates));
    search.KeepUnseeded();
    search.Run();
    candidates = search.candidates();
    if (search.plans().plans().empty()) {
      // What the search leaves open, sums of least memory may settle.
      is_cut |= meter.stopped() ||
                (!search.IsEmpty() && AnyPlanFits(search.space(), costs, meter).value_or(true));
      return front;
    }
    if (meter.stopped()) break;
    PredictedPlan next = search.plans().plans().front();
    is_cut |= SummaryOf(search, &next, meter).termination != Termination::kOptimal;
    next.prediction.usable_memory = problem.usable_memory();
    // Of plans equally fast the smaller one.
    while (!front.empty() &&
           ExactSearch::TimePerSample(front.back()) >= ExactSearch::TimePerSample(next)) {
      front.pop_back();
    }
    front.push_back(std::move(next));
  }
  is_cut = true;
  return front;
}

// After a search that found no plan: the plan that needs least, where it fits, which is
// added to those of the search; nothing is given then. Else that nothing fits, with the
// least that would do: `kFeasible` where neither the search nor that least proves it.
std::optional<PlanningResult> SettleEmpty(const PlanningProblem& problem, const CostModel& costs,
                                          ExactSearch& search, SearchMeter& meter) {
  const StoppedEmpty stopped{SummaryOf(search, nullptr, meter)};
  if (meter.stopped()) return stopped;
  const std::optional<SmallestMemory> smallest = FindSmallestMemory(search.space(), costs, meter);
  if (!smallest.has_value()) return StoppedEmpty{SummaryOf(search, nullptr, meter)};
  if (smallest->usable_memory <= problem.usable_memory()) {
    PredictedPlan plan{smallest->plan, PredictPlan(problem, costs, smallest->plan)};
    search.plans().Offer(std::move(plan));
    return std::nullopt;
  }
  NothingFits nothing{.smallest_usable_memory = smallest->usable_memory,
                      .smallest_device_memory = DeviceMemoryFor(problem, smallest->usable_memory),
                      .memory_is_proved = smallest->is_proved,
                      .smallest_device_count = FindSmallestDeviceCount(problem, meter),
                      .search = SummaryOf(search, nullptr, meter)};
  if (smallest->is_proved) {
    nothing.search.termination = Termination::kOptimal;
    nothing.search.limit = SearchLimit::kNone;
    nothing.search.gap_ratio = 0.0;
  }
  return nothing;
}

}  // namespace

std::optional<PlanningResult> SearchExact(const PlanningProblem& problem, const CostModel& costs,
                                          const SearchControl& control) {
  SearchMeter meter(control);
  TableCache tables;
  ExactSearch search(problem, costs, control, tables, meter, problem.rules().top_plan_count);
  if (!search.List()) return StoppedEmpty{SummaryOf(search, nullptr, meter)};
  if (search.candidates().empty()) return std::nullopt;
  search.Run();
  if (search.plans().plans().empty()) {
    std::optional<PlanningResult> nothing = SettleEmpty(problem, costs, search, meter);
    if (nothing.has_value()) return nothing;
  }
  std::vector<PredictedPlan> plans = search.plans().plans();
  PlanFound found{.plan = plans.front().plan,
                  .prediction = plans.front().prediction,
                  .search = SummaryOf(search, &plans.front(), meter)};
  if (problem.rules().wants_memory_front) {
    bool is_cut = false;
    found.memory_front = FrontFrom(problem, costs, control, search.candidates(), plans.front(),
                                   tables, meter, is_cut);
    // Of plans as fast the smallest.
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
  for (size_t index = 1; index < plans.size(); ++index) {
    if (static_cast<int>(found.alternatives.size()) + 1 == problem.rules().top_plan_count) break;
    if (IsBetterPlan(plans[index], plans.front()) || AreAlike(plans[index].plan, found.plan)) {
      continue;
    }
    found.alternatives.push_back(std::move(plans[index]));
  }
  return found;
}

}  // namespace parplan
