// What is predicted of the stages of an execution, and what its windows come to.

#ifndef PARPLAN_SERVER_CORE_EXECUTION_FIGURES_H_
#define PARPLAN_SERVER_CORE_EXECUTION_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/plan.pb.h"
#include "server/core/observer.h"
#include "server/store/records.h"

namespace parplan {

// The predicted half of `ExecutionStage`, one for each entry of the payload's
// `Prediction.stages`. The phases of a stage add up to the step: what neither works,
// synchronises nor waits for other stages is idle.
std::vector<v1::ExecutionStage> PredictedStages(const v1::PlanPayload& payload);

// Plain data.
struct ExecutionFigures {
  // Of all windows; absent while there is none, or none that tells memory.
  std::optional<absl::Duration> median_step;
  std::optional<int64_t> peak_memory_bytes;
  // The measured half, one for every stage asked for.
  std::vector<v1::ExecutionStage> stages;

  // What it holds, for caches.
  size_t SizeBytes() const;
};

// For the stages of `execution`, which may have none. Windows of ranks outside them
// count for the whole only. DATA_LOSS (STORE_UNAVAILABLE) for a damaged window.
absl::StatusOr<ExecutionFigures> FiguresOfWindows(absl::Span<const WindowRecord> windows,
                                                  const v1::Execution& execution);

// Tells the ratios of measured to predicted but that of the step, of an execution of the
// cluster. Phases and items below 1 % of the step or the peak have none: their ratios say
// nothing.
void TellRatios(const v1::Execution& execution, absl::string_view cluster, Observer& observer);

// Sets what was measured beside what was predicted in `execution`, ratios included.
void AddFigures(const ExecutionFigures& figures, v1::Execution* execution);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_EXECUTION_FIGURES_H_
