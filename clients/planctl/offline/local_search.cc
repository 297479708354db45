#include "clients/planctl/offline/local_search.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/system/worker_threads.h"
#include "planner/find_plan.h"
#include "solve/run_search.h"

namespace parplan::planctl {
namespace {

Seconds ToSeconds(absl::Duration duration) { return Seconds::Of(absl::ToDoubleSeconds(duration)); }

// Reports a search that the user interrupted as such: a planner only learns that it must end.
void MarkCancelled(const SearchWatch& watch, PlanningResult& result) {
  if (!watch.is_cancelled || !watch.is_cancelled()) return;
  std::visit(
      [](auto& value) {
        if (value.search.limit == SearchLimit::kTime) value.search.limit = SearchLimit::kCancelled;
      },
      result);
}

}  // namespace

absl::StatusOr<LocalSearch> SearchHere(const PlanningProblem& problem, const std::string& planner,
                                       const PlanningOptions& options, const SearchWatch& watch) {
  WorkerThreads helpers(std::max(watch.thread_count, 1) - 1);
  SearchLimits limits;
  limits.max_state_count = options.max_state_count;
  limits.wanted_gap_ratio = options.wanted_gap_ratio;
  limits.time_limit = options.search_time_limit.value_or(absl::InfiniteDuration());
  if (watch.time != nullptr) {
    const std::optional<absl::Duration> next = watch.time->Next();
    if (!next.has_value()) return LocalSearch{StoppedEmpty{{.limit = SearchLimit::kTime}}, {}, {}};
    limits.time_limit = *next;
  }
  SearchSetup setup;
  setup.should_stop = watch.is_cancelled;
  setup.on_progress = watch.on_progress;
  setup.helpers = &helpers;
  FinishedSearch search = RunSearch(&FindPlan, problem, planner, limits, setup, Clock::Real());
  if (!search.result.ok()) return search.result.status();
  MarkCancelled(watch, *search.result);
  return LocalSearch{*std::move(search.result), ToSeconds(search.cpu), ToSeconds(search.wall)};
}

absl::Status StoppedEmptyError(const SearchSummary& search) {
  if (search.limit == SearchLimit::kMethod) return MethodEndedError();
  return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
                   search.limit == SearchLimit::kCancelled
                       ? "the search was interrupted before any plan was found"
                       : "the limit ended the search before any plan was found; raise "
                         "--time-limit or --max-states");
}

}  // namespace parplan::planctl
