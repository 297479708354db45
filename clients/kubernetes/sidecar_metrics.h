// Metrics of the sidecar and its job for Prometheus. `parplan-sidecar run` serves them;
// docs/metrics.md lists their names, types and units.

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
  // Windows of measurements on their way to the server (window_journal.h).
  JournalCounts journal;
  // Measured over predicted step time and memory (drift_meter.h).
  Drift drift;
  // Number of calls to the server that failed and were or will be repeated, since the process
  // started (`Forwarder::failure_count`).
  int64_t failed_try_count = 0;
  // Number of the plan on the volume, from 1 (`PlanVolume::generation`); 0 before the first plan.
  int64_t generation = 0;
  // Time at which the plan on the volume expires (`PlanPayload.expire_time`). An infinite time here
  // and in the next has no metric.
  absl::Time plan_expiry = absl::InfiniteFuture();
  // Time at which the trust bundle expires, from which on no newer plan is accepted
  // (`PlanKeeper::trust_expiry`).
  absl::Time trust_expiry = absl::InfiniteFuture();
};

// Outcome of one look for a newer plan (`PlanKeeper::Look`).
enum class LookOutcome {
  // The server has no newer plan.
  kSame,
  // A newer plan was found and written to the volume.
  kNew,
  // A newer plan was found that must not be used here, or there is another error that does not pass
  // by itself.
  kRefused,
  // The look failed; the next one may succeed.
  kFailed,
};

// Safe to use from any thread, except `Serve`.
class SidecarMetrics {
 public:
  // `figures` is called on a thread of the HTTP server at each scrape, from `Serve` until this
  // object is destroyed. REQUIRES, unchecked: it is not null, it may be called from any thread, and
  // everything it reads outlives this object. A scrape takes as long as `figures`.
  //
  // `certificate_file` and `ca_file` are PEM files of certificates, whose expiry times are metrics
  // too (base/service/metrics/certificate_metrics.h): a file is read again when it has changed, and
  // an unreadable one is not an error. An empty path has no metric.
  SidecarMetrics(std::function<SidecarFigures()> figures, const std::string& certificate_file,
                 const std::string& ca_file);
  ~SidecarMetrics();

  // Serves the metrics over plain HTTP at `/metrics` of `address`, HOST:PORT, until this object is
  // destroyed. Returns the port; port 0 takes a free one. INVALID_ARGUMENT (SPEC_INVALID) if host
  // or port is missing; UNAVAILABLE, without a reason of base/error.h, if the address cannot be
  // bound or the port is no number. REQUIRES, unchecked: called at most once.
  absl::StatusOr<int> Serve(const std::string& address);

  // Adds one look for a newer plan to the counter of its outcome.
  void CountLook(LookOutcome outcome);

 private:
  struct Series;
  const std::shared_ptr<Series> series_;
  std::unique_ptr<MetricsExposer> exposer_;
};

// Returns the resident memory of this process in bytes, which is one of the metrics and is logged
// at the start; 0 if the system does not say.
int64_t ResidentBytes();

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_SIDECAR_METRICS_H_
