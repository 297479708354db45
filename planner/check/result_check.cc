#include "planner/check/result_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
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

// Checks what alternatives are to each other, not each by itself.
absl::Status CheckAlternatives(const PlanningProblem& problem, const PlanFound& found) {
  const auto limit = static_cast<size_t>(problem.rules().top_plan_count - 1);
  if (found.alternatives.size() > limit) {
    return InconsistentAnswer(
        absl::StrCat(found.alternatives.size(), " alternatives where the rules allow ", limit));
  }
  std::vector<const PredictedPlan*> rivals;
  const PredictedPlan best{found.plan, found.prediction};
  rivals.push_back(&best);
  for (const PredictedPlan& alternative : found.alternatives) {
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

// Checks what the points of a front are to each other, not each by itself.
absl::Status CheckFront(const PlanningProblem& problem, const PlanFound& found) {
  const std::vector<PredictedPlan>& front = found.memory_front;
  if (front.empty()) return absl::OkStatus();
  if (!problem.rules().wants_memory_front)
    return InconsistentAnswer("there is a memory front, which the rules do not request");
  if (front.front().plan != found.plan)
    return InconsistentAnswer("the memory front begins with another plan");
  for (size_t i = 1; i < front.size(); ++i) {
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

absl::Status CheckNoPlan(const PlanningProblem& problem, const PlanningResult& result) {
  if (const auto* nothing = std::get_if<NothingFits>(&result)) {
    return CheckNothingFits(problem, *nothing);
  }
  const auto& stopped = std::get<StoppedEmpty>(result);
  PARPLAN_RETURN_IF_ERROR(CheckCounts(stopped.search));
  const bool has_limit = stopped.search.limit != SearchLimit::kNone;
  return has_limit ? absl::OkStatus() : InconsistentAnswer("stopped by no limit");
}

// The numbers of plans of an answer that were checked.
struct PlansChecked {
  size_t alternatives = 0;
  size_t front = 0;
};

// Checks the lists of plans as wholes, which takes no time, and the plan with its summary; then
// each alternative and each point of the front by itself, until `should_stop` returns true, if it
// is set.
absl::StatusOr<PlansChecked> CheckPlans(const PlanningProblem& problem, const PlanFound& found,
                                        const std::function<bool()>& should_stop) {
  PARPLAN_RETURN_IF_ERROR(CheckAlternatives(problem, found));
  PARPLAN_RETURN_IF_ERROR(CheckFront(problem, found));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  PARPLAN_RETURN_IF_ERROR(CheckOne(problem, costs, found.plan, found.prediction));
  PARPLAN_RETURN_IF_ERROR(CheckSearchSummary(found.search, found.prediction.step));
  PlansChecked checked;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (const auto& [plans, count] : {std::pair(&found.alternatives, &checked.alternatives),
                                       std::pair(&found.memory_front, &checked.front)}) {
      if (*count == plans->size()) continue;
      if (should_stop && should_stop()) return checked;
      const PredictedPlan& next = (*plans)[(*count)++];
      PARPLAN_RETURN_IF_ERROR(CheckOne(problem, costs, next.plan, next.prediction));
      goes_on = true;
    }
  }
  return checked;
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
  if (!std::holds_alternative<PlanFound>(result)) return CheckNoPlan(problem, result);
  const auto& found = std::get<PlanFound>(result);
  return CheckPlans(problem, found, /*should_stop=*/nullptr).status();
}

absl::StatusOr<int> CheckResultInTime(const PlanningProblem& problem,
                                      const std::function<bool()>& should_stop,
                                      PlanningResult& result) {
  auto* const found = std::get_if<PlanFound>(&result);
  if (found == nullptr) {
    PARPLAN_RETURN_IF_ERROR(CheckNoPlan(problem, result));
    return 0;
  }
  PARPLAN_ASSIGN_OR_RETURN(const PlansChecked checked, CheckPlans(problem, *found, should_stop));
  const size_t alternatives = found->alternatives.size() - checked.alternatives;
  const size_t points = found->memory_front.size() - checked.front;
  if (alternatives + points == 0) return 0;
  found->notes.push_back(absl::StrFormat(
      "left out, since the time was over before they were checked: %d of %d alternatives, %d of %d "
      "plans of the memory front",
      alternatives, found->alternatives.size(), points, found->memory_front.size()));
  found->alternatives.resize(checked.alternatives);
  found->memory_front.resize(checked.front);
  return static_cast<int>(alternatives + points);
}

}  // namespace parplan
