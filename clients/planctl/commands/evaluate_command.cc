// `planctl evaluate`: what the cost model expects of a plan that is given: ours, Galvatron's, or
// that of a command line of Megatron-LM. Needs no server.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/quantity_text.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_plan.h"
#include "clients/import/model_facts.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/given_plan.h"
#include "clients/planctl/commands/import_flags.h"
#include "clients/planctl/commands/question_flags.h"
#include "clients/planctl/commands/show_view.h"
#include "clients/planctl/offline/offline_planner.h"

namespace parplan::planctl {
namespace {

struct EvaluateFlags {
  QuestionFlags question;
  std::string plan_path;
  std::string megatron_arguments;
  // Facts that the arguments leave open.
  ModelFlags model;
  GalvatronPlanOptions galvatron;
  std::string report_path;
};

absl::Status Evaluate(const Session& session, const EvaluateFlags& flags) {
  if (flags.plan_path.empty() == flags.megatron_arguments.empty()) {
    return FieldError(Reason::kSpecInvalid, "plan",
                      "give either a plan file or --megatron-args, and not both");
  }
  if (!flags.megatron_arguments.empty()) {
    PARPLAN_RETURN_IF_ERROR(RefuseGalvatronFlags(flags.galvatron));
  }
  const absl::string_view model_flag = GivenModelFlag(flags.model);
  if (flags.megatron_arguments.empty() && !model_flag.empty()) {
    return FieldError(Reason::kSpecInvalid, model_flag,
                      "changes the model that --megatron-args describes, and a plan file has that "
                      "of --model; leave it out");
  }
  if (flags.question.model_path.empty() && flags.megatron_arguments.empty()) {
    return FieldError(Reason::kSpecInvalid, "--model", "is needed with a plan file");
  }
  PARPLAN_ASSIGN_OR_RETURN(v1::PlanSpec spec, flags.question.ReadSpec());
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<v1::Profile> profiles, flags.question.ReadProfiles());
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Calibration> calibration,
                           flags.question.ReadCalibrationFile());
  PARPLAN_ASSIGN_OR_RETURN(
      const GivenPlan given,
      flags.megatron_arguments.empty()
          ? ReadGivenPlan(session, flags.plan_path, flags.galvatron, spec)
          : ReadMegatronPlan(session, flags.megatron_arguments, flags.model, &spec));
  if (flags.question.runtime.empty()) spec.mutable_options()->set_runtime_id(given.runtime_id);
  PARPLAN_ASSIGN_OR_RETURN(const PlanView view,
                           EvaluateOffline(spec, profiles, given.plan, calibration));
  if (!view.prediction.fits()) {
    Note(session, absl::StrCat("the plan does not fit: a device may need ",
                               SizeText(view.prediction.peak_memory_upper), " and has ",
                               SizeText(view.prediction.usable_memory), " usable"));
  }
  return ShowView(session, view, flags.report_path);
}

}  // namespace

void AddEvaluateCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<EvaluateFlags>();
  Command command = app.AddCommand(
      "evaluate",
      "Predict time and memory of a given plan: ours, a Galvatron strategy file, or that of a "
      "Megatron-LM command");
  command.Footer(
      "A plan that does not fit is an answer too: see `fits` in the JSON.\nExample:\n"
      "  planctl evaluate galvatron_config_x.json --model x.model.json --cluster x.cluster.json "
      "--profile x.profile.json\n"
      "  planctl evaluate --megatron-args pretrain.sh --cluster x.cluster.json\n"
      "  planctl evaluate --megatron-args pretrain.sh --vocabulary-size 128256 --cluster "
      "x.cluster.json");
  command.AddOption("plan", flags->plan_path, "Plan file, with or without a prediction");
  command.AddOption("--megatron-args", flags->megatron_arguments,
                    "Instead of a plan file: a launch script or YAML of Megatron-LM, or its "
                    "arguments as one text; they also give the model, unless --model does");
  command.AddOption("--report", flags->report_path, "Also write the HTML page");
  command.AddFlag("--ulysses-as-data-parallel", flags->galvatron.ulysses_as_data_parallel,
                  "Take Ulysses groups of a Galvatron plan as data-parallel ones");
  command
      .AddOption("--galvatron-micro-batches", flags->galvatron.micro_batch_count,
                 "Micro-batches, instead of `chunks` of a Galvatron plan")
      .Check(shell::Positive());
  flags->question.AddTo(command, /*with_planner=*/false);
  AddModelFlags(command, flags->model);
  // The plan says how it is run.
  for (const char* name : {"--batch-step", "--batch-from", "--schedule", "--space", "--target"}) {
    command.RemoveOption(name);
  }
  command.GetOption("--model").Required(false);
  command.GetOption("--runtime").Help("Program that trains [that of the plan, else parplan]");
  command.GetOption("--batch").Required(false).Help("Samples per optimizer step [the plan's]");
  command.GetOption("--micro-batches").Help("Micro-batches per step [the plan's]");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Evaluate(session, *flags); };
  });
}

}  // namespace parplan::planctl
