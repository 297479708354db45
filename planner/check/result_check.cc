#include "planner/check/result_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"

namespace parplan {
namespace {

// Relative difference of a bound from a step that is rounding, as in the search
// (`kProofTolerance` of planner/search/base/search_numbers.h, which this folder does not include).
constexpr double kResultTolerance = 1e-9;
constexpr int64_t kMebibyte = int64_t{1} << 20;
// Granularity of the smallest memory.
constexpr Bytes kGranule = Bytes::Of(kMebibyte);

absl::Status InconsistentAnswer(const std::string& fact) {
  return MakeError(
      absl::StatusCode::kInternal, Reason::kCheckFailed,
      absl::StrCat("the answer is inconsistent: ", fact, "; report this with the problem"),
      {{"fact", fact}});
}

absl::Status CheckOne(const PlanningProblem& problem, const CostModel& costs, const Plan& plan,
                      const Prediction& prediction) {
  PARPLAN_RETURN_IF_ERROR(CheckPlan(problem, costs, plan, prediction));
  return CheckDeclaredSpace(problem, plan);
}

absl::Status CheckAlternatives(const PlanningProblem& problem, const CostModel& costs,
                               const PlanFound& found) {
  const auto limit = static_cast<size_t>(problem.rules().top_plan_count - 1);
  if (found.alternatives.size() > limit) {
    return InconsistentAnswer(
        absl::StrCat(found.alternatives.size(), " alternatives where the rules allow ", limit));
  }
  std::vector<const PredictedPlan*> rivals;
  const PredictedPlan best{found.plan, found.prediction};
  rivals.push_back(&best);
  for (const PredictedPlan& alternative : found.alternatives) {
    PARPLAN_RETURN_IF_ERROR(CheckOne(problem, costs, alternative.plan, alternative.prediction));
    const bool is_new = std::none_of(
        rivals.begin(), rivals.end(),
        [&alternative](const PredictedPlan* other) { return other->plan == alternative.plan; });
    if (!is_new) return InconsistentAnswer("a plan occurs twice among the alternatives");
    rivals.push_back(&alternative);
  }
  const auto are_sorted = [&rivals](const auto& comes_first) {
    return std::is_sorted(
        rivals.begin(), rivals.end(),
        [&](const PredictedPlan* a, const PredictedPlan* b) { return comes_first(*a, *b); });
  };
  const auto is_smaller = [](const PredictedPlan& a, const PredictedPlan& b) {
    return a.prediction.peak_memory_upper < b.prediction.peak_memory_upper;
  };
  if (const std::optional<double> alpha = problem.rules().ilp_alpha_bytes_per_second) {
    const auto weight = [alpha](const PredictedPlan& plan) {
      return plan.prediction.peak_memory_upper.as_double() + *alpha * plan.prediction.step.value();
    };
    if (are_sorted([&weight](const auto& a, const auto& b) { return weight(a) < weight(b); })) {
      return absl::OkStatus();
    }
    return InconsistentAnswer("alternatives are not in the order of memory and weighted time");
  }
  if (are_sorted(IsBetterPlan) || are_sorted(is_smaller)) return absl::OkStatus();
  return InconsistentAnswer("alternatives are neither fastest nor smallest first");
}

absl::Status CheckFront(const PlanningProblem& problem, const CostModel& costs,
                        const PlanFound& found) {
  const std::vector<PredictedPlan>& front = found.memory_front;
  if (front.empty()) return absl::OkStatus();
  if (!problem.rules().wants_memory_front)
    return InconsistentAnswer("there is a memory front, which the rules do not request");
  if (front.front().plan != found.plan)
    return InconsistentAnswer("the memory front begins with another plan");
  for (size_t i = 0; i < front.size(); ++i) {
    PARPLAN_RETURN_IF_ERROR(CheckOne(problem, costs, front[i].plan, front[i].prediction));
    if (i == 0) continue;
    const bool is_slower =
        front[i].time_per_sample() >= front[i - 1].time_per_sample() * (1.0 - kResultTolerance);
    const bool is_smaller =
        front[i].prediction.peak_memory_upper < front[i - 1].prediction.peak_memory_upper;
    if (!is_slower || !is_smaller) {
      return InconsistentAnswer(
          absl::StrCat("point ", i, " of the memory front is not slower and smaller"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const SearchSummary& search) {
  if (search.expanded_state_count < 0 || search.pruned_state_count < 0 ||
      search.candidate_count < 0) {
    return InconsistentAnswer("a count is negative");
  }
  if (!search.bound.is_finite() || search.bound < Seconds()) {
    return InconsistentAnswer("the bound is no time");
  }
  const bool is_optimal = search.termination == Termination::kOptimal;
  if (is_optimal != (search.limit == SearchLimit::kNone)) {
    return InconsistentAnswer("optimal and stopped by a limit, or neither");
  }
  return absl::OkStatus();
}

// Checks, by sums of its own, that the smallest plan fits in the memory said to be enough, and that
// it needs all of it if less is said not to be enough.
absl::Status CheckSmallestPlan(const PlanningProblem& problem, const NothingFits& nothing,
                               const Plan& plan) {
  const Bytes smallest = nothing.smallest_usable_memory;
  const PlanningProblem larger = problem.WithUsableMemory(smallest);
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(larger));
  PARPLAN_RETURN_IF_ERROR(CheckPlanStructure(larger, plan));
  const Prediction prediction = PredictPlan(larger, costs, plan);
  PARPLAN_RETURN_IF_ERROR(CheckOne(larger, costs, plan, prediction));
  const Bytes needed = prediction.peak_memory_upper;
  if (nothing.memory_is_proved && smallest - needed >= kGranule) {
    return InconsistentAnswer(absl::StrCat(
        smallest.count(), " bytes are said to be the least, but a plan needs ", needed.count()));
  }
  return absl::OkStatus();
}

absl::Status CheckNothingFits(const PlanningProblem& problem, const NothingFits& nothing) {
  PARPLAN_RETURN_IF_ERROR(CheckCounts(nothing.search));
  if (nothing.smallest_usable_memory <= problem.usable_memory()) {
    return InconsistentAnswer(absl::StrCat("nothing fits, but ",
                                           nothing.smallest_usable_memory.count(),
                                           " bytes would do of ", problem.usable_memory().count()));
  }
  const Bytes reserved = problem.node_group(kSearchedGroup).reserved_memory;
  const double share = 1.0 - problem.rules().memory_headroom_ratio;
  const auto usable_of = [&](Bytes device) {
    return std::floor((device - reserved).as_double() * share);
  };
  const Bytes device = nothing.smallest_device_memory;
  const double wanted = nothing.smallest_usable_memory.as_double();
  if (device.count() % kMebibyte != 0 || usable_of(device) < wanted ||
      usable_of(device - Bytes::Of(2 * kMebibyte)) >= wanted) {
    return InconsistentAnswer(absl::StrCat("a device of ", device.count(),
                                           " bytes is not the smallest of whole MiB with ",
                                           nothing.smallest_usable_memory.count(), " usable"));
  }
  if (nothing.smallest_plan.has_value()) {
    PARPLAN_RETURN_IF_ERROR(CheckSmallestPlan(problem, nothing, *nothing.smallest_plan));
  }
  if (!nothing.smallest_device_count.has_value()) return absl::OkStatus();
  const int64_t count = *nothing.smallest_device_count;
  const int64_t present = problem.device_count();
  const int64_t a_node = problem.node_group(kSearchedGroup).devices_per_node;
  if (count < a_node || count == present || count % a_node != 0 ||
      count > present + a_node * kMaxNodesTried) {
    return InconsistentAnswer(
        absl::StrCat(count, " devices are no other number of whole nodes than ", present));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSearchSummary(const SearchSummary& search, Seconds step) {
  PARPLAN_RETURN_IF_ERROR(CheckCounts(search));
  if (search.bound > step * (1.0 + kResultTolerance)) {
    return InconsistentAnswer(absl::StrFormat("the bound of %.12g s is above the step of %.12g s",
                                              search.bound.value(), step.value()));
  }
  const double gap = std::max(0.0, (step - search.bound) / step);
  if (std::abs(search.gap_ratio - gap) > kResultTolerance) {
    return InconsistentAnswer(
        absl::StrFormat("the gap is given as %.9g, recomputed as %.9g", search.gap_ratio, gap));
  }
  if (search.termination == Termination::kOptimal &&
      gap > kResultTolerance * (1.0 + kResultTolerance)) {
    return InconsistentAnswer(absl::StrFormat("optimal with a gap of %.9g", gap));
  }
  return absl::OkStatus();
}

absl::Status CheckResult(const PlanningProblem& problem, const PlanningResult& result) {
  if (const auto* nothing = std::get_if<NothingFits>(&result)) {
    return CheckNothingFits(problem, *nothing);
  }
  if (const auto* stopped = std::get_if<StoppedEmpty>(&result)) {
    PARPLAN_RETURN_IF_ERROR(CheckCounts(stopped->search));
    const bool has_limit = stopped->search.limit != SearchLimit::kNone;
    return has_limit ? absl::OkStatus() : InconsistentAnswer("stopped by no limit");
  }
  const auto& found = std::get<PlanFound>(result);
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  PARPLAN_RETURN_IF_ERROR(CheckOne(problem, costs, found.plan, found.prediction));
  PARPLAN_RETURN_IF_ERROR(CheckSearchSummary(found.search, found.prediction.step));
  PARPLAN_RETURN_IF_ERROR(CheckAlternatives(problem, costs, found));
  return CheckFront(problem, costs, found);
}

}  // namespace parplan
