// Time series by cluster. `PrometheusObserver` hands it the reports by cluster.

#ifndef PARPLAN_SERVER_METRICS_CLUSTER_SERIES_H_
#define PARPLAN_SERVER_METRICS_CLUSTER_SERIES_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/core/observer.h"

namespace prometheus {
class Registry;
}

namespace parplan {

// The series of all clusters. The first `kMaxClusterCount` clusters that are reported get a label
// of their own; `ProfilesSeen` without kinds and `CalibrationSeen` without a calibration take no
// label. Counts and histograms of others go to the label `other`; their gauges are not exported,
// since the times and bandwidths of several clusters make no sense under one label. Each method
// means what it means in `Observer`, where `AgentsChanged` is called `ClusterAgentsChanged`. Safe
// to use from any thread.
class ClusterSeries {
 public:
  static constexpr int kMaxClusterCount = 32;
  // The number of kinds of nodes that are remembered for one cluster.
  static constexpr int kMaxNodeKindCount = 16;

  // Makes the families in `registry`, which outlives the series.
  explicit ClusterSeries(prometheus::Registry& registry);
  ~ClusterSeries();

  void ProfileStored(const SnapshotReport& report);
  void SnapshotLoaded(const SnapshotReport& report);
  // Forgets the kinds that are not in `kinds`. If there are more, the `kMaxNodeKindCount` that were
  // measured longest ago are remembered; `ProfileStored` and `SnapshotLoaded` ignore a further
  // kind.
  void ProfilesSeen(absl::string_view name, const std::vector<StoredKind>& kinds);
  void CalibrationSeen(absl::string_view cluster, std::optional<absl::Time> active_since);
  void ExecutionClosed(absl::string_view cluster, bool succeeded, std::optional<double> ratio);
  void PeakMemoryMeasured(absl::string_view cluster, double ratio);
  void AgentsChanged(absl::string_view cluster, int agent_count);
  void AgentHeard(absl::string_view cluster, absl::Time time);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_METRICS_CLUSTER_SERIES_H_
