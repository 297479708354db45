#include "server/metrics/prometheus_observer.h"

#include <prometheus/text_serializer.h>

#include <algorithm>

#include "server/metrics/label.h"
#include "server/metrics/observer_series.h"

namespace parplan {

PrometheusObserver::PrometheusObserver(const std::vector<std::string>& planners,
                                       const std::vector<std::string>& methods)
    : handles_(std::make_unique<Handles>(planners, methods)) {}

PrometheusObserver::~PrometheusObserver() = default;

std::shared_ptr<prometheus::Registry> PrometheusObserver::registry() const {
  return handles_->registry;
}

std::string PrometheusObserver::Text() const {
  return prometheus::TextSerializer().Serialize(handles_->registry->Collect());
}

void PrometheusObserver::SetLimits(int max_queue_length, int running_count) {
  handles_->queue_limit->Set(max_queue_length);
  handles_->workers->Set(running_count);
}

void PrometheusObserver::CallStarted(absl::string_view method) {
  handles_->Method(method).in_flight->Increment();
}

void PrometheusObserver::CallFinished(absl::string_view method, absl::StatusCode code,
                                      std::optional<Reason> reason, absl::Duration duration) {
  const Handles::MethodHandles& handles = handles_->Method(method);
  handles.in_flight->Decrement();
  handles_->requests.At(handles.row, code).Increment();
  handles.duration->Observe(absl::ToDoubleSeconds(duration));
  if (reason.has_value()) handles_->rejects[static_cast<int>(*reason)]->Increment();
}

void PrometheusObserver::QueueChanged(int waiting, int running) {
  handles_->searches_waiting->Set(waiting);
  handles_->searches_running->Set(running);
}

void PrometheusObserver::CacheLookedUp(CacheKind cache, bool hit) {
  handles_->cache_lookups[static_cast<int>(cache)][hit ? 1 : 0]->Increment();
}

void PrometheusObserver::SearchShared() { handles_->searches_shared->Increment(); }

void PrometheusObserver::SearchFinished(const SearchReport& report) {
  const Handles::PlannerHandles& planner = handles_->Planner(report.planner);
  planner.searches[static_cast<int>(report.outcome)]->Increment();
  planner.duration->Observe(absl::ToDoubleSeconds(report.wall_duration));
  planner.cpu_seconds->Increment(std::max(0.0, absl::ToDoubleSeconds(report.cpu_duration)));
  planner.states->Increment(static_cast<double>(report.expanded_state_count));
  handles_->queue_duration->Observe(absl::ToDoubleSeconds(report.queue_duration));
}

void PrometheusObserver::PlanIssued(const PlanReport& report) {
  handles_->Planner(report.planner).plans->Increment();
  handles_->predicted_step->Observe(report.predicted_step.value());
  handles_->predicted_throughput->Observe(report.predicted_samples_per_second);
  handles_->predicted_peak_memory->Observe(report.predicted_peak_memory.as_double());
  if (report.usable_memory > Bytes()) {
    handles_->predicted_headroom->Observe(1.0 - report.predicted_peak_memory.as_double() /
                                                    report.usable_memory.as_double());
  }
  if (report.profile_age.has_value()) {
    handles_->profile_age->Observe(absl::ToDoubleSeconds(*report.profile_age));
  }
  if (report.baseline_gain.has_value()) handles_->baseline_gain->Observe(*report.baseline_gain);
}

void PrometheusObserver::UploadFinished(std::optional<Reason> reason, bool stored, int64_t bytes) {
  if (stored) {
    handles_->uploads_stored->Increment();
  } else {
    handles_->uploads_rejected[reason.has_value() ? static_cast<int>(*reason) : 0]->Increment();
  }
  handles_->upload_size->Observe(static_cast<double>(bytes));
}

void PrometheusObserver::PlanVerified(VerifyOutcome outcome) {
  handles_->verifications[static_cast<int>(outcome)]->Increment();
}

void PrometheusObserver::ProfileStored(const SnapshotReport& report) {
  handles_->clusters.ProfileStored(report);
}

void PrometheusObserver::SnapshotLoaded(const SnapshotReport& report) {
  handles_->clusters.SnapshotLoaded(report);
}

void PrometheusObserver::ProfilesSeen(absl::string_view cluster,
                                      const std::vector<StoredKind>& kinds) {
  handles_->clusters.ProfilesSeen(cluster, kinds);
}

void PrometheusObserver::CalibrationSeen(absl::string_view cluster,
                                         std::optional<absl::Time> active_since) {
  handles_->clusters.CalibrationSeen(cluster, active_since);
}

void PrometheusObserver::ExecutionClosed(absl::string_view cluster, bool succeeded,
                                         std::optional<double> ratio) {
  handles_->clusters.ExecutionClosed(cluster, succeeded, ratio);
}

void PrometheusObserver::PeakMemoryMeasured(absl::string_view cluster, double ratio) {
  handles_->clusters.PeakMemoryMeasured(cluster, ratio);
}

void PrometheusObserver::PhaseMeasured(int phase, double ratio) {
  if (phase >= 1 && phase <= kPhaseCount) handles_->phase_ratios[phase]->Observe(ratio);
}

void PrometheusObserver::MemoryItemMeasured(int kind, double ratio) {
  if (kind >= 1 && kind <= kMemoryItemCount) handles_->memory_item_ratios[kind]->Observe(ratio);
}

void PrometheusObserver::WindowsStored(int64_t count) {
  handles_->windows_stored->Increment(static_cast<double>(count));
}

void PrometheusObserver::AgentsChanged(int /*agent_count*/, int lease_count) {
  handles_->leases_active->Set(lease_count);
}

void PrometheusObserver::ClusterAgentsChanged(absl::string_view cluster, int agent_count) {
  handles_->clusters.AgentsChanged(cluster, agent_count);
}

void PrometheusObserver::AgentHeard(absl::string_view cluster, absl::Time time) {
  handles_->clusters.AgentHeard(cluster, time);
}

void PrometheusObserver::LeaseEnded(LeaseOutcome outcome, absl::Duration since_grant) {
  handles_->leases_ended[static_cast<int>(outcome)]->Increment();
  handles_->lease_duration->Observe(absl::ToDoubleSeconds(since_grant));
}

void PrometheusObserver::LeaseRefused(LeaseRefusalKind kind) {
  handles_->lease_refusals[static_cast<int>(kind)]->Increment();
}

void PrometheusObserver::StoreCalled(StoreOperation operation, absl::StatusCode code,
                                     absl::Duration duration) {
  handles_->store_calls.At(operation.index(), code).Increment();
  handles_->store_duration[operation.index()]->Observe(absl::ToDoubleSeconds(duration));
}

void PrometheusObserver::SigningKeysSeen(absl::Time last_expiry) {
  handles_->key_expiry->Set(absl::ToDoubleSeconds(last_expiry - absl::UnixEpoch()));
}

void PrometheusObserver::StoreTried(bool can_write) {
  handles_->store_writable->Set(can_write ? 1 : 0);
}

void PrometheusObserver::SigningKeysCounted(int count) { handles_->signing_keys->Set(count); }

void PrometheusObserver::AnswerBrokenOff() { handles_->unread_answers->Increment(); }

void PrometheusObserver::AuditFailed(int64_t record_count) {
  handles_->audit_failures->Increment(static_cast<double>(record_count));
}

}  // namespace parplan
