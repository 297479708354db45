#include "clients/kubernetes/run_command.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/service/health/health_server.h"
#include "base/service/log/event_log.h"
#include "base/service/shell/port_file.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/execution_sink.h"
#include "clients/kubernetes/drift_meter.h"
#include "clients/kubernetes/forwarder.h"
#include "clients/kubernetes/plan_keeper.h"
#include "clients/kubernetes/report_service.h"
#include "clients/kubernetes/sidecar_metrics.h"
#include "clients/kubernetes/window_journal.h"
#include "proto/wire/duration_wire.h"

namespace parplan::sidecar {
namespace {

// Longest timeouts of one poll for a newer plan and of one report, so that a call under way does
// not delay the end of the pod.
constexpr absl::Duration kPollTimeout = absl::Seconds(10);
constexpr absl::Duration kReportTimeout = absl::Seconds(10);

// The name under which health says whether the trust bundle is valid, so that newer plans are
// taken.
constexpr char kTrust[] = "parplan.v1/trust";

// One call for one task of the journal.
absl::StatusOr<std::string> Deliver(ExecutionSink& sink, const JournalTask& task,
                                    absl::Duration timeout) {
  switch (task.kind) {
    case JournalTask::Kind::kOpen:
      return sink.Create(task.request, timeout);
    case JournalTask::Kind::kSend:
      PARPLAN_RETURN_IF_ERROR(sink.Report(task.execution, task.windows, timeout));
      return task.execution;
    case JournalTask::Kind::kClose:
      PARPLAN_RETURN_IF_ERROR(task.outcome == v1::Execution::SUCCEEDED
                                  ? sink.Complete(task.execution, timeout)
                                  : sink.Fail(task.execution, task.reason, timeout));
      return task.execution;
    case JournalTask::Kind::kAbandon:
      PARPLAN_RETURN_IF_ERROR(sink.Abandon(task.execution, task.reason, timeout));
      return task.execution;
  }
  return absl::InternalError("no such task");
}

void LogTry(const JournalTask& task, const absl::Status& status, bool may_retry) {
  if (status.ok()) {
    // Windows are too many to log each.
    if (task.kind == JournalTask::Kind::kSend) return;
    const char* const event = task.kind == JournalTask::Kind::kOpen      ? "execution opened"
                              : task.kind == JournalTask::Kind::kAbandon ? "execution abandoned"
                                                                         : "execution closed";
    LogEvent("info", event, {{"plan", task.request.parent()}, {"execution", task.execution}});
    return;
  }
  // All windows of an execution go with its opening.
  const int64_t window_count = task.kind == JournalTask::Kind::kOpen
                                   ? task.waiting_window_count
                                   : static_cast<int64_t>(task.windows.size());
  LogEvent(may_retry ? "warning" : "error",
           may_retry ? "could not be forwarded, will be retried" : "the server refused",
           {{"plan", task.request.parent()},
            {"windows", absl::StrCat(window_count)},
            {"message", std::string(status.message())}});
}

class Sidecar {
 public:
  explicit Sidecar(const SidecarFlags& flags) : flags_(flags), drift_(flags.drift_limit) {}
  ~Sidecar() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    if (looker_.joinable()) looker_.join();
    // Callers end before what they call.
    service_.reset();
    metrics_.reset();
    forwarder_.reset();
  }

  absl::Status Start() {
    SetEventLogLevel(flags_.watch.log_level);
    PARPLAN_ASSIGN_OR_RETURN(keeper_, PlanKeeper::Open(flags_.files, flags_.wanted, flags_.server));
    drift_.AddPlan(keeper_->payload().plan(), keeper_->payload().prediction());
    PARPLAN_ASSIGN_OR_RETURN(journal_, WindowJournal::Open({.folder = flags_.state_dir}));
    forwarder_ = std::make_unique<Forwarder>(
        *journal_, [this](const JournalTask& task) { return Send(task); }, ForwarderOptions(),
        LogTry);
    metrics_ = std::make_unique<SidecarMetrics>(
        [this] { return Figures(); }, flags_.server.certificate_file, flags_.server.ca_file);
    int metrics_port = 0;
    if (!flags_.watch.metrics_listen.empty()) {
      PARPLAN_ASSIGN_OR_RETURN(metrics_port, metrics_->Serve(flags_.watch.metrics_listen));
    }
    if (!flags_.socket.empty()) {
      PARPLAN_ASSIGN_OR_RETURN(
          service_, ReportService::Start(flags_.socket, *journal_,
                                         [this](const std::string& name,
                                                absl::Span<const v1::MeasuredWindow> windows) {
                                           Observe(name, windows);
                                         }));
    }
    // Last but for the looks, which set its state: who is healthy serves.
    if (!flags_.watch.health_listen.empty()) {
      PARPLAN_ASSIGN_OR_RETURN(health_, HealthServer::Start(flags_.watch.health_listen, {kTrust}));
    }
    looker_ = std::thread([this] { KeepLooking(); });
    const int port = health_ == nullptr ? 0 : health_->port();
    PARPLAN_RETURN_IF_ERROR(WritePortFile(flags_.watch.health_port_file, port));
    PARPLAN_RETURN_IF_ERROR(WritePortFile(flags_.watch.metrics_port_file, metrics_port));
    LogEvent("info", "started",
             {{"plan", keeper_->payload().plan()},
              {"generation", absl::StrCat(keeper_->generation())},
              {"server", flags_.server.target},
              {"socket", flags_.socket},
              {"port", absl::StrCat(port)},
              {"metrics_port", absl::StrCat(metrics_port)},
              {"waiting", absl::StrCat(journal_->counts().waiting_window_count)},
              {"resident_bytes", absl::StrCat(ResidentBytes())}});
    return absl::OkStatus();
  }

