// Measures how far a job's measurements are from what its plan predicted. `parplan-sidecar run` has
// one: the observer of its ReportService adds windows, and its metrics and its log show the result.

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
// steps, and the highest peak memory of any window under the present plan. A ratio is absent before
// the quantity was measured (a peak of 0 was not), and if the plan predicts 0.
struct Drift {
  std::optional<double> step_ratio;
  std::optional<double> memory_ratio;
  // Whether the step ratio is above the limit or below its inverse; false if it is absent.
  bool is_drifting = false;
};

// Compares the latest windows of all ranks with the prediction. The window of a rank that comes
// first, and those that begin no later, have the cold start: they count only while there are no
// others. A window that comes again counts again. Safe to use from any thread.
class DriftMeter {
 public:
  // Counts the latest `window_count` windows of all ranks together. REQUIRES: `limit` is above 1,
  // and `window_count` at least 1; aborts otherwise.
  explicit DriftMeter(double limit, size_t window_count = 256);

  // Adds a plan, by its name `clusters/C/plans/P`, that the job may take from now on. The first one
  // is the present plan. Of more than 8 plans (not measured) the oldest but the present one is
  // forgotten.
  void AddPlan(const std::string& plan, const v1::Prediction& prediction);
  // Adds windows that were measured under the plan of this name. If that is another than the
  // present one, it becomes the present plan, even without windows: earlier measurements are
  // dropped, and the plans that were added before it are forgotten. Windows of a plan that is
  // unknown or forgotten are ignored.
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
