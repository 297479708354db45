#include "exports/torchtitan_module.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "exports/pass_table.h"
#include "exports/torch_plan.h"
#include "exports/torchtitan_plan_export.h"
#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13,
              "write the new field, or refuse it in CheckTorchtitanPlan");

// Sizes by the names of torchtitan's model configurations. The feed-forward width is that of the
// first layer without experts, and the sizes of experts are those of the first layer with some.
std::string ModelText(const ModelSpec& model) {
  const LayerDefinition& layer = model.layer(1);
  const LayerDefinition* dense = nullptr;
  const LayerDefinition* experts = nullptr;
  int expert_layer_count = 0;
  for (int i = 1; i + 1 < model.layer_count(); ++i) {
    const LayerDefinition& definition = model.layer(i);
    const LayerDefinition*& first = definition.has_experts() ? experts : dense;
    if (first == nullptr) first = &definition;
    if (definition.has_experts()) ++expert_layer_count;
  }
  std::string text = "MODEL = dict(\n";
  const auto add = [&text](absl::string_view name, const auto& value) {
    absl::StrAppend(&text, "    ", name, "=", value, ",\n");
  };
  add("dim", layer.hidden_size);
  add("n_layers", model.layer_count() - 2);
  add("n_heads", layer.attention_head_count);
  add("n_kv_heads", layer.key_value_head_count);
  add("vocab_size", model.layer(0).vocabulary_size);
  add("enable_weight_tying", HasTiedTable(model) ? "True" : "False");
  add("head_dim", layer.head_size);
  if (layer.latent_attention.has_value()) {
    add("q_lora_rank", layer.latent_attention->query_rank);
    add("kv_lora_rank", layer.latent_attention->key_value_rank);
    add("v_head_dim", layer.latent_attention->value_head_size);
  }
  if (dense != nullptr) add("hidden_dim", dense->feed_forward_size);
  if (experts != nullptr) {
    add("n_expert_layers", expert_layer_count);
    add("num_experts", experts->expert_count);
    add("top_k", experts->experts_per_token);
    add("expert_hidden_dim", experts->expert_feed_forward_size);
    if (experts->shared_expert_feed_forward_size > 0) {
      add("shared_hidden_dim", experts->shared_expert_feed_forward_size);
    }
  }
  return absl::StrCat(text, ")\n");
}

std::string ModulesText(const UniformPlan& plan, const ModelSpec& model) {
  std::string text = "[\n";
  int layer = 0;
  for (const int count : plan.stage_layer_counts) {
    absl::StrAppend(&text, "        [");
    const char* separator = "";
    for (int i = 0; i < count; ++i, ++layer) {
      for (const std::string& module : TorchModulesOf(model, layer)) {
        absl::StrAppend(&text, separator, "\"", module, "\"");
        separator = ", ";
      }
    }
    absl::StrAppend(&text, "],\n");
  }
  return absl::StrCat(text, "    ]");
}

std::string ParallelismText(const UniformPlan& plan, const ModelSpec& model) {
  const Strategy& strategy = plan.strategy;
  const bool is_sharded = strategy.sharding_level != ShardingLevel::kNone;
  const int data = strategy.data_parallel_degree;
  // Groups of ranks that share parameters; context-parallel ranks are within one.
  const int replicas = is_sharded ? strategy.shard_group_count() : data;
  const int degree = plan.pipeline_parallel_degree();
  std::string text = "PARALLELISM = dict(\n";
  const auto add = [&text](absl::string_view name, const auto& value) {
    absl::StrAppend(&text, "    ", name, "=", value, ",\n");
  };
  add("data_parallel_replicate_degree", replicas);
  add("data_parallel_shard_degree", data / replicas);
  add("fsdp_reshard_after_forward",
      strategy.sharding_level == ShardingLevel::kParameters ? "\"always\"" : "\"never\"");
  add("tensor_parallel_degree", strategy.tensor_parallel_degree);
  add("enable_sequence_parallel", strategy.sequence_parallel ? "True" : "False");
  add("context_parallel_degree", strategy.context_parallel_degree);
  add("context_parallel_load_balancer", "\"headtail\"");
  add("expert_parallel_degree", strategy.expert_parallel_degree);
  add("pipeline_parallel_degree", degree);
  if (degree > 1) {
    add("pipeline_parallel_schedule",
        plan.virtual_stage_count > 1 ? "\"Interleaved1F1B\"" : "\"1F1B\"");
    add("pipeline_parallel_microbatch_size", plan.micro_batch_size_per_rank());
    add("module_fqns_per_model_part", ModulesText(plan, model));
  }
  return absl::StrCat(text, ")\n");
}

std::string TrainingText(const UniformPlan& plan, const ModelSpec& model) {
  const int64_t micro_batch = plan.micro_batch_size_per_rank();
  const bool has_pipeline = plan.pipeline_parallel_degree() > 1;
  return absl::StrCat(
      "TRAINING = dict(\n    local_batch_size=",
      has_pipeline ? micro_batch * plan.micro_batch_count : micro_batch,
      ",\n    global_batch_size=", plan.global_batch_size,
      ",\n    seq_len=", model.layer(1).sequence_length,
      ",\n    dtype=\"float32\",\n    mixed_precision_param=\"",
      model.precision() == Precision::kBf16 ? "bfloat16" : "float32",
      // Schedules of stages and graphs exclude each other; predictions are without graphs.
      "\",\n    disable_cuda_graphs=True,\n)\n");
}

