#include "solve/run_search.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/quantity_text.h"
#include "planner/check/result_check.h"
#include "proto/wire/duration_wire.h"

namespace parplan {
namespace {

// The part of the time of a search for several plans that is kept for their checks. Each check of
// a plan of a thousand unlike layers takes about 10 ms, so that a limit of 2 s has time for about
// 20 of them, and a question of usual size for all.
constexpr double kShareForChecks = 0.1;

// The largest part of the time that is kept for what takes as long after a search as before it.
constexpr double kShareForCheck = 0.25;

bool GivesSeveralPlans(const PlanningRules& rules) {
  return rules.top_plan_count > 1 || rules.wants_memory_front;
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

}  // namespace

FinishedSearch RunSearch(const PlannerFunction& planner, const PlanningProblem& problem,
                         const std::string& planner_name, const SearchLimits& limits,
                         const SearchSetup& setup, const Clock& clock) {
  const absl::Duration start = clock.Steady();
  const absl::Duration end = start + limits.time_limit;
  std::atomic<int64_t> helper_cpu_nanoseconds = 0;
  SearchControl control;
  control.max_state_count = limits.max_state_count;
  control.wanted_gap_ratio = limits.wanted_gap_ratio;
  const absl::Duration search_end =
      GivesSeveralPlans(problem.rules()) ? end - kShareForChecks * limits.time_limit : end;
  // A planner first prices the layers of the problem, and asks for no time meanwhile. The check of
  // its plan does so again, so as much of the limit is kept for it: 0.1 s for a thousand unlike
  // layers.
  const absl::Duration cpu_start = ThreadCpuTime();
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int64_t> kept_nanoseconds = -1;
  control.should_stop = [&setup, &clock, &limits, &kept_nanoseconds, search_end, end, cpu_start,
                         caller] {
    int64_t kept = kept_nanoseconds.load(std::memory_order_relaxed);
    if (kept < 0 && std::this_thread::get_id() == caller) {
      kept = absl::ToInt64Nanoseconds(
          std::min(ThreadCpuTime() - cpu_start, kShareForCheck * limits.time_limit));
      kept = std::max<int64_t>(kept, 0);
      kept_nanoseconds = kept;
    }
    const absl::Duration kept_time = absl::Nanoseconds(std::max<int64_t>(kept, 0));
    return clock.Steady() >= std::min(search_end, end - kept_time) ||
           (setup.should_stop && setup.should_stop());
  };
  if (setup.on_progress) {
    control.on_progress = [&setup](const SearchProgress& progress) {
      setup.on_progress(ProgressToProto(progress));
    };
  }
  if (setup.helpers != nullptr && setup.helpers->helper_count() > 0) {
    control.parallel_for = [&setup, &helper_cpu_nanoseconds](
                               int64_t count, const std::function<void(int64_t)>& work) {
      helper_cpu_nanoseconds += absl::ToInt64Nanoseconds(setup.helpers->Run(count, work));
    };
  }
  FinishedSearch search{.result = planner(problem, planner_name, control)};
  search.cpu = ThreadCpuTime() - cpu_start + absl::Nanoseconds(helper_cpu_nanoseconds.load());
  search.wall = clock.Steady() - start;
  if (!search.result.ok()) return search;
  search.expanded_state_count = SummaryOf(*search.result).expanded_state_count;
  const absl::StatusOr<int> left_out = CheckResultInTime(
      problem, [&clock, end] { return clock.Steady() >= end; }, *search.result);
  if (left_out.ok()) {
    search.left_out_plan_count = *left_out;
  } else {
    search.check_failed = true;
    search.result = left_out.status();
  }
  return search;
}

const SearchSummary& SummaryOf(const PlanningResult& result) {
  return std::visit([](const auto& value) -> const SearchSummary& { return value.search; }, result);
}

bool IsComplete(const SearchSummary& summary) {
  return summary.termination == Termination::kOptimal || summary.limit == SearchLimit::kNone ||
         summary.limit == SearchLimit::kMethod || summary.limit == SearchLimit::kGap;
}

absl::Status NothingFitsError(const PlanningProblem& problem, absl::string_view planner_name,
                              const NothingFits& nothing) {
  const Bytes smallest = nothing.smallest_device_memory;
  std::string text = absl::StrCat(
      "no plan of `", planner_name, "` fits in ", SizeText(problem.usable_memory()),
      " usable per device; devices with ", SizeText(smallest), " (", smallest.count(),
      " bytes) would do", nothing.memory_is_proved ? ", and no smaller ones (proved)" : "");
  std::map<std::string, std::string> metadata = {
      {"smallestDeviceMemoryBytes", absl::StrCat(smallest.count())},
      {"usableMemoryBytes", absl::StrCat(problem.usable_memory().count())},
      {"memoryIsProved", nothing.memory_is_proved ? "true" : "false"}};
  if (nothing.smallest_device_count.has_value()) {
    const int count = *nothing.smallest_device_count;
    absl::StrAppend(&text, "; so would ", count, " of these devices instead of ",
                    problem.device_count(), ", and no fewer (proved)");
    metadata["smallestDeviceCount"] = absl::StrCat(count);
  }
  absl::StrAppend(&text,
                  nothing.smallest_device_count.has_value() ? ". Or use" : ". Use more devices,",
                  " a smaller batch, or another planner");
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan, text, metadata);
}

absl::Status MethodEndedError() {
  return MakeError(
      absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
      "the planner's own method ended before a plan was found, which does not prove that "
      "there is none; ask for another schedule, space or planner, or more memory");
}

bool HasNoCandidates(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() && detail->reason == Reason::kNoFeasiblePlan;
}

}  // namespace parplan
