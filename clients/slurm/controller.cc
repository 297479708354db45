#include "clients/slurm/controller.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "base/utf8.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/execution_client.h"
#include "clients/cpp/plan_client.h"
#include "clients/launch/launch_exports.h"
#include "clients/slurm/deadline_work.h"
#include "clients/slurm/job_bundle.h"
#include "clients/slurm/job_question.h"
#include "clients/slurm/refusal.h"
#include "proto/envelope/envelope_json.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/plan_wire.h"

namespace parplan::slurm {
namespace {

// Pauses between two attempts at one call: doubling, and short beside the time that a prolog has.
// Not measured.
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
// Pairs of ports that jobs take by their number, so that jobs on shared nodes differ: with the
// first port at most 55000 they end below 65536.
constexpr int kPortsOfJobs = 5000;
// Characters of the text in a job's AdminComment, which Slurm keeps with the job. Not measured.
constexpr size_t kMaxComment = 500;
// The largest page that servers give (`kMaxPageSize` of server/store/store.h).
constexpr int kExecutionsOfPage = 500;

// FAILED_PRECONDITION where files of TLS cannot be used: that is not the job's fault.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const SlurmConfig& config) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      MakeChannel({.target = config.server,
                   .ca_file = config.tls_ca,
                   .certificate_file = config.tls_certificate,
                   .key_file = config.tls_key,
                   .server_name = config.tls_server_name,
                   .token_file = config.token_file});
  if (!channel.ok()) return absl::FailedPreconditionError(channel.status().message());
  return channel;
}

std::string TextOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  std::string text =
      detail.has_value()
          ? absl::StrCat(ReasonName(detail->reason), ": ", status.message())
          : absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message());
  std::replace_if(text.begin(), text.end(), absl::ascii_iscntrl, ' ');
  return text;
}

// Repeats `call` until it is answered, is refused for good, or time is up. If time is up, the error
// names the last known cause.
template <typename Call>
auto TryWithin(const SlurmConfig& config, const Countdown& tries, const Call& call)
    -> decltype(call(CallOptions())) {
  std::string last = "it accepts no connection, or does not answer";
  for (absl::Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    CallOptions options;
    options.timeout = std::max(tries.Left(), absl::Milliseconds(1));
    auto answer = call(options);
    const absl::Status& status = answer.status();
    const bool is_late = absl::IsDeadlineExceeded(status) && !GetErrorDetail(status).has_value();
    if (MayPass(status)) last = std::string(status.message());
    if (is_late || (MayPass(status) && tries.Left() <= pause)) {
      return absl::UnavailableError(
          absl::StrCat("no answer from ", config.server, " in time: ", last));
    }
    if (!MayPass(status)) return answer;
    absl::SleepFor(pause);
  }
}

std::string Tool(const SlurmConfig& config, const char* name) {
  return absl::StrCat(config.slurm_bin_dir, "/", name);
}

// Sets SLURM_CONF, which prologs of the controller do not get.
void SetConfiguration(const SlurmConfig& config) {
  ::setenv("SLURM_CONF", config.slurm_conf.c_str(), /*overwrite=*/1);
}

absl::StatusOr<std::string> MasterAddress(const SlurmConfig& config, const std::string& node) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text,
                           OutputOf({Tool(config, "scontrol"), "show", "node", node}));
  const std::string address = FieldOf(text, "NodeAddr");
  const bool is_address =
      !address.empty() && std::all_of(address.begin(), address.end(), [](unsigned char letter) {
        return absl::ascii_isalnum(letter) || absl::StrContains(".-:_", letter);
      });
  if (!is_address)
    return absl::UnavailableError(absl::StrCat("scontrol reports no NodeAddr of ", node));
  return address;
}

int MasterPort(const SlurmConfig& config, const std::string& job_id) {
  int64_t number = 0;
  (void)absl::SimpleAtoi(job_id, &number);
  return config.first_master_port + 2 * static_cast<int>(number % kPortsOfJobs);
}

