#include "exports/torchtitan_plan_export.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "exports/pass_table.h"
#include "exports/readme_text.h"
#include "exports/refusal.h"
#include "exports/torch_plan.h"
#include "exports/torchtitan_module.h"
#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "write or refuse the new field");

constexpr char kProgram[] = "torchtitan";
constexpr char kField[] = "stages[0].layer_runs[0].strategy";
// Virtual stages of a device that torch's schedules keep whole at once (`max_active_stages`); those
// beyond are gathered again in the same step.
constexpr int kActiveStageCount = 3;

absl::Status RefuseTorchtitan(absl::string_view member, absl::string_view reason) {
  return RefusePlan(kProgram, member.empty() ? kField : absl::StrCat(kField, ".", member), reason);
}

// Returns the number of ranks over which parameters can be sharded.
int ReplicaCount(const Strategy& strategy) {
  return strategy.data_parallel_degree * strategy.context_parallel_degree;
}

absl::Status CheckOneStageSharding(const UniformPlan& plan) {
  switch (plan.strategy.sharding_level) {
    case ShardingLevel::kNone:
      if (plan.micro_batch_count == 1) return absl::OkStatus();
      return RefuseTorchtitan(
          "sharding_level",
          absl::StrCat("is none with ", plan.micro_batch_count,
                       " accumulation steps, from layer 0 on: gradients are all-reduced in each"));
    case ShardingLevel::kOptimizer:
      return RefuseTorchtitan(
          "sharding_level",
          "is zero-1 from layer 0 on: without a pipeline gradients are scattered in every "
          "backward pass, which is zero-2");
    case ShardingLevel::kGradients:
      if (plan.micro_batch_count == 1) return absl::OkStatus();
      return RefuseTorchtitan(
          "sharding_level",
          absl::StrCat("is zero-2 with ", plan.micro_batch_count,
                       " accumulation steps, from layer 0 on: parameters are gathered in each"));
    case ShardingLevel::kParameters:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status CheckPipelineSharding(const UniformPlan& plan) {
  switch (plan.strategy.sharding_level) {
    case ShardingLevel::kNone:
      return absl::OkStatus();
    case ShardingLevel::kOptimizer:
      if (plan.virtual_stage_count <= kActiveStageCount) return absl::OkStatus();
      return RefuseTorchtitan(
          "sharding_level",
          absl::StrCat("is zero-1 from layer 0 on with ", plan.virtual_stage_count,
                       " stages a device, of which ", kActiveStageCount,
                       " stay whole; the others are gathered again"));
    case ShardingLevel::kGradients:
    case ShardingLevel::kParameters:
      return RefuseTorchtitan(
          "sharding_level",
          "shards gradients or parameters of all layers, layer 0 first, beside a pipeline: "
          "gradients stay whole until the last micro-batch");
  }
  return absl::OkStatus();
}

absl::Status CheckTorchtitanSharding(const UniformPlan& plan) {
  const Strategy& strategy = plan.strategy;
  const bool is_sharded = strategy.sharding_level != ShardingLevel::kNone;
  if (ReplicaCount(strategy) == 1) {
    if (!is_sharded) return absl::OkStatus();
    return RefuseTorchtitan("sharding_level", "shards layer 0 over one rank");
  }
  if (!is_sharded && strategy.context_parallel_degree > 1) {
    return RefuseTorchtitan(
        "sharding_level",
        "is none beside context parallelism, from layer 0 on: its ranks always share parameters");
  }
  if (strategy.shard_count() % strategy.context_parallel_degree != 0) {
    return RefuseTorchtitan(
        "sharding_degree",
        absl::StrCat("is ", strategy.sharding_degree, " from layer 0 on, which parts the ",
                     strategy.context_parallel_degree,
                     " ranks that share a sequence: they always share parameters"));
  }
  return plan.pipeline_parallel_degree() > 1 ? CheckPipelineSharding(plan)
                                             : CheckOneStageSharding(plan);
}

absl::Status CheckTorchtitanRecomputation(const UniformPlan& plan, const RuntimeTraits& runtime) {
  if (plan.recomputed_layer_count > 0) {
    return RefuseTorchtitan("recompute_level",
                            absl::StrCat("recomputes only the first ", plan.recomputed_layer_count,
                                         " layers of each stage, layer 1 first: one policy is for "
                                         "all layers"));
  }
  if (plan.strategy.recompute_level == RecomputeLevel::kModules) {
    return RefuseTorchtitan("recompute_modules",
                            "names modules in layer 1: its policies know no such parts");
  }
  if (plan.strategy.recompute_level == RecomputeLevel::kSelective &&
      runtime.selective_recompute != SelectiveRecompute::kOperators) {
    return RefuseTorchtitan("recompute_level",
                            "recomputes attention alone in layer 1: its selective policy repeats "
                            "other operations");
  }
  return absl::OkStatus();
}

absl::Status CheckTorchtitanDegrees(const UniformPlan& plan, const ModelSpec& model) {
  const Strategy& strategy = plan.strategy;
  const int tensor = strategy.tensor_parallel_degree;
  const int context = strategy.context_parallel_degree;
  if (strategy.context_kind == ContextKind::kUlysses) {
    return RefuseTorchtitan("context_kind", "exchanges tokens for heads from layer 0 on");
  }
  if (strategy.context_exchange_degree > 1) {
    return RefuseTorchtitan("context_exchange_degree",
                            "makes a ring of groups that exchange heads from layer 0 on");
  }
  if (strategy.expert_tensor_parallel_degree != 0) {
    return RefuseTorchtitan("expert_tensor_parallel_degree",
                            "splits experts over other ranks than the rest of layer 1");
  }
  if (strategy.expert_parallel_degree > 1 &&
      (tensor > 1 || strategy.sharding_level == ShardingLevel::kNone)) {
    return RefuseTorchtitan(
        "expert_parallel_degree",
        absl::StrCat("is ", strategy.expert_parallel_degree,
                     tensor > 1 ? " beside tensor parallelism: experts take its ranks as well"
                                : " without sharding: experts are spread over its ranks alone"));
  }
  const int pieces = (strategy.sequence_parallel ? tensor : 1) * (context > 1 ? 2 * context : 1);
  for (int layer = 1; layer + 1 < model.layer_count(); ++layer) {
    const LayerDefinition& definition = model.layer(layer);
    if (definition.attention_head_count % tensor != 0 ||
        definition.key_value_head_count % tensor != 0) {
      return RefuseTorchtitan(
          "tensor_parallel_degree",
          absl::StrCat("is ", tensor, ", which does not divide the heads of layer ", layer));
    }
    if (definition.sequence_length % pieces != 0) {
      return RefuseTorchtitan("", absl::StrCat("cuts the ", definition.sequence_length,
                                               " tokens of layer ", layer, " into ", pieces));
    }
  }
  return absl::OkStatus();
}

std::string TorchtitanReadme(const UniformPlan& plan, const ExportFacts& facts) {
  return absl::StrCat(
      ReadmeTitle(facts, absl::StrCat("torchtitan ", kTorchtitanRelease), plan.device_count),
      "  set -a; . ./torchtitan.env; set +a\n"
      "  export PYTHONPATH=$PWD PARPLAN_TORCHTITAN_BASE=MODULE:FUNCTION\n"
      "  torchrun TORCHRUN_ARGUMENTS -m torchtitan.train --module parplan_config --config plan\n\n"
      "MODULE:FUNCTION names your configuration of the same model, for example\n"
      "torchtitan.models.llama3.config_registry:llama3_8b. The plan replaces its parallelism, "
      "sizes\n"
      "of batches, activation checkpointing and compilation; data, optimizer and the rest stay.\n"
      "Context parallelism needs FlexAttention there.\n\n"
      "The prediction is for runtime `",
      facts.runtime.runtime_id,
      "`. torchtitan reduces gradients in 32 bits, which the\n"
      "runtime `torchtitan` predicts, and with full checkpointing repeats whole layers.\n");
}

}  // namespace

absl::Status CheckTorchtitanModel(const ModelSpec& model) {
  PARPLAN_RETURN_IF_ERROR(RequireDecoderModel(model, kProgram));
  PARPLAN_RETURN_IF_ERROR(CheckHasNamedLayers(model));
  if (model.precision() != Precision::kFp16) return absl::OkStatus();
  return RefuseModel(kProgram, "model.precision", "is fp16 in all layers");
}

absl::Status CheckTorchtitanPlan(const UniformPlan& plan, const ModelSpec& model,
                                 const RuntimeTraits& runtime) {
  PARPLAN_RETURN_IF_ERROR(CheckTorchtitanModel(model));
  PARPLAN_RETURN_IF_ERROR(CheckTorchtitanRecomputation(plan, runtime));
  PARPLAN_RETURN_IF_ERROR(CheckTorchtitanSharding(plan));
  PARPLAN_RETURN_IF_ERROR(CheckTorchtitanDegrees(plan, model));
  if (plan.pipeline_parallel_degree() > 1 && HasTiedTable(model)) {
    return RefusePlan(kProgram, "stages",
                      absl::StrCat("hold layer 0 and layer ", model.layer_count() - 1,
                                   ", which share a table, beside a pipeline"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ExportedFile>> ExportTorchtitanPlan(const Plan& plan,
                                                               const ModelSpec& model,
                                                               const ExportFacts& facts) {
  PARPLAN_RETURN_IF_ERROR(CheckTorchtitanModel(model));
  if (plan.schedule == Schedule::kGpipe) {
    return FieldError(Reason::kSpecInvalid, "schedule",
                      "is gpipe, which this export does not write; plan with --space all,-gpipe");
  }
  PARPLAN_ASSIGN_OR_RETURN(const UniformPlan uniform, UniformPlanOf(plan, model, kProgram));
  if (uniform.micro_batch_group_size != 0) {
    return RefusePlan(kProgram, "micro_batch_group_size",
                      absl::StrCat("is ", uniform.micro_batch_group_size,
                                   ": its schedule has groups of as many micro-batches as the "
                                   "pipeline has devices"));
  }
  const Strategy& strategy = uniform.strategy;
  if (strategy.context_parallel_degree > 1 && strategy.context_kind == ContextKind::kRing) {
    return RefuseTorchtitan("context_kind",
                            "is a ring from layer 0 on: its ranks gather keys and "
                            "values; plan with --target torchtitan");
  }
  PARPLAN_RETURN_IF_ERROR(CheckTorchtitanPlan(uniform, model, facts.runtime));
  std::vector<ExportedFile> files = {
      {"parplan_config.py", TorchtitanModule(uniform, model, facts)}};
  if (uniform.pipeline_parallel_degree() > 1) {
    files.push_back({kPassTableName, FormatPassTable(PipelineShapeOf(plan))});
  }
  files.push_back({"torchtitan.env", CommonVariables(uniform)});
  files.push_back({"README.txt", TorchtitanReadme(uniform, facts)});
  return files;
}

}  // namespace parplan