  // The job's containers have ended, or are about to.
  absl::Status End() {
    LogEvent("info", "ending");
    const absl::Duration end = SteadyNow() + flags_.drain_time;
    (void)forwarder_->Flush(flags_.drain_time);
    // Windows that came meanwhile are forwarded by the next flush; from here on none are accepted.
    service_.reset();
    // A killed trainer did not close its execution. If the trainer lives and only this sidecar
    // restarts, the trainer's next windows open the execution again.
    journal_->Abandon("the pod ended before its job said how it went");
    const bool is_told = forwarder_->Flush(std::max(end - SteadyNow(), absl::ZeroDuration()));
    const JournalCounts counts = journal_->counts();
    const bool is_whole = is_told && counts.refused_window_count == 0;
    LogEvent(is_whole ? "info" : "error", "ended",
             {{"received", absl::StrCat(counts.received_window_count)},
              {"forwarded", absl::StrCat(counts.forwarded_window_count)},
              {"refused", absl::StrCat(counts.refused_window_count)},
              {"waiting", absl::StrCat(counts.waiting_window_count)}});
    if (is_whole) return absl::OkStatus();
    if (is_told) {
      return MakeError(
          absl::StatusCode::kFailedPrecondition, Reason::kExecutionState,
          absl::StrCat(counts.refused_window_count,
                       " windows that were taken from the job were refused by the server, as the "
                       "log says; the latest are in ",
                       flags_.state_dir, " as *.refused"));
    }
    return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                     absl::StrCat(counts.waiting_window_count,
                                  " windows could not be brought to the server, nor how their "
                                  "executions ended; they are in ",
                                  flags_.state_dir, ", and the next sidecar there brings them"));
  }

 private:
  // Delivers one task; called on the forwarder's thread. Connects again, with the certificates of
  // that time, after the server could not be reached.
  absl::StatusOr<std::string> Send(const JournalTask& task) {
    if (sink_ == nullptr) {
      absl::StatusOr<std::unique_ptr<ExecutionSink>> sink = MakeServerSink(flags_.server);
      // A file that is just being renewed is no reason to give anything up.
      if (!sink.ok()) return absl::UnavailableError(sink.status().message());
      sink_ = *std::move(sink);
    }
    absl::StatusOr<std::string> sent =
        Deliver(*sink_, task, std::min(flags_.call_timeout, kReportTimeout));
    if (absl::IsUnavailable(sent.status()) || absl::IsUnauthenticated(sent.status())) {
      sink_.reset();
    }
    return sent;
  }

  SidecarFigures Figures() const {
    SidecarFigures figures;
    figures.journal = journal_->counts();
    figures.drift = drift_.Get();
    figures.failed_try_count = forwarder_->failure_count();
    figures.generation = keeper_->generation();
    const absl::StatusOr<absl::Time> expiry =
        TimestampFromProto(keeper_->payload().expire_time(), "expire_time");
    if (expiry.ok()) figures.plan_expiry = *expiry;
    figures.trust_expiry = keeper_->trust_expiry();
    return figures;
  }

  void Observe(const std::string& name, absl::Span<const v1::MeasuredWindow> windows) {
    drift_.Add(absl::string_view(name).substr(0, name.find("/executions/")), windows);
    const Drift drift = drift_.Get();
    // Logged only when drift begins and when it ends.
    if (was_drifting_.exchange(drift.is_drifting) == drift.is_drifting) return;
    LogEvent(drift.is_drifting ? "warning" : "info",
             drift.is_drifting ? "steps take another time than predicted"
                               : "steps take the time that was predicted",
             {{"measured_over_predicted", absl::StrCat(drift.step_ratio.value_or(0.0))}});
  }

  // The job goes on with the plan that it has, so the sidecar as a whole stays healthy.
  void ReportTrust() {
    if (health_ != nullptr) health_->SetServing(kTrust, absl::Now() < keeper_->trust_expiry());
  }

  void KeepLooking() {
    ReportTrust();
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, absl::ToChronoNanoseconds(flags_.look_interval),
                              [this] { return is_ending_; })) {
      lock.unlock();
      const LookOutcome outcome =
          keeper_->Look(absl::Now(), std::min(flags_.call_timeout, kPollTimeout));
      metrics_->CountLook(outcome);
      ReportTrust();
      if (outcome == LookOutcome::kNew) {
        drift_.AddPlan(keeper_->payload().plan(), keeper_->payload().prediction());
      }
      lock.lock();
    }
  }

  const SidecarFlags& flags_;
  DriftMeter drift_;
  std::atomic<bool> was_drifting_ = false;
  std::unique_ptr<PlanKeeper> keeper_;
  std::unique_ptr<WindowJournal> journal_;
  // Null until the forwarder needs it.
  std::unique_ptr<ExecutionSink> sink_;
  std::unique_ptr<Forwarder> forwarder_;
  std::unique_ptr<SidecarMetrics> metrics_;
  std::unique_ptr<ReportService> service_;
  std::unique_ptr<HealthServer> health_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;  // Guarded by mutex_.
  std::thread looker_;
};

}  // namespace

absl::Status RunBeside(const SidecarFlags& flags, const sigset_t& signals) {
  Sidecar sidecar(flags);
  PARPLAN_RETURN_IF_ERROR(sidecar.Start());
  int signal = 0;
  while (signal != SIGTERM && signal != SIGINT) ::sigwait(&signals, &signal);
  return sidecar.End();
}

}  // namespace parplan::sidecar
