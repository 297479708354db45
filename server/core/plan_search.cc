#include "server/core/plan_search.h"

#include <atomic>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/memory_account.h"
#include "planner/worth/robust_plan.h"
#include "solve/compare_planners.h"

namespace parplan {
namespace {

SearchOutcome OutcomeOf(const PlanningResult& result) {
  if (std::holds_alternative<NothingFits>(result)) return SearchOutcome::kNothingFits;
  if (std::holds_alternative<StoppedEmpty>(result)) return SearchOutcome::kStoppedEmpty;
  return SummaryOf(result).termination == Termination::kOptimal ? SearchOutcome::kOptimal
                                                                : SearchOutcome::kFeasible;
}

void Report(const std::string& planner, const FinishedSearch& search, absl::Duration queue_duration,
            Observer& observer) {
  SearchReport report;
  report.planner = planner;
  report.outcome = search.check_failed  ? SearchOutcome::kCheckFailed
                   : search.result.ok() ? OutcomeOf(*search.result)
                                        : SearchOutcome::kRefused;
  report.expanded_state_count = search.expanded_state_count;
  report.queue_duration = queue_duration;
  report.wall_duration = search.wall;
  report.cpu_duration = search.cpu;
  observer.SearchFinished(report);
}

std::string MemoryText(const MemoryAccount& memory) {
  return absl::StrCat("the search ended with the ", memory.budget() >> 20,
                      " MiB of memory that the server gives one (search_memory)");
}

absl::Status OutOfMemoryError(const MemoryAccount& memory) {
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kSearchOutOfMemory,
                   absl::StrCat(MemoryText(memory),
                                ", before a plan was found; ask for fewer "
                                "devices or a baseline planner, or let an operator raise "
                                "search_memory"),
                   {{"field", "search_memory"}, {"limitBytes", absl::StrCat(memory.budget())}});
}

absl::Status StoppedError(const SearchSummary& summary) {
  if (summary.limit == SearchLimit::kMethod) return MethodEndedError();
  if (summary.limit == SearchLimit::kStates) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
                     "options.max_state_count ended the search before a plan was found; raise it");
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
                   "the time was over before a plan was found; ask again with a longer deadline "
                   "and options.search_time_limit, or ask a baseline planner");
}

size_t BytesOf(const Plan& plan, const Prediction& prediction) {
  size_t bytes = sizeof(PredictedPlan);
  for (const StagePlan& stage : plan.stages) {
    bytes += sizeof(stage) + stage.layer_runs.size() * sizeof(StageLayerRun);
  }
  bytes += prediction.stages.size() * sizeof(StagePrediction);
  bytes += prediction.bottleneck_text.size() + prediction.range_basis.size();
  for (const std::string& item : prediction.estimated_items)
    bytes += sizeof(std::string) + item.size();
  return bytes;
}

