#include "exports/deepspeed_plan_export.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

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

using nlohmann::ordered_json;

constexpr char kDeepSpeed[] = "DeepSpeed";

absl::Status RefuseDeepSpeed(absl::string_view field, absl::string_view reason) {
  return RefusePlan(kDeepSpeed, field, reason);
}

absl::Status RefuseDeepSpeedStrategy(absl::string_view field, absl::string_view reason) {
  return RefuseFirstStrategy(kDeepSpeed, field, reason);
}

// Refuses pipelines other than of its engine: equally many decoder layers a stage, replicas alone.
absl::Status CheckEnginePipeline(const UniformPlan& plan, const ModelSpec& model) {
  const Strategy& strategy = plan.strategy;
  const int pipeline = plan.pipeline_parallel_degree();
  if (plan.virtual_stage_count > 1) {
    return RefuseDeepSpeed(
        "virtual_stage_count",
        absl::StrCat("is ", plan.virtual_stage_count, ": a device has one stage, from layer 0 on"));
  }
  if (pipeline == 1) return absl::OkStatus();
  const int decoders = model.layer_count() - 2;
  for (int stage = 0; stage < pipeline; ++stage) {
    const int ends = (stage == 0 ? 1 : 0) + (stage == pipeline - 1 ? 1 : 0);
    const int count = plan.stage_layer_counts[static_cast<size_t>(stage)] - ends;
    if (count * pipeline == decoders) continue;
    return RefuseDeepSpeed(absl::StrCat("stages[", stage, "]"),
                           absl::StrCat("has ", count, " of ", decoders, " decoder layers in ",
                                        pipeline, " stages, and each stage must have as many"));
  }
  for (const auto& [degree, name] : {std::pair(strategy.tensor_parallel_degree, "tensor"),
                                     {strategy.context_parallel_degree, "context"},
                                     {strategy.expert_parallel_degree, "expert"}}) {
    if (degree == 1) continue;
    return RefuseDeepSpeedStrategy(
        absl::StrCat(name, "_parallel_degree"),
        absl::StrCat("is ", degree, " from layer 0 on beside a pipeline of ", pipeline,
                     ", whose groups are stages and replicas alone"));
  }
  if (strategy.sharding_level > ShardingLevel::kOptimizer) {
    return RefuseDeepSpeedStrategy(
        "sharding_level",
        "shards gradients or parameters of all layers, layer 0 first, beside a "
        "pipeline, where only optimizer states can be");
  }
  if (strategy.sharding_level == ShardingLevel::kNone && strategy.data_parallel_degree > 1 &&
      model.precision() == Precision::kBf16) {
    return RefuseDeepSpeedStrategy(
        "sharding_level",
        "shards nothing of layer 0 and the others beside a pipeline in bf16, "
        "whose optimizer always shards its states");
  }
  return absl::OkStatus();
}

absl::Status CheckUlysses(const UniformPlan& plan, const ModelSpec& model) {
  const int context = plan.strategy.context_parallel_degree;
  if (context == 1) return absl::OkStatus();
  if (plan.strategy.context_kind != ContextKind::kUlysses) {
    return RefuseDeepSpeedStrategy("context_kind", "is not Ulysses from layer 0 on");
  }
  for (int layer = 1; layer + 1 < model.layer_count(); ++layer) {
    const LayerDefinition& definition = model.layer(layer);
    const int shared = definition.key_value_head_count;
    if (definition.attention_head_count % context == 0 &&
        (shared % context == 0 || context % shared == 0) &&
        definition.sequence_length % context == 0) {
      continue;
    }
    return RefuseDeepSpeedStrategy(
        "context_parallel_degree",
        absl::StrCat("is ", context, ", and layer ", layer, " has ",
                     definition.attention_head_count, " heads, ", shared, " key-value heads and ",
                     definition.sequence_length, " tokens, which it does not divide"));
  }
  return absl::OkStatus();
}

