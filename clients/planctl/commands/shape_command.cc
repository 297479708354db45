// `planctl shape`: how many devices a job can and should ask for, before it has
// any.

#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "clients/cpp/plan_client.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/interrupt.h"
#include "clients/planctl/commands/local_search_flags.h"
#include "clients/planctl/commands/money_flags.h"
#include "clients/planctl/commands/question_flags.h"
#include "clients/planctl/commands/server_flags.h"
#include "clients/planctl/commands/shape_request.h"
#include "clients/planctl/offline/offline_shape.h"
#include "clients/planctl/view/shape_view.h"
#include "planner/model/planning_problem.h"

namespace parplan::planctl {
namespace {

struct ShapeFlags {
  QuestionFlags question;
  MoneyFlags money;
  LocalSearchFlags search;
  bool offline = false;
  ServerFlags server;
  int min_device_count = 1;
  int max_device_count = 0;
};

absl::StatusOr<v1::ShapePlanResponse> ShapeHere(const ShapeFlags& flags,
                                                const v1::ShapePlanRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<v1::Profile> profiles, flags.question.ReadProfiles());
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Calibration> calibration,
                           flags.question.ReadCalibrationFile());
  const InterruptWatch interrupt;
  return ShapeOffline(request, profiles, calibration, flags.search.Watch());
}

absl::StatusOr<v1::ShapePlanResponse> AskServer(const Session& session, const ShapeFlags& flags,
                                                const v1::ShapePlanRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  return PlanClient(channel).ShapePlan(request, flags.server.Call());
}

absl::Status Shape(const Session& session, const ShapeFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const v1::PlanSpec spec, flags.question.ReadSpec());
  v1::ShapePlanRequest request = ShapeRequestOf(spec, [&flags](const v1::NodeGroup& group) {
    return DeviceRange{flags.min_device_count, flags.max_device_count > 0
                                                   ? flags.max_device_count
                                                   : group.node_count() * group.devices_per_node()};
  });
  if (flags.money.is_asked) {
    PARPLAN_ASSIGN_OR_RETURN(*request.mutable_money(), flags.money.Question(spec));
  }
  PARPLAN_ASSIGN_OR_RETURN(
      const v1::ShapePlanResponse response,
      flags.offline ? ShapeHere(flags, request) : AskServer(session, flags, request));
  return Print(session, session.json ? ShapeJson(response) : ShapeText(response));
}

}  // namespace

void AddShapeCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<ShapeFlags>();
  Command command =
      app.AddCommand("shape", "Say how many devices of a cluster a job can and should ask for");
  command.Footer(
      "Every node group of the cluster file is an offer. --money says what a run costs with each "
      "number of devices.\nExample:\n"
      "  planctl shape --model m.model.json --cluster c.cluster.json --batch 64 --max-devices 64\n"
      "  planctl shape --offline --model m.model.json --cluster c.cluster.json --batch 64 --money "
      "--price 2.5 --tokens 100000000000 --deadline-hours 720");
  flags->question.AddTo(command, /*with_planner=*/true);
  shell::Option offline = command.AddFlag("--offline", flags->offline, "Search in this process");
  flags->search.AddTo(command).Needs(offline);
  // A server has profiles and a calibration of its own.
  command.GetOption("--profile").Needs(offline);
  command.GetOption("--calibration").Needs(offline);
  command
      .AddOption("--top", flags->question.top_plan_count,
                 "Plans to weigh for each number of devices, with --money [1]")
      .Check(shell::Between(1, kMaxTopPlanCount));
  flags->question.AddRobustTo(command);
  flags->money.AddTo(command);
  command.AddOption("--min-devices", flags->min_device_count, "Fewest devices [1]")
      .Check(shell::Positive());
  command
      .AddOption("--max-devices", flags->max_device_count,
                 "Most devices [those of the cluster file]")
      .Check(shell::Positive());
  flags->server.AddTo(command);
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Shape(session, *flags); };
  });
}

}  // namespace parplan::planctl
