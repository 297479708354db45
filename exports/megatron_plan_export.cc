#include "exports/megatron_plan_export.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "exports/megatron_layout.h"
#include "exports/megatron_model.h"
#include "exports/readme_text.h"
#include "exports/uniform_plan.h"
#include "planner/model/strategy_fields.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "write or refuse the new field");

bool UsesMegatronFsdp(const Strategy& strategy) {
  return strategy.sharding_level == ShardingLevel::kGradients ||
         strategy.sharding_level == ShardingLevel::kParameters;
}

// Refuses what only Megatron-LM cannot run.
absl::Status CheckMegatronLimits(const UniformPlan& plan, const MegatronModel& layers) {
  const Strategy& strategy = plan.strategy;
  const std::string first = "stages[0].layer_runs[0].strategy";
  const int pipeline = plan.pipeline_parallel_degree();
  const bool splits_without_sequence =
      strategy.tensor_parallel_degree > 1 && !strategy.sequence_parallel;
  if (UsesMegatronFsdp(strategy)) {
    if (pipeline > 1) {
      return RefuseMegatron(absl::StrCat(first, ".sharding_level"),
                            "shards gradients or parameters of all layers, layer 0 first, beside a "
                            "pipeline: its distributed optimizer shards optimizer states alone, "
                            "and Megatron-FSDP is only written for one stage");
    }
    if (splits_without_sequence) {
      return RefuseMegatron(absl::StrCat(first, ".sharding_level"),
                            "shards gradients or parameters beside tensor parallelism without "
                            "sequence parallelism from layer 0 on: Megatron-FSDP excludes the one "
                            "connection that hides its messages, and --tp-comm-overlap needs "
                            "sequence parallelism");
    }
  }
  if (strategy.sharding_degree > 0 && strategy.sharding_level != ShardingLevel::kOptimizer) {
    return RefuseMegatron(absl::StrCat(first, ".sharding_degree"),
                          absl::StrCat("is ", strategy.sharding_degree,
                                       " from layer 0 on: instances are those of its distributed "
                                       "optimizer, which shards optimizer states alone"));
  }
  if (layers.with_experts != nullptr && splits_without_sequence) {
    return RefuseMegatron(absl::StrCat(first, ".sequence_parallel"),
                          "is off from layer 0 on in a model with experts and tensor parallelism");
  }
  if (plan.virtual_stage_count > 1 && plan.micro_batch_group_size == 0 &&
      plan.micro_batch_count % pipeline != 0) {
    return RefuseMegatron("micro_batch_count",
                          absl::StrCat("is ", plan.micro_batch_count, " with virtual stages on ",
                                       pipeline, " pipeline ranks, which do not divide it"));
  }
  const int context = strategy.context_parallel_degree;
  if (context > 1 && layers.any->sequence_length % (2 * context) != 0) {
    return RefuseMegatron(
        absl::StrCat(first, ".context_parallel_degree"),
        absl::StrCat("is ", context, ", and a sequence of ", layers.any->sequence_length,
                     " tokens is not divided by twice that"));
  }
  return absl::OkStatus();
}

void AddSharding(const UniformPlan& plan, const RuntimeTraits& runtime,
                 MegatronArguments* arguments) {
  const Strategy& strategy = plan.strategy;
  const bool has_replicas = strategy.data_parallel_degree * strategy.context_parallel_degree > 1;
  const bool is_sharded = strategy.sharding_level != ShardingLevel::kNone;
  arguments->AddIf(is_sharded, "use-distributed-optimizer");
  if (strategy.sharding_degree > 0) {
    arguments->Add("num-distributed-optimizer-instances", strategy.shard_group_count());
  }
  if (UsesMegatronFsdp(strategy)) {
    arguments->Add("use-megatron-fsdp");
    arguments->Add("data-parallel-sharding-strategy",
                   strategy.sharding_level == ShardingLevel::kGradients ? "optim_grads"
                                                                        : "optim_grads_params");
    arguments->Add("ckpt-format", "fsdp_dtensor");
  }
  const bool overlaps = has_replicas && runtime.overlap_gradient_sync;
  arguments->AddIf(overlaps, "overlap-grad-reduce");
  arguments->AddIf(overlaps && is_sharded && runtime.overlap_parameter_gather,
                   "overlap-param-gather");
}

