#include "exports/torch_plan_export.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "exports/layer_strategies.h"
#include "exports/pass_table.h"
#include "exports/readme_text.h"
#include "exports/refusal.h"
#include "exports/torch_plan.h"
#include "exports/torch_plan_json.h"

namespace parplan {
namespace {

TorchPlanTraits TorchTraitsOf(const RuntimeTraits& runtime) {
  return {.reduction_bytes = runtime.gradient_message_bytes,
          .selective_recompute = runtime.selective_recompute};
}

std::string PredictionLine(const ExportFacts& facts) {
  const std::string& runtime = facts.runtime.runtime_id;
  return ReadmePrediction(facts, runtime == "fsdp" || absl::StartsWith(runtime, "torch"),
                          "--target fsdp2");
}

std::string PipeliningReadme(const Plan& plan, const ExportFacts& facts) {
  return absl::StrCat(
      ReadmeTitle(facts, "torch.distributed.pipelining (PyTorch 2.6 to 2.15)", plan.device_count),
      "  set -a; . ./torch-pipelining.env; set +a\n"
      "  torchrun TORCHRUN_ARGUMENTS YOUR_PROGRAM\n\n"
      "YOUR_PROGRAM reads stages.json. Stage i has the modules of its layers, by the names of\n"
      "torchtitan's decoders, and is a PipelineStage(module, i, number of stages, ...) on the\n"
      "ranks from first_rank on: rank first_rank + k sends to the rank of the same k of the next\n"
      "stage. Apply strategies inside stages before that (parplan's documents, exports.md). "
      "Then\n\n"
      "  schedule = _PipelineScheduleRuntime(stages of this rank, n_microbatches=",
      plan.micro_batch_count,
      ", loss_fn=...)\n"
      "  schedule._load_csv(\"schedule.csv\")\n\n"
      "A loss that is a mean over a micro-batch goes with the default scale_grads=True.\n",
      PredictionLine(facts));
}

std::string Fsdp2Readme(const Plan& plan, const ExportFacts& facts) {
  return absl::StrCat(
      ReadmeTitle(facts, "plain PyTorch (2.6 to 2.15)", plan.device_count),
      "  set -a; . ./fsdp2.env; set +a\n"
      "  torchrun TORCHRUN_ARGUMENTS YOUR_PROGRAM\n\n"
      "YOUR_PROGRAM applies fsdp2.json to its modules, which have the names of torchtitan's\n"
      "decoders; exports.md of parplan's documents says what each member asks for. Ranks are\n"
      "numbered node by node, as torchrun does.\n",
      PredictionLine(facts));
}

std::vector<ExportedFile> TorchFiles(TorchPlanFormat format, const Plan& plan,
                                     const ModelSpec& model, const ExportFacts& facts,
                                     const std::string& stem, std::string readme) {
  const std::string name = format == TorchPlanFormat::kFsdp2 ? "fsdp2.json" : "stages.json";
  const std::string text = TorchPlanJson(format, plan, model, TorchTraitsOf(facts.runtime)).dump(1);
  std::vector<ExportedFile> files = {{name, absl::StrCat(text, "\n")}};
  if (plan.pipeline_parallel_degree() > 1) {
    files.push_back({kPassTableName, FormatPassTable(PipelineShapeOf(plan))});
  }
  files.push_back({absl::StrCat(stem, ".env"), CommonVariables(plan)});
  files.push_back({"README.txt", std::move(readme)});
  return files;
}

}  // namespace

absl::Status CheckTorchPipelining(const Plan& plan, const ModelSpec& model) {
  PARPLAN_RETURN_IF_ERROR(
      CheckTorchPlan(plan, model, kTorchPipeliningProgram, /*may_gather=*/false));
  if (plan.pipeline_parallel_degree() == 1) {
    return RefusePlan(kTorchPipeliningProgram, "stages", "are one, which is no pipeline");
  }
  const LayerStrategies layers = LayerStrategiesOf(plan);
  int first = 0;
  for (size_t i = 0; i + 1 < layers.stage_layer_counts.size(); ++i) {
    first += layers.stage_layer_counts[i];
    if (HoldActivationsAlike(layers.strategies[first - 1], layers.strategies[first])) continue;
    return RefusePlan(
        kTorchPipeliningProgram, StrategyFieldOf(plan, first),
        absl::StrCat("splits the activations of layer ", first, " otherwise than layer ", first - 1,
                     " does, from which a message comes as it is"));
  }
  return absl::OkStatus();
}

absl::Status CheckFsdp2Plan(const Plan& plan, const ModelSpec& model) {
  PARPLAN_RETURN_IF_ERROR(CheckTorchPlan(plan, model, kFsdp2Program, /*may_gather=*/false));
  const LayerStrategies layers = LayerStrategiesOf(plan);
  for (size_t i = 0; i < layers.strategies.size(); ++i) {
    const Strategy& strategy = layers.strategies[i];
    const int layer = static_cast<int>(i);
    if (strategy.tensor_parallel_degree > 1 && model.layer(layer).latent_attention.has_value()) {
      return RefusePlan(
          kFsdp2Program, absl::StrCat(StrategyFieldOf(plan, layer), ".tensor_parallel_degree"),
          absl::StrCat("is ", strategy.tensor_parallel_degree, " in layer ", layer,
                       ", whose latent attention has matrices that fsdp2.json does not name"));
    }
    if (strategy.expert_parallel_degree > 1) {
      return RefusePlan(
          kFsdp2Program, absl::StrCat(StrategyFieldOf(plan, layer), ".expert_parallel_degree"),
          absl::StrCat("spreads the experts of layer ", layer, " over ",
                       strategy.expert_parallel_degree, " ranks, and PyTorch moves no tokens"));
    }
    if (strategy.context_kind == ContextKind::kUlysses) {
      return RefusePlan(kFsdp2Program, absl::StrCat(StrategyFieldOf(plan, layer), ".context_kind"),
                        absl::StrCat("exchanges tokens for heads in layer ", layer,
                                     ", and context_parallel of PyTorch is a ring"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ExportedFile>> ExportTorchPipelining(const Plan& plan,
                                                                const ModelSpec& model,
                                                                const ExportFacts& facts) {
  PARPLAN_RETURN_IF_ERROR(CheckTorchPipelining(plan, model));
  return TorchFiles(TorchPlanFormat::kPipelining, plan, model, facts, "torch-pipelining",
                    PipeliningReadme(plan, facts));
}

absl::StatusOr<std::vector<ExportedFile>> ExportFsdp2Plan(const Plan& plan, const ModelSpec& model,
                                                          const ExportFacts& facts) {
  PARPLAN_RETURN_IF_ERROR(CheckFsdp2Plan(plan, model));
  return TorchFiles(TorchPlanFormat::kFsdp2, plan, model, facts, "fsdp2", Fsdp2Readme(plan, facts));
}

}  // namespace parplan
