#include "profiler-agent/daemon/daemon.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/service/health/health_server.h"
#include "base/service/log/event_log.h"
#include "base/service/shell/port_file.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "profiler-agent/daemon/agent_metrics.h"
#include "profiler-agent/daemon/link_probe.h"
#include "profiler-agent/daemon/look_times.h"
#include "profiler-agent/daemon/measuring.h"
#include "profiler-agent/daemon/remembered.h"
#include "profiler-agent/daemon/status_text.h"
#include "profiler-agent/daemon/upload_client.h"
#include "profiler-agent/daemon/wake_set.h"
#include "profiler-agent/drift/window_spool.h"
#include "profiler-agent/measure/torch_job.h"
#include "profiler-agent/probe/link_probe_plan.h"
#include "profiler-agent/upload/upload_queue.h"
#include "proto/wire/version.h"

namespace parplan {
namespace {

// Passive timings kept for judging drift; the oldest are dropped. Not measured: at about 100 bytes
// each this bounds memory to a few MB.
constexpr size_t kMaxSeen = 20000;
// Pause before trying again to borrow the nodes at the other ends of links.
constexpr absl::Duration kLinkPause = absl::Seconds(30);
// Pauses after a failed write to the queue.
constexpr BackoffOptions kFailurePauses = {absl::Minutes(1), absl::Hours(1)};

void LogLine(int rank, absl::string_view line) {
  LogEvent("warning", "rank said", {{"rank", absl::StrCat(rank)}, {"line", std::string(line)}});
}

class Daemon {
 public:
  explicit Daemon(const DaemonOptions& options)
      : options_(options),
        metrics_(options.server.certificate_file, options.server.ca_file),
        spool_(options.spool_dir),
        look_times_({.busy_pause = options.busy_pause, .drift_pause = options.drift_pause}) {}

  absl::Status Start() {
    SetEventLogLevel(options_.watch.log_level);
    PARPLAN_ASSIGN_OR_RETURN(wakes_, WakeSet::Create(options_.spool_dir));
    PARPLAN_ASSIGN_OR_RETURN(remembered_,
                             Remembered::Open(absl::StrCat(options_.state_dir, "/measured")));
    PARPLAN_ASSIGN_OR_RETURN(queue_,
                             UploadQueue::Open(absl::StrCat(options_.state_dir, "/uploads")));
    PARPLAN_ASSIGN_OR_RETURN(client_,
                             UploadClient::Create(options_.server, options_.upload_timeout));
    int metrics_port = 0;
    if (!options_.watch.metrics_listen.empty()) {
      PARPLAN_ASSIGN_OR_RETURN(metrics_port, metrics_.Serve(options_.watch.metrics_listen));
    }
    if (!options_.watch.health_listen.empty()) {
      PARPLAN_ASSIGN_OR_RETURN(health_, HealthServer::Start(options_.watch.health_listen));
    }
    const int port = health_ == nullptr ? 0 : health_->port();
    PARPLAN_RETURN_IF_ERROR(WritePortFile(options_.watch.health_port_file, port));
    PARPLAN_RETURN_IF_ERROR(WritePortFile(options_.watch.metrics_port_file, metrics_port));
    metrics_.SetDevices(options_.request.rank_count);
    metrics_.SetDrift(1.0, 0);
    metrics_.SetQueue(queue_->length(), 0);
    LogEvent("info", "started",
             {{"parent", options_.parent},
              {"server", options_.server.target},
              {"state_dir", options_.state_dir},
              {"queued", absl::StrCat(queue_->length())},
              {"port", absl::StrCat(port)},
              {"metrics_port", absl::StrCat(metrics_port)}});
    // A node that cannot lend itself is still measured.
    if (const absl::Status status = OfferLinks(); !status.ok()) {
      LogEvent("error", "no leases are taken", {{"message", StatusText(status)}});
    }
    uploader_ = std::make_unique<Uploader>(
        *queue_, [this](const PendingUpload& upload) { return client_->Upload(upload); },
        BackoffOptions(),
        [this](const PendingUpload& upload, const absl::Status& status) { Saw(upload, status); });
    return absl::OkStatus();
  }

