#include "server/metrics/cluster_series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/metrics/families.h"
#include "server/metrics/label.h"

namespace parplan {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

// Weight of the newest execution in the drift, so that about the last ten count.
constexpr double kDriftShare = 0.2;
// Kinds of links of which bandwidths are shown: reaches times collectives.
constexpr size_t kLinkKindCount = size_t{kLinkReachCount} * kCollectiveCount;

double SecondsSince1970(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

// Device kind, and number of devices of a node.
using NodeKind = std::pair<std::string, int>;

// The series of one cluster; those that begin as null are made when first needed.
struct Cluster {
  std::array<Counter*, 2> executions = {};
  Histogram* step_ratio = nullptr;
  Histogram* peak_memory_ratio = nullptr;

  // All null if the cluster has no label of its own.
  Gauge* drift = nullptr;
  Gauge* measurement_time = nullptr;
  std::array<Gauge*, kLinkKindCount> bandwidths = {};
  Gauge* calibration_active = nullptr;
  Gauge* calibration_time = nullptr;
  Gauge* agents_connected = nullptr;
  Gauge* agent_heard = nullptr;

  // Mean of the logarithm of measured over predicted steps.
  std::optional<double> log_drift;
  // The newest measurement of each kind that has profiles.
  std::map<NodeKind, absl::Time> measured;
  // The links that plans for each kind rest on; they may come from a part of the measured nodes.
  std::map<NodeKind, std::vector<MeasuredBandwidth>> links;
};

}  // namespace

struct ClusterSeries::Families {
  explicit Families(prometheus::Registry& registry)
      : executions(Counters(registry, "parplan_executions_closed_total",
                            "Executions closed, by cluster and state.")),
        step_ratio(Histograms(registry, "parplan_step_duration_ratio",
                              "Measured over predicted step time of closed executions.")),
        peak_memory_ratio(Histograms(registry, "parplan_peak_memory_ratio",
                                     "Measured over predicted memory of closed executions.")),
        drift(Gauges(registry, "parplan_step_drift_ratio",
                     "Measured over predicted step time, a mean of about the last ten closed "
                     "executions.")),
        measurement_time(
            Gauges(registry, "parplan_profile_measurement_timestamp_seconds",
                   "Newest measurement of the kind of node whose newest is the oldest, of those "
                   "stored, in seconds since 1970.")),
        bandwidth(Gauges(registry, "parplan_profile_bus_bandwidth_bytes_per_second",
                         "Measured bus bandwidth that plans rest on, for large messages.")),
        calibration_active(Gauges(registry, "parplan_calibration_active",
                                  "1 where the cluster has a calibration of its own.")),
        calibration_time(Gauges(registry, "parplan_calibration_activation_timestamp_seconds",
                                "When the active calibration became so, in seconds since 1970.")),
        agents_connected(
            Gauges(registry, "parplan_agents_connected", "Agents connected now, by cluster.")),
        agent_heard(Gauges(registry, "parplan_agent_last_seen_timestamp_seconds",
                           "Last sign of life of any agent of the cluster, in seconds since "
                           "1970.")) {}

  // Returns the series of a cluster, which it adds while there are labels left; then those of
  // `other` if `may_be_other`, else null. REQUIRES: the lock is held.
  Cluster* Find(absl::string_view name, bool may_be_other) {
    const std::string label(name);
    const auto found = clusters.find(label);
    if (found != clusters.end()) return &found->second;
    if (static_cast<int>(clusters.size()) < kMaxClusterCount) return &clusters[label];
    return may_be_other ? &other : nullptr;
  }

  const std::string& LabelOf(const Cluster& cluster) const {
    static const std::string* const kOther = new std::string("other");
    for (const auto& [label, known] : clusters) {
      if (&known == &cluster) return label;
    }
    return *kOther;
  }

  // Sets a gauge of the cluster, and makes it at the first call.
  void Set(Family<Gauge>& family, const Cluster& cluster, Gauge*& gauge, double value) {
    if (gauge == nullptr) gauge = &family.Add({{"cluster", LabelOf(cluster)}});
    gauge->Set(value);
  }

  void Observe(Family<Histogram>& family, const Cluster& cluster, Histogram*& histogram,
               double value) {
    if (histogram == nullptr) {
      histogram = &family.Add({{"cluster", LabelOf(cluster)}}, RatioBuckets());
    }
    histogram->Observe(value);
  }

