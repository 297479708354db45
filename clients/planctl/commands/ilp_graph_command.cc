// `planctl ilp-graph`: the auxiliary graph of `min-memory-ilp` and the redundancy of strategies.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/question_flags.h"
#include "clients/planctl/files.h"
#include "clients/planctl/offline/offline_planner.h"
#include "clients/planctl/view/graph_view.h"
#include "planner/cost/cost_model.h"
#include "planner/ilp_searches.h"

namespace parplan::planctl {
namespace {

struct GraphFlags {
  QuestionFlags question;
  std::string mesh;
  std::string operator_name;
  std::string svg_path;
};

absl::Status DrawIlpGraph(const Session& session, const GraphFlags& flags) {
  const IlpSearches ilp = IlpSearchesOfBuild();
  if (ilp.draw_graph == nullptr) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kSpecInvalid,
                     "this planctl was built without the integer programs; configure parplan with "
                     "PARPLAN_WITH_ILP=ON");
  }
  PARPLAN_ASSIGN_OR_RETURN(const v1::PlanSpec spec, flags.question.ReadSpec());
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<v1::Profile> profiles, flags.question.ReadProfiles());
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Calibration> calibration,
                           flags.question.ReadCalibrationFile());
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem,
                           OfflineProblem(spec, profiles, calibration));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  AuxiliaryGraphQuestion question{.mesh = flags.mesh};
  question.micro_batch_count = std::max<int64_t>(1, problem.rules().micro_batch_count);
  question.micro_batch_size = problem.global_batch_size() / question.micro_batch_count;
  PARPLAN_ASSIGN_OR_RETURN(const AuxiliaryGraph graph, ilp.draw_graph(problem, costs, question));
  const AuxiliaryOperator* op = nullptr;
  if (!flags.operator_name.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(op, OperatorNamed(graph, flags.operator_name));
  }
  if (!flags.svg_path.empty()) {
    PARPLAN_RETURN_IF_ERROR(
        WriteFile(flags.svg_path, op != nullptr ? OperatorSvg(graph, *op) : GraphSvg(graph)));
    Note(session, "picture in " + flags.svg_path);
    // The picture is the answer.
    if (flags.svg_path == "-") return absl::OkStatus();
  }
  if (session.json) return Print(session, GraphJson(graph, op).dump(2) + "\n");
  return Print(session, op != nullptr ? OperatorText(graph, *op) : GraphText(graph));
}

}  // namespace

void AddIlpGraphCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<GraphFlags>();
  Command command = app.AddCommand(
      "ilp-graph", "Show the operators, strategies and redundant memory of min-memory-ilp");
  command.Footer(
      "Example:\n"
      "  planctl ilp-graph --model m.model.json --cluster c.cluster.json --batch 8 --svg "
      "graph.svg\n"
      "  planctl ilp-graph --model m.model.json --cluster c.cluster.json --batch 8 "
      "--operator decoder.qkv");
  flags->question.AddTo(command, /*with_planner=*/false);
  command.AddOption("--mesh", flags->mesh,
                    "Devices as a grid, for example 8 or 2x4 [the one with the least memory]");
  command.AddOption("--operator", flags->operator_name,
                    "Only the strategies of this operator, with their memory");
  command.AddOption("--svg", flags->svg_path,
                    "Also write a picture: the graph, or the strategies of --operator");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return DrawIlpGraph(session, *flags); };
  });
}

}  // namespace parplan::planctl
