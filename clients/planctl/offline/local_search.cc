#include "clients/planctl/offline/local_search.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/worker_threads.h"
#include "clients/report/html.h"
#include "planner/check/result_check.h"
#include "planner/find_plan.h"
#include "proto/wire/duration_wire.h"

namespace parplan::planctl {
namespace {

// Wall and processor time since it was made.
class Stopwatch {
 public:
  Seconds wall() const {
    return Seconds::Of(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_).count());
  }
  Seconds cpu() const {
    return Seconds::Of(static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC);
  }

 private:
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  std::clock_t cpu_ = std::clock();
};

v1::SearchProgress ProgressToProto(const SearchProgress& progress) {
  v1::SearchProgress message;
  message.set_done_candidate_count(progress.done_candidate_count);
  message.set_total_candidate_count(progress.total_candidate_count);
  *message.mutable_step_duration_bound() = DurationToProto(progress.bound);
  message.set_gap_ratio(1.0);
  if (progress.incumbent.has_value()) {
    *message.mutable_incumbent_step_duration() = DurationToProto(*progress.incumbent);
    message.set_gap_ratio((*progress.incumbent - progress.bound) / *progress.incumbent);
  }
  message.set_expanded_state_count(progress.expanded_state_count);
  return message;
}

SearchSummary& SummaryOf(PlanningResult& result) {
  return std::visit([](auto& value) -> SearchSummary& { return value.search; }, result);
}

}  // namespace

absl::StatusOr<LocalSearch> SearchHere(const PlanningProblem& problem, const std::string& planner,
                                       const PlanningOptions& options, const SearchWatch& watch) {
  const Stopwatch stopwatch;
  const Seconds limit = options.search_time_limit.has_value()
                            ? Seconds::Of(absl::ToDoubleSeconds(*options.search_time_limit))
                            : Seconds::Infinite();
  WorkerThreads helpers(std::max(watch.thread_count, 1) - 1);
  SearchControl control;
  control.max_state_count = options.max_state_count;
  control.should_stop = [&stopwatch, &watch, limit] {
    return stopwatch.wall() >= limit || (watch.is_cancelled && watch.is_cancelled());
  };
  if (watch.on_progress) {
    control.on_progress = [&watch](const SearchProgress& progress) {
      watch.on_progress(ProgressToProto(progress));
    };
  }
  if (helpers.helper_count() > 0) {
    control.parallel_for = [&helpers](int64_t count, const std::function<void(int64_t)>& work) {
      helpers.Run(count, work);
    };
  }
  PARPLAN_ASSIGN_OR_RETURN(PlanningResult result, FindPlan(problem, planner, control));
  LocalSearch search = {std::move(result), stopwatch.cpu(), stopwatch.wall()};
  // The planner is told only that it must end.
  SearchSummary& summary = SummaryOf(search.result);
  if (summary.limit == SearchLimit::kTime && watch.is_cancelled && watch.is_cancelled()) {
    summary.limit = SearchLimit::kCancelled;
  }
  PARPLAN_RETURN_IF_ERROR(CheckResult(problem, search.result));
  return search;
}

absl::Status NothingFitsError(const PlanningProblem& problem, const std::string& planner,
                              const NothingFits& nothing) {
  const Bytes smallest = nothing.smallest_device_memory;
  std::string text = absl::StrCat(
      "no plan of `", planner, "` fits in ", report::Size(problem.usable_memory()),
      " usable per device; devices with ", report::Size(smallest), " (", smallest.count(),
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
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan, text,
                   std::move(metadata));
}

absl::Status StoppedEmptyError(const SearchSummary& search) {
  return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
                   search.limit == SearchLimit::kCancelled
                       ? "the search was interrupted before any plan was found"
                       : "the limit ended the search before any plan was found; raise "
                         "--time-limit or --max-states");
}

}  // namespace parplan::planctl