// `ExecuteOrder`, but for exceptions.
absl::StatusOr<PlannerAnswer> Execute(const PlannerFunction& planner,
                                      const PlanningProblem& problem, const SearchOrder& order,
                                      const Clock& clock, Observer& observer) {
  const absl::Duration end = clock.Steady() + order.time_limit;
  SearchLimits limits;
  limits.max_state_count = order.max_state_count;
  limits.wanted_gap_ratio = order.wanted_gap_ratio;
  limits.time_limit = order.time_limit;
  SearchSetup setup;
  const MemoryAccount* const memory = MemoryAccount::OfThread();
  std::atomic<bool> is_out_of_memory = false;
  setup.should_stop = [&order, &is_out_of_memory, memory] {
    if (memory != nullptr && memory->IsUsedUp()) is_out_of_memory = true;
    return is_out_of_memory || (order.should_stop && order.should_stop());
  };
  setup.on_progress = order.on_progress;
  setup.helpers = order.helpers;
  FinishedSearch search = RunSearch(planner, problem, order.planner, limits, setup, clock);
  Report(order.planner, search, order.queue_duration, observer);
  if (!search.result.ok()) return search.result.status();
  const bool was_out_of_memory = is_out_of_memory.exchange(false);

  const SearchSummary summary = SummaryOf(*search.result);
  bool is_complete = IsComplete(summary) && search.left_out_plan_count == 0;
  std::vector<v1::PlannerComparison> comparisons;
  // Baselines stand beside a plan: without one there is nothing to compare them with.
  if (order.compare_baselines && std::holds_alternative<PlanFound>(*search.result)) {
    setup.on_progress = nullptr;
    const auto run_baseline = [&](const PlanningProblem& asked, const std::string& name) {
      limits.time_limit = end - clock.Steady();
      if (limits.time_limit <= absl::ZeroDuration()) {
        is_complete = false;
        return absl::StatusOr<PlanningResult>(StoppedEmpty{{.limit = SearchLimit::kTime}});
      }
      is_out_of_memory = false;
      try {
        FinishedSearch baseline = RunSearch(planner, asked, name, limits, setup, clock);
        Report(name, baseline, absl::ZeroDuration(), observer);
        if (baseline.result.ok()) {
          is_complete = is_complete && IsComplete(SummaryOf(*baseline.result));
        }
        return std::move(baseline.result);
      } catch (const std::bad_alloc&) {
        // The plan of the question is there.
        is_complete = false;
        return absl::StatusOr<PlanningResult>(StoppedEmpty{{.limit = SearchLimit::kMemory}});
      }
    };
    PARPLAN_ASSIGN_OR_RETURN(
        comparisons, CompareWithBaselines(problem, order.planner, *search.result, run_baseline));
  }
  if (PlanFound* found = std::get_if<PlanFound>(&*search.result)) {
    if (was_out_of_memory) {
      found->notes.push_back(MemoryText(*memory));
      // The planner only learns that it must end.
      if (summary.limit == SearchLimit::kTime) found->search.limit = SearchLimit::kMemory;
    }
    if (order.robust_alternative_count.has_value()) {
      *found = WithRobustPlan(std::move(*found), *order.robust_alternative_count);
    }
    return PlannerAnswer{
        SearchedPlan{std::move(*found), std::move(comparisons), search.cpu, search.wall},
        is_complete};
  }
  if (NothingFits* nothing = std::get_if<NothingFits>(&*search.result)) {
    return PlannerAnswer{std::move(*nothing), is_complete};
  }
  return was_out_of_memory ? OutOfMemoryError(*memory) : StoppedError(summary);
}

}  // namespace

absl::StatusOr<PlannerAnswer> ExecuteOrder(const PlannerFunction& planner,
                                           const PlanningProblem& problem, const SearchOrder& order,
                                           const Clock& clock, Observer& observer) {
  const MemoryAccount* const memory = MemoryAccount::OfThread();
  try {
    return Execute(planner, problem, order, clock, observer);
  } catch (const std::bad_alloc&) {
    const MemoryAccount::Scope uncounted(nullptr);  // A planner's library may not have freed all.
    // The planner took more between two questions than the account has above its budget, or the
    // system has none.
    if (memory != nullptr) return OutOfMemoryError(*memory);
    return absl::ResourceExhaustedError("the server has no memory for the search; ask again");
  } catch (const std::exception& error) {
    const MemoryAccount::Scope uncounted(nullptr);
    return absl::InternalError(
        absl::StrCat("the search failed: ", error.what(), "; report it with the question"));
  }
}

size_t AnswerBytes(const PlannerAnswer& answer) {
  if (const auto* issued = std::get_if<IssuedPlan>(&answer.result)) {
    return sizeof(PlannerAnswer) + issued->plan->SpaceUsedLong();
  }
  const auto* const searched = std::get_if<SearchedPlan>(&answer.result);
  if (searched == nullptr) return sizeof(PlannerAnswer);
  const PlanFound& found = searched->found;
  size_t bytes = sizeof(PlannerAnswer) + BytesOf(found.plan, found.prediction);
  for (const v1::PlannerComparison& comparison : searched->comparisons) {
    bytes += comparison.SpaceUsedLong();
  }
  for (const PredictedPlan& rival : found.alternatives) {
    bytes += BytesOf(rival.plan, rival.prediction);
  }
  for (const PredictedPlan& rival : found.memory_front) {
    bytes += BytesOf(rival.plan, rival.prediction);
  }
  for (const std::string& note : found.notes) bytes += sizeof(std::string) + note.size();
  return bytes;
}

}  // namespace parplan
