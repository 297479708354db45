#include "server/core/plan_search.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/check/result_check.h"
#include "proto/wire/comparison_wire.h"
#include "proto/wire/duration_wire.h"

namespace parplan {
namespace {

const SearchSummary& SummaryOf(const PlanningResult& result) {
  return std::visit([](const auto& value) -> const SearchSummary& { return value.search; }, result);
}

SearchOutcome OutcomeOf(const PlanningResult& result) {
  if (std::holds_alternative<NothingFits>(result)) return SearchOutcome::kNothingFits;
  if (std::holds_alternative<StoppedEmpty>(result)) return SearchOutcome::kStoppedEmpty;
  return SummaryOf(result).termination == Termination::kOptimal ? SearchOutcome::kOptimal
                                                                : SearchOutcome::kFeasible;
}

bool IsComplete(const SearchSummary& summary) {
  return summary.termination == Termination::kOptimal || summary.limit == SearchLimit::kNone ||
         summary.limit == SearchLimit::kMethod;
}

v1::SearchProgress ProgressToProto(const SearchProgress& progress) {
  v1::SearchProgress message;
  message.set_done_candidate_count(progress.done_candidate_count);
  message.set_total_candidate_count(progress.total_candidate_count);
  message.set_expanded_state_count(progress.expanded_state_count);
  *message.mutable_step_duration_bound() = DurationToProto(progress.bound);
  message.set_gap_ratio(1.0);
  if (progress.incumbent.has_value()) {
    *message.mutable_incumbent_step_duration() = DurationToProto(*progress.incumbent);
    message.set_gap_ratio((*progress.incumbent - progress.bound) / *progress.incumbent);
  }
  return message;
}

// A finished run of one planner and its clocks.
struct Run {
  absl::StatusOr<PlanningResult> result;
  absl::Duration cpu;
  absl::Duration wall;
};

// Runs one planner, checks what it answered, and tells the observer.
Run RunPlanner(const PlannerFunction& planner, const std::string& name,
               const PlanningProblem& problem, SearchControl control, WorkerThreads* helpers,
               absl::Duration queue_duration, const Clock& clock, Observer& observer) {
  // Of the helpers.
  std::atomic<int64_t> helped_nanoseconds = 0;
  if (helpers != nullptr && helpers->helper_count() > 0) {
    control.parallel_for = [helpers, &helped_nanoseconds](
                               int64_t count, const std::function<void(int64_t)>& work) {
      helped_nanoseconds += absl::ToInt64Nanoseconds(helpers->Run(count, work));
    };
  }
  const absl::Duration wall_start = clock.Steady();
  const absl::Duration cpu_start = ThreadCpuTime();
  Run run{planner(problem, name, control), absl::ZeroDuration(), absl::ZeroDuration()};
  run.cpu = ThreadCpuTime() - cpu_start + absl::Nanoseconds(helped_nanoseconds.load());
  run.wall = clock.Steady() - wall_start;

  SearchReport report;
  report.planner = name;
  report.outcome = run.result.ok() ? OutcomeOf(*run.result) : SearchOutcome::kRefused;
  if (run.result.ok()) {
    report.expanded_state_count = SummaryOf(*run.result).expanded_state_count;
    if (absl::Status checked = CheckResult(problem, *run.result); !checked.ok()) {
      report.outcome = SearchOutcome::kCheckFailed;
      run.result = std::move(checked);
    }
  }
  report.queue_duration = queue_duration;
  report.wall_duration = run.wall;
  report.cpu_duration = run.cpu;
  observer.SearchFinished(report);
  return run;
}

absl::Status StoppedError(const SearchSummary& summary) {
  if (summary.limit == SearchLimit::kStates) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
                     "options.max_state_count ended the search before a plan was found; raise it");
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
                   "the time was over before a plan was found; ask again with a longer deadline "
                   "and options.search_time_limit, or ask a baseline planner");
}

// Whether a planner has no plan of its kind, whatever the memory.
bool HasNoCandidates(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() && detail->reason == Reason::kNoFeasiblePlan;
}

// A comparison for every baseline but the planner asked. One without any plan of
// its kind (pure tensor parallelism over more devices than heads) is a row too.
// `is_complete` becomes false when a limit ended one of them.
absl::StatusOr<std::vector<v1::PlannerComparison>> RunBaselines(
    const PlannerFunction& planner, const PlanningProblem& problem, const SearchOrder& order,
    const SearchControl& control, const Clock& clock, Observer& observer, bool* is_complete) {
  std::vector<v1::PlannerComparison> comparisons;
  for (const std::string& name : BaselineNames()) {
    if (name == order.planner) continue;
    const PlanningProblem of_one_plan = problem.WithRules(RulesForOnePlan(problem.rules(), name));
    const Run run = RunPlanner(planner, name, of_one_plan, control, order.helpers,
                               absl::ZeroDuration(), clock, observer);
    if (HasNoCandidates(run.result.status())) {
      comparisons.emplace_back().set_planner(name);
      continue;
    }
    if (!run.result.ok()) return run.result.status();
    if (!IsComplete(SummaryOf(*run.result))) *is_complete = false;
    comparisons.push_back(ComparisonToProto(name, *run.result));
  }
  return comparisons;
}

