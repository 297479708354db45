// `planctl executions list|show`: what jobs measured beside what was predicted.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "clients/cpp/execution_client.h"
#include "clients/cpp/plan_client.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/server_flags.h"
#include "clients/planctl/view/execution_view.h"
#include "proto/wire/json_file.h"
#include "proto/wire/resource_name.h"

namespace parplan::planctl {
namespace {

struct ExecutionsFlags {
  ServerFlags server;
  std::string plan;
  std::string cluster;
  std::string name;
};

// The plans of a cluster, newest first.
absl::StatusOr<std::vector<std::string>> PlansOf(const ExecutionsFlags& flags, PlanClient& client) {
  std::vector<std::string> plans;
  v1::ListPlansRequest request;
  request.set_parent(ClusterName{flags.cluster}.ToString());
  do {
    PARPLAN_ASSIGN_OR_RETURN(const v1::ListPlansResponse page,
                             client.ListPlans(request, flags.server.Call()));
    for (const v1::Plan& plan : page.plans()) plans.push_back(plan.name());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return plans;
}

absl::Status ListExecutions(const Session& session, const ExecutionsFlags& flags) {
  if (flags.plan.empty() == flags.cluster.empty()) {
    return FieldError(Reason::kSpecInvalid, "--plan", "give --plan or --cluster, one of the two");
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  std::vector<std::string> plans = {flags.plan};
  if (flags.plan.empty()) {
    PlanClient client(channel);
    PARPLAN_ASSIGN_OR_RETURN(plans, PlansOf(flags, client));
  }
  ExecutionClient client(channel);
  v1::ListExecutionsResponse all;
  for (const std::string& plan : plans) {
    v1::ListExecutionsRequest request;
    request.set_parent(plan);
    do {
      PARPLAN_ASSIGN_OR_RETURN(const v1::ListExecutionsResponse page,
                               client.List(request, flags.server.Call()));
      all.mutable_executions()->MergeFrom(page.executions());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
  }
  // The form that `planctl calibrate --executions` reads.
  if (session.json) return Print(session, ToReadableJson(all));
  return Print(session, all.executions().empty() ? "no executions\n" : ExecutionListText(all));
}

absl::Status ShowExecution(const Session& session, const ExecutionsFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  v1::GetExecutionRequest request;
  request.set_name(flags.name);
  PARPLAN_ASSIGN_OR_RETURN(const v1::Execution execution,
                           ExecutionClient(channel).Get(request, flags.server.Call()));
  return Print(session, session.json ? ToReadableJson(execution) : ExecutionText(execution));
}

}  // namespace

void AddExecutionsCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<ExecutionsFlags>();
  Command executions =
      app.AddCommand("executions", "List and show what jobs measured, with what was predicted");
  executions.RequireCommand();
  executions.Footer("Example:\n  planctl executions list --cluster lab");
  const auto finish = [&](Command command, const char* example, auto run) {
    command.Footer(std::string("Example:\n  ") + example);
    flags->server.AddTo(command);
    command.OnChosen([&session, &action, flags, run] {
      action = [&session, flags, run] { return run(session, *flags); };
    });
  };
  Command list = executions.AddCommand("list", "List executions, newest first");
  list.AddOption("--plan", flags->plan, "Only those of this plan: clusters/{c}/plans/{p}");
  list.AddOption("--cluster", flags->cluster, "Those of all plans of this cluster");
  finish(list, "planctl --format json executions list --cluster lab > executions.json",
         ListExecutions);

  Command show =
      executions.AddCommand("show", "Show phases and memory of one execution, stage by stage");
  show.AddOption("name", flags->name, "clusters/{c}/plans/{p}/executions/{e}").Required();
  finish(show, "planctl executions show clusters/lab/plans/p/executions/e", ShowExecution);
}

}  // namespace parplan::planctl
