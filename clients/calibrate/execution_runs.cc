#include "clients/calibrate/execution_runs.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/resource_name.h"

namespace parplan::planctl {

namespace {

// Returns the values that apply in `cluster`, except its time_factor and activation_factor, which
// are fitted to executions.
std::vector<CoefficientValue> OtherValues(const Calibration& calibration,
                                          const std::string& cluster) {
  std::vector<CoefficientValue> values;
  for (CoefficientValue value : calibration.content().coefficient_values) {
    const bool is_moved = value.scope == CalibrationScope{"", cluster, std::nullopt} &&
                          (value.coefficient == Coefficient::kTimeFactor ||
                           value.coefficient == Coefficient::kActivationFactor);
    const bool is_of_others = !value.scope.cluster.empty() && value.scope.cluster != cluster;
    if (is_moved || is_of_others) continue;
    // Its provenance does not matter.
    value.evidence_count = 0;
    value.fitted = false;
    values.push_back(value);
  }
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) {
    return std::tie(a.coefficient, a.scope) < std::tie(b.coefficient, b.scope);
  });
  return values;
}

// Finds the calibration that the execution was predicted under.
absl::StatusOr<std::shared_ptr<const Calibration>> FindOwn(
    const v1::Execution& execution, const std::string& cluster, const std::string& field,
    const std::shared_ptr<const Calibration>& base,
    absl::Span<const std::shared_ptr<const Calibration>> others) {
  const std::string& digest = execution.calibration_digest();
  if (digest.empty() || digest == base->content().digest) return base;
  for (const std::shared_ptr<const Calibration>& other : others) {
    if (other->content().digest != digest) continue;
    if (OtherValues(*other, cluster) == OtherValues(*base, cluster)) return other;
    return FieldError(Reason::kSpecInvalid, field,
                      absl::StrCat("calibration ", digest.substr(0, 12),
                                   " differs from the one to begin with in more than time_factor "
                                   "and activation_factor of ",
                                   cluster, "; begin with that one (--from), or leave ",
                                   execution.name(), " out"));
  }
  return FieldError(
      Reason::kSpecInvalid, field,
      absl::StrCat(execution.name(), " was predicted under calibration ", digest.substr(0, 12),
                   ", which is none of those given; begin with it (--from FILE) or "
                   "give it too (--under FILE; `planctl calibration show` prints it)"));
}

}  // namespace

absl::StatusOr<std::vector<MeasuredRun>> RunsOfExecutions(
    const v1::ListExecutionsResponse& executions, const std::shared_ptr<const Calibration>& base,
    absl::Span<const std::shared_ptr<const Calibration>> others) {
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
    PARPLAN_ASSIGN_OR_RETURN(
        const std::shared_ptr<const Calibration> own,
        FindOwn(execution, name.cluster, field + ".calibration_digest", base, others));
    run.predict = [predicted, own, cluster = name.cluster](const Calibration& calibration) {
      const Coefficients before = own->Resolve("", cluster);
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
      return absl::StatusOr<RunPrediction>(prediction);
    };
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace parplan::planctl