// Fetches the plan that the job names, if it is for such nodes.
absl::StatusOr<v1::Plan> NamedPlan(PlanClient& client, const SlurmConfig& config,
                                   const JobFacts& job, const Countdown& tries) {
  v1::GetPlanRequest request;
  request.set_name(absl::StrContains(job.wishes.plan, '/')
                       ? job.wishes.plan
                       : absl::StrCat("clusters/", config.cluster, "/plans/", job.wishes.plan));
  absl::StatusOr<v1::Plan> found = TryWithin(
      config, tries, [&](const CallOptions& options) { return client.GetPlan(request, options); });
  if (absl::IsPermissionDenied(found.status())) {
    // To the planner both are the same, and neither passes by itself.
    return FieldError(Reason::kSpecInvalid, "--plan",
                      absl::StrCat("names a plan that is not there or that the controller may not "
                                   "read, for which it needs the role reader: ",
                                   found.status().message()));
  }
  PARPLAN_RETURN_IF_ERROR(found.status());
  const v1::Plan& plan = *found;
  v1::PlanPayload payload;
  // Nodes verify the plan; reading it here reports a wrong plan sooner.
  if (payload.ParseFromString(plan.signed_plan().payload()) && !payload.job_id().empty() &&
      payload.job_id() != job.job_id) {
    return FieldError(Reason::kSpecInvalid, "--plan",
                      absl::StrCat("was made for job ", payload.job_id(), " alone"));
  }
  PARPLAN_ASSIGN_OR_RETURN(const v1::ClusterTopology here, TopologyOfJob(config, job.nodes));
  const v1::NodeGroup& mine = here.node_groups(0);
  const v1::ClusterTopology& topology = plan.spec().topology();
  const bool is_alike = topology.node_groups_size() == 1 &&
                        topology.node_groups(0).device_kind() == mine.device_kind() &&
                        topology.node_groups(0).node_count() == mine.node_count() &&
                        topology.node_groups(0).devices_per_node() == mine.devices_per_node() &&
                        (topology.node_groups(0).node_names().empty() ||
                         std::equal(topology.node_groups(0).node_names().begin(),
                                    topology.node_groups(0).node_names().end(),
                                    mine.node_names().begin(), mine.node_names().end()));
  if (!is_alike) {
    return FieldError(Reason::kSpecInvalid, "--plan",
                      absl::StrCat("is not for the ", mine.node_count(), " nodes with ",
                                   mine.devices_per_node(), " devices `", mine.device_kind(),
                                   "` that the job has: ", absl::StrJoin(mine.node_names(), ",")));
  }
  return found;
}