  void Run() {
    TakeWindows();
    while (true) {
      const absl::Duration now = SteadyNow();
      if (!IsMeasuring() && !unqueued_.has_value() && now >= look_times_.next()) Look(now);
      if (!IsMeasuring() && !unqueued_.has_value() && now >= next_links_) LookAtLinks(now);
      if (unqueued_.has_value() && now >= next_queue_) Queue();
      const absl::Duration next = unqueued_.has_value() ? next_queue_
                                  : IsMeasuring()       ? absl::InfiniteDuration()
                                                        : std::min(look_times_.next(), next_links_);
      const WakeSet::Causes causes = wakes_->Wait(next - SteadyNow());
      if (causes.signal != 0) break;
      if (causes.has_new_files) TakeWindows();
      if (measuring_ != nullptr) EndMeasurement();
      if (links_ != nullptr) EndLinks();
    }
    LogEvent("info", "ending");
    if (measuring_ != nullptr) {
      metrics_.CountMeasurement(measuring_->probe().kind, MeasurementResult::kStopped,
                                SteadyNow() - measuring_->start(), absl::Now());
    }
    measuring_.reset();
    links_.reset();
    uploader_.reset();
    LogEvent("info", "ended", {{"queued", absl::StrCat(queue_->length())}});
  }

 private:
  bool IsMeasuring() { return measuring_ != nullptr || (links_ != nullptr && links_->is_active()); }

  absl::Status OfferLinks() {
    if (!options_.takes_leases) return absl::OkStatus();
    LinkProbeOptions links;
    links.read_inventory = [options = options_.measurement.inventory] {
      return ReadInventory(options);
    };
    PARPLAN_ASSIGN_OR_RETURN(const NodeInventory inventory, links.read_inventory());
    links.measurement = options_.measurement;
    links.measurement.on_line = &LogLine;
    links.look_interval = options_.look_interval;
    links.hello.set_node(options_.parent);
    links.hello.set_instance_id(MakeUuid());
    links.hello.set_agent(absl::StrCat("parplan-agent ", kVersion));
    links.hello.set_host(options_.host);
    PARPLAN_ASSIGN_OR_RETURN(*links.hello.mutable_device_kind(),
                             DeviceKind(inventory, options_.measurement.device_type));
    links.hello.set_device_count(options_.request.rank_count);
    links.hello.set_inventory_fingerprint(InventoryFingerprint(inventory));
    links.bounds.backend = options_.request.backend;
    links.bounds.max_message_bytes =
        std::max(links.bounds.max_message_bytes, options_.request.largest_message_bytes);
    links.bounds.max_time_budget =
        std::max(links.bounds.max_time_budget, options_.request.time_budget);
    links_ = std::make_unique<LinkProbe>(options_.server, std::move(links), *wakes_);
    if (!options_.link_nodes.empty()) next_links_ = -absl::InfiniteDuration();
    return absl::OkStatus();
  }

  // Begins to measure links if some are missing. The node itself is measured first.
  void LookAtLinks(absl::Duration now) {
    next_links_ = absl::InfiniteDuration();
    const int node_count = static_cast<int>(options_.link_nodes.size());
    const absl::StatusOr<agent::v1::ProbePlan> whole = LinkProbePlan(options_.request, node_count);
    if (!whole.ok()) {
      LogEvent("error", "no links to measure", {{"message", StatusText(whole.status())}});
      return;
    }
    if (remembered_->profile().device_kind().empty()) {
      next_links_ = now + kLinkPause;
      return;
    }
    agent::v1::ProbePlan plan = IncrementalProbe(*whole, remembered_->profile(), {});
    if (IsEmptyProbe(plan)) return;
    LogEvent("info", "measuring links",
             {{"nodes", absl::StrCat(node_count)},
              {"collectives", absl::StrCat(plan.collectives_size())}});
    links_plan_ = plan;
    links_start_ = now;
    // Another node may have borrowed this one first.
    if (!links_->Begin(std::move(plan), options_.link_nodes)) next_links_ = now + kLinkPause;
  }

  void EndLinks() {
    std::optional<absl::StatusOr<v1::Profile>> profile = links_->TakeProfile();
    if (!profile.has_value()) return;
    const absl::Duration now = SteadyNow();
    const NextProbe probe{MeasurementKind::kIncremental, links_plan_};
    metrics_.CountMeasurement(probe.kind,
                              profile->ok() ? MeasurementResult::kDone : MeasurementResult::kFailed,
                              now - links_start_, absl::Now());
    if (!profile->ok()) {
      next_links_ = now + kLinkPause;
      LogEvent("warning", "links were not measured", {{"message", StatusText(profile->status())}});
      return;
    }
    LogEvent("info", "measured links",
             {{"collective_timings", absl::StrCat((*profile)->collective_timings_size())}});
    const absl::StatusOr<agent::v1::ProbePlan> whole = WholeProbe(options_.request);
    if (whole.ok()) Keep(probe, *whole, remembered_->fingerprint(), **profile);
    // Continues with what the budget left out, as long as each attempt measures something.
    if (!(*profile)->collective_timings().empty()) next_links_ = now + kLinkPause;
  }

