#include "clients/import/field_names.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace parplan {
namespace {

// Fields that change neither the shape of a layer nor its time: generation, tokens, initial values,
// dropout, positions without parameters, scales, losses, and how files were saved. Sorted.
constexpr const char* kWithoutEffect[] = {
    "activation_function",
    "adapter_config",
    "apply_query_key_layer_scaling",
    "apply_residual_connection_post_layernorm",
    "apply_spec_augment",
    "architectures",
    "attention_in_multiplier",
    "attention_multiplier",
    "attention_out_multiplier",
    "attention_scale",
    "attention_softmax_in_fp32",
    "attn_implementation",
    "attn_logit_softcapping",
    "attn_scale",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bias_dropout_fusion",
    "cache_implementation",
    "chunk_size_feed_forward",
    "clip_qkv",
    "conv_act",
    "ctc_loss_reduction",
    "ctc_zero_infinity",
    "dense_act_fn",
    "dim_model_base",
    "do_sample",
    "drop_path_rate",
    "dtype",
    "dummy_token_indices",
    "early_stopping",
    "emb_pdrop",
    "embedding_fraction",
    "embedding_multiplier",
    "embeddings_scale_by_sqrt_dim",
    "enable_expert_tensor_parallelism",
    "enable_moe_fp32_combine",
    "encoder_stride",
    "ep_size",
    "expert_selection_fn",
    "experts_implementation",
    "final_logit_softcapping",
    "final_w_init_variance_scale",
    "finetuning_task",
    "for_llm_compressor",
    "forced_decoder_ids",
    "fp32_residual_connection",
    "full_attn_alpha_factor",
    "full_attn_beta_factor",
    "full_attn_mod",
    "gradient_checkpointing",
    "head_dtype",
    "hidden_act",
    "hidden_activation",
    "id2label",
    "ignore_index",
    "indexer_rope_interleave",
    "init_config",
    "init_device",
    "init_method",
    "initial_context_length",
    "interpolation_factor",
    "is_decoder",
    "is_encoder_decoder",
    "is_gated_act",
    "kda_lower_bound",
    "kda_safe_gate",
    "key_multiplier",
    "label2id",
    "layernorm_full_attention_alpha",
    "layernorm_full_attention_beta",
    "layernorm_linear_attention_alpha",
    "layernorm_linear_attention_beta",
    "layernorm_mlp_alpha",
    "layernorm_mlp_beta",
    "learned_embeddings",
    "linear_a_log_max",
    "linear_a_log_min",
    "linear_allow_neg_eigval",
    "linear_attn_alpha_factor",
    "linear_attn_beta_factor",
    "linear_dt_init_floor",
    "linear_dt_max",
    "linear_dt_min",
    "lm_head_multiplier",
    "logit_scale",
    "logits_scaling",
    "logits_soft_cap",
    "long_factor",
    "mask_feature_length",
    "mask_feature_min_masks",
    "mask_feature_prob",
    "mask_time_length",
    "mask_time_min_masks",
    "mask_time_prob",
    "masked_softmax_fusion",
    "max_attn_value",
    "max_length",
    "max_sequence_length",
    "median_filter_width",
    "min_length",
    "mlp_activation_func",
    "mlp_alpha_factor",
    "mlp_beta_factor",
    "mlp_multipliers",
    "model_max_length",
    "model_type",
    "moe_capacity",
    "moe_eval_capacity_factor",
    "moe_gate",
    "moe_gate_act",
    "moe_implementation",
    "moe_min_capacity",
    "moe_multimodal_paired_experts",
    "moe_norm_min",
    "moe_renormalize",
    "moe_routed_scaling_factor",
    "moe_router_activation",
    "moe_router_activation_func",
    "moe_router_dtype",
    "moe_router_scaling_factor",
    "moe_shared_expert_overlap",
    "moe_token_dropping",
    "moe_train_capacity_factor",
    "mrope_section",
    "mup",
    "mup_attn_multiplier",
    "mup_embedding_multiplier",
    "mup_width_multiplier",
    "n_group",
    "need_fp32_gate",
    "no_repeat_ngram_size",
    "norm_expert_weight",
    "norm_topk_prob",
    "norm_type",
    "normalization_function",
    "normalize_before",
    "num_beam_groups",
    "num_beams",
    "num_expert_group",
    "num_image_tokens",
    "num_labels",
    "num_media_embeds",
    "num_return_sequences",
    "offset_alibi",
    "org_vocab_size",
    "original_max_position_embeddings",
    "original_rope",
    "original_rope_scaling",
    "output_attentions",
    "output_gate_type",
    "output_hidden_states",
    "partial_rotary_factor",
    "partial_rotary_factors",
    "pooler_act",
    "position_embedding_type",
    "post_layer_norm",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "quantization_config",
    "query_pre_attn_scalar",
    "reorder_and_upcast_attn",
    "residual_multiplier",
    "rmsnorm",
    "rope_embedding_base",
    "rope_interleave",
    "rope_interleaved",
    "rope_parameters",
    "rope_pct",
    "rope_position_scale",
    "rope_ratio",
    "rope_scaling",
    "rope_type",
    "rotary",
    "rotary_dim",
    "rotary_emb_base",
    "rotary_pct",
    "rotary_percentage",
    "routed_scaling_factor",
    "router_jitter_noise",
    "scale_attention_softmax_in_fp32",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "scale_depth",
    "scale_emb",
    "scale_embedding",
    "scoring_func",
    "seq_aux",
    "shared_expert_combination_strategy",
    "sinusoidal_pos_embds",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "slow_but_exact",
    "ssm_in_multiplier",
    "ssm_multipliers",
    "ssm_out_multiplier",
    "static_position_embeddings",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "swiglu_alpha",
    "swiglu_limit",
    "swiglu_limits",
    "swiglu_limits_shared",
    "task_specific_params",
    "temperature",
    "temperature_tuning",
    "tie_weights_",
    "tokenizer_class",
    "top_k",
    "top_p",
    "topk_group",
    "topk_method",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "use_bfloat16",
    "use_cache",
    "use_flash_attn",
    "use_gemma_norm",
    "use_grouped_topk",
    "use_mixed_mlp_moe",
    "use_mrope",
    "use_parallel_embedding",
    "use_rmsnorm",
    "use_rope_layers",
    "use_weighted_layer_sum",
    "verbose",
    "vision_end_token_id",
    "w_init_variance_scale",
    "yarn_only_types",
    "zero_centered",
};

// Beginnings of names that speak of heads which are no part of the model, or of initial values.
constexpr const char* kPrefixesWithoutEffect[] = {"attn_temperature", "classifier_", "initializer",
                                                  "router_aux",       "router_z",    "pooler_",
                                                  "summary_"};

// Ends of names that speak of chances, numbers added to others, losses and tokens, whatever stands
// before them.
constexpr const char* kSuffixesWithoutEffect[] = {
    "_token_id",    "_token_ids",
    "_token_index", "token_id",
    "dropout",      "_pdrop",
    "_eps",         "_epsilon",
    "_std",         "_coef",
    "_theta",       "_coeff",
    "_penalty",     "_dropout_prob",
    "layerdrop",    "_loss",
    "_base_freq",   "_ngram_size",
    "_jitter",      "_dropout_rate",
    "_drop_rate",   "_depth_rate",
    "_loss_alpha",  "capacity_factor",
    "_init_range",  "_initializer_range",
    "_loss_weight", "_loss_weights",
    "_init_scale",  "_xavier_init",
};

// The same for names that do not speak of sizes: `rope_theta` is inert, `rope_head_dim` may be
// none; `scaling_factor` is inert, `expand_factor` is none.
constexpr const char* kPrefixesUnlessSizes[] = {"output_", "return_", "rope_", "floor_scale",
                                                "time_step_"};
constexpr const char* kSuffixesUnlessSizes[] = {"_factor", "_rate", "_alpha", "_range"};

// Beginnings of words that speak of sizes or of another structure.
constexpr const char* kSizeWords[] = {
    "adapter", "altup",  "bias",   "block", "channel", "cluster",   "conv",     "cross",
    "depth",   "dim",    "embd",   "embed", "expand",  "expans",    "expert",   "ffn",
    "gate",    "gating", "group",  "head",  "hidden",  "inner",     "intermed", "kernel",
    "laurel",  "layer",  "linear", "lora",  "mamba",   "memory",    "mlp",      "moe",
    "nextn",   "nhead",  "nlayer", "norm",  "offset",  "patch",     "pattern",  "period",
    "posit",   "proj",   "qknorm", "rank",  "ratio",   "recurrent", "rmsnorm",  "share",
    "size",    "ssm",    "stage",  "state", "stride",  "vocab",     "width",    "window",
};

// Whole words that do so.
constexpr const char* kWholeSizeWords[] = {"d",   "ff",    "hc",   "inter", "k",
                                           "kv",  "multi", "n",    "num",   "q",
                                           "tie", "tied",  "ties", "tying", "v"};

// Returns whether a word of a name speaks of sizes or of another structure.
bool WordSpeaksOfSizes(absl::string_view word) {
  return std::any_of(std::begin(kSizeWords), std::end(kSizeWords),
                     [word](const char* start) { return absl::StartsWith(word, start); }) ||
         std::any_of(std::begin(kWholeSizeWords), std::end(kWholeSizeWords),
                     [word](const char* whole) { return word == whole; });
}

}  // namespace

