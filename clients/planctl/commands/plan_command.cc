// `planctl plan`: the plan for a model on a cluster, from a server or, offline,
// from this process.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "clients/cpp/plan_client.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/interrupt.h"
#include "clients/planctl/commands/local_search_flags.h"
#include "clients/planctl/commands/progress.h"
#include "clients/planctl/commands/question_flags.h"
#include "clients/planctl/commands/server_flags.h"
#include "clients/planctl/commands/show_view.h"
#include "clients/planctl/files.h"
#include "clients/planctl/offline/offline_planner.h"
#include "proto/envelope/envelope_json.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/json_file.h"

namespace parplan::planctl {
namespace {

struct PlanFlags {
  QuestionFlags question;
  ServerFlags server;
  LocalSearchFlags search;
  bool offline = false;
  bool compare = false;
  std::string job_id;
  double time_to_live_hours = 0.0;
  std::string output_path;
  std::string report_path;
};

absl::StatusOr<PlanView> PlanHere(const PlanFlags& flags, const v1::PlanSpec& spec,
                                  ProgressLine& progress) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<v1::Profile> profiles, flags.question.ReadProfiles());
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Calibration> calibration,
                           flags.question.ReadCalibrationFile());
  const InterruptWatch interrupt;
  SearchWatch watch = flags.search.Watch();
  watch.on_progress = [&progress](const v1::SearchProgress& state) { progress.Show(state); };
  PARPLAN_ASSIGN_OR_RETURN(PlanView view, PlanOffline(spec, profiles, calibration, watch));
  if (!flags.output_path.empty()) {
    PARPLAN_RETURN_IF_ERROR(WriteFile(flags.output_path, ToReadableJson(view.payload)));
  }
  return view;
}

absl::StatusOr<PlanView> AskServer(const PlanFlags& flags, const v1::PlanSpec& spec,
                                   ProgressLine& progress) {
  v1::CreatePlanRequest request;
  request.set_parent(absl::StrCat("clusters/", spec.topology().cluster()));
  *request.mutable_spec() = spec;
  request.set_job_id(flags.job_id);
  if (flags.time_to_live_hours > 0.0) {
    *request.mutable_time_to_live() = DurationToProto(absl::Hours(flags.time_to_live_hours));
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, flags.server.Connect());
  PARPLAN_ASSIGN_OR_RETURN(const v1::Plan plan, PlanClient(channel).SearchPlan(
                                                    std::move(request),
                                                    [&progress](const v1::SearchProgress& state) {
                                                      progress.Show(state);
                                                    },
                                                    flags.server.Call()));
  if (!flags.output_path.empty()) {
    PARPLAN_RETURN_IF_ERROR(WriteFile(flags.output_path, EnvelopeToJson(plan.signed_plan())));
  }
  return ViewOfPlan(plan);
}

absl::Status RunPlan(const Session& session, const PlanFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(v1::PlanSpec spec, flags.question.ReadSpec());
  spec.mutable_options()->set_compare_baselines(flags.compare);
  absl::StatusOr<PlanView> view;
  {
    ProgressLine progress(session.quiet);
    view = flags.offline ? PlanHere(flags, spec, progress) : AskServer(flags, spec, progress);
  }
  PARPLAN_RETURN_IF_ERROR(view.status());
  PARPLAN_RETURN_IF_ERROR(ShowView(session, *view, flags.report_path));
  if (!flags.output_path.empty() && !session.json) {
    Note(session,
         absl::StrCat(flags.offline ? "unsigned plan in " : "signed plan in ", flags.output_path));
  }
  return absl::OkStatus();
}

}  // namespace

void AddPlanCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  Command command = app.AddCommand("plan", "Plan a model on a cluster");
  command.Footer(
      "From a server the plan is signed; with --offline it is made in this process and is not: "
      "from "
      "--profile files or, without any, from data sheets.\nExample:\n"
      "  planctl plan --model m.model.json --cluster c.cluster.json --batch 64 --server "
      "127.0.0.1:9477 --out plan.dsse.json\n"
      "  planctl plan --offline --model m.model.json --cluster c.cluster.json --profile "
      "p.profile.json --batch 64");
  flags->question.AddTo(command, /*with_planner=*/true);
  flags->question.AddAnswersTo(command);
  shell::Option offline = command.AddFlag("--offline", flags->offline, "Plan in this process");
  flags->search.AddTo(command).Needs(offline);
  // A server has profiles and a calibration of its own.
  command.GetOption("--profile").Needs(offline);
  command.GetOption("--calibration").Needs(offline);
  command.AddFlag("--compare", flags->compare, "Also run the baselines");
  command.AddOption("--job", flags->job_id, "Job the plan is bound to").Excludes(offline);
  command
      .AddOption("--valid-hours", flags->time_to_live_hours,
                 "How long the plan is valid [the server's default]")
      .Check(shell::Positive())
      .Excludes(offline);
  command.AddOption("--out", flags->output_path,
                    "Write the plan: a DSSE envelope, or unsigned JSON with --offline");
  command.AddOption("--report", flags->report_path, "Also write the HTML page");
  flags->server.AddTo(command);
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return RunPlan(session, *flags); };
  });
}

}  // namespace parplan::planctl
