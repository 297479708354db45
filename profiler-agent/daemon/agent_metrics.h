// The agent's Prometheus metrics (docs/metrics.md). The daemon fills them.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_AGENT_METRICS_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_AGENT_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

// Whether everything was measured, or only what was missing or had drifted.
enum class MeasurementKind { kWhole, kIncremental };
// Whether a measurement gave a profile, the node was busy, it failed, or the agent ended first.
enum class MeasurementResult { kDone, kBusy, kFailed, kStopped };

// Return the label values `whole` and `incremental`; `done`, `busy`, `failed` and `stopped`.
const char* MeasurementKindName(MeasurementKind kind);
const char* MeasurementResultName(MeasurementResult result);

// Counters and gauges of one agent. Safe to use from any thread.
class AgentMetrics {
 public:
  // Exposes when two certificates expire: `certificate_file`, which the agent presents to servers,
  // and `ca_file`, which it trusts. Both may be empty.
  AgentMetrics(const std::string& certificate_file, const std::string& ca_file);
  ~AgentMetrics();

  // Serves the metrics over plain HTTP at `/metrics` on `address`, HOST:PORT, while this object
  // lives. Returns the port; port 0 picks a free one. UNAVAILABLE without a reason if the
  // address cannot be bound. To be called once, from one thread.
  absl::StatusOr<int> Serve(const std::string& address);

  // Counts a measurement that ended. One that is done also sets the gauges of its duration `took`
  // and its end; one that was busy also counts as a refusal.
  void CountMeasurement(MeasurementKind kind, MeasurementResult result, absl::Duration took,
                        absl::Time ended);
  // Counts an attempt to upload as stored (OK), failed (may be retried) or refused.
  void CountUpload(const absl::Status& status, bool may_retry);
  // Sets the length of the upload queue and the number of damaged records, which never decreases.
  void SetQueue(int length, int64_t damaged_count);
  // Sets the result of `LargestDriftRatio` (1 for no drift) and the number of shapes of `FindDrift`
  // (find_drift.h).
  void SetDrift(double largest_ratio, int drifted_shape_count);
  // Counts timings that jobs left in the spool folder, and files there that were no windows, since
  // the last call.
  void CountWindows(int64_t timing_count, int64_t refused_count);
  // Sets the number of devices that a measurement uses.
  void SetDevices(int count);

 private:
  struct Series;
  const std::unique_ptr<Series> series_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_AGENT_METRICS_H_
