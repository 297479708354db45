// What the agent tells Prometheus about itself (docs/metrics.md).

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_AGENT_METRICS_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_AGENT_METRICS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

enum class MeasurementKind { kWhole, kIncremental };
enum class MeasurementResult { kDone, kBusy, kFailed, kStopped };

// `whole`, `incremental`; `done`, `busy`, `failed`, `stopped`.
const char* MeasurementKindName(MeasurementKind kind);
const char* MeasurementResultName(MeasurementResult result);

// Safe to use from any thread.
class AgentMetrics {
 public:
  // `certificate_file` is what the agent shows to servers, `ca_file` what it trusts; both may
  // be empty. It tells when they end.
  AgentMetrics(const std::string& certificate_file, const std::string& ca_file);
  ~AgentMetrics();

  // Serves them over plain HTTP at `/metrics` of `address`, HOST:PORT, as long as this lives;
  // port 0 takes a free one, which is given back. UNAVAILABLE when it cannot be had.
  absl::StatusOr<int> Serve(const std::string& address);

  void CountMeasurement(MeasurementKind kind, MeasurementResult result, absl::Duration took,
                        absl::Time ended);
  // After an attempt: OK, to be tried again, or refused.
  void CountUpload(const absl::Status& status, bool may_retry);
  // `damaged_count` only grows.
  void SetQueue(int length, int64_t damaged_count);
  void SetDrift(double largest_ratio, int drifted_shape_count);
  void CountWindows(int64_t timing_count, int64_t refused_count);
  void SetDevices(int count);

 private:
  struct Series;
  const std::unique_ptr<Series> series_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_AGENT_METRICS_H_
