#include "executor/exec/rank_run.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/service/log/event_log.h"
#include "base/status_macros.h"
#include "base/system/output_file.h"
#include "base/system/steady_clock.h"
#include "executor/apply/plan_applier.h"
#include "executor/apply/window_gather.h"
#include "executor/device/backend/load_backend.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/comm/rendezvous_server.h"
#include "executor/device/ranks/node_token.h"
#include "executor/exec/exec_inputs.h"
#include "executor/exec/execution_notes.h"
#include "executor/exec/machine_watch.h"
#include "executor/exec/run_record.h"
#include "executor/report/execution_reporter.h"
#include "executor/windows/window_leaver.h"

namespace parplan {
namespace {

// Returns what the device holds once it is open; 0 if the driver does not say. On a GPU libraries,
// their workspace and communicators come later, and `PlanApplier` asks again then.
Bytes ContextMemoryOf(Device& device) {
  const absl::StatusOr<DeviceMemoryUse> use = device.MemoryUse();
  return use.ok() ? use->context : Bytes();
}

// The training of one rank. Each plan is an execution of its own at the server.
class TrainingRun {
 public:
  TrainingRun(const ExecFlags& flags, const RankEnvironment& self, ExecInputs& inputs,
              JobFabric& fabric, Device& device, std::unique_ptr<Communicator> everyone)
      : flags_(flags),
        self_(self),
        inputs_(inputs),
        everyone_(std::move(everyone)),
        applier_(inputs.plan, {.device = &device,
                               .job = &fabric,
                               .tokens = inputs.tokens.get(),
                               .optimizer = inputs.optimizer,
                               .seed = flags.seed,
                               .window_step_count = flags.window_steps,
                               .context_memory = ContextMemoryOf(device),
                               .is_asynchronous = flags.backend != "cpu"}) {
    if (!flags.spool.empty()) {
      leaver_ =
          std::make_unique<WindowLeaver>(flags.spool, absl::StrCat("parplan-exec-", self.rank));
    }
    Begin(inputs.plan);
  }

  absl::Status Run() {
    const absl::Status status = Train();
    CloseReport(status);
    EndLeaving();
    return status;
  }

  const RunRecord& record() const { return record_; }

 private:
  bool is_first() const { return self_.rank == 0; }

  absl::Status Train() {
    PARPLAN_RETURN_IF_ERROR(applier_.Prepare());
    for (int64_t step = 0; step < flags_.steps; ++step) {
      if (inputs_.swap_to.has_value() && step == flags_.swap_at) {
        PARPLAN_RETURN_IF_ERROR(Swap());
      }
      machine_->BeginStep();
      PARPLAN_ASSIGN_OR_RETURN(const double loss, applier_.Step());
      RecordStep(step, loss);
      // All ranks have the same loss, so all end here.
      if (!std::isfinite(loss)) {
        return absl::OutOfRangeError(absl::StrCat("step ", step, ": the loss is ", loss,
                                                  "; a lower --learning-rate may help"));
      }
      if (const std::optional<StepWindow> window = applier_.TakeWindow()) {
        PARPLAN_RETURN_IF_ERROR(Take(*window));
      }
    }
    PARPLAN_RETURN_IF_ERROR(TakeRest());
    PARPLAN_RETURN_IF_ERROR(EndWatch());
    return applier_.Teardown();
  }

  absl::Status Swap() {
    PARPLAN_RETURN_IF_ERROR(TakeRest());
    PARPLAN_RETURN_IF_ERROR(EndWatch());
    PARPLAN_RETURN_IF_ERROR(applier_.Swap(*inputs_.swap_to));
    CloseReport(absl::OkStatus());
    Begin(*inputs_.swap_to);
    if (is_first()) std::cout << "goes on under " << inputs_.swap_to->name() << std::endl;
    return absl::OkStatus();
  }

  void Begin(const CheckedPlan& plan) {
    record_.plans.push_back({.plan = plan, .first_step = applier_.step_count()});
    machine_.emplace();
    if (!is_first() || !flags_.reports()) return;
    reporter_ = std::make_unique<ExecutionReporter>(
        ReporterOptions{.plan = plan.name(),
                        .on_opened =
                            [launcher = self_.result_descriptor](const std::string& execution) {
                              NoteExecution(launcher, ExecutionEvent::kOpened, execution);
                            }},
        [channel = flags_.server] { return MakeServerSink(channel); });
  }

  void RecordStep(int64_t step, double loss) {
    record_.losses.push_back(loss);
    ++record_.plans.back().step_count;
    const bool is_printed = step % flags_.log_every == 0 || step + 1 == flags_.steps;
    if (is_first() && is_printed) {
      std::cout << absl::StrFormat("step %d loss %.6f", step, loss) << std::endl;
    }
  }

  absl::Status TakeRest() {
    const std::optional<StepWindow> rest = applier_.TakeRest();
    return rest.has_value() ? Take(*rest) : absl::OkStatus();
  }

  // Every rank calls it after the last window of a plan.
  absl::Status EndWatch() {
    PARPLAN_ASSIGN_OR_RETURN(record_.plans.back().machine, machine_->Combine(*everyone_));
    return absl::OkStatus();
  }

  absl::Status Take(const StepWindow& window) {
    machine_->EndWindow();
    v1::MeasuredWindow own = WindowToProto(window);
    if (leaver_ != nullptr) leaver_->Add(own);
    // Steps of an execution are counted from its own begin.
    own.set_first_step(own.first_step() - record_.plans.back().first_step);
    PARPLAN_ASSIGN_OR_RETURN(std::vector<v1::MeasuredWindow> windows,
                             GatherWindows(own, *everyone_));
    if (reporter_ != nullptr) reporter_->Add(windows);
    record_.plans.back().windows.push_back(std::move(windows));
    return absl::OkStatus();
  }

