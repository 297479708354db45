#include "planner/search/find_plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"
#include "planner/cost/cost_model.h"
#include "planner/search/baselines.h"
#include "planner/search/candidate_search.h"
#include "planner/search/search_meter.h"
#include "planner/search/stage_tables.h"
#include "planner/search/step_bound.h"

namespace parplan {
namespace {

// A part of the space: all plans with these two numbers.
struct Candidate {
  int pipeline_parallel_degree = 1;
  int64_t micro_batch_count = 1;
  // No plan of it has a shorter step.
  Seconds bound;
};

bool MorePromising(const Candidate& a, const Candidate& b) {
  return std::tie(a.bound, a.pipeline_parallel_degree, a.micro_batch_count) <
         std::tie(b.bound, b.pipeline_parallel_degree, b.micro_batch_count);
}

// Two steps are as long where they differ by less than rounding can explain.
constexpr double kProofTolerance = 1e-9;

class PlanSearch {
 public:
  PlanSearch(const PlanningProblem& problem, const CostModel& costs, const SearchSpace& space,
             const SearchControl& control)
      : problem_(problem), costs_(costs), space_(space), control_(control), meter_(control) {}

  // Nothing when no candidate has a strategy for every layer.
  std::optional<PlanningResult> Run() {
    ListCandidates();
    if (candidates_.empty() && !meter_.stopped()) return std::nullopt;
    std::sort(candidates_.begin(), candidates_.end(), MorePromising);
    for (size_t index = 0; index < candidates_.size() && meter_.Ask(); ++index) {
      next_ = index;
      Visit(candidates_[index]);
      if (meter_.stopped()) break;
      next_ = index + 1;
      Report();
    }
    return Result();
  }

 private:
  // What the tensors of a stage's device may take.
  Bytes StageBudget(int pipeline_parallel_degree) const {
    return costs_.overheads().TensorBudget(problem_.usable_memory(), pipeline_parallel_degree,
                                           problem_.device_count() / pipeline_parallel_degree);
  }

  void ListCandidates() {
    std::vector<int64_t> micro_batch_counts = {problem_.rules().micro_batch_count};
    if (micro_batch_counts.front() == 0) {
      micro_batch_counts = Divisors(problem_.global_batch_size());
    }
    for (int64_t degree : Divisors(problem_.device_count())) {
      if (degree > problem_.max_pipeline_parallel_degree()) break;
      if (space_.pipeline_parallel_degree && degree != *space_.pipeline_parallel_degree) continue;
      for (int64_t count : micro_batch_counts) {
        if (!meter_.Ask()) return;
        if (count > kMaxForwardPassCount / degree) continue;
        const StageTables tables(problem_, costs_, space_, static_cast<int>(degree), count);
        if (!tables.usable()) continue;
        candidates_.push_back({static_cast<int>(degree), count,
                               StepLowerBound(tables, StageBudget(static_cast<int>(degree)))});
      }
    }
    listed_all_ = true;
  }

  void Visit(const Candidate& candidate) {
    if (best_ && candidate.bound >= best_->prediction.step) {
      meter_.Prune(1);
      return;
    }
    const StageTables tables(problem_, costs_, space_, candidate.pipeline_parallel_degree,
                             candidate.micro_batch_count);
    const CandidateOutcome outcome = SearchCandidate(problem_, costs_, tables, meter_, best_);
    smallest_usable_memory_ = std::min(smallest_usable_memory_, outcome.smallest_usable_memory);
    if (meter_.stopped()) return;
    visited_bound_ = std::min(
        visited_bound_, std::max(candidate.bound, outcome.proved_bound.value_or(candidate.bound)));
  }

  // No plan of the space is faster: neither of a candidate visited nor, as
  // they are sorted, of those to come.
  Seconds Bound() const {
    Seconds bound = visited_bound_;
    if (next_ < candidates_.size()) bound = std::min(bound, candidates_[next_].bound);
    if (!listed_all_) bound = Seconds();
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

  // Device memory, in whole MiB, of which `usable` is usable.
  Bytes DeviceMemoryFor(Bytes usable) const {
    constexpr int64_t kMebibyte = int64_t{1} << 20;
    const double share = 1.0 - problem_.rules().memory_headroom_ratio;
    const Bytes reserved = problem_.node_group().reserved_memory;
    const Bytes device = reserved + Bytes::Ceil(usable.as_double() / share);
    int64_t mebibytes = (device.count() + kMebibyte - 1) / kMebibyte;
    // Once more where rounding left it a byte short (PlanningProblem::Create).
    const double available = static_cast<double>(mebibytes * kMebibyte - reserved.count());
    if (std::floor(available * share) < usable.as_double()) ++mebibytes;
    return Bytes::Of(mebibytes * kMebibyte);
  }

  PlanningResult Result() {
    SearchSummary summary = Summary();
    if (best_) return PlanFound{std::move(best_->plan), std::move(best_->prediction), summary};
    if (meter_.stopped()) return StoppedEmpty{summary};
    return NothingFits{.smallest_usable_memory = smallest_usable_memory_,
                       .smallest_device_memory = DeviceMemoryFor(smallest_usable_memory_),
                       .search = summary};
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const SearchSpace& space_;
  const SearchControl& control_;
  SearchMeter meter_;
  std::vector<Candidate> candidates_;
  // False where the search was stopped while it listed them.
  bool listed_all_ = false;
  // Candidates before this one are done.
  size_t next_ = 0;
  std::optional<PredictedPlan> best_;
  Seconds visited_bound_ = Seconds::Infinite();
  Bytes smallest_usable_memory_ = Bytes::Max();
};

}  // namespace

absl::StatusOr<PlanningResult> FindPlan(const PlanningProblem& problem, absl::string_view planner,
                                        const SearchControl& control) {
  PARPLAN_ASSIGN_OR_RETURN(const SearchSpace space, SpaceOfPlanner(planner, problem));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  std::optional<PlanningResult> result = PlanSearch(problem, costs, space, control).Run();
  if (!result) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan,
        absl::StrCat("planner `", planner, "` has no strategy for all layers on ",
                     problem.device_count(),
                     " device(s): degrees must divide devices, heads and "
                     "micro-batch, and stages need a layer each; change the number of devices, "
                     "global_batch_size, the rules or the planner"));
  }
  return *std::move(result);
}

}  // namespace parplan