  // Returns the entry of a kind of node, which it adds if needed; null if there are too many kinds.
  template <typename Value>
  static Value* FindKind(std::map<NodeKind, Value>& kinds, const SnapshotReport& report) {
    const NodeKind key(report.device_kind, report.devices_per_node);
    const auto found = kinds.find(key);
    if (found != kinds.end()) return &found->second;
    if (static_cast<int>(kinds.size()) >= kMaxNodeKindCount) return nullptr;
    return &kinds[key];
  }

  static void Remove(Family<Gauge>& family, Gauge*& gauge) {
    if (gauge != nullptr) family.Remove(std::exchange(gauge, nullptr));
  }

  // Exports the measurement time of the kind that was measured longest ago.
  void SetMeasurementTime(Cluster& cluster) {
    if (cluster.measured.empty()) return Remove(measurement_time, cluster.measurement_time);
    absl::Time oldest = absl::InfiniteFuture();
    for (const auto& [kind, newest] : cluster.measured) oldest = std::min(oldest, newest);
    Set(measurement_time, cluster, cluster.measurement_time, SecondsSince1970(oldest));
  }

  // Exports for each link and collective the bandwidth of the slowest kind.
  void SetBandwidths(Cluster& cluster) {
    std::array<double, kLinkKindCount> slowest = {};
    for (const auto& [kind, bandwidths] : cluster.links) {
      for (const MeasuredBandwidth& measured : bandwidths) {
        double& rate = slowest[BandwidthIndex(measured)];
        const double other_rate = measured.bandwidth.bytes_per_second();
        rate = rate == 0.0 ? other_rate : std::min(rate, other_rate);
      }
    }
    for (size_t i = 0; i < slowest.size(); ++i) {
      Gauge*& gauge = cluster.bandwidths[i];
      if (slowest[i] == 0.0) {
        Remove(bandwidth, gauge);
        continue;
      }
      if (gauge == nullptr) {
        const auto reach = static_cast<LinkReach>(i / kCollectiveCount);
        const auto collective = static_cast<Collective>(i % kCollectiveCount + 1);
        gauge = &bandwidth.Add({{"cluster", LabelOf(cluster)},
                                {"tier", LinkReachLabel(reach)},
                                {"collective", CollectiveLabel(collective)}});
      }
      gauge->Set(slowest[i]);
    }
  }

  static size_t BandwidthIndex(const MeasuredBandwidth& measured) {
    return static_cast<size_t>(static_cast<int>(measured.reach) * kCollectiveCount +
                               static_cast<int>(measured.collective) - 1);
  }

  Family<Counter>& executions;
  Family<Histogram>& step_ratio;
  Family<Histogram>& peak_memory_ratio;
  Family<Gauge>& drift;
  Family<Gauge>& measurement_time;
  Family<Gauge>& bandwidth;
  Family<Gauge>& calibration_active;
  Family<Gauge>& calibration_time;
  Family<Gauge>& agents_connected;
  Family<Gauge>& agent_heard;