// REQUIRES: ranks share tokens.
void AddContextKind(const Strategy& strategy, MegatronArguments* arguments) {
  constexpr absl::string_view kName = "cp-comm-type";
  switch (strategy.context_kind) {
    case ContextKind::kUlysses:
      arguments->Add(kName, "a2a");
      return;
    case ContextKind::kAllGather:
      arguments->Add(kName, "allgather");
      return;
    case ContextKind::kRing:
      break;
  }
  const int exchange = strategy.context_exchange_degree;
  arguments->Add(kName, exchange > 1 ? "a2a+p2p" : "p2p");
  if (exchange == 1) return;
  arguments->AddList("hierarchical-context-parallel-sizes",
                     absl::StrCat(exchange, "\n", strategy.context_parallel_degree / exchange));
}

void AddRecomputation(const UniformPlan& plan, MegatronArguments* arguments) {
  switch (plan.strategy.recompute_level) {
    case RecomputeLevel::kNone:
      return;
    case RecomputeLevel::kSelective:
      arguments->Add("recompute-granularity", "selective");
      arguments->Add("recompute-modules", "core_attn");
      return;
    case RecomputeLevel::kModules:
      arguments->Add("recompute-granularity", "selective");
      arguments->AddList("recompute-modules", plan.strategy.recompute_modules.ToString("\n"));
      // The program recomputes what is between the matrices of experts in this form alone.
      arguments->AddIf(plan.strategy.recompute_modules.has(RecomputeModule::kExpertActivation),
                       "moe-grouped-gemm");
      return;
    case RecomputeLevel::kFull:
      const bool all = plan.recomputed_layer_count == 0;
      arguments->Add("recompute-granularity", "full");
      arguments->Add("recompute-method", all ? "uniform" : "block");
      arguments->Add("recompute-num-layers", all ? 1 : plan.recomputed_layer_count);
      return;
  }
}

void AddNumbers(const ModelSpec& model, const RuntimeTraits& runtime,
                MegatronArguments* arguments) {
  // Megatron-LM sums bf16 gradients in 32 bits by default, fp16 ones in 16.
  if (model.precision() == Precision::kBf16) {
    arguments->AddIf(runtime.gradient_bytes == 2, "grad-reduce-in-bf16");
  } else if (model.precision() == Precision::kFp16) {
    arguments->AddIf(runtime.gradient_bytes == 4, "accumulate-allreduce-grads-in-fp32");
  }
  if (!runtime.attention_dropout) arguments->Add("attention-dropout", "0.0");
  if (!runtime.hidden_dropout) arguments->Add("hidden-dropout", "0.0");
}

std::string MegatronEnvironment(const UniformPlan& plan) {
  const Strategy& strategy = plan.strategy;
  std::string text = CommonVariables(plan);
  const bool splits_layers =
      strategy.tensor_parallel_degree > 1 || strategy.context_parallel_degree > 1;
  if (splits_layers && !UsesMegatronFsdp(strategy)) {
    absl::StrAppend(&text, "CUDA_DEVICE_MAX_CONNECTIONS=1\n");
  }
  return text;
}