absl::Status CheckDeepSpeedLimits(const UniformPlan& plan, const ModelSpec& model) {
  const Strategy& strategy = plan.strategy;
  PARPLAN_RETURN_IF_ERROR(CheckEnginePipeline(plan, model));
  PARPLAN_RETURN_IF_ERROR(CheckUlysses(plan, model));
  const bool is_split = strategy.tensor_parallel_degree > 1 || strategy.context_parallel_degree > 1;
  if (strategy.tensor_parallel_degree > 1 && strategy.context_parallel_degree > 1) {
    return RefuseDeepSpeedStrategy(
        "context_parallel_degree",
        absl::StrCat("is ", strategy.context_parallel_degree,
                     " from layer 0 on beside tensor parallelism, and groups "
                     "have one axis beside replicas"));
  }
  if (strategy.sequence_parallel && strategy.tensor_parallel_degree > 1) {
    return RefuseDeepSpeedStrategy("sequence_parallel",
                                   "is on from layer 0 on, and AutoTP keeps activations whole");
  }
  if (is_split && HasExperts(model)) {
    return RefuseDeepSpeedStrategy(
        strategy.tensor_parallel_degree > 1 ? "tensor_parallel_degree" : "context_parallel_degree",
        "splits layers with experts, which AutoEP keeps whole");
  }
  if (strategy.sharding_degree != 0) {
    return RefuseDeepSpeedStrategy("sharding_degree",
                                   "shares states in groups of ranks from layer 0 on; the file "
                                   "has neither MiCS nor hpZ, which the cost model does not price");
  }
  if (strategy.expert_tensor_parallel_degree != 0) {
    return RefuseDeepSpeedStrategy("expert_tensor_parallel_degree",
                                   "splits experts over other ranks than the rest of their layer");
  }
  return CheckRecomputesAllOrNone(plan, kDeepSpeed);
}

// Numbers of elements that ZeRO-3 fetches ahead and holds.
struct LiveElements {
  int64_t of_next_layer = 0;
  int64_t most = 0;
};

// Returns those of the prediction: the layer that runs and the next, and the tables.
LiveElements LiveElementsOf(const ModelSpec& model, int tensor) {
  LiveElements live;
  for (int layer = 1; layer + 1 < model.layer_count(); ++layer) {
    live.of_next_layer = std::max(live.of_next_layer, model.layer(layer).parameter_count / tensor);
  }
  live.most = 2 * live.of_next_layer + model.layer(0).parameter_count +
              model.layer(model.layer_count() - 1).parameter_count;
  return live;
}

ordered_json ZeroOf(const UniformPlan& plan, const ModelSpec& model) {
  // The program as this configuration makes it, whatever runtime the prediction is for.
  const RuntimeTraits& runtime = *FindRuntime("deepspeed");
  const Strategy& strategy = plan.strategy;
  const int stage = static_cast<int>(strategy.sharding_level) - 1;
  ordered_json zero = {{"stage", stage}};
  if (stage == 0) return zero;
  const int element = TraitsOf(model.precision()).has_master_weights() ? 2 : 4;
  const int64_t bucket = runtime.gradient_bucket.count() / element;
  zero["overlap_comm"] = plan.pipeline_parallel_degree() == 1 && runtime.overlap_gradient_sync;
  zero["contiguous_gradients"] = true;
  zero["reduce_scatter"] = true;
  if (stage < 3) zero["use_multi_rank_bucket_allreduce"] = runtime.all_reduces_sharded_gradients;
  zero["reduce_bucket_size"] = bucket;
  if (stage < 3) {
    zero["allgather_bucket_size"] = bucket;
    return zero;
  }
  const LiveElements live = LiveElementsOf(model, strategy.tensor_parallel_degree);
  zero["stage3_prefetch_bucket_size"] = live.of_next_layer;
  zero["stage3_max_live_parameters"] = live.most;
  zero["stage3_max_reuse_distance"] = 0;
  zero["stage3_param_persistence_threshold"] = 0;
  return zero;
}

// Gradients are summed and sent in the precision of the model.
void AddPrecision(const UniformPlan& plan, const ModelSpec& model, ordered_json& config) {
  const PrecisionTraits& precision = TraitsOf(model.precision());
  const std::string name(precision.name);
  if (precision.has_master_weights()) {
    config[name] = {{"enabled", true}};
    config["data_types"] = {{"grad_accum_dtype", name}};
  }
  config["communication_data_type"] = name;
  // Another key beside Ulysses, whose default is fp32.
  if (plan.strategy.context_parallel_degree > 1) {
    config["seq_parallel_communication_data_type"] = name;
  }
  if (model.optimizer() == Optimizer::kSgd) config["zero_allow_untested_optimizer"] = true;
}

