// Measures how far a job's measurements are from what its plan predicted. `parplan-sidecar run` has
// one, whose result its metrics show.

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

// Measured over predicted, 1.0 for a perfect prediction: the median of the latest windows' median
// steps, and the highest peak of any rank under this plan. Absent before anything was measured, and
// if the plan predicts 0.
struct Drift {
  std::optional<double> step_ratio;
  std::optional<double> memory_ratio;
  // The step ratio is above the limit or below its inverse.
  bool is_drifting = false;
};

// Compares the latest windows of all ranks with the prediction. The first window of each rank has
// the cold start: it counts only while there are no others. Safe to use from any thread.
class DriftMeter {
 public:
  // Counts the latest `window_count` windows. REQUIRES: `limit` is above 1, and `window_count` at
  // least 1.
  explicit DriftMeter(double limit, size_t window_count = 256);

  // Adds a plan that the job may take from now on. The job counts as running under its present plan
  // until the first windows of another one come; then earlier measurements are dropped. Of more
  // than 8 plans (not measured) the oldest but the present one is forgotten.
  void AddPlan(const std::string& plan, const v1::Prediction& prediction);
  // Adds windows that were measured under the plan of this name. Windows of an unknown plan, or of
  // one that the job has left, are ignored.
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
