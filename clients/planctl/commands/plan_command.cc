// `planctl plan`: the plan for a model on a cluster, from a server or, offline,
// from this process.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/cpp/plan_client.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/interrupt.h"
#include "clients/planctl/commands/local_search_flags.h"
#include "clients/planctl/commands/money_flags.h"
#include "clients/planctl/commands/progress.h"
#include "clients/planctl/commands/question_flags.h"
#include "clients/planctl/commands/server_flags.h"
#include "clients/planctl/commands/shape_request.h"
#include "clients/planctl/commands/show_view.h"
#include "clients/planctl/files.h"
#include "clients/planctl/offline/offline_planner.h"
#include "clients/planctl/offline/offline_shape.h"
#include "proto/envelope/envelope_json.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/node_count.h"

namespace parplan::planctl {
namespace {

struct PlanFlags {
  QuestionFlags question;
  ServerFlags server;
  LocalSearchFlags search;
  MoneyFlags money;
  int min_node_count = 1;
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

absl::StatusOr<PlanView> AskServer(const Session& session, const PlanFlags& flags,
                                   const v1::PlanSpec& spec, ProgressLine& progress) {
  v1::CreatePlanRequest request;
  request.set_parent(absl::StrCat("clusters/", spec.topology().cluster()));
  *request.mutable_spec() = spec;
  request.set_job_id(flags.job_id);
  if (flags.time_to_live_hours > 0.0) {
    *request.mutable_time_to_live() = DurationToProto(absl::Hours(flags.time_to_live_hours));
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
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

// Returns what a run costs on each number of whole nodes of the cluster.
absl::StatusOr<v1::ShapePlanResponse> WeighNodes(const Session& session, const PlanFlags& flags,
                                                 const v1::PlanSpec& spec) {
  v1::ShapePlanRequest request = ShapeRequestOf(spec, [&flags](const v1::NodeGroup& group) {
    return DeviceRange{flags.min_node_count * group.devices_per_node(),
                       group.node_count() * group.devices_per_node()};
  });
  PARPLAN_ASSIGN_OR_RETURN(*request.mutable_money(), flags.money.Question(spec));
  if (!flags.offline) {
    PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                             flags.server.Connect(session));
    return PlanClient(channel).ShapePlan(request, flags.server.Call());
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<v1::Profile> profiles, flags.question.ReadProfiles());
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Calibration> calibration,
                           flags.question.ReadCalibrationFile());
  const InterruptWatch interrupt;
  return ShapeOffline(request, profiles, calibration, flags.search.Watch());
}

// Leaves the first nodes of the only group in `topology`, with their names if they have any.
absl::Status KeepNodes(int node_count, v1::ClusterTopology& topology) {
  v1::NodeGroup& group = *topology.mutable_node_groups(0);
  if (node_count == group.node_count()) return absl::OkStatus();
  std::vector<std::string> names(group.node_names().begin(), group.node_names().end());
  group.clear_node_names();
  PARPLAN_RETURN_IF_ERROR(SetNodeCount(node_count, "--cluster", &topology));
  if (names.empty()) return absl::OkStatus();
  names.resize(static_cast<size_t>(node_count));
  for (std::string& name : names) {
    topology.mutable_node_groups(0)->add_node_names(std::move(name));
  }
  return absl::OkStatus();
}

// Chooses the number of nodes by money, and leaves as many in `spec`. FAILED_PRECONDITION
// (NO_FEASIBLE_PLAN) if nothing fits or no plan meets the limits.
absl::StatusOr<v1::MoneyAnswer> ChooseNodes(const Session& session, const PlanFlags& flags,
                                            v1::PlanSpec& spec) {
  if (spec.topology().node_groups_size() != 1) {
    return FieldError(Reason::kSpecInvalid, "--money",
                      "needs a cluster file with one node group; `planctl shape --money` weighs "
                      "several kinds of node");
  }
  if (flags.min_node_count > spec.topology().node_groups(0).node_count()) {
    return FieldError(Reason::kSpecInvalid, "--min-nodes",
                      absl::StrCat("must be at most the nodes of the cluster file, ",
                                   spec.topology().node_groups(0).node_count()));
  }
  PARPLAN_ASSIGN_OR_RETURN(const v1::ShapePlanResponse shape, WeighNodes(session, flags, spec));
  const v1::MoneyAnswer& money = shape.money();
  if (!money.has_chosen_index()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan,
                     shape.has_money() ? money.unmet_reason() : shape.infeasible_reason());
  }
  const int device_count = money.plans(money.chosen_index()).device_count();
  PARPLAN_RETURN_IF_ERROR(KeepNodes(
      device_count / spec.topology().node_groups(0).devices_per_node(), *spec.mutable_topology()));
  return money;
}

// Leaves half of a limit of time, if there is one: numbers of nodes are weighed in one half and the
// plan for the chosen one is made in the other.
void HalveTimeLimit(v1::PlanningOptions& options) {
  if (!options.has_search_time_limit()) return;
  const google::protobuf::Duration& limit = options.search_time_limit();
  *options.mutable_search_time_limit() =
      DurationToProto((absl::Seconds(limit.seconds()) + absl::Nanoseconds(limit.nanos())) / 2);
}

absl::Status RunPlan(const Session& session, const PlanFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(v1::PlanSpec spec, flags.question.ReadSpec());
  spec.mutable_options()->set_compare_baselines(flags.compare);
  std::optional<v1::MoneyAnswer> money;
  if (flags.money.is_asked) {
    HalveTimeLimit(*spec.mutable_options());
    PARPLAN_ASSIGN_OR_RETURN(money, ChooseNodes(session, flags, spec));
  }
  absl::StatusOr<PlanView> view;
  {
    ProgressLine progress(session.quiet);
    view =
        flags.offline ? PlanHere(flags, spec, progress) : AskServer(session, flags, spec, progress);
  }
  PARPLAN_RETURN_IF_ERROR(view.status());
  view->money = std::move(money);
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
      "p.profile.json --batch 64\n"
      "  planctl plan --offline --model m.model.json --cluster c.cluster.json --batch 64 --money "
      "--price 2.5 --steps 100000 --deadline-hours 240");
  flags->question.AddTo(command, /*with_planner=*/true);
  flags->question.AddAnswersTo(command);
  shell::Option offline = command.AddFlag("--offline", flags->offline, "Plan in this process");
  flags->search.AddTo(command).Needs(offline);
  // A server has profiles and a calibration of its own.
  command.GetOption("--profile").Needs(offline);
  command.GetOption("--calibration").Needs(offline);
  flags->money.AddTo(command);
  command
      .AddOption("--min-nodes", flags->min_node_count,
                 "Fewest nodes to weigh with --money; the most are those of the cluster [1]")
      .Check(shell::Positive())
      .Needs(command.GetOption("--money"));
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
