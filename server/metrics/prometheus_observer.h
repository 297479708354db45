// Exports the core's reports as metrics of Prometheus. docs/metrics.md lists every metric.
// server/main/main.cc makes one and gives it to the core.

#ifndef PARPLAN_SERVER_METRICS_PROMETHEUS_OBSERVER_H_
#define PARPLAN_SERVER_METRICS_PROMETHEUS_OBSERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/core/observer.h"

namespace prometheus {
class Registry;
}

namespace parplan {

// An observer that keeps metrics of Prometheus. Every label value comes from an enum, from the
// lists of planners, methods and store operations, or is the name of one of the first
// `ClusterSeries::kMaxClusterCount` clusters, so the number of time series has a bound; names of
// models, jobs and nodes are never labels. Safe to use from any thread.
class PrometheusObserver : public Observer {
 public:
  // Makes the series of all `planners` and `methods` (of the API), which are label values; any
  // other name counts as `other`.
  PrometheusObserver(const std::vector<std::string>& planners,
                     const std::vector<std::string>& methods);
  ~PrometheusObserver() override;

  // Returns the registry, for an exposer; never null. It may outlive the observer.
  std::shared_ptr<prometheus::Registry> registry() const;

  // Returns the text that an exposer would serve, for tests.
  std::string Text() const;

  // Sets the gauges of the server's limits, with which its load can be compared: searches that may
  // wait, and searches that may run at once (`SearchPool::RunningCount`).
  void SetLimits(int max_queue_length, int running_count);

  void CallStarted(absl::string_view method) override;
  void CallFinished(absl::string_view method, absl::StatusCode code, std::optional<Reason> reason,
                    absl::Duration duration) override;
  void QueueChanged(int waiting, int running) override;
  void CacheLookedUp(CacheKind cache, bool hit) override;
  void SearchShared() override;
  void SearchFinished(const SearchReport& report) override;
  void PlanIssued(const PlanReport& report) override;
  void UploadFinished(std::optional<Reason> reason, bool stored, int64_t bytes) override;
  void PlanVerified(VerifyOutcome outcome) override;
  void ProfileStored(const SnapshotReport& report) override;
  void SnapshotLoaded(const SnapshotReport& report) override;
  void ProfilesSeen(absl::string_view cluster, const std::vector<StoredKind>& kinds) override;
  void CalibrationSeen(absl::string_view cluster, std::optional<absl::Time> active_since) override;
  void ExecutionClosed(absl::string_view cluster, bool succeeded,
                       std::optional<double> ratio) override;
  void PeakMemoryMeasured(absl::string_view cluster, double ratio) override;
  void PhaseMeasured(int phase, double ratio) override;
  void MemoryItemMeasured(int kind, double ratio) override;
  void WindowsStored(int64_t count) override;
  void AgentsChanged(int agent_count, int lease_count) override;
  void ClusterAgentsChanged(absl::string_view cluster, int agent_count) override;
  void AgentHeard(absl::string_view cluster, absl::Time time) override;
  void LeaseEnded(LeaseOutcome outcome, absl::Duration since_grant) override;
  void LeaseRefused(LeaseRefusalKind kind) override;
  void StoreCalled(StoreOperation operation, absl::StatusCode code,
                   absl::Duration duration) override;
  void SigningKeysSeen(absl::Time last_expiry) override;
  void SigningKeysCounted(int count) override;
  void StoreTried(bool can_write) override;
  void AuditFailed(int64_t record_count) override;
  void AnswerBrokenOff() override;

 private:
  struct Handles;
  const std::unique_ptr<Handles> handles_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_METRICS_PROMETHEUS_OBSERVER_H_