  std::mutex mutex;
  std::map<std::string, Cluster> clusters;  // Guarded by mutex.
  Cluster other;                            // Guarded by mutex.
};

ClusterSeries::ClusterSeries(prometheus::Registry& registry)
    : families_(std::make_unique<Families>(registry)) {}

ClusterSeries::~ClusterSeries() = default;

void ClusterSeries::ProfileStored(const SnapshotReport& report) {
  const std::lock_guard<std::mutex> lock(families_->mutex);
  Cluster* const cluster = families_->Find(report.cluster, false);
  if (cluster == nullptr) return;
  absl::Time* const newest = Families::FindKind(cluster->measured, report);
  if (newest == nullptr) return;
  // A new entry is at 1970.
  *newest = std::max(*newest, report.newest_measurement);
  families_->SetMeasurementTime(*cluster);
}

void ClusterSeries::SnapshotLoaded(const SnapshotReport& report) {
  const std::lock_guard<std::mutex> lock(families_->mutex);
  Cluster* const cluster = families_->Find(report.cluster, false);
  if (cluster == nullptr) return;
  std::vector<MeasuredBandwidth>* const links = Families::FindKind(cluster->links, report);
  if (links == nullptr) return;
  *links = report.bandwidths;
  families_->SetBandwidths(*cluster);
}

void ClusterSeries::ProfilesSeen(absl::string_view name, const std::vector<StoredKind>& kinds) {
  const std::lock_guard<std::mutex> lock(families_->mutex);
  // Clusters without measurements must not use up the labels.
  if (kinds.empty() && families_->clusters.count(std::string(name)) == 0) return;
  Cluster* const cluster = families_->Find(name, false);
  if (cluster == nullptr) return;
  std::vector<StoredKind> stalest = kinds;
  std::stable_sort(stalest.begin(), stalest.end(), [](const StoredKind& a, const StoredKind& b) {
    return a.newest_measurement < b.newest_measurement;
  });
  if (stalest.size() > kMaxNodeKindCount) stalest.resize(kMaxNodeKindCount);
  cluster->measured.clear();
  for (const StoredKind& kind : stalest) {
    cluster->measured[{kind.device_kind, kind.devices_per_node}] = kind.newest_measurement;
  }
  std::erase_if(cluster->links, [&kinds](const auto& entry) {
    return std::none_of(kinds.begin(), kinds.end(), [&entry](const StoredKind& kind) {
      return kind.device_kind == entry.first.first && kind.devices_per_node >= entry.first.second;
    });
  });
  families_->SetMeasurementTime(*cluster);
  families_->SetBandwidths(*cluster);
}

void ClusterSeries::CalibrationSeen(absl::string_view cluster,
                                    std::optional<absl::Time> active_since) {
  const std::lock_guard<std::mutex> lock(families_->mutex);
  // Questions about clusters that have nothing must not use up the labels.
  if (!active_since.has_value() &&
      families_->clusters.find(std::string(cluster)) == families_->clusters.end()) {
    return;
  }
  Cluster* const known = families_->Find(cluster, false);
  if (known == nullptr) return;
  families_->Set(families_->calibration_active, *known, known->calibration_active,
                 active_since.has_value() ? 1.0 : 0.0);
  if (active_since.has_value()) {
    families_->Set(families_->calibration_time, *known, known->calibration_time,
                   SecondsSince1970(*active_since));
  } else {
    Families::Remove(families_->calibration_time, known->calibration_time);
  }
}

void ClusterSeries::ExecutionClosed(absl::string_view cluster, bool succeeded,
                                    std::optional<double> ratio) {
  const std::lock_guard<std::mutex> lock(families_->mutex);
  Cluster& known = *families_->Find(cluster, true);
  if (known.executions[0] == nullptr) {
    const std::string& label = families_->LabelOf(known);
    known.executions[0] = &families_->executions.Add({{"cluster", label}, {"state", "failed"}});
    known.executions[1] = &families_->executions.Add({{"cluster", label}, {"state", "succeeded"}});
  }
  known.executions[succeeded ? 1 : 0]->Increment();
  if (!ratio.has_value()) return;
  families_->Observe(families_->step_ratio, known, known.step_ratio, *ratio);
  if (&known == &families_->other || !(*ratio > 0.0)) return;
  const double last = std::log(*ratio);
  known.log_drift = known.log_drift.has_value()
                        ? *known.log_drift + kDriftShare * (last - *known.log_drift)
                        : last;
  families_->Set(families_->drift, known, known.drift, std::exp(*known.log_drift));
}

void ClusterSeries::PeakMemoryMeasured(absl::string_view cluster, double ratio) {
  const std::lock_guard<std::mutex> lock(families_->mutex);
  Cluster& known = *families_->Find(cluster, true);
  families_->Observe(families_->peak_memory_ratio, known, known.peak_memory_ratio, ratio);
}

void ClusterSeries::AgentsChanged(absl::string_view cluster, int agent_count) {
  const std::lock_guard<std::mutex> lock(families_->mutex);
  Cluster* const known = families_->Find(cluster, false);
  if (known == nullptr) return;
  families_->Set(families_->agents_connected, *known, known->agents_connected, agent_count);
}

void ClusterSeries::AgentHeard(absl::string_view cluster, absl::Time time) {
  const std::lock_guard<std::mutex> lock(families_->mutex);
  Cluster* const known = families_->Find(cluster, false);
  if (known == nullptr) return;
  families_->Set(families_->agent_heard, *known, known->agent_heard, SecondsSince1970(time));
}

}  // namespace parplan
