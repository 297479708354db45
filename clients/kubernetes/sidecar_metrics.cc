#include "clients/kubernetes/sidecar_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <utility>
#include <vector>

#include "base/service/metrics/certificate_metrics.h"
#include "base/status_macros.h"
#include "proto/wire/version.h"

namespace parplan::sidecar {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::array<const char*, 4> kLookOutcomes = {"same", "new", "refused", "failed"};

MetricFamily Family(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void AddSample(MetricFamily& family, double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

MetricFamily One(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family = Family(name, help, type);
  AddSample(family, value);
  return family;
}

}  // namespace

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return file ? resident_pages * ::sysconf(_SC_PAGESIZE) : 0;
}

// Made anew for each reader, so that nothing is kept twice.
struct SidecarMetrics::Series : public prometheus::Collectable {
  std::vector<MetricFamily> Collect() const override {
    const SidecarFigures now = figures();
    std::vector<MetricFamily> all;
    const auto gauge = [&](const char* name, const char* help, double value) {
      all.push_back(One(name, help, MetricType::Gauge, value));
    };
    const auto counter = [&](const char* name, const char* help, int64_t value) {
      all.push_back(One(name, help, MetricType::Counter, static_cast<double>(value)));
    };
    MetricFamily build =
        Family("parplan_sidecar_build_info", "1, with the release as label", MetricType::Gauge);
    AddSample(build, 1.0, {{"version", kVersion}});
    all.push_back(std::move(build));
    gauge("parplan_sidecar_plan_generation", "Plans written to the volume so far",
          static_cast<double>(now.generation));
    if (now.plan_expiry != absl::InfiniteFuture()) {
      gauge("parplan_sidecar_plan_expiry_timestamp_seconds",
            "When the plan on the volume expires, in seconds since 1970",
            absl::ToDoubleSeconds(now.plan_expiry - absl::UnixEpoch()));
    }
    if (now.trust_expiry != absl::InfiniteFuture()) {
      gauge("parplan_sidecar_trust_bundle_expiry_timestamp_seconds",
            "When the trust bundle expires and no newer plan is taken, in seconds since 1970",
            absl::ToDoubleSeconds(now.trust_expiry - absl::UnixEpoch()));
    }
    MetricFamily looked = Family("parplan_sidecar_plan_looks_total",
                                 "Looks for a newer plan of the job", MetricType::Counter);
    for (size_t i = 0; i < kLookOutcomes.size(); ++i) {
      AddSample(looked, static_cast<double>(looks[i].load()), {{"result", kLookOutcomes[i]}});
    }
    all.push_back(std::move(looked));
    counter("parplan_sidecar_windows_received_total", "Windows of steps taken from the job",
            now.journal.received_window_count);
    counter("parplan_sidecar_windows_forwarded_total", "Windows that the server has",
            now.journal.forwarded_window_count);
    counter("parplan_sidecar_windows_refused_total",
            "Windows that the server will never take, set aside", now.journal.refused_window_count);
    gauge("parplan_sidecar_windows_waiting", "Windows on their way to the server",
          static_cast<double>(now.journal.waiting_window_count));
    gauge("parplan_sidecar_queue_bytes", "Size of the windows on their way to the server",
          static_cast<double>(now.journal.waiting_byte_count));
    counter("parplan_sidecar_damaged_records_total", "Records on disk that were damaged, set aside",
            now.journal.damaged_record_count);
    counter("parplan_sidecar_forward_failures_total",
            "Calls to the server that failed and are repeated", now.failed_try_count);
    if (now.drift.step_ratio.has_value()) {
      gauge("parplan_sidecar_step_duration_ratio",
            "Measured over predicted time of a step, median of the latest windows",
            *now.drift.step_ratio);
    }
    if (now.drift.memory_ratio.has_value()) {
      gauge("parplan_sidecar_peak_memory_ratio",
            "Measured over predicted memory of the fullest device", *now.drift.memory_ratio);
    }
    gauge("parplan_sidecar_drifting", "1 while the step ratio is beyond the limit, else 0",
          now.drift.is_drifting ? 1.0 : 0.0);
    gauge("process_resident_memory_bytes", "Resident memory of the sidecar",
          static_cast<double>(ResidentBytes()));
    return all;
  }

  std::function<SidecarFigures()> figures;
  std::array<std::atomic<int64_t>, kLookOutcomes.size()> looks = {};
  std::shared_ptr<prometheus::Collectable> certificates;
};

SidecarMetrics::SidecarMetrics(std::function<SidecarFigures()> figures,
                               const std::string& certificate_file, const std::string& ca_file)
    : series_(std::make_shared<Series>()) {
  series_->figures = std::move(figures);
  series_->certificates =
      MakeCertificateMetrics({{"certificate", certificate_file}, {"server_ca", ca_file}});
}

SidecarMetrics::~SidecarMetrics() = default;

absl::StatusOr<int> SidecarMetrics::Serve(const std::string& address) {
  PARPLAN_ASSIGN_OR_RETURN(exposer_,
                           MetricsExposer::Start(address, {series_, series_->certificates}));
  return exposer_->port();
}

void SidecarMetrics::CountLook(LookOutcome outcome) {
  series_->looks[static_cast<size_t>(outcome)].fetch_add(1);
}

}  // namespace parplan::sidecar
