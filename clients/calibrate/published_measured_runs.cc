#include "clients/calibrate/published_measured_runs.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/calibrate/predict_run.h"
#include "clients/calibrate/run_problem.h"
#include "planner/cost/predict_plan.h"

namespace parplan::planctl {
std::vector<MeasuredRun> MeasuredRunsOf(const accuracy::PublishedRuns& published,
                                        const RunSlice& time_slice, const RunSlice& memory_slice,
                                        std::vector<std::string>& skipped) {
  const auto is_taken = [&](const std::string& source, const std::string& id) {
    return time_slice.Holds(source, id) || memory_slice.Holds(source, id);
  };
  for (const accuracy::SkippedRun& run : published.skipped) {
    if (is_taken(run.source, run.id)) skipped.push_back(absl::StrCat(run.id, ": ", run.reason));
  }
  std::vector<MeasuredRun> runs;
  for (const accuracy::PublishedRun& row : published.runs) {
    if (!is_taken(row.source, row.id)) continue;
    MeasuredRun run;
    run.id = row.id;
    run.source = row.source;
    if (time_slice.Holds(row.source, row.id)) run.step = row.step;
    if (memory_slice.Holds(row.source, row.id)) run.memory = row.peak_memory;
    if (!run.step.has_value() && !run.memory.has_value()) continue;
    absl::StatusOr<accuracy::RunQuestion> question = accuracy::QuestionOf(row);
    if (!question.ok()) {
      skipped.push_back(absl::StrCat(row.id, ": ", question.status().message()));
      continue;
    }
    run.place.device_family = question->hardware->device.device_family;
    if (question->topology->cluster() != accuracy::kUnnamedCluster) {
      run.place.cluster = question->topology->cluster();
      run.place.is_several_machines = !question->has_stated_cluster;
    }
    run.predict = [question = std::make_shared<const accuracy::RunQuestion>(*std::move(question))](
                      const Calibration& calibration) -> absl::StatusOr<RunPrediction> {
      // Lives as long as the call; the problem only keeps a pointer for its own life.
      const std::shared_ptr<const Calibration> borrowed(std::shared_ptr<const Calibration>(),
                                                        &calibration);
      PARPLAN_ASSIGN_OR_RETURN(const accuracy::RunPrediction predicted,
                               accuracy::PredictRun(*question, borrowed));
      // The times rest on data sheets, not on measurements.
      return RunPrediction{.step = predicted.step,
                           .memory = predicted.memory,
                           .confidence = Confidence::kEstimated,
                           .tensor_parallel_reach = ReachOf(question->plan, *question->topology)};
    };
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace parplan::planctl
