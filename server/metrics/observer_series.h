// The series of `PrometheusObserver`: how each metric is named, and its labels and buckets. Only
// prometheus_observer.cc includes it. docs/metrics.md lists the metrics.

#ifndef PARPLAN_SERVER_METRICS_OBSERVER_SERIES_H_
#define PARPLAN_SERVER_METRICS_OBSERVER_SERIES_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/metrics/cluster_series.h"
#include "server/metrics/code_counters.h"
#include "server/metrics/label.h"
#include "server/metrics/prometheus_observer.h"

namespace parplan {

// All series. They are made once, since `Family::Add` takes a lock and hashes labels; an update
// through these pointers costs one atomic addition. The registry owns them. The constructor sets
// every pointer.
struct PrometheusObserver::Handles {
  // The series of one planner.
  struct PlannerHandles {
    std::array<prometheus::Counter*, kSearchOutcomeCount> searches = {};
    prometheus::Histogram* duration = nullptr;
    prometheus::Counter* cpu_seconds = nullptr;
    prometheus::Counter* states = nullptr;
    prometheus::Counter* plans = nullptr;
  };

  // The series of one method of the API.
  struct MethodHandles {
    // Row of `requests`.
    int row = 0;
    prometheus::Gauge* in_flight = nullptr;
    prometheus::Histogram* duration = nullptr;
  };

  // Makes the series. The arguments are those of `PrometheusObserver`.
  Handles(const std::vector<std::string>& planners, const std::vector<std::string>& methods);

  // Make the series of one subject each; the constructor calls them.
  void MakeRequestHandles();
  MethodHandles MakeMethodHandles(const std::string& name, int row);
  void MakeSearchHandles(const std::vector<std::string>& names);
  void MakePlanHandles();
  void MakeCountHandles();
  void MakeLeaseHandles();
  void MakeStoreHandles();

  // Return the series of a planner or method, or those of `other` if the name is unknown. Safe to
  // call from any thread.
  const PlannerHandles& Planner(const std::string& name) const;
  const MethodHandles& Method(absl::string_view name);

  const std::shared_ptr<prometheus::Registry> registry;
  CodeCounters requests;
  prometheus::Family<prometheus::Histogram>& request_durations;
  prometheus::Family<prometheus::Gauge>& requests_in_flight;
  const std::vector<std::string> method_names;
  std::map<std::string, MethodHandles> methods;
  std::once_flag other_method_made;
  MethodHandles other_method;
  CodeCounters store_calls;
  std::array<prometheus::Histogram*, kStoreOperations.size()> store_duration = {};
  ClusterSeries clusters;
  std::array<prometheus::Counter*, kReasonCount + 1> rejects = {};

  prometheus::Gauge* searches_waiting = nullptr;
  prometheus::Gauge* searches_running = nullptr;
  prometheus::Gauge* queue_limit = nullptr;
  prometheus::Gauge* workers = nullptr;
  prometheus::Gauge* key_expiry = nullptr;
  prometheus::Gauge* signing_keys = nullptr;
  prometheus::Gauge* store_writable = nullptr;
  prometheus::Counter* audit_failures = nullptr;
  prometheus::Counter* unread_answers = nullptr;
  prometheus::Counter* searches_shared = nullptr;
  prometheus::Histogram* queue_duration = nullptr;
  std::map<std::string, PlannerHandles> planners;
  std::array<std::array<prometheus::Counter*, 2>, kCacheKindCount> cache_lookups = {};

  prometheus::Histogram* predicted_step = nullptr;
  prometheus::Histogram* predicted_throughput = nullptr;
  prometheus::Histogram* predicted_peak_memory = nullptr;
  prometheus::Histogram* predicted_headroom = nullptr;
  prometheus::Histogram* profile_age = nullptr;
  prometheus::Histogram* baseline_gain = nullptr;

  prometheus::Counter* uploads_stored = nullptr;
  std::array<prometheus::Counter*, kReasonCount + 1> uploads_rejected = {};
  prometheus::Histogram* upload_size = nullptr;
  std::array<prometheus::Counter*, kVerifyOutcomeCount> verifications = {};
  prometheus::Counter* windows_stored = nullptr;

  std::array<prometheus::Histogram*, kPhaseCount + 1> phase_ratios = {};
  std::array<prometheus::Histogram*, kMemoryItemCount + 1> memory_item_ratios = {};

  prometheus::Gauge* leases_active = nullptr;
  std::array<prometheus::Counter*, kLeaseOutcomeCount> leases_ended = {};
  std::array<prometheus::Counter*, kLeaseRefusalKindCount> lease_refusals = {};
  prometheus::Histogram* lease_duration = nullptr;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_METRICS_OBSERVER_SERIES_H_