// Refuses a plan that one of the programs of `--plan-export` cannot run, before the job starts. The
// nodes make the files, from the plan that they have verified.
absl::Status CheckExports(const JobFacts& job, const v1::Plan& plan) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<const PlanExporter*> exporters,
                           ReadExportTargets(job.wishes.exports, "--plan-export"));
  if (exporters.empty()) return absl::OkStatus();
  v1::PlanPayload payload;
  // Nodes refuse bytes that are no plan.
  if (!payload.ParseFromString(plan.signed_plan().payload())) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const Plan value, PlanFromPayload(payload));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(plan.spec().model()));
  PARPLAN_ASSIGN_OR_RETURN(const ExportFacts facts,
                           ExportFactsOf(payload.runtime_id(), payload.plan()));
  for (const PlanExporter* const exporter : exporters) {
    const absl::Status status = ExportPlan(*exporter, value, model, facts).status();
    if (status.ok()) continue;
    return FieldError(
        Reason::kSpecInvalid, "--plan-export",
        absl::StrCat(exporter->target, ": ", status.message(), "; plan with --plan-target"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Plan> AskForPlan(const SlurmConfig& config, const JobFacts& job,
                                    const Countdown& tries) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(config));
  PlanClient client(channel);
  if (job.wishes.plan != "auto") return NamedPlan(client, config, job, tries);
  PARPLAN_ASSIGN_OR_RETURN(const v1::CreatePlanRequest request, QuestionOfJob(config, job));
  return TryWithin(config, tries,
                   [&](const CallOptions& options) { return client.CreatePlan(request, options); });
}

absl::StatusOr<std::string> Prepare(const SlurmConfig& config, JobFacts& job,
                                    absl::string_view node_list, const Countdown& tries,
                                    JobBundle bundle) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string details, OutputOf({Tool(config, "scontrol"), "show",
                                                                "job", "-d", job.slurm_name}));
  PARPLAN_RETURN_IF_ERROR(AddJobDetails(details, node_list, job));
  const absl::Duration begin = SteadyNow();
  PARPLAN_ASSIGN_OR_RETURN(const v1::Plan plan, AskForPlan(config, job, tries));
  PARPLAN_RETURN_IF_ERROR(CheckExports(job, plan));
  const absl::Duration taken = SteadyNow() - begin;
  bundle.without_plan.clear();
  bundle.envelope = EnvelopeToJson(plan.signed_plan());
  bundle.model = ToReadableJson(plan.spec().model());
  bundle.topology = ToReadableJson(plan.spec().topology());
  if (plan.spec().topology().node_groups(0).node_names().empty()) {
    for (const JobNode& node : job.nodes) bundle.node_names.push_back(node.name);
  }
  bundle.master_port = MasterPort(config, job.job_id);
  PARPLAN_ASSIGN_OR_RETURN(bundle.master_address, MasterAddress(config, job.nodes.front().name));
  PARPLAN_RETURN_IF_ERROR(WriteBundle(config.spool_dir, bundle));
  return absl::StrFormat("%s in %.3f s", plan.name(), absl::ToDoubleSeconds(taken));
}

// Slurm's own variables of an epilog leave out the signal that ended a job.
std::string ReasonOfEnd(const SlurmConfig& config, const JobFacts& job) {
  std::string code;
  const absl::StatusOr<std::string> text =
      OutputOf({Tool(config, "scontrol"), "show", "job", job.slurm_name});
  if (text.ok() && OnlyLine(*text, "JobId=").ok()) {
    const absl::StatusOr<absl::string_view> line = OnlyLine(*text, "Requeue=");
    if (line.ok()) code = FieldOf(*line, "ExitCode");
  }
  return absl::StrCat("Slurm job ", job.job_id, " has ended",
                      code.empty() ? "" : absl::StrCat(" (exit code and signal ", code, ")"),
                      " and left this execution open");
}