  void CloseReport(const absl::Status& outcome) {
    if (reporter_ == nullptr) return;
    const ReportSummary summary = reporter_->Finish(outcome);
    reporter_.reset();
    if (!summary.execution.empty()) record_.execution = summary.execution;
    if (summary.is_closed) {
      NoteExecution(self_.result_descriptor, ExecutionEvent::kClosed, summary.execution);
    }
    record_.delivered_window_count += summary.delivered_count;
    record_.lost_window_count += summary.lost_count;
    if (summary.is_closed && summary.lost_count == 0) return;
    record_.report_trouble = summary.trouble.ToString();
    LogEvent(
        "warning", "the server does not have all of the report",
        {{"lost_windows", absl::StrCat(summary.lost_count)}, {"reason", record_.report_trouble}});
  }

  void EndLeaving() {
    if (leaver_ == nullptr) return;
    const int64_t lost_count = leaver_->Finish();
    leaver_.reset();
    if (lost_count == 0) return;
    LogEvent("warning", "windows could not be left for the agent",
             {{"lost_windows", absl::StrCat(lost_count)}, {"folder", flags_.spool}});
  }

  const ExecFlags& flags_;
  const RankEnvironment& self_;
  const ExecInputs& inputs_;
  const std::unique_ptr<Communicator> everyone_;
  PlanApplier applier_;
  std::unique_ptr<ExecutionReporter> reporter_;
  // Null without --spool.
  std::unique_ptr<WindowLeaver> leaver_;
  // Watches the steps under the last plan of the record.
  std::optional<MachineWatch> machine_;
  RunRecord record_;
};

// Lets rank 0 leave last if it serves the rendezvous, which all other ranks use until they end.
void LeaveInOrder(JobFabric& fabric, const RankEnvironment& self) {
  const auto key = [](int rank) { return absl::StrCat("has ended/", rank); };
  if (self.rank != 0) {
    (void)fabric.Publish(key(self.rank), "");
    return;
  }
  if (!self.serves_rendezvous()) return;
  for (int rank = 1; rank < self.world_size; ++rank) {
    // A rank that failed at the end has reported it by itself.
    if (!fabric.Await(key(rank)).ok()) return;
  }
}

// Writes the results completely or not at all.
absl::Status WriteResults(const std::string& path, const std::string& text) {
  const absl::Status written = WriteOutputFile(path, text, {.staged_suffix = ".part"});
  return written.ok() ? written : absl::InternalError(absl::StrCat("results: ", written.message()));
}

}  // namespace

absl::Status RunRank(const ExecFlags& flags, RankEnvironment self, bool& joined) {
  PARPLAN_ASSIGN_OR_RETURN(ExecInputs inputs, ReadInputs(flags, absl::Now()));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceBackend> backend,
                           LoadBackend(flags.backend));
  const int count = backend->device_count();
  if (flags.backend != "cpu" && self.local_rank >= count && !flags.shares_devices &&
      !flags.ShowsEachRankOneDevice(count, std::getenv("CUDA_VISIBLE_DEVICES"))) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kTopologyMismatch,
                     absl::StrCat("devices_per_node: rank ", self.rank, " is number ",
                                  self.local_rank, " of its node, which has ", count,
                                  " devices; start fewer ranks there, or give --share-devices"),
                     {{"field", "devices_per_node"}});
  }
  const int index = self.local_rank % count;
  PARPLAN_ASSIGN_OR_RETURN(const DeviceFacts facts, backend->Describe(index));
  PARPLAN_RETURN_IF_ERROR(inputs.plan.CheckDevice(self.rank, self.world_size, facts));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, backend->Open(index));
  const auto on_notice = [](const std::string& notice) {
    LogEvent("info", "waiting for other ranks", {{"message", notice}});
  };
  const absl::Duration join_start = SteadyNow();
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<NodeToken> token,
                           NodeToken::Agree(self, JobFabricOptions().join_timeout, on_notice));
  std::unique_ptr<RendezvousServer> rendezvous;
  if (self.serves_rendezvous()) {
    const bool is_local = self.host == "127.0.0.1";
    PARPLAN_ASSIGN_OR_RETURN(rendezvous, RendezvousServer::Start({.host = is_local ? self.host : "",
                                                                  .port = self.rendezvous_port(),
                                                                  .token = self.token,
                                                                  .world_size = self.world_size,
                                                                  .serving_rank = self.rank,
                                                                  .serving_host = self.host}));
  }
  JobFabricOptions options = self.ToFabricOptions();
  options.operation_timeout = absl::Seconds(flags.operation_timeout_seconds);
  options.shape = inputs.shape;
  options.on_notice = on_notice;
  // One limit for the token and the job.
  options.join_start = join_start;
  joined = true;
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<JobFabric> fabric,
                           JobFabric::Join(std::move(options)));
  std::vector<int> ranks(self.world_size);
  std::iota(ranks.begin(), ranks.end(), 0);
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> everyone,
                           fabric->MakeGroup("windows", ranks));
  TrainingRun run(flags, self, inputs, *fabric, *device, std::move(everyone));
  PARPLAN_RETURN_IF_ERROR(run.Run());
  LeaveInOrder(*fabric, self);
  if (self.rank != 0) return absl::OkStatus();
  std::cout << RecordTable(run.record()) << std::flush;
  return flags.results.empty() ? absl::OkStatus()
                               : WriteResults(flags.results, RecordJson(run.record()));
}

}  // namespace parplan