  // Runs on the uploader's thread.
  void Saw(const PendingUpload& upload, const absl::Status& status) {
    const bool may_retry = MayRetryUpload(status);
    metrics_.CountUpload(status, may_retry);
    metrics_.SetQueue(queue_->length(), queue_->damaged_count());
    if (status.ok()) {
      LogEvent("info", "uploaded", {{"request_id", upload.request_id}});
    } else {
      LogEvent(may_retry ? "warning" : "error", may_retry ? "upload failed" : "upload refused",
               {{"request_id", upload.request_id}, {"message", StatusText(status)}});
    }
  }

  // Begins a measurement if one is due.
  void Look(absl::Duration now) {
    look_times_.Looked(now);
    const absl::StatusOr<NodeInventory> inventory = ReadInventory(options_.measurement.inventory);
    if (!inventory.ok()) {
      LogEvent("error", "no inventory", {{"message", StatusText(inventory.status())}});
      return;
    }
    ProbeRequest request = options_.request;
    if (request.torch.has_value()) {
      // PyTorch may have been updated, or removed, since the last look.
      const absl::StatusOr<std::string> version = TorchVersion(request.torch->program());
      if (!version.ok()) {
        LogEvent("error", "no PyTorch", {{"message", StatusText(version.status())}});
        return;
      }
      request.torch->set_version(*version);
    }
    const absl::StatusOr<agent::v1::ProbePlan> whole = WholeProbe(request);
    if (!whole.ok()) {
      LogEvent("error", "nothing to measure", {{"message", StatusText(whole.status())}});
      return;
    }
    std::optional<NextProbe> next = remembered_->Next(*whole, InventoryFingerprint(*inventory),
                                                      drifted_, absl::Now(), options_.longest_age);
    if (!next.has_value()) return;
    const bool is_part = next->kind == MeasurementKind::kIncremental;
    if (is_part) {
      SetTimeBudget(options_.request.incremental_time_budget, next->plan);
    }
    if (links_ != nullptr && !links_->SetBusy(true)) {
      // Another node borrowed this one first; the end of that lease wakes this thread.
      look_times_.FoundLent(now);
      return;
    }
    LogEvent("info", "measuring",
             {{"kind", MeasurementKindName(next->kind)},
              {"budget", absl::FormatDuration(is_part ? options_.request.incremental_time_budget
                                                      : options_.request.time_budget)},
              {"collectives", absl::StrCat(next->plan.collectives_size())},
              {"layer_sizes", absl::StrCat(next->plan.layers_size())}});
    MeasurementOptions measurement = options_.measurement;
    measurement.on_line = &LogLine;
    measuring_ = std::make_unique<Measuring>(*inventory, *std::move(next), *whole,
                                             std::move(measurement), *wakes_);
  }

  void EndMeasurement() {
    std::optional<absl::StatusOr<v1::Profile>> profile = measuring_->TakeProfile();
    if (!profile.has_value()) return;
    if (links_ != nullptr) links_->SetBusy(false);
    const absl::Duration now = SteadyNow();
    const absl::Duration took = now - measuring_->start();
    const MeasurementKind kind = measuring_->probe().kind;
    if (!profile->ok()) {
      const bool is_busy = IsBusyRefusal(profile->status());
      metrics_.CountMeasurement(
          kind, is_busy ? MeasurementResult::kBusy : MeasurementResult::kFailed, took, absl::Now());
      if (is_busy) {
        look_times_.FoundBusy(now);
      } else {
        look_times_.Failed(now);
      }
      LogEvent("warning", is_busy ? "node is busy" : "measurement failed",
               {{"message", StatusText(profile->status())},
                {"next",
                 absl::FormatTime(absl::Now() + (look_times_.next() - now), absl::UTCTimeZone())}});
      measuring_.reset();
      return;
    }
    metrics_.CountMeasurement(kind, MeasurementResult::kDone, took, absl::Now());
    LogEvent("info", "measured",
             {{"kind", MeasurementKindName(kind)},
              {"seconds", absl::StrCat(absl::ToDoubleSeconds(took))},
              {"collective_timings", absl::StrCat((*profile)->collective_timings_size())},
              {"layer_timings", absl::StrCat((*profile)->layer_timings_size())}});
    // Must precede the upload: someone who sees the profile on the server may read this metric
    // next.
    metrics_.SetDrift(1.0, 0);
    Keep(measuring_->probe(), measuring_->whole(), measuring_->fingerprint(), **profile);
    const bool has_rest = remembered_
                              ->Next(measuring_->whole(), measuring_->fingerprint(), {},
                                     absl::Now(), options_.longest_age)
                              .has_value();
    measuring_.reset();
    seen_.clear();
    drifted_.clear();
    look_times_.Measured(now, has_rest);
    // Links are measured after the first measurement of the node.
    if (links_ != nullptr && !options_.link_nodes.empty()) next_links_ = now;
  }

