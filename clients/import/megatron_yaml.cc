#include "clients/import/megatron_yaml.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "clients/import/argument_list.h"
#include "clients/import/bridge_precision.h"
#include "clients/import/megatron_rules.h"
#include "clients/import/unread_names.h"
#include "clients/import/yaml_arguments.h"
#include "clients/import/yaml_text.h"

namespace parplan {
namespace {

// A field of Megatron-Bridge and its argument.
struct BridgeField {
  absl::string_view path;
  absl::string_view argument;
  // The argument is a switch that stands for this value, or, if empty, takes the value.
  absl::string_view switched_by = "";
};

constexpr std::array kBridgeFields = std::to_array<BridgeField>({
    {"model.num_layers", "num-layers"},
    {"model.hidden_size", "hidden-size"},
    {"model.ffn_hidden_size", "ffn-hidden-size"},
    {"model.num_attention_heads", "num-attention-heads"},
    {"model.num_query_groups", "num-query-groups"},
    {"model.kv_channels", "kv-channels"},
    {"model.seq_length", "seq-length"},
    {"model.vocab_size", "vocab-size"},
    {"model.gated_linear_unit", "swiglu", "true"},
    {"model.share_embeddings_and_output_weights", "untie-embeddings-and-output-weights", "false"},
    {"model.normalization", "normalization"},
    {"model.add_bias_linear", "disable-bias-linear", "false"},
    {"model.add_qkv_bias", "add-qkv-bias", "true"},
    {"model.qk_layernorm", "qk-layernorm", "true"},
    {"model.position_embedding_type", "position-embedding-type"},
    {"model.num_moe_experts", "num-experts"},
    {"model.moe_router_topk", "moe-router-topk"},
    {"model.moe_ffn_hidden_size", "moe-ffn-hidden-size"},
    {"model.moe_shared_expert_intermediate_size", "moe-shared-expert-intermediate-size"},
    {"model.moe_latent_size", "moe-latent-size"},
    {"model.moe_layer_freq", "moe-layer-freq"},
    {"model.bf16", "bf16", "true"},
    {"model.fp16", "fp16", "true"},
    {"model.tensor_model_parallel_size", "tensor-model-parallel-size"},
    {"model.pipeline_model_parallel_size", "pipeline-model-parallel-size"},
    {"model.pipeline_model_parallel_layout", "pipeline-model-parallel-layout"},
    {"model.virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"},
    {"model.microbatch_group_size_per_vp_stage",
     "microbatch-group-size-per-virtual-pipeline-stage"},
    {"model.num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers"},
    {"model.num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers"},
    {"model.account_for_embedding_in_pipeline_split", "account-for-embedding-in-pipeline-split",
     "true"},
    {"model.account_for_loss_in_pipeline_split", "account-for-loss-in-pipeline-split", "true"},
    {"model.context_parallel_size", "context-parallel-size"},
    {"model.cp_comm_type", "cp-comm-type"},
    {"model.hierarchical_context_parallel_sizes", "hierarchical-context-parallel-sizes"},
    {"model.expert_model_parallel_size", "expert-model-parallel-size"},
    {"model.expert_tensor_parallel_size", "expert-tensor-parallel-size"},
    {"model.sequence_parallel", "sequence-parallel", "true"},
    {"model.recompute_granularity", "recompute-granularity"},
    {"model.recompute_method", "recompute-method"},
    {"model.recompute_num_layers", "recompute-num-layers"},
    {"model.recompute_modules", "recompute-modules"},
    {"model.cuda_graph_impl", "cuda-graph-impl"},
    {"model.cuda_graph_scope", "cuda-graph-scope"},
    {"model.external_cuda_graph", "external-cuda-graph", "true"},
    {"model.moe_pad_expert_input_to_capacity", "moe-pad-expert-input-to-capacity", "true"},
    {"model.multi_latent_attention", "multi-latent-attention", "true"},
    {"model.q_lora_rank", "q-lora-rank"},
    {"model.kv_lora_rank", "kv-lora-rank"},
    {"model.qk_head_dim", "qk-head-dim"},
    {"model.qk_pos_emb_head_dim", "qk-pos-emb-head-dim"},
    {"model.v_head_dim", "v-head-dim"},
    {"model.mtp_num_layers", "mtp-num-layers"},
    {"model.window_size", "window-size"},
    {"model.window_attn_skip_freq", "window-attn-skip-freq"},
    {"model.softmax_type", "softmax-type"},
    {"model.moe_shared_expert_gate", "moe-shared-expert-gate", "true"},
    {"model.fp8", "fp8-format"},
    {"model.fp8_recipe", "fp8-recipe"},
    {"model.fp4", "fp4-format"},
    {"model.fp4_recipe", "fp4-recipe"},
    {"model.fp8_param", "fp8-param-gather", "true"},
    {"model.first_last_layers_bf16", "first-last-layers-bf16", "true"},
    {"model.num_layers_at_start_in_bf16", "num-layers-at-start-in-bf16"},
    {"model.num_layers_at_end_in_bf16", "num-layers-at-end-in-bf16"},
    {"model.cpu_offloading", "cpu-offloading", "true"},
    {"train.micro_batch_size", "micro-batch-size"},
    {"train.global_batch_size", "global-batch-size"},
    {"ddp.use_distributed_optimizer", "use-distributed-optimizer", "true"},
    {"ddp.use_megatron_fsdp", "use-megatron-fsdp", "true"},
    {"ddp.data_parallel_sharding_strategy", "data-parallel-sharding-strategy"},
    {"ddp.overlap_grad_reduce", "overlap-grad-reduce", "true"},
    {"ddp.overlap_param_gather", "overlap-param-gather", "true"},
    {"dist.use_megatron_fsdp", "use-megatron-fsdp", "true"},
    {"dist.use_torch_fsdp2", "use-torch-fsdp2", "true"},
    {"dist.use_tp_pp_dp_mapping", "use-tp-pp-dp-mapping", "true"},
    {"optimizer.use_distributed_optimizer", "use-distributed-optimizer", "true"},
    {"optimizer.optimizer", "optimizer"},
    {"optimizer.optimizer_cpu_offload", "optimizer-cpu-offload", "true"},
    {"optimizer.use_precision_aware_optimizer", "use-precision-aware-optimizer", "true"},
    {"optimizer.main_grads_dtype", "main-grads-dtype"},
    {"optimizer.main_params_dtype", "main-params-dtype"},
    {"optimizer.exp_avg_dtype", "exp-avg-dtype"},
    {"optimizer.exp_avg_sq_dtype", "exp-avg-sq-dtype"},
    // A format that was written as the name of an object of PyTorch.
    {"optimizer.main_grads_dtype._target_", "main-grads-dtype"},
    {"optimizer.main_params_dtype._target_", "main-params-dtype"},
    {"optimizer.exp_avg_dtype._target_", "exp-avg-dtype"},
    {"optimizer.exp_avg_sq_dtype._target_", "exp-avg-sq-dtype"},
});

// Fields of `model` that change neither shape nor parallelism and are no argument under their name.
constexpr absl::string_view kIgnoredModelFields[] = {
    "_target_",
    "activation_func",
    "apply_residual_connection_post_layernorm",
    "apply_rope_fusion",
    "attention_backend",
    "autocast_dtype",
    "barrier_with_L1_time",
    "batch_p2p_comm",
    "bias_activation_fusion",
    "bias_dropout_fusion",
    "cross_entropy_fusion_impl",
    "cross_entropy_loss_fusion",
    // Its items may be objects, which no argument takes.
    "cuda_graph_scope",
    "deallocate_pipeline_outputs",
    "embedding_init_method",
    "embedding_init_method_std",
    "enable_autocast",
    "fp16_lm_cross_entropy",
    "generation_config",
    "gradient_accumulation_fusion",
    "hf_model_id",
    "init_method",
    "init_method_std",
    "layernorm_epsilon",
    "make_vocab_size_divisible_by",
    "masked_softmax_fusion",
    "output_layer_init_method",
    "overlap_p2p_comm",
    "parallel_output",
    "params_dtype",
    "perform_initialization",
    "persist_layer_norm",
    "pipeline_dtype",
    "rotary_base",
    "rotary_percent",
    "scatter_embedding_sequence_parallel",
    "should_pad_vocab",
    "softmax_scale",
    "transformer_impl",
    "transformer_layer_spec",
    "use_cpu_initialization",
    "use_te_rng_tracker",
    "variable_seq_lengths",
    "wgrad_deferral_limit",
};

bool IsIgnoredArgument(absl::string_view name) {
  return std::any_of(MegatronRules().begin(), MegatronRules().end(),
                     [name](const ArgumentRule& rule) {
                       return rule.kind == ArgumentKind::kIgnored && rule.name == name;
                     });
}

absl::Status RefuseYaml(const NamedText& file, const YamlScalar& scalar, absl::string_view rule) {
  return ImportError(Reason::kSpecInvalid, file.name, absl::StrJoin(scalar.path, "."), rule);
}

// Returns whether the argument, named without dashes, takes several values.
bool TakesSeveralValues(absl::string_view name) {
  return std::any_of(MegatronRules().begin(), MegatronRules().end(),
                     [name](const ArgumentRule& rule) {
                       return rule.kind == ArgumentKind::kTexts && rule.name == name;
                     });
}

// Reads the map MODEL_ARGS of a test.
absl::StatusOr<MegatronYaml> ReadTest(const NamedText& file,
                                      const std::vector<YamlScalar>& scalars) {
  MegatronYaml yaml;
  std::set<std::string> others;
  YamlListArguments lists(&yaml.arguments);
  std::string list;
  for (const YamlScalar& scalar : scalars) {
    if (scalar.path[0] != "MODEL_ARGS") {
      others.insert(scalar.path[0]);
      continue;
    }
    if (scalar.path.size() < 2 || !absl::StartsWith(scalar.path[1], "--")) {
      return RefuseYaml(file, scalar, "must be an argument `--name`");
    }
    const bool is_item = IsYamlListItem(scalar);
    if (scalar.path.size() > 2 && !is_item) return RefuseYaml(file, scalar, "must be one value");
    if (TakesSeveralValues(absl::StripPrefix(scalar.path[1], "--"))) {
      if (scalar.value != "false") lists.Add(scalar.path[1], scalar.value, is_item);
      continue;
    }
    if (is_item && list == scalar.path[1]) {
      yaml.arguments.push_back(scalar.value);
      continue;
    }
    if (scalar.value == "false" || IsUnsetYaml(scalar.value)) continue;
    yaml.arguments.push_back(scalar.path[1]);
    if (is_item) list = scalar.path[1];
    if (scalar.value != "true") yaml.arguments.push_back(scalar.value);
  }
  if (!others.empty()) {
    yaml.notes.push_back(
        absl::StrCat("Not read beside MODEL_ARGS: ", absl::StrJoin(others, ", "), "."));
  }
  return yaml;
}

// Appends the argument of one field.
absl::Status AddBridgeArgument(const NamedText& file, const BridgeField& field,
                               const YamlScalar& scalar, MegatronYaml* yaml) {
  if (IsUnsetYaml(scalar.value)) return absl::OkStatus();
  const std::string name = absl::StrCat("--", field.argument);
  if (!field.switched_by.empty()) {
    if (scalar.value != "true" && scalar.value != "false") {
      return RefuseYaml(file, scalar, "must be true or false");
    }
    if (scalar.value == field.switched_by) yaml->arguments.push_back(name);
    return absl::OkStatus();
  }
  if (field.argument == "num-query-groups") yaml->arguments.push_back("--group-query-attention");
  std::string value = scalar.value;
  // A list of layers, without the blanks of YAML.
  if (field.argument == "moe-layer-freq") value = absl::StrReplaceAll(value, {{" ", ""}});
  // Formats under PyTorch's names, of which bytes stand for 8-bit numbers.
  if (absl::EndsWith(field.argument, "-dtype")) {
    value = absl::StrReplaceAll(value, {{"torch.float32", "fp32"},
                                        {"torch.bfloat16", "bf16"},
                                        {"torch.float16", "fp16"},
                                        {"torch.uint8", "fp8"}});
  }
  yaml->arguments.insert(yaml->arguments.end(), {name, std::move(value)});
  return absl::OkStatus();
}

absl::StatusOr<MegatronYaml> ReadBridge(const NamedText& file,
                                        const std::vector<YamlScalar>& scalars) {
  MegatronYaml yaml;
  std::set<std::string> unknown;
  std::set<std::string> ignored;
  // Modules have a default that only selective recomputation reads.
  const bool has_modules = std::any_of(scalars.begin(), scalars.end(), [](const auto& scalar) {
    return absl::StrJoin(scalar.path, ".") == "model.recompute_granularity" &&
           scalar.value == "selective";
  });
  YamlListArguments lists(&yaml.arguments);
  std::vector<YamlScalar> precision;
  for (const YamlScalar& scalar : scalars) {
    const bool is_unset = scalar.path.size() == 1 && IsUnsetYaml(scalar.value);
    if (scalar.path[0] == "mixed_precision" && !is_unset) precision.push_back(scalar);
  }
  for (const YamlScalar& scalar : scalars) {
    const std::string path = absl::StrJoin(scalar.path, ".");
    if (scalar.path[0] == "mixed_precision") continue;
    if (!precision.empty() && scalar.path[0] == "model" && scalar.path.size() == 2 &&
        IsOfBridgePrecision(scalar.path[1])) {
      continue;
    }
    const bool is_item = IsYamlListItem(scalar);
    const std::string key = is_item ? absl::StrCat(scalar.path[0], ".", scalar.path[1]) : path;
    const auto* const field =
        std::find_if(kBridgeFields.begin(), kBridgeFields.end(),
                     [&key](const BridgeField& known) { return known.path == key; });
    if (field != kBridgeFields.end() && TakesSeveralValues(field->argument)) {
      if (field->argument == "recompute-modules" && !has_modules) continue;
      lists.Add(absl::StrCat("--", field->argument), scalar.value, is_item);
      continue;
    }
    if (field != kBridgeFields.end() && !is_item) {
      PARPLAN_RETURN_IF_ERROR(AddBridgeArgument(file, *field, scalar, &yaml));
      continue;
    }
    if (path == "ddp.num_distributed_optimizer_instances" && scalar.value != "1" &&
        !IsUnsetYaml(scalar.value)) {
      yaml.arguments.insert(yaml.arguments.end(),
                            {"--num-distributed-optimizer-instances", scalar.value});
      continue;
    }
    if (scalar.path[0] == "peft" && !IsUnsetYaml(scalar.value)) {
      return RefuseYaml(file, scalar,
                        "trains adapters beside frozen weights, and all weights of the model that "
                        "is read here train; leave the map out for full training");
    }
    if (scalar.path[0] != "model") {
      ignored.insert(scalar.path[0]);
      continue;
    }
    const std::string name = scalar.path.size() > 1 ? scalar.path[1] : "";
    const bool is_off = IsUnsetYaml(scalar.value) || scalar.value == "false" ||
                        scalar.value == "0" || scalar.value == "0.0";
    const bool is_known = std::find(std::begin(kIgnoredModelFields), std::end(kIgnoredModelFields),
                                    name) != std::end(kIgnoredModelFields) ||
                          IsIgnoredArgument(absl::StrReplaceAll(name, {{"_", "-"}}));
    if (!is_off && !is_known) unknown.insert(path);
  }
  if (!precision.empty()) {
    PARPLAN_RETURN_IF_ERROR(AddBridgePrecision(file, precision, &yaml));
  }
  if (!unknown.empty()) return RefuseUnread(file.name, "fields", absl::StrJoin(unknown, ", "));
  if (!ignored.empty()) {
    yaml.notes.push_back(
        absl::StrCat("Ignored, since other maps than `model` change neither shape nor "
                     "parallelism but for fields that were read: ",
                     absl::StrJoin(ignored, ", "), "."));
  }
  return yaml;
}

}  // namespace

absl::StatusOr<MegatronYaml> ReadMegatronYaml(const NamedText& file) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<YamlScalar> scalars, ReadYamlScalars(file));
  const auto has = [&scalars](absl::string_view key) {
    return std::any_of(scalars.begin(), scalars.end(),
                       [key](const YamlScalar& scalar) { return scalar.path[0] == key; });
  };
  if (has("MODEL_ARGS")) return ReadTest(file, scalars);
  if (has("model")) return ReadBridge(file, scalars);
  return ImportError(Reason::kSpecInvalid, file.name, "",
                     "must have a map MODEL_ARGS (a test of Megatron-LM) or `model` (a "
                     "configuration of Megatron-Bridge)");
}

}  // namespace parplan
