// Runs a measurement of this node on a thread of its own. The daemon makes one for each measurement
// of its own node.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_MEASURING_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_MEASURING_H_

#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "profiler-agent/daemon/remembered.h"
#include "profiler-agent/daemon/wake_set.h"
#include "profiler-agent/inventory/node_inventory.h"
#include "profiler-agent/measure/measurement.h"

namespace parplan {

// A measurement that begins with the object and ends with it. Must be used from one thread.
class Measuring {
 public:
  // Measures `probe`, which is `whole` or a part of it, and calls `wakes`, which must outlive this
  // object, at the end. `on_job` of the options is replaced.
  Measuring(const NodeInventory& inventory, NextProbe probe, agent::v1::ProbePlan whole,
            MeasurementOptions options, WakeSet& wakes);
  // Ends the ranks if they still run, and waits until the thread has ended.
  ~Measuring();

  // Returns the result of `MeasureNode` once; absent while the measurement goes on, and later.
  std::optional<absl::StatusOr<v1::Profile>> TakeProfile();

  // `InventoryFingerprint` of the node, the arguments of the constructor, and the time of its call
  // on `SteadyNow`.
  // References are valid as long as this object.
  const std::string& fingerprint() const { return fingerprint_; }
  const NextProbe& probe() const { return probe_; }
  const agent::v1::ProbePlan& whole() const { return whole_; }
  absl::Duration start() const { return start_; }

 private:
  const NodeInventory inventory_;
  const std::string fingerprint_;
  const NextProbe probe_;
  const agent::v1::ProbePlan whole_;
  const absl::Duration start_;
  std::mutex mutex_;
  // Guarded by mutex_.
  NodeJob* job_ = nullptr;
  bool is_stopping_ = false;
  std::optional<absl::StatusOr<v1::Profile>> profile_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_MEASURING_H_
