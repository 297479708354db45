// Figures of an execution: what was predicted for its stages, and what its windows measured. Called
// by `ExecutionCore`. Pure.

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

// Returns the predicted half of an `ExecutionStage` for each stage of the payload, with its ranks;
// none for a stage without a `Prediction.stages`. The phases of a stage add up to the step: time
// without work, synchronisation or a wait for other stages is idle time; they add up to more if the
// other phases alone do.
std::vector<v1::ExecutionStage> PredictedStages(const v1::PlanPayload& payload);

// The figures that the windows of an execution measured.
struct ExecutionFigures {
  // Median over all windows of their median step, in which each window counts once whatever its
  // steps, absent without windows; and the highest peak of a rank in bytes, absent while no window
  // reports its memory.
  std::optional<absl::Duration> median_step;
  std::optional<int64_t> peak_memory_bytes;
  // The measured half, one for every stage of the execution, in its order, an empty one for a stage
  // without windows; no stages at all without windows. The time of a phase is the median over the
  // windows of the stage that report phases, 0 for a window that does not name it; memory items are
  // those of the window with the highest peak among those that report items.
  std::vector<v1::ExecutionStage> stages;

  // Returns the memory that the figures hold, in bytes, roughly.
  size_t SizeBytes() const;
};

// Computes the figures for the stages of `execution`, which may have none. Windows of ranks outside
// the stages count only for the figures of the whole. DATA_LOSS (STORE_UNAVAILABLE) for a damaged
// window.
absl::StatusOr<ExecutionFigures> FiguresOfWindows(absl::Span<const WindowRecord> windows,
                                                  const v1::Execution& execution);

// Reports the ratios of measured to predicted values of an execution of the cluster, except that of
// the step. Phases and memory items that were predicted at 1 % of the step or the peak, or less,
// are left out: so small a prediction makes any ratio large.
void ReportRatios(const v1::Execution& execution, absl::string_view cluster, Observer& observer);

// Writes the measured values and the ratio of the measured to the predicted step into `execution`,
// which is not null. Values that are absent stay as they are. REQUIRES: the stages of `execution`
// have no measured values yet, since these are added; not checked.
void AddFigures(const ExecutionFigures& figures, v1::Execution* execution);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_EXECUTION_FIGURES_H_