bool FieldHasNoEffect(absl::string_view key) {
  const auto is = [key](const char* name) { return key == name; };
  const auto starts = [key](const char* start) { return absl::StartsWith(key, start); };
  const auto ends = [key](const char* end) { return absl::EndsWith(key, end); };
  // Attributes of transformers that its classes keep to themselves.
  if (absl::StartsWith(key, "_")) return true;
  if (std::any_of(std::begin(kWithoutEffect), std::end(kWithoutEffect), is) ||
      std::any_of(std::begin(kPrefixesWithoutEffect), std::end(kPrefixesWithoutEffect), starts) ||
      std::any_of(std::begin(kSuffixesWithoutEffect), std::end(kSuffixesWithoutEffect), ends)) {
    return true;
  }
  if (FieldSpeaksOfSizes(key)) return false;
  return std::any_of(std::begin(kPrefixesUnlessSizes), std::end(kPrefixesUnlessSizes), starts) ||
         std::any_of(std::begin(kSuffixesUnlessSizes), std::end(kSuffixesUnlessSizes), ends);
}

bool FieldSpeaksOfSizes(absl::string_view key) {
  const std::vector<std::string> words =
      absl::StrSplit(absl::AsciiStrToLower(key), absl::ByAnyChar("_-."));
  // A kind of attention, such as `attention_type`; `use_flash_attention` is about its program.
  const bool is_of_attention =
      std::any_of(words.begin(), words.end() - 1,
                  [](const std::string& word) { return word == "attn" || word == "attention"; });
  return is_of_attention || std::any_of(words.begin(), words.end(), WordSpeaksOfSizes);
}

}  // namespace parplan