std::string DeepSpeedConfigOf(const UniformPlan& plan, const ModelSpec& model) {
  const Strategy& strategy = plan.strategy;
  const int pipeline = plan.pipeline_parallel_degree();
  const bool recomputes = strategy.recompute_level == RecomputeLevel::kFull;
  ordered_json config;
  // With AutoTP DeepSpeed multiplies by all ranks, also by those that share samples.
  if (strategy.tensor_parallel_degree == 1) config["train_batch_size"] = plan.global_batch_size;
  config["train_micro_batch_size_per_gpu"] = plan.micro_batch_size_per_rank();
  config["gradient_accumulation_steps"] = plan.micro_batch_count;
  config["zero_optimization"] = ZeroOf(plan, model);
  AddPrecision(plan, model, config);
  if (strategy.tensor_parallel_degree > 1) {
    config["tensor_parallel"] = {{"autotp_size", strategy.tensor_parallel_degree},
                                 {"vocab_parallel_lm_head", true}};
  }
  if (strategy.context_parallel_degree > 1) {
    config["sequence_parallel_size"] = strategy.context_parallel_degree;
    config["data_parallel_size"] = strategy.data_parallel_degree;
  }
  if (strategy.expert_parallel_degree > 1) {
    config["expert_parallel"] = {{"enabled", true},
                                 {"autoep_size", strategy.expert_parallel_degree}};
  }
  if (pipeline > 1) {
    config["pipeline"] = {{"stages", pipeline},
                          {"activation_checkpoint_interval", recomputes ? 1 : 0}};
  } else if (recomputes) {
    config["activation_checkpointing"] = {{"partition_activations", false},
                                          {"cpu_checkpointing", false},
                                          {"contiguous_memory_optimization", false},
                                          {"number_checkpoints", model.layer_count() - 2}};
  }
  return config.dump(2) + "\n";
}

std::string DeepSpeedReadme(const UniformPlan& plan, const ModelSpec& model,
                            const ExportFacts& facts) {
  const Strategy& strategy = plan.strategy;
  const int pipeline = plan.pipeline_parallel_degree();
  const bool recomputes = strategy.recompute_level == RecomputeLevel::kFull;
  std::string text = absl::StrCat(
      ReadmeTitle(facts, "DeepSpeed (0.19)", plan.device_count),
      "  set -a; . ./deepspeed.env; set +a\n"
      "  mapfile -t plan < deepspeed.args\n"
      "  deepspeed LAUNCHER_ARGUMENTS train.py \"${plan[@]}\" YOUR_ARGUMENTS\n\n"
      "The script calls deepspeed.add_config_arguments(parser) and "
      "deepspeed.initialize(args=args,\n"
      "...). Ranks are numbered node by node, as the launcher and torchrun do. Add optimizer,\n"
      "scheduler and clipping to ds_config.json, or pass them to deepspeed.initialize; the "
      "optimizer\n"
      "of the plan is ",
      model.optimizer() == Optimizer::kSgd ? "SGD with one kernel"
                                           : "Adam in one kernel (FusedAdam)",
      ".\n");
  if (pipeline > 1) {
    absl::StrAppend(
        &text, "\nThe model is a pipeline of an embedding, ", model.layer_count() - 2,
        " decoder layers and a head. `Layer` stands for the class of the decoder layer:\n"
        "  PipelineModule(layers, num_stages=",
        pipeline, ", partition_method=\"type:Layer\"",
        recomputes
            ? ",\n      checkpointable_layers=[\"Layer\"], activation_checkpoint_func=partial(\n"
              "          torch.utils.checkpoint.checkpoint, use_reentrant=False)"
            : "",
        ")\n");
  } else if (recomputes) {
    absl::StrAppend(&text, kReadmeRecomputation);
  }
  if (strategy.tensor_parallel_degree > 1) {
    absl::StrAppend(&text, "\nAutoTP splits layers over ", strategy.tensor_parallel_degree,
                    " neighbouring ranks, which must read the same samples.\n"
                    "train_batch_size is not set, because DeepSpeed would multiply by all ranks: a "
                    "step has ",
                    plan.global_batch_size, " samples.\n");
  }
  if (strategy.context_parallel_degree > 1) {
    absl::StrAppend(&text, "\nUlysses divides each sequence over ",
                    strategy.context_parallel_degree,
                    " neighbouring ranks: register UlyssesSPAttentionHF\n"
                    "and wrap the data loader in UlyssesSPDataLoaderAdapter\n"
                    "(deepspeed.runtime.sequence_parallel.ulysses_sp).\n");
  }
  return absl::StrCat(
      text, ReadmePrediction(facts, facts.runtime.runtime_id == "deepspeed", "--target deepspeed"));
}

}  // namespace

absl::StatusOr<std::vector<ExportedFile>> ExportDeepSpeedPlan(const Plan& plan,
                                                              const ModelSpec& model,
                                                              const ExportFacts& facts) {
  PARPLAN_ASSIGN_OR_RETURN(const UniformPlan uniform, UniformPlanOf(plan, model, kDeepSpeed));
  PARPLAN_RETURN_IF_ERROR(CheckDeepSpeedLimits(uniform, model));
  return std::vector<ExportedFile>{
      {"ds_config.json", DeepSpeedConfigOf(uniform, model)},
      {"deepspeed.args", "--deepspeed\n--deepspeed_config=ds_config.json\n"},
      {"deepspeed.env", CommonVariables(uniform)},
      {"README.txt", DeepSpeedReadme(uniform, model, facts)}};
}

}  // namespace parplan
