// Metrics of the sidecar and its job for Prometheus (docs/kubernetes.md). `parplan-sidecar run` has
// them.

#ifndef PARPLAN_CLIENTS_KUBERNETES_SIDECAR_METRICS_H_
#define PARPLAN_CLIENTS_KUBERNETES_SIDECAR_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/service/metrics/exposer.h"
#include "clients/kubernetes/drift_meter.h"
#include "clients/kubernetes/window_journal.h"

namespace parplan::sidecar {

// Values that are read at each scrape.
struct SidecarFigures {
  JournalCounts journal;
  Drift drift;
  // Forwarder::failure_count.
  int64_t failed_try_count = 0;
  // Number of the plan on the volume (PlanVolume::generation).
  int64_t generation = 0;
  // Infinite if unknown.
  absl::Time plan_expiry = absl::InfiniteFuture();
  // PlanKeeper::trust_expiry.
  absl::Time trust_expiry = absl::InfiniteFuture();
};

// Outcome of a look for a newer plan (PlanKeeper::Look): there is none; it is on the volume now;
// the plan found must not be used here, or something else failed that does not pass by itself; or
// the look failed, and the next one may succeed.
enum class LookOutcome { kSame, kNew, kRefused, kFailed };

// Safe to use from any thread.
class SidecarMetrics {
 public:
  // `figures` is called on a thread of the HTTP server at each scrape, after `Serve` and until this
  // object is destroyed; what it reads must live so long and be safe to read from there. The
  // metrics include the expiry of the certificates in these files; empty paths are left out.
  SidecarMetrics(std::function<SidecarFigures()> figures, const std::string& certificate_file,
                 const std::string& ca_file);
  ~SidecarMetrics();

  // Serves the metrics over plain HTTP at `/metrics` of `address`, HOST:PORT, while this object
  // lives. Returns the port; port 0 takes a free one. UNAVAILABLE without a reason if the port
  // can't be opened. REQUIRES, unchecked: called at most once.
  absl::StatusOr<int> Serve(const std::string& address);

  // Counts a look for a newer plan.
  void CountLook(LookOutcome outcome);

 private:
  struct Series;
  const std::shared_ptr<Series> series_;
  std::unique_ptr<MetricsExposer> exposer_;
};

// Returns the resident memory of this process in bytes; 0 if unknown.
int64_t ResidentBytes();

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_SIDECAR_METRICS_H_