// In the order of `PlannerNames()`.
void SortByPlanner(std::vector<v1::PlannerComparison>* comparisons) {
  const std::vector<std::string>& names = PlannerNames();
  const auto position = [&names](const v1::PlannerComparison& comparison) {
    return std::find(names.begin(), names.end(), comparison.planner()) - names.begin();
  };
  std::stable_sort(comparisons->begin(), comparisons->end(),
                   [&position](const auto& a, const auto& b) { return position(a) < position(b); });
}

size_t BytesOf(const Plan& plan, const Prediction& prediction) {
  size_t bytes = sizeof(PredictedPlan);
  for (const StagePlan& stage : plan.stages) {
    bytes += sizeof(stage) + stage.layer_runs.size() * sizeof(StageLayerRun);
  }
  bytes += prediction.stages.size() * sizeof(StagePrediction);
  bytes += prediction.bottleneck_text.size() + prediction.range_basis.size();
  for (const std::string& item : prediction.estimated_items) bytes += sizeof(item) + item.size();
  return bytes;
}

}  // namespace

absl::StatusOr<PlannerAnswer> RunSearch(const PlannerFunction& planner,
                                        const PlanningProblem& problem, const SearchOrder& order,
                                        const Clock& clock, Observer& observer) {
  const absl::Duration end = clock.Steady() + order.time_limit;
  SearchControl control;
  control.max_state_count = order.max_state_count;
  control.should_stop = [&order, &clock, end] {
    return clock.Steady() >= end || (order.should_stop && order.should_stop());
  };
  if (order.on_progress) {
    control.on_progress = [&order](const SearchProgress& progress) {
      order.on_progress(ProgressToProto(progress));
    };
  }
  Run run = RunPlanner(planner, order.planner, problem, control, order.helpers,
                       order.queue_duration, clock, observer);
  if (!run.result.ok()) return run.result.status();

  const SearchSummary summary = SummaryOf(*run.result);
  PlannerAnswer answer;
  answer.cpu_duration = run.cpu;
  answer.wall_duration = run.wall;
  answer.is_complete = IsComplete(summary);
  if (order.compare_baselines) {
    control.on_progress = nullptr;
    PARPLAN_ASSIGN_OR_RETURN(
        const std::vector<v1::PlannerComparison> baselines,
        RunBaselines(planner, problem, order, control, clock, observer, &answer.is_complete));
    answer.comparisons.push_back(ComparisonToProto(order.planner, *run.result));
    answer.comparisons.insert(answer.comparisons.end(), baselines.begin(), baselines.end());
    SortByPlanner(&answer.comparisons);
  }
  if (PlanFound* found = std::get_if<PlanFound>(&*run.result)) {
    answer.result = std::move(*found);
  } else if (NothingFits* nothing = std::get_if<NothingFits>(&*run.result)) {
    answer.result = std::move(*nothing);
  } else {
    return StoppedError(summary);
  }
  return answer;
}

absl::Status NothingFitsError(const PlanningProblem& problem, const NothingFits& nothing) {
  const int64_t needed = nothing.smallest_device_memory.count();
  const int64_t usable = problem.usable_memory().count();
  std::map<std::string, std::string> metadata = {
      {"smallestDeviceMemoryBytes", absl::StrCat(needed)},
      {"usableMemoryBytes", absl::StrCat(usable)},
      {"memoryIsProved", nothing.memory_is_proved ? "true" : "false"}};
  std::string more_devices = "more of them";
  if (nothing.smallest_device_count.has_value()) {
    more_devices = absl::StrCat("at least ", *nothing.smallest_device_count, " of these");
    metadata["smallestDeviceCount"] = absl::StrCat(*nothing.smallest_device_count);
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan,
      absl::StrFormat("no plan fits in the %.1f GB a device may hold; use devices of at least "
                      "%.1f GB (%d bytes), %s, or a smaller global_batch_size",
                      static_cast<double>(usable) * 1e-9, static_cast<double>(needed) * 1e-9,
                      needed, more_devices),
      std::move(metadata));
}

size_t AnswerBytes(const PlannerAnswer& answer) {
  size_t bytes = sizeof(PlannerAnswer);
  if (answer.issued != nullptr) bytes += answer.issued->SpaceUsedLong();
  for (const v1::PlannerComparison& comparison : answer.comparisons) {
    bytes += comparison.SpaceUsedLong();
  }
  if (const PlanFound* found = std::get_if<PlanFound>(&answer.result)) {
    bytes += BytesOf(found->plan, found->prediction);
    for (const PredictedPlan& rival : found->alternatives) {
      bytes += BytesOf(rival.plan, rival.prediction);
    }
    for (const PredictedPlan& rival : found->memory_front) {
      bytes += BytesOf(rival.plan, rival.prediction);
    }
    for (const std::string& note : found->notes) bytes += sizeof(note) + note.size();
  }
  return bytes;
}

}  // namespace parplan
