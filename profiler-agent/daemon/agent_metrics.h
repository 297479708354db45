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
  // Exposes when the certificates of two files in PEM expire: `certificate_file`, which the agent
  // presents to servers, and `ca_file`, which it trusts. An empty path has no series, and one that
  // cannot be read has none until it can; `MakeCertificateMetrics` says when files are read again.
  AgentMetrics(const std::string& certificate_file, const std::string& ca_file);
  ~AgentMetrics();

  // Serves the metrics over plain HTTP at `/metrics` on `address`, HOST:PORT, while this object
  // lives. Returns the port; port 0 picks a free one. Returns INVALID_ARGUMENT (SPEC_INVALID) if
  // host or port is absent, and UNAVAILABLE, with no `Reason` attached, if the address cannot be
  // bound or its port is no number. To be called once, from one thread.
  absl::StatusOr<int> Serve(const std::string& address);

  // Counts a measurement that ended. `kDone` also sets the gauges of its duration `took` and of its
  // end `ended`, which are ignored otherwise; `kBusy` also raises
  // `parplan_agent_busy_refusals_total`.
  void CountMeasurement(MeasurementKind kind, MeasurementResult result, absl::Duration took,
                        absl::Time ended);
  // Counts an attempt to upload: as stored if `status` is OK, else as failed if it may be repeated,
  // else as refused.
  void CountUpload(const absl::Status& status, bool may_retry);
  // Sets the length of the upload queue and the number of damaged records since the start of the
  // agent. The latter is a counter: a smaller number than before changes nothing.
  void SetQueue(int length, int64_t damaged_count);
  // Sets the result of `LargestDriftRatio` (1 for no drift) and the number of shapes that
  // `FindDrift` found drifted (find_drift.h).
  void SetDrift(double largest_ratio, int drifted_shape_count);
  // Adds what was read from the spool folder since the last call: collective timings, and files
  // that were refused. A window is the timings of a job over some time, which the job leaves there
  // as a file (window_spool.h); a file that is not a window is refused. Neither number is below 0.
  void CountWindows(int64_t timing_count, int64_t refused_count);
  // Sets the number of devices that a measurement uses.
  void SetDevices(int count);

 private:
  struct Series;
  const std::unique_ptr<Series> series_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_AGENT_METRICS_H_
