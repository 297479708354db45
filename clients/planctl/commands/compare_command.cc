// `planctl compare`: every planner and baseline on one question, side by side.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "clients/cpp/plan_client.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/interrupt.h"
#include "clients/planctl/commands/local_search_flags.h"
#include "clients/planctl/commands/question_flags.h"
#include "clients/planctl/commands/server_flags.h"
#include "clients/planctl/offline/offline_planner.h"
#include "clients/planctl/view/plan_json.h"
#include "clients/planctl/view/plan_text.h"
#include "proto/wire/duration_wire.h"

namespace parplan::planctl {
namespace {

// Time limit of each planner's search: integer programs of large models take minutes, and a user
// waits for the comparison.
constexpr absl::Duration kSearchTimeLimit = absl::Seconds(20);

struct CompareFlags {
  QuestionFlags question;
  ServerFlags server;
  LocalSearchFlags search;
  bool offline = false;
};

absl::StatusOr<std::vector<v1::PlannerComparison>> Rows(const Session& session,
                                                        const CompareFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(v1::PlanSpec spec, flags.question.ReadSpec());
  if (flags.offline) {
    if (!spec.options().has_search_time_limit()) {
      *spec.mutable_options()->mutable_search_time_limit() = DurationToProto(kSearchTimeLimit);
    }
    PARPLAN_ASSIGN_OR_RETURN(const std::vector<v1::Profile> profiles,
                             flags.question.ReadProfiles());
    PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Calibration> calibration,
                             flags.question.ReadCalibrationFile());
    const InterruptWatch interrupt;
    return CompareOffline(spec, profiles, calibration, flags.search.Watch());
  }
  spec.mutable_options()->set_compare_baselines(true);
  v1::CreatePlanRequest request;
  request.set_parent(absl::StrCat("clusters/", spec.topology().cluster()));
  *request.mutable_spec() = spec;
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  PARPLAN_ASSIGN_OR_RETURN(const v1::Plan plan,
                           PlanClient(channel).CreatePlan(std::move(request), flags.server.Call()));
  return std::vector<v1::PlannerComparison>(plan.comparisons().begin(), plan.comparisons().end());
}

absl::Status Compare(const Session& session, const CompareFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<v1::PlannerComparison> rows, Rows(session, flags));
  return Print(session, session.json ? ComparisonJson(rows) : ComparisonText(rows));
}

}  // namespace

void AddCompareCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<CompareFlags>();
  Command command =
      app.AddCommand("compare", "Run every planner and baseline on the same question");
  command.Footer(
      "Example:\n  planctl compare --offline --model m.model.json --cluster c.cluster.json "
      "--profile p.profile.json --batch 64");
  flags->question.AddTo(command, /*with_planner=*/false);
  flags->question.AddLimitsTo(command);
  command.GetOption("--time-limit").Help("Seconds each planner searches at most [--offline: 20]");
  shell::Option offline = command.AddFlag("--offline", flags->offline, "Plan in this process");
  flags->search.AddTo(command).Needs(offline);
  // A server has profiles and a calibration of its own.
  command.GetOption("--profile").Needs(offline);
  command.GetOption("--calibration").Needs(offline);
  flags->server.AddTo(command);
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Compare(session, *flags); };
  });
}

}  // namespace parplan::planctl
