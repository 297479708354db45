#include "clients/import/config_fields.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

using nlohmann::json;

// Fields that change neither the shape of a layer nor its time: generation, tokens, initial values,
// dropout, positions without parameters, scales, losses, and how files were saved. Sorted.
constexpr const char* kWithoutEffect[] = {
    "_attn_implementation",
    "_commit_hash",
    "_name_or_path",
    "_remove_final_layer_norm",
    "activation_function",
    "adapter_config",
    "alibi",
    "apply_residual_connection_post_layernorm",
    "apply_spec_augment",
    "architectures",
    "attention_multiplier",
    "attention_scale",
    "attention_softmax_in_fp32",
    "attn_implementation",
    "attn_logit_softcapping",
    "attn_scale",
    "auto_map",
    "begin_suppress_tokens",
    "bias_dropout_fusion",
    "cache_implementation",
    "chunk_size_feed_forward",
    "clip_qkv",
    "ctc_loss_reduction",
    "ctc_zero_infinity",
    "dense_act_fn",
    "do_layer_norm_before",
    "do_sample",
    "drop_path_rate",
    "dtype",
    "early_stopping",
    "emb_pdrop",
    "embedding_fraction",
    "embedding_multiplier",
    "encoder_stride",
    "ep_size",
    "experts_implementation",
    "final_logit_softcapping",
    "finetuning_task",
    "for_llm_compressor",
    "forced_decoder_ids",
    "gradient_checkpointing",
    "hidden_act",
    "hidden_activation",
    "id2label",
    "ignore_index",
    "init_config",
    "init_device",
    "init_method",
    "initial_context_length",
    "interpolation_factor",
    "is_decoder",
    "is_encoder_decoder",
    "is_gated_act",
    "label2id",
    "layer_norm_elementwise_affine",
    "logit_scale",
    "logits_scaling",
    "long_factor",
    "mask_feature_length",
    "mask_feature_min_masks",
    "mask_feature_prob",
    "mask_time_length",
    "mask_time_min_masks",
    "mask_time_prob",
    "masked_softmax_fusion",
    "max_length",
    "max_sequence_length",
    "median_filter_width",
    "min_length",
    "mlp_activation_func",
    "model_max_length",
    "model_type",
    "mrope_section",
    "mup",
    "n_group",
    "no_repeat_ngram_size",
    "norm_topk_prob",
    "norm_type",
    "normalization_function",
    "normalize_before",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "offset_alibi",
    "original_max_position_embeddings",
    "original_rope_scaling",
    "partial_rotary_factor",
    "pooler_act",
    "position_embedding_type",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "quantization_config",
    "query_pre_attn_scalar",
    "reorder_and_upcast_attn",
    "residual_multiplier",
    "rope_interleaved",
    "rope_parameters",
    "rope_pct",
    "rope_scaling",
    "rope_type",
    "rotary",
    "rotary_emb_base",
    "rotary_pct",
    "rotary_percentage",
    "routed_scaling_factor",
    "router_jitter_noise",
    "scale_attention_softmax_in_fp32",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "scale_depth",
    "scale_embedding",
    "scoring_func",
    "seq_aux",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "slow_but_exact",
    "static_position_embeddings",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "swiglu_limit",
    "task_specific_params",
    "temperature",
    "temperature_tuning",
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
    "use_mrope",
    "use_weighted_layer_sum",
    "verbose",
    "vision_end_token_id",
};

constexpr const char* kPrefixesWithoutEffect[] = {
    "classifier_", "initializer", "output_",  "return_",          "rope_",       "router_aux",
    "router_z",    "pooler_",     "summary_", "attn_temperature", "floor_scale", "time_step_"};

constexpr const char* kSuffixesWithoutEffect[] = {
    "_token_id", "_token_ids", "_token_index", "token_id", "dropout",    "_pdrop",  "_eps",
    "_epsilon",  "_std",       "_coef",        "_theta",   "_coeff",     "_factor", "_dropout_prob",
    "_rate",     "_penalty",   "layerdrop",    "_loss",    "_base_freq", "_alpha",  "_range",
};

// Parts of names that speak of sizes or of another structure.
constexpr const char* kSizeWords[] = {
    "adapter",  "altup",  "bias",   "block", "channel",   "cluster", "conv",   "cross",   "depth",
    "dim",      "embed",  "expert", "gate",  "group",     "head",    "hidden", "inner",   "inter",
    "kernel",   "kv_",    "laurel", "layer", "linear",    "lora",    "mamba",  "memory",  "mlp",
    "moe",      "n_",     "nextn",  "norm",  "num_",      "offset",  "patch",  "pattern", "period",
    "position", "proj",   "rank",   "ratio", "recurrent", "share",   "size",   "ssm",     "stage",
    "state",    "stride", "tie",    "vocab", "width",     "window",
};

bool IsActive(const json& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0.0;
  return !value.empty() && !(value.is_string() && value.get_ref<const std::string&>().empty());
}

bool HasNoEffect(const std::string& key) {
  const auto is = [&key](const char* name) { return key == name; };
  const auto starts = [&key](const char* start) { return absl::StartsWith(key, start); };
  const auto ends = [&key](const char* end) { return absl::EndsWith(key, end); };
  return std::any_of(std::begin(kWithoutEffect), std::end(kWithoutEffect), is) ||
         std::any_of(std::begin(kPrefixesWithoutEffect), std::end(kPrefixesWithoutEffect),
                     starts) ||
         std::any_of(std::begin(kSuffixesWithoutEffect), std::end(kSuffixesWithoutEffect), ends);
}