std::string MegatronReadme(const UniformPlan& plan, const ExportFacts& facts) {
  const char* const connections =
      UsesMegatronFsdp(plan.strategy)
          ? "Megatron-FSDP refuses CUDA_DEVICE_MAX_CONNECTIONS=1: unset it.\n"
          : "";
  return absl::StrCat(
      ReadmeTitle(facts, "Megatron-LM (core 0.14 to 0.20)", plan.device_count),
      "  set -a; . ./megatron.env; set +a\n"
      "  mapfile -t plan < megatron.args\n"
      "  torchrun TORCHRUN_ARGUMENTS pretrain_gpt.py \"${plan[@]}\" YOUR_ARGUMENTS\n\n"
      "Ranks are numbered node by node, as torchrun does. YOUR_ARGUMENTS are those that a plan "
      "does\n"
      "not know: data, tokenizer, learning rate, checkpoints, kind of norm and of positions, "
      "biases.\n"
      "Do not repeat an argument of megatron.args, nor set an order of ranks\n"
      "(--use-tp-pp-dp-mapping).\n",
      connections,
      ReadmePrediction(facts, facts.runtime.runtime_id == "megatron-core",
                       "--target megatron --runtime megatron-core"));
}

}  // namespace

absl::Status CheckMegatronModel(const ModelSpec& model) {
  PARPLAN_RETURN_IF_ERROR(RequireDecoderModel(model, "Megatron-LM"));
  return MegatronModelOf(model).status();
}

absl::StatusOr<std::vector<ExportedFile>> ExportMegatronPlan(const Plan& plan,
                                                             const ModelSpec& model,
                                                             const ExportFacts& facts) {
  PARPLAN_RETURN_IF_ERROR(CheckMegatronModel(model));
  PARPLAN_ASSIGN_OR_RETURN(const UniformPlan uniform,
                           UniformPlanOf(plan, model, "Megatron-LM", EmptyStages::kAllowed));
  PARPLAN_ASSIGN_OR_RETURN(const MegatronModel layers, MegatronModelOf(model));
  PARPLAN_RETURN_IF_ERROR(CheckMegatronLimits(uniform, layers));
  PARPLAN_RETURN_IF_ERROR(CheckFurtherTokens(uniform, model));
  const Strategy& strategy = uniform.strategy;
  MegatronArguments arguments;
  AddMegatronModel(model, layers, &arguments);
  arguments.Add("tensor-model-parallel-size", strategy.tensor_parallel_degree);
  arguments.Add("pipeline-model-parallel-size", uniform.pipeline_parallel_degree());
  if (uniform.pipeline_parallel_degree() > 1) {
    arguments.Add("pipeline-model-parallel-layout",
                  FormatMegatronLayout(MegatronStages(uniform, model)));
  }
  if (uniform.micro_batch_group_size > 0) {
    arguments.Add("microbatch-group-size-per-virtual-pipeline-stage",
                  uniform.micro_batch_group_size);
  }
  arguments.Add("context-parallel-size", strategy.context_parallel_degree);
  if (strategy.context_parallel_degree > 1) {
    AddContextKind(strategy, &arguments);
  }
  if (layers.with_experts != nullptr) {
    arguments.Add("expert-model-parallel-size", strategy.expert_parallel_degree);
    arguments.Add("expert-tensor-parallel-size", strategy.expert_tensor_degree());
    // The program has biases by default, and refuses them in experts that ranks split.
    arguments.AddIf(strategy.expert_tensor_degree() > 1, "disable-bias-linear");
  }
  arguments.AddIf(strategy.sequence_parallel && strategy.tensor_parallel_degree > 1,
                  "sequence-parallel");
  arguments.AddIf(UsesMegatronFsdp(strategy) && strategy.tensor_parallel_degree > 1 &&
                      facts.runtime.tensor_parallel_overlap != TensorParallelOverlap::kNone,
                  "tp-comm-overlap");
  arguments.Add("micro-batch-size", uniform.micro_batch_size_per_rank());
  arguments.Add("global-batch-size", uniform.global_batch_size);
  AddSharding(uniform, facts.runtime, &arguments);
  AddRecomputation(uniform, &arguments);
  AddNumbers(model, facts.runtime, &arguments);
  return std::vector<ExportedFile>{{"megatron.args", arguments.Text()},
                                   {"megatron.env", MegatronEnvironment(uniform)},
                                   {"README.txt", MegatronReadme(uniform, facts)}};
}

}  // namespace parplan
