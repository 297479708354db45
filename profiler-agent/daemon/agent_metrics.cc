#include "profiler-agent/daemon/agent_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/service/metrics/build_metrics.h"
#include "base/service/metrics/certificate_metrics.h"
#include "base/service/metrics/exposer.h"
#include "base/service/metrics/process_metrics.h"
#include "base/status_macros.h"
#include "proto/wire/version.h"

namespace parplan {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Registry;

Gauge& AddGauge(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

Counter& AddCounter(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

const char* MeasurementKindName(MeasurementKind kind) {
  return kind == MeasurementKind::kWhole ? "whole" : "incremental";
}

const char* MeasurementResultName(MeasurementResult result) {
  switch (result) {
    case MeasurementResult::kDone:
      return "done";
    case MeasurementResult::kBusy:
      return "busy";
    case MeasurementResult::kFailed:
      return "failed";
    case MeasurementResult::kStopped:
      return "stopped";
  }
  return "failed";
}

struct AgentMetrics::Series {
  Series() {
    AddBuildInfo(*registry, "parplan-agent", kVersion);
    auto& measured = prometheus::BuildCounter()
                         .Name("parplan_agent_measurements_total")
                         .Help("Measurements of the node that ended")
                         .Register(*registry);
    for (const auto kind : {MeasurementKind::kWhole, MeasurementKind::kIncremental}) {
      for (const auto result : {MeasurementResult::kDone, MeasurementResult::kBusy,
                                MeasurementResult::kFailed, MeasurementResult::kStopped}) {
        measurements[{kind, result}] = &measured.Add(
            {{"kind", MeasurementKindName(kind)}, {"result", MeasurementResultName(result)}});
      }
    }
    auto& uploaded = prometheus::BuildCounter()
                         .Name("parplan_agent_uploads_total")
                         .Help("Attempts to upload a profile to the server")
                         .Register(*registry);
    for (const char* const result : {"stored", "failed", "refused"}) {
      uploads[result] = &uploaded.Add({{"result", result}});
    }
  }

  const std::shared_ptr<Registry> registry = std::make_shared<Registry>();
  std::map<std::pair<MeasurementKind, MeasurementResult>, Counter*> measurements;
  std::map<std::string, Counter*> uploads;
  Counter& busy_refusals = AddCounter(*registry, "parplan_agent_busy_refusals_total",
                                      "Measurements postponed because the node was busy");
  Gauge& last_measurement =
      AddGauge(*registry, "parplan_agent_last_measurement_timestamp_seconds",
               "End of the last completed measurement, in seconds since 1970");
  Gauge& measurement_duration =
      AddGauge(*registry, "parplan_agent_last_measurement_duration_seconds",
               "Duration of the last completed measurement, in seconds");
  Gauge& queue_length =
      AddGauge(*registry, "parplan_agent_upload_queue_length", "Profiles waiting for the server");
  std::mutex damaged_mutex;
  Counter& damaged = AddCounter(*registry, "parplan_agent_damaged_uploads_total",
                                "Damaged profiles in the queue that were set aside");
  Gauge& drift_ratio = AddGauge(
      *registry, "parplan_agent_drift_ratio",
      "Largest ratio between collective times in jobs and stored times, in either direction");
  Gauge& drifted_shapes = AddGauge(*registry, "parplan_agent_drifted_shapes",
                                   "Shapes of collectives outside their stored range");
  Counter& passive_timings = AddCounter(*registry, "parplan_agent_passive_timings_total",
                                        "Collective timings that jobs left in the spool folder");
  Counter& refused_windows = AddCounter(*registry, "parplan_agent_refused_windows_total",
                                        "Files in the spool folder that were not windows");
  Gauge& devices =
      AddGauge(*registry, "parplan_agent_devices", "Devices that take part in a measurement");
  const std::shared_ptr<prometheus::Collectable> process = MakeProcessMetrics();
  std::shared_ptr<prometheus::Collectable> certificates;
  std::unique_ptr<MetricsExposer> exposer;
};

AgentMetrics::AgentMetrics(const std::string& certificate_file, const std::string& ca_file)
    : series_(std::make_unique<Series>()) {
  series_->certificates =
      MakeCertificateMetrics({{"certificate", certificate_file}, {"server_ca", ca_file}});
}
AgentMetrics::~AgentMetrics() = default;

absl::StatusOr<int> AgentMetrics::Serve(const std::string& address) {
  PARPLAN_ASSIGN_OR_RETURN(
      series_->exposer,
      MetricsExposer::Start(address, {series_->registry, series_->process, series_->certificates}));
  return series_->exposer->port();
}

void AgentMetrics::CountMeasurement(MeasurementKind kind, MeasurementResult result,
                                    absl::Duration took, absl::Time ended) {
  series_->measurements.at({kind, result})->Increment();
  if (result == MeasurementResult::kBusy) series_->busy_refusals.Increment();
  if (result != MeasurementResult::kDone) return;
  series_->last_measurement.Set(absl::ToDoubleSeconds(ended - absl::UnixEpoch()));
  series_->measurement_duration.Set(absl::ToDoubleSeconds(took));
}

void AgentMetrics::CountUpload(const absl::Status& status, bool may_retry) {
  series_->uploads.at(status.ok() ? "stored" : may_retry ? "failed" : "refused")->Increment();
}

void AgentMetrics::SetQueue(int length, int64_t damaged_count) {
  series_->queue_length.Set(length);
  const std::lock_guard<std::mutex> lock(series_->damaged_mutex);
  const double more = static_cast<double>(damaged_count) - series_->damaged.Value();
  if (more > 0.0) series_->damaged.Increment(more);
}

void AgentMetrics::SetDrift(double largest_ratio, int drifted_shape_count) {
  series_->drift_ratio.Set(largest_ratio);
  series_->drifted_shapes.Set(drifted_shape_count);
}

void AgentMetrics::CountWindows(int64_t timing_count, int64_t refused_count) {
  series_->passive_timings.Increment(static_cast<double>(timing_count));
  series_->refused_windows.Increment(static_cast<double>(refused_count));
}

void AgentMetrics::SetDevices(int count) { series_->devices.Set(count); }

}  // namespace parplan