bool SpeaksOfSizes(const std::string& key) {
  return std::any_of(std::begin(kSizeWords), std::end(kSizeWords),
                     [&key](const char* word) { return absl::StrContains(key, word); });
}

}  // namespace

bool ConfigFields::Has(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

bool ConfigFields::IsText(const char* key) const { return Has(key) && object_[key].is_string(); }

std::optional<int> ConfigFields::FirstCount(std::initializer_list<const char*> keys, int minimum) {
  std::optional<int> result;
  for (const char* key : keys) {
    MarkRead(key);
    if (!Has(key)) continue;
    const absl::StatusOr<int> value = ReadCount(object_[key], minimum, Reason::kSpecInvalid,
                                                file_name_, absl::StrCat(path_, key));
    if (!value.ok()) {
      if (status_.ok()) status_ = value.status();
      return minimum;
    }
    if (result.has_value() && *result != *value) {
      Fail(key, absl::StrCat("contradicts ", *keys.begin(), ", which says ", *result));
    }
    if (!result.has_value()) result = *value;
  }
  return result;
}

int ConfigFields::Size(std::initializer_list<const char*> keys) {
  const std::optional<int> value = FirstCount(keys, 1);
  if (!value.has_value()) Fail(*keys.begin(), "is required and at least 1");
  return value.value_or(1);
}

int ConfigFields::Optional(std::initializer_list<const char*> keys, int otherwise) {
  return FirstCount(keys, 1).value_or(otherwise);
}

int ConfigFields::Count(std::initializer_list<const char*> keys, int otherwise) {
  return FirstCount(keys, 0).value_or(otherwise);
}

std::vector<int> ConfigFields::List(const char* key, int minimum) {
  MarkRead(key);
  std::vector<int> values;
  if (!Has(key)) return values;
  if (!object_[key].is_array()) {
    Fail(key, "must be a list of whole numbers");
    return values;
  }
  for (size_t i = 0; i < object_[key].size(); ++i) {
    const absl::StatusOr<int> value = ReadCount(object_[key][i], minimum, Reason::kSpecInvalid,
                                                file_name_, absl::StrCat(path_, key, "[", i, "]"));
    if (!value.ok() && status_.ok()) status_ = value.status();
    values.push_back(value.ok() ? *value : minimum);
  }
  return values;
}

std::vector<std::string> ConfigFields::Texts(const char* key) {
  MarkRead(key);
  std::vector<std::string> values;
  if (!Has(key)) return values;
  if (!object_[key].is_array()) {
    Fail(key, "must be a list of texts");
    return values;
  }
  for (size_t i = 0; i < object_[key].size(); ++i) {
    const json& entry = object_[key][i];
    if (!entry.is_string()) Fail(absl::StrCat(key, "[", i, "]"), "must be a text");
    values.push_back(entry.is_string() ? entry.get<std::string>() : "");
  }
  return values;
}

bool ConfigFields::Flag(std::initializer_list<const char*> keys, bool otherwise) {
  std::optional<bool> result;
  for (const char* key : keys) {
    MarkRead(key);
    if (!Has(key)) continue;
    if (!object_[key].is_boolean()) {
      Fail(key, "must be true or false");
      return otherwise;
    }
    if (!result.has_value()) result = object_[key].get<bool>();
  }
  return result.value_or(otherwise);
}

std::string ConfigFields::Text(const char* key) {
  MarkRead(key);
  if (!Has(key)) return "";
  if (!object_[key].is_string()) {
    Fail(key, "must be a text");
    return "";
  }
  return object_[key].get<std::string>();
}

const json* ConfigFields::Object(const char* key) {
  MarkRead(key);
  if (!Has(key)) return nullptr;
  if (!object_[key].is_object()) {
    Fail(key, "must be an object");
    return nullptr;
  }
  return &object_[key];
}

void ConfigFields::Refuse(const char* key, absl::string_view rule) {
  MarkRead(key);
  if (Has(key) && IsActive(object_[key])) Fail(key, rule);
}

void ConfigFields::Note(const char* key, absl::string_view meaning,
                        std::vector<std::string>* notes) {
  MarkRead(key);
  if (!Has(key) || !IsActive(object_[key])) return;
  const json& value = object_[key];
  const std::string shown =
      value.is_primitive()
          ? absl::StrCat(" ", value.dump(-1, ' ', false, json::error_handler_t::replace))
          : "";
  notes->push_back(absl::StrCat(path_, key, shown, ": ", meaning));
}

void ConfigFields::RefuseWhatIsUnknown(std::vector<std::string>* notes) {
  std::vector<std::string> ignored;
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key) || !IsActive(value) || HasNoEffect(key)) continue;
    if (SpeaksOfSizes(key) || value.is_structured()) {
      Fail(key,
           "is not known and might change the layers; write the model by hand (docs/files.md), or "
           "remove the field if it changes neither sizes nor structure");
      continue;
    }
    ignored.push_back(absl::StrCat(path_, key));
  }
  if (ignored.empty()) return;
  notes->push_back(absl::StrCat("not known and ignored, because the names speak of no sizes: ",
                                absl::StrJoin(ignored, ", ")));
}

std::vector<std::string> ConfigFields::Unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items()) {
    if (!read_.contains(key)) keys.push_back(key);
  }
  return keys;
}

void ConfigFields::Fail(absl::string_view field, absl::string_view rule) {
  if (!status_.ok()) return;
  status_ = ImportError(Reason::kSpecInvalid, file_name_, absl::StrCat(path_, field), rule);
}

}  // namespace parplan
