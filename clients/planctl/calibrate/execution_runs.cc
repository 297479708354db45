#include "clients/planctl/calibrate/execution_runs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/resource_name.h"

namespace parplan::planctl {

absl::StatusOr<std::vector<MeasuredRun>> RunsOfExecutions(
    const v1::ListExecutionsResponse& executions, std::shared_ptr<const Calibration> base) {
  std::vector<MeasuredRun> runs;
  for (int i = 0; i < executions.executions_size(); ++i) {
    const v1::Execution& execution = executions.executions(i);
    const std::string field = absl::StrCat("executions[", i, "]");
    PARPLAN_ASSIGN_OR_RETURN(const ExecutionName name,
                             ExecutionName::Parse(execution.name(), field + ".name"));
    MeasuredRun run;
    run.id = execution.name();
    run.source = absl::StrCat("executions of ", name.cluster);
    run.place.cluster = name.cluster;
    run.place.moves_wider_scopes = false;
    run.makes_range = false;
    RunPrediction predicted;
    if (execution.has_measured_step_duration() && execution.has_predicted_step_duration()) {
      PARPLAN_ASSIGN_OR_RETURN(run.step, SecondsFromProto(execution.measured_step_duration(),
                                                          field + ".measured_step_duration"));
      PARPLAN_ASSIGN_OR_RETURN(predicted.step,
                               SecondsFromProto(execution.predicted_step_duration(),
                                                field + ".predicted_step_duration"));
    }
    // 0 is "not measured" in windows, so it may be here.
    if (execution.measured_peak_memory_bytes() > 0 && execution.predicted_peak_memory_bytes() > 0) {
      run.memory = Bytes::Of(execution.measured_peak_memory_bytes());
      predicted.memory = Bytes::Of(execution.predicted_peak_memory_bytes());
    }
    if (!run.step.has_value() && !run.memory.has_value()) continue;
    run.predict = [predicted, base, cluster = name.cluster](const Calibration& calibration) {
      const Coefficients before = base->Resolve("", cluster);
      const Coefficients now = calibration.Resolve("", cluster);
      RunPrediction prediction = predicted;
      if (prediction.step.has_value()) {
        prediction.step =
            *prediction.step * (now[Coefficient::kTimeFactor] / before[Coefficient::kTimeFactor]);
      }
      if (prediction.memory.has_value()) {
        prediction.memory =
            Bytes::Ceil(prediction.memory->as_double() * (now[Coefficient::kActivationFactor] /
                                                          before[Coefficient::kActivationFactor]));
      }
      return absl::StatusOr<RunPrediction>(std::move(prediction));
    };
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace parplan::planctl