absl::StatusOr<std::vector<v1::Execution>> ExecutionsOf(const SlurmConfig& config,
                                                        ExecutionClient& client,
                                                        const std::string& plan,
                                                        const Countdown& tries) {
  std::vector<v1::Execution> all;
  v1::ListExecutionsRequest request;
  request.set_parent(plan);
  request.set_page_size(kExecutionsOfPage);
  do {
    PARPLAN_ASSIGN_OR_RETURN(const v1::ListExecutionsResponse page,
                             TryWithin(config, tries, [&](const CallOptions& options) {
                               return client.List(request, options);
                             }));
    all.insert(all.end(), page.executions().begin(), page.executions().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return all;
}

// Returns the sentence for executions that the controller has no role to close.
std::string MayNotClose(const std::string& plan, const absl::Status& refused) {
  return absl::StrCat(
      plan, ": its executions are left to the planner, which fails them once they ",
      "are silent; to close them the controller needs the role operator: ", TextOf(refused));
}

// Closes the job's executions that still run, and returns a sentence for the log. Once this
// succeeds the job's bundle is removed from the spool, whatever it holds.
absl::StatusOr<std::string> CloseExecutions(const SlurmConfig& config, const JobFacts& job,
                                            const Countdown& tries,
                                            const absl::StatusOr<JobBundle>& bundle) {
  if (!bundle.ok()) return TextOf(bundle.status());
  if (!bundle->without_plan.empty()) return "no plan";
  const absl::StatusOr<v1::SignedPlan> envelope = EnvelopeFromJson(bundle->envelope);
  v1::PlanPayload payload;
  // The plan is not verified here: the planner decides whose executions may be closed.
  if (!envelope.ok() || !payload.ParseFromString(envelope->payload())) return "the plan is none";
  // Executions of a plan that is bound to no job may belong to other jobs.
  if (payload.job_id() != job.job_id) return "a plan of no single job";
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(config));
  ExecutionClient client(channel);
  const absl::StatusOr<std::vector<v1::Execution>> executions =
      ExecutionsOf(config, client, payload.plan(), tries);
  if (absl::IsNotFound(executions.status())) return absl::StrCat(payload.plan(), " is deleted");
  // Another caller's plan, named by `--plan`. That does not pass by itself.
  if (absl::IsPermissionDenied(executions.status())) {
    return MayNotClose(payload.plan(), executions.status());
  }
  PARPLAN_RETURN_IF_ERROR(executions.status());
  const std::string reason = ReasonOfEnd(config, job);
  int closed = 0;
  for (const v1::Execution& execution : *executions) {
    if (execution.state() != v1::Execution::RUNNING) continue;
    v1::FailExecutionRequest request;
    request.set_name(execution.name());
    request.set_reason(reason);
    const absl::StatusOr<v1::Execution> failed = TryWithin(
        config, tries, [&](const CallOptions& options) { return client.Fail(request, options); });
    // The execution has ended meanwhile.
    if (absl::IsFailedPrecondition(failed.status())) continue;
    // A controller that may read all plans.
    if (absl::IsPermissionDenied(failed.status())) {
      return MayNotClose(payload.plan(), failed.status());
    }
    PARPLAN_RETURN_IF_ERROR(failed.status());
    ++closed;
  }
  return absl::StrCat(payload.plan(), ": ", closed, " of ", executions->size(),
                      " executions closed");
}

}  // namespace

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPlanned:
      return "planned";
    case Outcome::kAway:
      return "away";
    case Outcome::kRefused:
      return "refused";
  }
  return "?";
}

Answer PreparePlan(const SlurmConfig& config, JobFacts job, absl::string_view node_list,
                   const Countdown& tries) {
  SetConfiguration(config);
  JobBundle bundle = {.job_id = job.job_id, .without_plan = "the planner had no answer in time"};
  if (const absl::Status written = WriteBundle(config.spool_dir, bundle); !written.ok()) {
    return {Outcome::kAway, TextOf(written)};
  }
  const absl::StatusOr<std::string> prepared = Prepare(config, job, node_list, tries, bundle);
  if (prepared.ok()) return {Outcome::kPlanned, *prepared};
  bundle.without_plan = TextOf(prepared.status());
  (void)WriteBundle(config.spool_dir, bundle);
  return {IsRefusal(prepared.status()) ? Outcome::kRefused : Outcome::kAway, bundle.without_plan};
}

absl::Status SetJobComment(const SlurmConfig& config, const JobFacts& job, const Answer& answer) {
  SetConfiguration(config);
  return OutputOf({Tool(config, "scontrol"), "update", absl::StrCat("jobid=", job.slurm_name),
                   absl::StrCat("admincomment=parplan ", OutcomeName(answer.outcome), ": ",
                                Utf8Prefix(answer.text, kMaxComment))})
      .status();
}

absl::Status CancelJob(const SlurmConfig& config, const JobFacts& job) {
  SetConfiguration(config);
  return OutputOf({Tool(config, "scancel"), job.slurm_name}).status();
}

absl::StatusOr<std::string> CloseJob(const SlurmConfig& config, const JobFacts& job,
                                     const Countdown& tries) {
  SetConfiguration(config);
  const absl::StatusOr<JobBundle> bundle = ReadBundle(config.spool_dir, job.job_id);
  if (absl::IsNotFound(bundle.status())) return "no plan";
  PARPLAN_ASSIGN_OR_RETURN(const std::string done, CloseExecutions(config, job, tries, bundle));
  RemoveBundle(config.spool_dir, job.job_id);
  return done;
}

}  // namespace parplan::slurm
