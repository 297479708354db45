#include "exports/accelerate_plan_export.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "exports/readme_text.h"
#include "exports/refusal.h"
#include "exports/uniform_plan.h"
#include "planner/model/precision.h"
#include "planner/model/strategy_fields.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "write or refuse the new field");

constexpr char kAccelerate[] = "Accelerate";

absl::Status RefuseAccelerate(absl::string_view field, absl::string_view reason) {
  return RefuseFirstStrategy(kAccelerate, field, reason);
}

// Returns whether FSDP shards the model, over all ranks of the same tensor-parallel part.
bool ShardsByFsdp(const Strategy& strategy) {
  return strategy.sharding_level == ShardingLevel::kGradients ||
         strategy.sharding_level == ShardingLevel::kParameters;
}

absl::Status RefuseOnlyReplica() {
  return RefuseAccelerate("sharding_level", "has no second replica of layer 0 to shard over");
}

absl::Status CheckAccelerateLevel(const UniformPlan& plan) {
  const Strategy& strategy = plan.strategy;
  const int replicas = strategy.data_parallel_degree * strategy.context_parallel_degree;
  const bool is_split = strategy.tensor_parallel_degree > 1 || strategy.context_parallel_degree > 1;
  switch (strategy.sharding_level) {
    case ShardingLevel::kNone:
      if (!is_split || replicas == 1) return absl::OkStatus();
      return RefuseAccelerate("sharding_level",
                              "shards nothing of layer 0 and the others beside tensor or context "
                              "parallelism, whose replicas FSDP must shard");
    case ShardingLevel::kOptimizer:
      return RefuseAccelerate("sharding_level", "shards optimizer states alone, from layer 0 on");
    case ShardingLevel::kGradients:
      if (replicas == 1) return RefuseOnlyReplica();
      if (plan.micro_batch_count == 1) return absl::OkStatus();
      return RefuseAccelerate(
          "sharding_level",
          absl::StrCat("gathers the parameters of layer 0 and the others once "
                       "for ",
                       plan.micro_batch_count, " micro-batches, and FSDP does so for each"));
    case ShardingLevel::kParameters:
      if (replicas == 1) return RefuseOnlyReplica();
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status CheckAccelerateLimits(const UniformPlan& plan, const ModelSpec& model) {
  const Strategy& strategy = plan.strategy;
  if (plan.pipeline_parallel_degree() > 1) {
    return RefusePlan(kAccelerate, "stages",
                      absl::StrCat("are ", plan.pipeline_parallel_degree(), ", from layer 0 on"));
  }
  PARPLAN_RETURN_IF_ERROR(CheckAccelerateLevel(plan));
  const bool is_split = strategy.tensor_parallel_degree > 1 || strategy.context_parallel_degree > 1;
  if (strategy.sequence_parallel && strategy.tensor_parallel_degree > 1) {
    return RefuseAccelerate("sequence_parallel",
                            "is on from layer 0 on, and no variable says so to the model");
  }
  if (strategy.context_parallel_degree > 1 && strategy.context_kind == ContextKind::kUlysses) {
    return RefuseAccelerate("context_kind", "is Ulysses from layer 0 on, which needs DeepSpeed");
  }
  if (strategy.context_kind != ContextKind::kRing || strategy.context_exchange_degree > 1) {
    return RefuseAccelerate("context_kind", "is no plain ring from layer 0 on");
  }
  for (int layer = 1; layer + 1 < model.layer_count(); ++layer) {
    const int tokens = model.layer(layer).sequence_length;
    const int context = strategy.context_parallel_degree;
    if (context == 1 || tokens % (2 * context) == 0) continue;
    return RefuseAccelerate(
        "context_parallel_degree",
        absl::StrCat("is ", context, ", and the sequence of ", tokens, " tokens of layer ", layer,
                     " is not divided by twice that"));
  }
  // A group that shards has all context-parallel ranks of its samples, and several replicas.
  if (strategy.sharding_degree != 0 &&
      (strategy.sharding_degree % strategy.context_parallel_degree != 0 ||
       strategy.sharding_degree == strategy.context_parallel_degree)) {
    return RefuseAccelerate("sharding_degree",
                            absl::StrCat("is ", strategy.sharding_degree,
                                         " from layer 0 on, and must be a multiple of "
                                         "the ",
                                         strategy.context_parallel_degree,
                                         " ranks that share a sequence, above their number"));
  }
  if (strategy.expert_tensor_parallel_degree != 0) {
    return RefuseAccelerate("expert_tensor_parallel_degree",
                            "splits experts over other ranks than the rest of layer 1");
  }
  if (strategy.expert_parallel_degree > 1) {
    return RefuseAccelerate(
        "expert_parallel_degree",
        absl::StrCat("is ", strategy.expert_parallel_degree, ", and no variable spreads experts"));
  }
  if (is_split && HasExperts(model)) {
    return RefuseAccelerate(
        strategy.tensor_parallel_degree > 1 ? "tensor_parallel_degree" : "context_parallel_degree",
        "splits layers with experts, for which no predicted plan of "
        "tensors is at hand");
  }
  return CheckRecomputesAllOrNone(plan, kAccelerate);
}

std::string AccelerateEnvironment(const UniformPlan& plan, const ModelSpec& model) {
  const Strategy& strategy = plan.strategy;
  const bool has_fsdp = ShardsByFsdp(strategy);
  const bool recomputes = strategy.recompute_level == RecomputeLevel::kFull;
  std::string text = CommonVariables(plan);
  const auto add = [&text](absl::string_view name, const auto& value) {
    absl::StrAppend(&text, name, "=", value, "\n");
  };
  const PrecisionTraits& precision = TraitsOf(model.precision());
  add("ACCELERATE_MIXED_PRECISION", precision.has_master_weights() ? precision.name : "no");
  add("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", plan.micro_batch_count);
  if (has_fsdp) {
    add("ACCELERATE_USE_FSDP", "true");
    add("FSDP_VERSION", 2);
    add("FSDP_RESHARD_AFTER_FORWARD",
        strategy.sharding_level == ShardingLevel::kParameters ? "true" : "false");
    add("FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP");
    add("FSDP_OFFLOAD_PARAMS", "false");
    add("FSDP_ACTIVATION_CHECKPOINTING", recomputes ? "true" : "false");
  } else {
    add("PARPLAN_RECOMPUTE", recomputes ? "full" : "none");
  }
  add("ACCELERATE_USE_PARALLELISM_CONFIG", "true");
  const int replicas = has_fsdp ? strategy.shard_group_count() : strategy.data_parallel_degree;
  add("PARALLELISM_CONFIG_DP_REPLICATE_SIZE", replicas);
  add("PARALLELISM_CONFIG_DP_SHARD_SIZE", strategy.data_parallel_degree / replicas);
  add("PARALLELISM_CONFIG_TP_SIZE", strategy.tensor_parallel_degree);
  add("PARALLELISM_CONFIG_CP_SIZE", strategy.context_parallel_degree);
  if (strategy.context_parallel_degree > 1) {
    add("PARALLELISM_CONFIG_CP_BACKEND", "torch");
    // The keys and values travel from rank to rank; `allgather` would bring all of them at once.
    add("PARALLELISM_CONFIG_CP_COMM_STRATEGY", "alltoall");
  }
  return text;
}

std::string AccelerateReadme(const UniformPlan& plan, const ModelSpec& model,
                             const ExportFacts& facts) {
  const Strategy& strategy = plan.strategy;
  std::string text = absl::StrCat(
      ReadmeTitle(facts, "Accelerate (1.15)", plan.device_count),
      "  set -a; . ./accelerate.env; set +a\n"
      "  torchrun TORCHRUN_ARGUMENTS train.py YOUR_ARGUMENTS\n\n"
      "Ranks are numbered node by node, as torchrun does. Batches of the data loader have\n"
      "PARPLAN_MICRO_BATCH_SIZE_PER_RANK samples. Load the model in float32: Accelerate makes the\n"
      "parameters of passes from it.\n");
  if (ShardsByFsdp(strategy)) {
    absl::StrAppend(&text,
                    "\nGradients are scattered after every micro-batch, which no variable says:\n"
                    "  Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(\n"
                    "      num_steps=",
                    plan.micro_batch_count, ", sync_each_batch=True))\n");
  } else {
    if (strategy.data_parallel_degree > 1) {
      const char* const hook = model.precision() == Precision::kBf16   ? "BF16"
                               : model.precision() == Precision::kFp16 ? "FP16"
                                                                       : nullptr;
      absl::StrAppend(
          &text, "\nGradients travel in buckets of 160 MiB",
          hook == nullptr ? "" : absl::StrCat(" and in ", hook), ", which no variable says:\n",
          "  Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(bucket_cap_mb=160",
          hook == nullptr ? "" : absl::StrCat(",\n      comm_hook=DDPCommunicationHookType.", hook),
          ")])\n");
    }
    if (strategy.recompute_level == RecomputeLevel::kFull) {
      absl::StrAppend(&text, kReadmeRecomputation);
    }
  }
  if (strategy.tensor_parallel_degree > 1) {
    absl::StrAppend(
        &text,
        "\nTensor parallelism is the model's own plan of tensors in transformers, which classes\n"
        "without such a plan do not have:\n"
        "  AutoModelForCausalLM.from_pretrained(NAME, tp_plan=\"auto\", tp_size=",
        strategy.tensor_parallel_degree,
        ",\n      device_mesh=accelerator.torch_device_mesh)\n"
        "The runtime `accelerate` predicts it: each projection sums the gradient of its input, "
        "all\n"
        "logits are gathered for the loss, and the embedding is whole on every rank unless the "
        "head\n"
        "shares its table. A plan of your own that exchanges less takes less time.\n");
  }
  return absl::StrCat(text, ReadmePrediction(facts, facts.runtime.runtime_id == "accelerate",
                                             "--target accelerate"));
}

}  // namespace

absl::StatusOr<std::vector<ExportedFile>> ExportAcceleratePlan(const Plan& plan,
                                                               const ModelSpec& model,
                                                               const ExportFacts& facts) {
  PARPLAN_ASSIGN_OR_RETURN(const UniformPlan uniform, UniformPlanOf(plan, model, kAccelerate));
  PARPLAN_RETURN_IF_ERROR(CheckAccelerateLimits(uniform, model));
  return std::vector<ExportedFile>{{"accelerate.env", AccelerateEnvironment(uniform, model)},
                                   {"README.txt", AccelerateReadme(uniform, model, facts)}};
}

}  // namespace parplan
