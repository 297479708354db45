#include "exports/exporters.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "exports/accelerate_plan_export.h"
#include "exports/deepspeed_plan_export.h"
#include "exports/galvatron_plan_export.h"
#include "exports/megatron_plan_export.h"
#include "exports/torch_plan.h"
#include "exports/torch_plan_export.h"
#include "exports/torchtitan_plan_export.h"
#include "exports/uniform_plan.h"
#include "planner/model/precision.h"

namespace parplan {
namespace {

absl::StatusOr<std::vector<ExportedFile>> GalvatronFilesOf(const Plan& plan, const ModelSpec& model,
                                                           const ExportFacts& facts) {
  PARPLAN_ASSIGN_OR_RETURN(std::string text, ExportGalvatronPlan(plan, model));
  return std::vector<ExportedFile>{{"galvatron_config.json", std::move(text)},
                                   {"galvatron.env", CommonVariables(plan)},
                                   {"README.txt", GalvatronReadme(plan, facts)}};
}

// The checks of models for several rows.
template <const char* program>
absl::Status CheckDecoderModel(const ModelSpec& model) {
  return RequireDecoderModel(model, program);
}

template <const char* program>
absl::Status CheckModelOfTorch(const ModelSpec& model) {
  return CheckTorchModel(model, program);
}

constexpr char kAccelerateProgram[] = "Accelerate";
constexpr char kDeepSpeedProgram[] = "DeepSpeed";

// In the order of the alphabet.
constexpr std::array kExporters = std::to_array<PlanExporter>({
    {"accelerate", kAccelerateProgram, false, CheckDecoderModel<kAccelerateProgram>,
     ExportAcceleratePlan},
    {"deepspeed", kDeepSpeedProgram, false, CheckDecoderModel<kDeepSpeedProgram>,
     ExportDeepSpeedPlan},
    {"fsdp2", kFsdp2Program, false, CheckModelOfTorch<kFsdp2Program>, ExportFsdp2Plan},
    {"galvatron", "Galvatron", true, CheckGalvatronModel, GalvatronFilesOf},
    {"megatron", "Megatron-LM", false, CheckMegatronModel, ExportMegatronPlan},
    {"torch-pipelining", kTorchPipeliningProgram, false, CheckModelOfTorch<kTorchPipeliningProgram>,
     ExportTorchPipelining},
    {"torchtitan", "torchtitan", false, CheckTorchtitanModel, ExportTorchtitanPlan},
});

// Requires the plan to hold every layer of the model once, in its order.
absl::Status CheckLayers(const Plan& plan, const ModelSpec& model) {
  int layer = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const std::vector<StageLayerRun>& runs = plan.stages[i].layer_runs;
    for (size_t j = 0; j < runs.size(); ++j) {
      if (runs[j].first_layer_index == layer && runs[j].layer_count >= 1 &&
          runs[j].layer_count <= model.layer_count() - layer) {
        layer += runs[j].layer_count;
        continue;
      }
      return FieldError(Reason::kSpecInvalid, absl::StrCat("stages[", i, "].layer_runs[", j, "]"),
                        absl::StrCat("does not continue at layer ", layer, " of the model's ",
                                     model.layer_count(), ": it is a plan for another model"));
    }
  }
  if (layer == model.layer_count()) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, "stages",
                    absl::StrCat("hold ", layer, " layers of the model's ", model.layer_count(),
                                 ": it is a plan for another model"));
}

}  // namespace

absl::Span<const PlanExporter> AllExporters() { return kExporters; }

absl::StatusOr<const PlanExporter*> FindExporter(absl::string_view target,
                                                 absl::string_view field) {
  for (const PlanExporter& exporter : AllExporters()) {
    if (exporter.target == target) return &exporter;
  }
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat("must be one of ", absl::StrJoin(ExportTargets(), ", "),
                                 ", and is `", target, "`"));
}

std::vector<std::string> ExportTargets() {
  std::vector<std::string> targets;
  for (const PlanExporter& exporter : AllExporters()) targets.emplace_back(exporter.target);
  return targets;
}

absl::Status CheckModelOfTarget(Target target, const ModelSpec& model) {
  const absl::string_view name = LimitsOf(target).name;
  for (const PlanExporter& exporter : AllExporters()) {
    if (exporter.target == name) return exporter.check_model(model);
  }
  return absl::OkStatus();
}

absl::StatusOr<ExportFacts> ExportFactsOf(absl::string_view runtime_id,
                                          absl::string_view plan_name) {
  ExportFacts facts;
  facts.plan_name = std::string(plan_name);
  if (runtime_id.empty()) return facts;
  const RuntimeTraits* const runtime = FindRuntime(runtime_id);
  if (runtime == nullptr) {
    return FieldError(Reason::kPayloadMalformed, "runtime_id",
                      absl::StrCat("`", runtime_id, "` is no runtime of this release"));
  }
  facts.runtime = *runtime;
  return facts;
}

absl::StatusOr<std::vector<ExportedFile>> ExportPlan(const PlanExporter& exporter, const Plan& plan,
                                                     const ModelSpec& model,
                                                     const ExportFacts& facts) {
  PARPLAN_RETURN_IF_ERROR(CheckLayers(plan, model));
  const PrecisionTraits& precision = TraitsOf(model.precision());
  if (precision.quantisation.has_value()) {
    return FieldError(Reason::kSpecInvalid, "model.precision",
                      absl::StrCat("is ", precision.name,
                                   ", which no export writes; export the plan for bf16 and set the "
                                   "recipe in the program's own configuration"));
  }
  for (const LayerDefinition& definition : model.layer_definitions()) {
    if (!definition.frozen) continue;
    return FieldError(Reason::kSpecInvalid, "model.layer_definitions",
                      absl::StrCat("hold frozen weights (`", definition.layer_definition_id,
                                   "`), which no export writes"));
  }
  PARPLAN_ASSIGN_OR_RETURN(std::vector<ExportedFile> files, exporter.write(plan, model, facts));
  std::set<absl::string_view> names;
  for (const ExportedFile& file : files) names.insert(file.name);
  PARPLAN_CHECK(!files.empty() && names.size() == files.size());
  return files;
}

}  // namespace parplan