  // Queues the profile, then remembers it. A crash between the two only repeats the measurement.
  void Keep(const NextProbe& probe, const agent::v1::ProbePlan& whole,
            const std::string& fingerprint, const v1::Profile& profile) {
    unqueued_ = PendingUpload{MakeUuid(), options_.parent, profile.SerializeAsString()};
    next_queue_ = SteadyNow();
    queue_failure_count_ = 0;
    Queue();
    const absl::Status kept = remembered_->Learn(probe, whole, fingerprint, profile, absl::Now());
    if (!kept.ok()) LogEvent("error", "cannot remember", {{"message", StatusText(kept)}});
  }

  // Puts the profile into the queue; retried later if the disk is full.
  void Queue() {
    const absl::Status status = queue_->Push(*unqueued_);
    if (status.ok()) {
      unqueued_.reset();
      uploader_->Wake();
    } else {
      next_queue_ = SteadyNow() + BackoffPause(kFailurePauses, ++queue_failure_count_, 1.0);
      LogEvent("error", "cannot queue the profile", {{"message", StatusText(status)}});
    }
    metrics_.SetQueue(queue_->length(), queue_->damaged_count());
  }

  void TakeWindows() {
    if (options_.spool_dir.empty()) return;
    const int64_t refused_before = spool_.refused_count();
    int64_t timing_count = 0;
    do {
      const std::vector<v1::CollectiveTiming> timings = spool_.Take();
      timing_count += static_cast<int64_t>(timings.size());
      seen_.insert(seen_.end(), timings.begin(), timings.end());
      while (seen_.size() > kMaxSeen) seen_.pop_front();
    } while (spool_.has_more());
    metrics_.CountWindows(timing_count, spool_.refused_count() - refused_before);
    const std::vector<v1::CollectiveTiming> seen(seen_.begin(), seen_.end());
    const std::vector<Drift> drifts = FindDrift(remembered_->profile(), seen, options_.drift);
    metrics_.SetDrift(LargestDriftRatio(remembered_->profile(), seen),
                      static_cast<int>(drifts.size()));
    drifted_.clear();
    for (const Drift& drift : drifts) {
      drifted_.insert({drift.collective, drift.participant_count, drift.rank_stride});
    }
    if (drifts.empty()) return;
    LogEvent("info", "drift",
             {{"shapes", absl::StrCat(drifts.size())}, {"ratio", absl::StrCat(drifts[0].ratio)}});
    look_times_.FoundDrift(SteadyNow());
  }

  const DaemonOptions& options_;
  AgentMetrics metrics_;
  std::unique_ptr<WakeSet> wakes_;
  std::unique_ptr<Remembered> remembered_;
  std::unique_ptr<UploadQueue> queue_;
  std::unique_ptr<UploadClient> client_;
  std::unique_ptr<HealthServer> health_;
  WindowSpool spool_;
  // Passive timings since the last measurement, newest last, and the shapes that have drifted.
  std::deque<v1::CollectiveTiming> seen_;
  std::set<CollectiveShape> drifted_;
  LookTimes look_times_;
  // A measured profile that is not in the queue yet.
  std::optional<PendingUpload> unqueued_;
  // Times on `SteadyNow`, as those of `look_times_`: a clock that is set must not stop the daemon.
  absl::Duration next_queue_;
  int queue_failure_count_ = 0;
  std::unique_ptr<Measuring> measuring_;
  // Null if no leases are taken.
  std::unique_ptr<LinkProbe> links_;
  absl::Duration next_links_ = absl::InfiniteDuration();
  agent::v1::ProbePlan links_plan_;
  absl::Duration links_start_;
  // Must be the last member, so that it is destroyed first.
  std::unique_ptr<Uploader> uploader_;
};

}  // namespace

absl::Status RunDaemon(const DaemonOptions& options) {
  Daemon daemon(options);
  PARPLAN_RETURN_IF_ERROR(daemon.Start());
  daemon.Run();
  return absl::OkStatus();
}

}  // namespace parplan
