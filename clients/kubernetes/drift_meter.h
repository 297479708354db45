// Compares a job's measurements with what its plan predicted. `parplan-sidecar run` has one meter:
// the observer of its ReportService adds windows; the metrics and the log of the sidecar show the
// result.

#ifndef PARPLAN_CLIENTS_KUBERNETES_DRIFT_METER_H_
#define PARPLAN_CLIENTS_KUBERNETES_DRIFT_METER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/plan.pb.h"

namespace parplan::sidecar {

// Ratios of measured to predicted values, 1.0 for a perfect prediction. A ratio is absent before
// its quantity was measured, and if the plan predicts 0.
struct Drift {
  // Ratio of step times: measured is the median of the latest windows' median steps.
  std::optional<double> step_ratio;
  // Ratio of peak memory: measured is the highest peak of any window under the present plan. A peak
  // of 0 counts as not measured.
  std::optional<double> memory_ratio;
  // Whether the step ratio is above the limit or below its inverse; false if it is absent.
  bool is_drifting = false;
};

// Compares the latest windows of all ranks with the prediction. A rank's first window, and windows
// of this rank that begin no later than that one, contain the cold start: they count only while no
// other windows are there. A window that is added twice counts twice. Safe to use from any thread.
class DriftMeter {
 public:
  // Counts the latest `window_count` windows of all ranks together. REQUIRES: `limit` is above 1,
  // and `window_count` at least 1; aborts otherwise.
  explicit DriftMeter(double limit, size_t window_count = 256);

  // Adds a plan, by its name `clusters/C/plans/P`, under which the job may run from now on. The
  // first plan is the present one. If there are more than 8 plans (not measured), the oldest plan
  // other than the present one is forgotten.
  void AddPlan(const std::string& plan, const v1::Prediction& prediction);
  // Adds windows that were measured under the plan of this name. If `plan` is not the present plan,
  // it becomes the present one, even if `windows` is empty: earlier measurements are dropped, and
  // plans that were added before `plan` are forgotten. Windows of a plan that is unknown or
  // forgotten are ignored.
  void Add(absl::string_view plan, absl::Span<const v1::MeasuredWindow> windows);

  // Returns the present drift.
  Drift Get() const;

 private:
  struct Seen {
    absl::Duration step;
    bool is_first = false;
  };
  struct Plan {
    std::string name;
    absl::Duration step;
    int64_t peak_bytes = 0;
  };
  const double limit_;
  const size_t window_count_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  // The first is the plan under which the job was seen last; others may follow it.
  std::deque<Plan> plans_;
  std::deque<Seen> seen_;
  std::map<int, int64_t> first_steps_;
  int64_t measured_peak_ = 0;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_DRIFT_METER_H_
