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

// Share of the newest execution in the drift: about the last ten count.
constexpr double kDriftShare = 0.2;

double SecondsSince1970(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

// What plans rest on, of one kind of node.
struct NodeKind {
  absl::Time newest_measurement = absl::InfinitePast();
  std::vector<MeasuredBandwidth> bandwidths;
};

// The series of one cluster; those that begin as null are made when first needed.
struct Cluster {
  std::array<Counter*, 2> executions = {};
  Histogram* step_ratio = nullptr;
  Histogram* peak_memory_ratio = nullptr;

  // All null where the cluster has no label of its own.
  Gauge* drift = nullptr;
  Gauge* measurement_time = nullptr;
  std::array<Gauge*, kLinkReachCount* kCollectiveCount> bandwidths = {};
  Gauge* calibration_active = nullptr;
  Gauge* calibration_time = nullptr;
  Gauge* agents_connected = nullptr;
  Gauge* agent_heard = nullptr;

  // Mean of the logarithm of measured over predicted steps.
  std::optional<double> log_drift;
  // By device kind and devices of a node.
  std::map<std::pair<std::string, int>, NodeKind> kinds;
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
                   "Newest measurement of the kind of node whose newest is the oldest, in seconds "
                   "since 1970.")),
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

  // With the lock held. Never null where `may_be_other` is set.
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

  // Sets a gauge of the cluster, which is made at the first time.
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

  // The kind of node of a report; null where there are too many.
  static NodeKind* FindKind(Cluster& cluster, const SnapshotReport& report) {
    const std::pair<std::string, int> key(report.device_kind, report.devices_per_node);
    const auto found = cluster.kinds.find(key);
    if (found != cluster.kinds.end()) return &found->second;
    if (static_cast<int>(cluster.kinds.size()) >= kMaxNodeKindCount) return nullptr;
    return &cluster.kinds[key];
  }

  // Tells what all kinds of nodes of the cluster come to.
  void TellKinds(Cluster& cluster) {
    absl::Time oldest = absl::InfiniteFuture();
    std::array<double, kLinkReachCount* kCollectiveCount> slowest = {};
    for (const auto& [key, kind] : cluster.kinds) {
      oldest = std::min(oldest, kind.newest_measurement);
      for (const MeasuredBandwidth& measured : kind.bandwidths) {
        double& rate = slowest[BandwidthIndex(measured)];
        const double other_rate = measured.bandwidth.bytes_per_second();
        rate = rate == 0.0 ? other_rate : std::min(rate, other_rate);
      }
    }
    if (oldest > absl::InfinitePast() && oldest < absl::InfiniteFuture()) {
      Set(measurement_time, cluster, cluster.measurement_time, SecondsSince1970(oldest));
    }
    for (size_t i = 0; i < slowest.size(); ++i) {
      if (slowest[i] == 0.0) continue;
      Gauge*& gauge = cluster.bandwidths[i];
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
  NodeKind* const kind = Families::FindKind(*cluster, report);
  if (kind == nullptr) return;
  kind->newest_measurement = std::max(kind->newest_measurement, report.newest_measurement);
  families_->TellKinds(*cluster);
}

void ClusterSeries::SnapshotLoaded(const SnapshotReport& report) {
  const std::lock_guard<std::mutex> lock(families_->mutex);
  Cluster* const cluster = families_->Find(report.cluster, false);
  if (cluster == nullptr) return;
  NodeKind* const kind = Families::FindKind(*cluster, report);
  if (kind == nullptr) return;
  // Not the later of both: what was newest may have been deleted.
  kind->newest_measurement = report.newest_measurement;
  kind->bandwidths = report.bandwidths;
  families_->TellKinds(*cluster);
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
  } else if (known->calibration_time != nullptr) {
    families_->calibration_time.Remove(std::exchange(known->calibration_time, nullptr));
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
