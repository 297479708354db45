#include "exports/megatron_plan_export.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "exports/megatron_layout.h"
#include "exports/uniform_plan.h"

namespace parplan {
namespace {

absl::Status RefuseMegatron(absl::string_view field, absl::string_view reason) {
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat(reason, "; Megatron-LM can't run that"));
}

// Arguments in the order of the file.
class MegatronArguments {
 public:
  void Add(absl::string_view name) { lines_.push_back(absl::StrCat("--", name)); }
  template <typename Value>
  void Add(absl::string_view name, const Value& value) {
    lines_.push_back(absl::StrCat("--", name, "=", value));
  }
  void AddIf(bool condition, absl::string_view name) {
    if (condition) Add(name);
  }
  std::string Text() const { return absl::StrCat(absl::StrJoin(lines_, "\n"), "\n"); }

 private:
  std::vector<std::string> lines_;
};

// Returns whether both layers can be in one Megatron-LM model: all is equal but the experts.
bool FitTogether(const LayerDefinition& a, const LayerDefinition& b) {
  return a.hidden_size == b.hidden_size && a.attention_head_count == b.attention_head_count &&
         a.key_value_head_count == b.key_value_head_count && a.head_size == b.head_size &&
         a.sequence_length == b.sequence_length && a.feed_forward_kind == b.feed_forward_kind;
}

// Returns whether both have experts, and others.
bool ExpertsDiffer(const LayerDefinition& a, const LayerDefinition& b) {
  return a.expert_count > 0 && b.expert_count > 0 &&
         (a.expert_count != b.expert_count || a.experts_per_token != b.experts_per_token ||
          a.expert_feed_forward_size != b.expert_feed_forward_size ||
          a.shared_expert_feed_forward_size != b.shared_expert_feed_forward_size);
}

// The decoder layers of a model in the words of Megatron-LM.
struct MegatronModel {
  const LayerDefinition* any = nullptr;
  const LayerDefinition* dense = nullptr;
  const LayerDefinition* with_experts = nullptr;
  // Whether each decoder layer has experts, for example `([0]*3+[1]*5)`.
  std::string expert_pattern;
};

absl::StatusOr<MegatronModel> MegatronModelOf(const ModelSpec& model) {
  MegatronModel result;
  result.any = &model.layer(1);
  std::vector<std::string> terms;
  int run = 0;
  for (int layer = 1; layer + 1 < model.layer_count(); ++layer) {
    const LayerDefinition& definition = model.layer(layer);
    if (!HasUsualParts(definition) || definition.attention_window > 0 ||
        definition.attention_chunk_size > 0) {
      return RefuseMegatron(
          "model.layer_runs",
          absl::StrCat("has in layer ", layer, " (`", definition.layer_definition_id,
                       "`) a window, latent attention, a state space, a further token or an opaque "
                       "layer, for which no flags are written"));
    }
    const bool has_experts = definition.expert_count > 0;
    const LayerDefinition*& first = has_experts ? result.with_experts : result.dense;
    if (first == nullptr) first = &definition;
    const bool is_alike = FitTogether(definition, *result.any) &&
                          !ExpertsDiffer(definition, *first) &&
                          (has_experts || definition.feed_forward_size == first->feed_forward_size);
    if (!is_alike || definition.feed_forward_kind == FeedForwardKind::kNone) {
      return RefuseMegatron(
          "model.layer_runs",
          absl::StrCat("has in layer ", layer, " (`", definition.layer_definition_id,
                       "`) other shapes than before, or no feed-forward part"));
    }
    ++run;
    const bool ends = layer + 2 == model.layer_count() ||
                      (model.layer(layer + 1).expert_count > 0) != has_experts;
    if (!ends) continue;
    terms.push_back(absl::StrCat("[", has_experts ? 1 : 0, "]*", run));
    run = 0;
  }
  result.expert_pattern = absl::StrCat("(", absl::StrJoin(terms, "+"), ")");
  return result;
}

void AddModel(const ModelSpec& model, const MegatronModel& layers, MegatronArguments* arguments) {
  const LayerDefinition& any = *layers.any;
  arguments->Add("num-layers", model.layer_count() - 2);
  arguments->Add("hidden-size", any.hidden_size);
  if (layers.dense != nullptr) arguments->Add("ffn-hidden-size", layers.dense->feed_forward_size);
  arguments->Add("num-attention-heads", any.attention_head_count);
  if (any.key_value_head_count != any.attention_head_count) {
    arguments->Add("group-query-attention");
    arguments->Add("num-query-groups", any.key_value_head_count);
  }
  arguments->Add("kv-channels", any.head_size);
  arguments->Add("seq-length", any.sequence_length);
  arguments->Add("max-position-embeddings", any.sequence_length);
  arguments->Add("vocab-size", model.layer(0).vocabulary_size);
  arguments->AddIf(any.feed_forward_kind == FeedForwardKind::kSwiglu, "swiglu");
  arguments->AddIf(!model.layer(model.layer_count() - 1).tied_embedding,
                   "untie-embeddings-and-output-weights");
  if (layers.with_experts != nullptr) {
    const LayerDefinition& experts = *layers.with_experts;
    arguments->Add("num-experts", experts.expert_count);
    arguments->Add("moe-router-topk", experts.experts_per_token);
    arguments->Add("moe-ffn-hidden-size", experts.expert_feed_forward_size);
    if (experts.shared_expert_feed_forward_size > 0) {
      arguments->Add("moe-shared-expert-intermediate-size",
                     experts.shared_expert_feed_forward_size);
    }
    if (layers.dense != nullptr) arguments->Add("moe-layer-freq", layers.expert_pattern);
    arguments->Add("moe-token-dispatcher-type", "alltoall");
  }
  arguments->AddIf(model.precision() == Precision::kBf16, "bf16");
  arguments->AddIf(model.precision() == Precision::kFp16, "fp16");
  arguments->Add("optimizer", model.optimizer() == Optimizer::kSgd ? "sgd" : "adam");
}

std::string LayoutOf(const UniformPlan& plan) {
  std::vector<std::string> stages;
  for (const int count : plan.stage_layer_counts) {
    stages.emplace_back(static_cast<size_t>(count), 't');
  }
  stages.front().front() = 'E';
  stages.back().back() = 'L';
  return FormatMegatronLayout(stages);
}

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
  if (layers.with_experts != nullptr && splits_without_sequence) {
    return RefuseMegatron(absl::StrCat(first, ".sequence_parallel"),
                          "is off from layer 0 on in a model with experts and tensor parallelism");
  }
  if (plan.virtual_stage_count > 1 && plan.micro_batch_count % pipeline != 0) {
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

void AddRecomputation(const UniformPlan& plan, MegatronArguments* arguments) {
  switch (plan.strategy.recompute_level) {
    case RecomputeLevel::kNone:
      return;
    case RecomputeLevel::kSelective:
      arguments->Add("recompute-granularity", "selective");
      arguments->Add("recompute-modules", "core_attn");
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
      "Plan ", facts.plan_name.empty() ? "of parplan" : facts.plan_name,
      " for Megatron-LM (core 0.14 to 0.20) on ", plan.device_count,
      " devices.\n\n"
      "  set -a; . ./megatron.env; set +a\n"
      "  mapfile -t plan < megatron.args\n"
      "  torchrun TORCHRUN_ARGUMENTS pretrain_gpt.py \"${plan[@]}\" YOUR_ARGUMENTS\n\n"
      "Ranks are numbered node by node, as torchrun does. YOUR_ARGUMENTS are those that a plan "
      "does\n"
      "not know: data, tokenizer, learning rate, checkpoints, kind of norm and of positions, "
      "biases.\n"
      "Do not repeat an argument of megatron.args, nor set an order of ranks\n"
      "(--use-tp-pp-dp-mapping).\n",
      connections, "\nThe prediction is for runtime `", facts.runtime.runtime_id, "`.",
      facts.runtime.runtime_id == "megatron-core"
          ? ""
          : " Plan with --target megatron --runtime megatron-core for one of this program.",
      "\n");
}

}  // namespace

absl::StatusOr<std::vector<ExportedFile>> ExportMegatronPlan(const Plan& plan,
                                                             const ModelSpec& model,
                                                             const ExportFacts& facts) {
  PARPLAN_ASSIGN_OR_RETURN(const UniformPlan uniform, UniformPlanOf(plan, model, "Megatron-LM"));
  PARPLAN_ASSIGN_OR_RETURN(const MegatronModel layers, MegatronModelOf(model));
  PARPLAN_RETURN_IF_ERROR(CheckMegatronLimits(uniform, layers));
  const Strategy& strategy = uniform.strategy;
  MegatronArguments arguments;
  AddModel(model, layers, &arguments);
  arguments.Add("tensor-model-parallel-size", strategy.tensor_parallel_degree);
  arguments.Add("pipeline-model-parallel-size", uniform.pipeline_parallel_degree());
  if (uniform.pipeline_parallel_degree() > 1) {
    arguments.Add("pipeline-model-parallel-layout", LayoutOf(uniform));
  }
  arguments.Add("context-parallel-size", strategy.context_parallel_degree);
  if (strategy.context_parallel_degree > 1) {
    arguments.Add("cp-comm-type", strategy.context_kind == ContextKind::kUlysses ? "a2a" : "p2p");
  }
  if (layers.with_experts != nullptr) {
    arguments.Add("expert-model-parallel-size", strategy.expert_parallel_degree);
    arguments.Add("expert-tensor-parallel-size", strategy.tensor_parallel_degree);
  }
  arguments.AddIf(strategy.sequence_parallel && strategy.tensor_parallel_degree > 1,
                  "sequence-parallel");
  arguments.AddIf(UsesMegatronFsdp(strategy) && strategy.tensor_parallel_degree > 1 &&
                      facts.runtime.overlap_tensor_parallel,
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
