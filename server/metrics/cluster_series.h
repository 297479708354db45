// What is counted cluster by cluster.

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

// The first `kMaxClusterCount` clusters of which something is told get a label of their own.
// What is counted of others goes to `other`; what they have now is not told, since the
// clocks and bandwidths of several clusters make no sense under one label. Safe to use from
// any thread; the meaning of each method is that of `Observer`.
class ClusterSeries {
 public:
  static constexpr int kMaxClusterCount = 32;
  // Kinds of nodes remembered of one cluster.
  static constexpr int kMaxNodeKindCount = 16;

  explicit ClusterSeries(prometheus::Registry& registry);
  ~ClusterSeries();

  void ProfileStored(const SnapshotReport& report);
  void SnapshotLoaded(const SnapshotReport& report);
  // Only the `kMaxNodeKindCount` kinds measured longest ago are remembered.
  void ProfilesSeen(absl::string_view cluster, const std::vector<StoredKind>& kinds);
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