const char* CheckpointText(RecomputeLevel level) {
  switch (level) {
    case RecomputeLevel::kNone:
      return "None";
    case RecomputeLevel::kFull:
      return "FullAC.Config()";
    case RecomputeLevel::kSelective:
      return "SelectiveAC.Config()";
    case RecomputeLevel::kModules:
      // No exported plan has it.
      break;
  }
  return "None";
}

}  // namespace

std::string TorchtitanModule(const UniformPlan& plan, const ModelSpec& model,
                             const ExportFacts& facts) {
  const bool has_pipeline = plan.pipeline_parallel_degree() > 1;
  return absl::StrCat(
      "\"\"\"A plan of parplan for torchtitan ", kTorchtitanRelease, " on ", plan.device_count,
      R"( devices.

PARPLAN_TORCHTITAN_BASE names the function whose configuration the plan completes, for example
torchtitan.models.llama3.config_registry:llama3_8b.
"""

import dataclasses
import importlib
import importlib.metadata
import os

from torchtitan.config import CompileConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC

RELEASE = ")",
      kTorchtitanRelease, "\"\n", ModelText(model), ParallelismText(plan, model),
      TrainingText(plan, model),
      "ACTIVATION_CHECKPOINT = ", CheckpointText(plan.strategy.recompute_level),
      "\nCOMPILE = ", facts.runtime.fused_elementwise ? "True" : "False",
      "\nSCHEDULE = ", has_pipeline ? absl::StrCat("\"", kPassTableName, "\"") : "None", R"(


def sizes_of(model):
    """Returns the sizes of a model's configuration by the names of MODEL, those that it has."""
    attention = model.first_attention
    head_dim = getattr(attention, "head_dim", None) or model.dim // attention.n_heads
    if hasattr(attention, "kv_lora_rank"):
        head_dim = attention.qk_nope_head_dim + attention.qk_rope_head_dim
    dense = [layer.feed_forward for layer in model.layers
             if getattr(layer, "feed_forward", None) is not None]
    mixtures = [layer.moe for layer in model.layers if getattr(layer, "moe", None) is not None]
    experts = mixtures[0].routed_experts.inner_experts if mixtures else None
    shared = mixtures[0].shared_experts if mixtures else None
    sizes = dict(
        dim=model.dim,
        n_layers=len(model.layers),
        n_heads=attention.n_heads,
        n_kv_heads=getattr(attention, "n_kv_heads", None) or attention.n_heads,
        vocab_size=model.vocab_size,
        enable_weight_tying=model.enable_weight_tying,
        head_dim=head_dim,
        q_lora_rank=getattr(attention, "q_lora_rank", None),
        kv_lora_rank=getattr(attention, "kv_lora_rank", None),
        v_head_dim=getattr(attention, "v_head_dim", None),
        hidden_dim=dense[0].w1.out_features if dense else None,
        n_expert_layers=len(mixtures) or None,
        num_experts=experts.num_experts if mixtures else None,
        top_k=mixtures[0].router.top_k if mixtures else None,
        expert_hidden_dim=experts.hidden_dim if mixtures else None,
        shared_hidden_dim=shared.w1.out_features if shared is not None else None,
    )
    return {name: size for name, size in sizes.items() if size is not None}


def apply(config):
    """Returns `config`, a Trainer.Config of the plan's model, with the plan in it."""
    release = importlib.metadata.version("torchtitan")
    if release != RELEASE:
        raise ValueError(f"the plan was exported for torchtitan {RELEASE}, this is {release}")
    sizes = sizes_of(config.model_spec.model)
    if sizes != MODEL:
        raise ValueError(f"the plan is for a model of {MODEL}, this one is {sizes}")
    parallelism = dict(PARALLELISM)
    if SCHEDULE is not None:
        parallelism["pipeline_parallel_schedule_csv"] = os.path.join(
            os.path.dirname(os.path.abspath(__file__)), SCHEDULE)
    return dataclasses.replace(
        config,
        parallelism=dataclasses.replace(config.parallelism, **parallelism),
        training=dataclasses.replace(config.training, **TRAINING),
        activation_checkpoint=ACTIVATION_CHECKPOINT,
        compile=CompileConfig(enable=COMPILE),
    )


def plan():
    """Returns the configuration that PARPLAN_TORCHTITAN_BASE names, with the plan in it."""
    base = os.environ.get("PARPLAN_TORCHTITAN_BASE", "")
    module, _, function = base.partition(":")
    if not function:
        raise ValueError("set PARPLAN_TORCHTITAN_BASE to MODULE:FUNCTION of a Trainer.Config")
    return apply(getattr(importlib.import_module(module), function)())
)");
}

}  // namespace parplan
