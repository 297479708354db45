// `planctl explain` and `planctl report`: a plan file as text or as a page, and why it is
// this plan and not another.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/clock.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/given_plan.h"
#include "clients/planctl/commands/interrupt.h"
#include "clients/planctl/commands/local_search_flags.h"
#include "clients/planctl/commands/question_flags.h"
#include "clients/planctl/commands/show_view.h"
#include "clients/planctl/files.h"
#include "clients/planctl/offline/offline_explainer.h"
#include "clients/planctl/view/explain_json.h"
#include "clients/planctl/view/explain_text.h"
#include "clients/planctl/view/plan_view.h"
#include "planner/model/parameter_parts.h"
#include "planner/model/search_space.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/rules_wire.h"
#include "solve/shared_time.h"

namespace parplan::planctl {
namespace {

struct PlanFileFlags {
  std::string plan_path;
  std::string output_path;
};

struct ExplainFlags {
  std::string plan_path;
  std::string rival_path;
  std::vector<std::string> why_not;
  bool sensitivities = false;
  bool bmw = false;
  bool parameters = false;
  bool measure_next = false;
  std::optional<int> collectives_rank;
  QuestionFlags question;
  LocalSearchFlags search;

  // Whether anything is asked for that needs the question.
  bool asks_why() const {
    return !rival_path.empty() || !why_not.empty() || sensitivities || bmw || measure_next ||
           collectives_rank.has_value();
  }
};

absl::Status NeedsQuestion(const char* flag) {
  return FieldError(Reason::kSpecInvalid, flag,
                    "is needed with --rival, --why-not, --sensitivities, --bmw, --measure-next and "
                    "--collectives");
}

// Reads the parameters of the model file by part.
absl::StatusOr<ParameterParts> ReadParameters(const std::string& model_path) {
  if (model_path.empty()) {
    return FieldError(Reason::kSpecInvalid, "--model", "is needed with --parameters");
  }
  PARPLAN_ASSIGN_OR_RETURN(const v1::ModelSpec message, ReadModel(model_path));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(message));
  return ParametersByPart(model);
}

// Says that a rival of another runtime is predicted under that of the plan, unless a flag chose the
// runtime.
void NoteOtherRuntime(const Session& session, const ExplainFlags& flags, const GivenPlan& plan,
                      const GivenPlan& rival) {
  if (!flags.question.runtime.empty() || rival.runtime_id.empty() ||
      rival.runtime_id == plan.runtime_id) {
    return;
  }
  const std::string used =
      plan.runtime_id.empty() ? "the default" : absl::StrCat("`", plan.runtime_id, "` of the plan");
  Note(session,
       absl::StrCat("note: the rival is for the runtime `", rival.runtime_id,
                    "`, and both are predicted under ", used, "; --runtime chooses another"));
}

// Says for which target other plans are searched, if the plan is for the runtime of another one and
// no flag chose: what they gain may come from what the plan's program cannot run.
void NoteOtherTarget(const Session& session, const ExplainFlags& flags, const GivenPlan& plan) {
  const bool is_searching = !flags.why_not.empty() || flags.sensitivities;
  if (!is_searching || !flags.question.target.empty() || !flags.question.runtime.empty()) return;
  const absl::Span<const TargetLimits> targets = KnownTargets();
  const auto of_plan = std::find_if(
      targets.begin(), targets.end(),
      [&](const TargetLimits& target) { return target.runtime_id == plan.runtime_id; });
  if (of_plan == targets.begin() || of_plan == targets.end()) return;
  Note(session, absl::StrCat("note: other plans are searched for --target ", targets.begin()->name,
                             ", and this one is for the runtime `", plan.runtime_id, "`; --target ",
                             of_plan->name, " leaves out those that its program cannot run"));
}

absl::Status Explain(const Session& session, const ExplainFlags& flags) {
  if (flags.plan_path.empty() && (flags.asks_why() || !flags.parameters)) {
    return FieldError(Reason::kSpecInvalid, "plan", "is required; only --parameters needs none");
  }
  if (!flags.asks_why() && !flags.parameters) {
    PARPLAN_ASSIGN_OR_RETURN(const PlanView view, ReadView(flags.plan_path));
    return ShowView(session, view, "");
  }
  ExplainAnswer answer;
  if (flags.parameters) {
    PARPLAN_ASSIGN_OR_RETURN(answer.parameters, ReadParameters(flags.question.model_path));
  }
  if (!flags.asks_why()) {
    if (!flags.plan_path.empty()) PARPLAN_RETURN_IF_ERROR(CheckPlanFile(flags.plan_path));
    return Print(session, session.json ? ExplainJson(answer) : ExplainText(answer));
  }
  if (flags.question.model_path.empty()) return NeedsQuestion("--model");
  if (flags.question.cluster_path.empty()) return NeedsQuestion("--cluster");
  ExplainContext context;
  PARPLAN_ASSIGN_OR_RETURN(context.spec, flags.question.ReadSpec());
  PARPLAN_ASSIGN_OR_RETURN(context.profiles, flags.question.ReadProfiles());
  PARPLAN_ASSIGN_OR_RETURN(context.calibration, flags.question.ReadCalibrationFile());
  PARPLAN_ASSIGN_OR_RETURN(const GivenPlan given,
                           ReadGivenPlan(session, flags.plan_path, {}, context.spec));
  const Plan& plan = given.plan;
  NoteOtherTarget(session, flags, given);
  if (flags.question.runtime.empty()) {
    context.spec.mutable_options()->set_runtime_id(given.runtime_id);
  }
  if (flags.collectives_rank.has_value()) {
    PARPLAN_ASSIGN_OR_RETURN(answer.collectives,
                             CollectivesOffline(context, plan, *flags.collectives_rank));
  }
  std::optional<GivenPlan> rival;
  if (!flags.rival_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(rival, ReadGivenPlan(session, flags.rival_path, {}, context.spec));
    NoteOtherRuntime(session, flags, given, *rival);
    PARPLAN_ASSIGN_OR_RETURN(answer.against, ExplainOffline(context, plan, rival->plan));
  }
  if (flags.measure_next) {
    PARPLAN_ASSIGN_OR_RETURN(
        answer.measure_next,
        MeasureNextOffline(context, plan, rival.has_value() ? &rival->plan : nullptr));
  }
  const InterruptWatch interrupt;
  // One limit for all that is asked.
  PARPLAN_ASSIGN_OR_RETURN(const PlanningOptions options, OptionsFromProto(context.spec.options()));
  const int search_count = static_cast<int>(flags.why_not.size()) +
                           (flags.sensitivities ? kResourceCount : 0) + (flags.bmw ? 1 : 0);
  SharedTime time(Clock::Real(), options.search_time_limit.value_or(absl::InfiniteDuration()),
                  std::max(1, search_count));
  SearchWatch watch = flags.search.Watch();
  watch.time = &time;
  for (const std::string& planner : flags.why_not) {
    PARPLAN_ASSIGN_OR_RETURN(WhyNot why_not, WhyNotOffline(context, plan, planner, watch));
    answer.why_not.push_back(std::move(why_not));
  }
  if (flags.sensitivities) {
    PARPLAN_ASSIGN_OR_RETURN(answer.sensitivities, SensitivitiesOffline(context, plan, watch));
  }
  if (flags.bmw) {
    PARPLAN_ASSIGN_OR_RETURN(answer.walks, WalksOffline(context, plan, watch));
  }
  return Print(session, session.json ? ExplainJson(answer) : ExplainText(answer));
}

absl::Status Report(const Session& session, const PlanFileFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanView view, ReadView(flags.plan_path));
  PARPLAN_RETURN_IF_ERROR(WriteFile(flags.output_path, PlanHtml(view)));
  if (session.json) {
    const nlohmann::ordered_json object = {{"report", flags.output_path}};
    return Print(session, object.dump(2) + "\n");
  }
  Note(session, "report in " + flags.output_path);
  return absl::OkStatus();
}

}  // namespace

void AddExplainCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<ExplainFlags>();
  Command command = app.AddCommand(
      "explain", "Say what a plan does and what limits it, and why it is not another");
  command.Footer(
      "Why it is not another is answered in this process and needs the question: --model, "
      "--cluster and, where there is one, --profile. --parameters needs --model alone, and no plan."
      "\nExample:\n"
      "  planctl explain plan.dsse.json\n"
      "  planctl explain plan.dsse.json --rival other.plan.json --model m.model.json --cluster "
      "c.cluster.json\n"
      "  planctl explain plan.dsse.json --why-not dp+tp --sensitivities --model m.model.json "
      "--cluster c.cluster.json\n"
      "  planctl explain --parameters --model m.model.json");
  command.AddOption("plan", flags->plan_path, "Plan file: an envelope or an unsigned plan");
  command.AddOption(
      "--rival", flags->rival_path,
      "Another plan file, also of Galvatron or one that `planctl import` wrote: where the two "
      "differ");
  command.AddOption("--why-not", flags->why_not,
                    "A planner; may be given several times: where its plan differs, or what it "
                    "lacks");
  command.AddFlag("--sensitivities", flags->sensitivities,
                  "What 10 % more memory, bandwidth or speed would buy");
  command.AddFlag("--measure-next", flags->measure_next,
                  "What was not measured, by how much it moves the prediction or, with --rival, "
                  "the difference, and how to measure it");
  command.AddFlag("--bmw", flags->bmw,
                  "Every partition that galvatron-bmw came to for the batch, depth and "
                  "micro-batches of this plan, with alpha_t and alpha_m, and why it goes on from "
                  "there or not");
  command.AddFlag("--parameters", flags->parameters,
                  "Parameters of the model by part: embedding, attention, feed-forward, experts, "
                  "head");
  command
      .AddOption("--collectives", flags->collectives_rank,
                 "Every collective that the prediction prices of this rank's step, with its group, "
                 "calls and bytes")
      .TypeName("RANK");
  flags->question.AddTo(command, /*with_planner=*/true);
  flags->search.AddTo(command);
  for (const char* name : {"--model", "--cluster"}) {
    command.GetOption(name).Required(false);
  }
  command.GetOption("--batch").Required(false).Help("Samples per optimizer step [the plan's]");
  command.GetOption("--runtime")
      .Help("Program that trains, as for `planctl plan` [that of the plan, else that of --target]");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Explain(session, *flags); };
  });
}

void AddReportCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<PlanFileFlags>();
  Command command = app.AddCommand("report", "Write a plan as one HTML page");
  command.Footer("Example:\n  planctl report plan.dsse.json --out plan.html");
  command.AddOption("plan", flags->plan_path, "Plan file: an envelope or an unsigned plan")
      .Required();
  command.AddOption("--out", flags->output_path, "The page").Required();
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Report(session, *flags); };
  });
}

}  // namespace parplan::planctl
