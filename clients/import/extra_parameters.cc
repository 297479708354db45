#include "clients/import/extra_parameters.h"

#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/import/attention_config.h"

namespace parplan {
namespace {

bool HasOneOf(const ConfigFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (fields.Has(key)) return true;
  }
  return false;
}

void ReadBiases(const FamilyTraits& traits, ConfigFields& fields, LayerExtras& extra) {
  // A field, where there is one, is about query, key, value and output.
  const bool has_bias = fields.Flag({"use_bias", "bias", "enable_bias", "add_bias_linear"},
                                    traits.has_feed_forward_bias);
  const bool states_bias = HasOneOf(fields, {"use_bias", "bias", "enable_bias", "add_bias_linear"});
  extra.query_key_value_bias = states_bias ? has_bias : traits.has_query_key_value_bias;
  extra.output_bias = states_bias ? has_bias : traits.has_output_bias;
  if (fields.Has("attention_bias")) {
    extra.query_key_value_bias = fields.Flag({"attention_bias"}, false);
    // GLM's bias is of query, key and value alone.
    extra.output_bias = extra.query_key_value_bias && !absl::StartsWith(traits.model_type, "glm");
    // RecurrentGemma's output has a bias whatever the field says.
    if (traits.model_type == "recurrent_gemma") extra.output_bias = true;
    // Phi-3-small's class does not read the field: its maps have biases whatever it says.
    if (traits.model_type == "phi3small") {
      extra.query_key_value_bias = true;
      extra.output_bias = true;
    }
  }
  if (fields.Has("attention_out_bias")) {
    extra.output_bias = fields.Flag({"attention_out_bias"}, false);
  }
  extra.query_key_value_bias =
      fields.Flag({"use_qkv_bias", "qkv_bias", "add_qkv_bias"}, extra.query_key_value_bias);
  extra.feed_forward_bias = fields.Flag({"mlp_bias"}, has_bias);
  // Its class has them in dense parts and shared experts, and not in the other experts.
  if (traits.model_type == "step3p5" && fields.Flag({"mlp_bias"}, false)) {
    fields.Fail("mlp_bias", "must be false: biases of dense layers alone have no run here");
  }
  if (fields.Flag({"no_bias"}, true) == false) {
    extra.query_key_value_bias = true;
    extra.output_bias = true;
    if (traits.model_type == "qwen") extra.feed_forward_bias = true;
  }
  extra.experts_have_biases = traits.model_type != "phimoe";
}

void ReadNorms(const FamilyTraits& traits, ConfigFields& fields, LayerExtras& extra,
               std::vector<std::string>* notes) {
  // One exchange could follow the sum of both parts, but none of the runtimes does so: each part
  // ends with its own in the plans of transformers (`base_model_tp_plan`: both outputs are
  // `rowwise`) and in DeepSpeed's AutoTP (both are a `LinearAllreduce`).
  const bool is_parallel =
      fields.Flag({"parallel_attn", "use_parallel_residual", "use_parallel_block"},
                  traits.is_parallel || IsFalcon(traits));
  extra.norm_vectors = traits.norm_vector_count;
  extra.final_norm_vectors = traits.final_norm_vector_count;
  // Falcon's later architecture has a norm for each part, unless it says that it has one.
  const int norms =
      fields.Optional({"num_ln_in_parallel_attn"},
                      fields.Flag({"new_decoder_architecture"}, IsLaterFalcon(traits)) ? 2 : 1);
  if (is_parallel) {
    notes->push_back(
        "attention and feed-forward part are parallel: an exchange of tensor parallelism is priced "
        "for each, as the runtimes fsdp and deepspeed make them; parplan and Megatron-LM have no "
        "such layers");
    if (traits.parallel_norm_vector_count > 0 && norms == 1) {
      extra.norm_vectors = traits.parallel_norm_vector_count;
    }
  }
  // Norms behind both parts of a layer, and not only before them.
  const bool has_both = traits.model_type == "hyperclovax" || traits.model_type == "lfm3";
  if (fields.Flag({"use_post_norm", "use_sandwich_norm"}, has_both)) extra.norm_vectors *= 2;
  if (!fields.Flag({"layer_norm_elementwise_affine"}, true)) {
    extra.norm_vectors = 0;
    extra.final_norm_vectors = 0;
  }
  // OPT-350m has its norms behind the parts of a layer, and none behind the last one.
  if (!fields.Flag({"do_layer_norm_before"}, true) ||
      fields.Flag({"_remove_final_layer_norm"}, false)) {
    extra.final_norm_vectors = 0;
  }
}

// Reads the norms of queries and keys: whether there are some, and how wide they are.
QueryKeyNorm ReadQueryKeyNorm(const FamilyTraits& traits, ConfigFields& fields) {
  QueryKeyNorm norm = traits.query_key_norm;
  if (HasOneOf(fields, {"use_qk_norm", "qk_layernorm", "qk_norm", "normalize_qk_projections"})) {
    norm =
        fields.Flag({"use_qk_norm", "qk_layernorm", "qk_norm", "normalize_qk_projections"}, false)
            ? traits.named_query_key_norm
            : QueryKeyNorm::kNone;
  }
  const std::string type = fields.Text("qk_norm_type");
  if (norm == QueryKeyNorm::kNone || type.empty()) return norm;
  // MiniMax's names, and those of Molmo after the models that have such norms.
  if (type == "per_layer" || type == "olmo") return QueryKeyNorm::kAllHeads;
  if (type == "per_head" || type == "qwen3") return QueryKeyNorm::kHead;
  fields.Fail("qk_norm_type",
              "must be `per_layer` (`olmo`), norms as wide as all heads, or `per_head` (`qwen3`), "
              "norms as wide as one");
  return norm;
}

// Counts norms of queries and keys, sinks and gates.
void ReadAttentionExtras(const FamilyTraits& traits, ConfigFields& fields,
                         const TransformerRunFacts& run, LayerExtras& extra,
                         std::vector<std::string>* notes) {
  const QueryKeyNorm norm = ReadQueryKeyNorm(traits, fields);
  const int64_t groups =
      run.key_value_head_count > 0 ? run.key_value_head_count : run.attention_head_count;
  const int64_t head_size = run.attention_head_count > 0 ? HeadSize(run) : 0;
  if (norm == QueryKeyNorm::kHead) extra.attention += 2 * head_size;
  if (norm == QueryKeyNorm::kAllHeads) {
    extra.attention += (run.attention_head_count + groups) * head_size;
  }
  // GPT-OSS's sinks.
  if (traits.model_type == "gpt_oss") extra.attention += run.attention_head_count;
  // Laguna's other form (layer_lists.h).
  const bool is_per_element = fields.IsText("gating") && fields.Text("gating") == "per-element";
  if (fields.Flag({"attn_output_gate"}, traits.has_attention_gate || is_per_element)) {
    extra.attention += int64_t{run.hidden_size} * run.attention_head_count * head_size;
    notes->push_back(
        "the gate of attention's output counts as parameters of its layers; its time is not "
        "priced");
  }
  extra.attention += ReadIndexer(traits, fields, run, notes);
  if (!fields.Has("blocksparse_block_size")) return;
  for (const char* key : {"blocksparse_block_size", "blocksparse_homo_head_pattern",
                          "blocksparse_num_local_blocks", "blocksparse_triton_kernel_block_size",
                          "blocksparse_vert_stride", "dense_attention_every_n_layers"}) {
    fields.MarkRead(key);
  }
  notes->push_back("blocksparse_block_size: attention is priced over all tokens in all layers");
}

}  // namespace

LayerExtras ReadLayerExtras(const FamilyTraits& traits, ConfigFields& fields,
                            const TransformerRunFacts& run, std::vector<std::string>* notes) {
  LayerExtras extra;
  ReadBiases(traits, fields, extra);
  ReadNorms(traits, fields, extra, notes);
  ReadAttentionExtras(traits, fields, run, extra, notes);
  // This activation has two numbers that training learns (arXiv 2411.13010).
  if (fields.IsText("hidden_act") && fields.Text("hidden_act") == "xielu") extra.feed_forward = 2;
  return extra;
}

int64_t ExtraParameterCount(const TransformerRunFacts& run, const LayerExtras& extra) {
  const bool has_attention =
      run.kind == v1::LAYER_KIND_DECODER || run.kind == v1::LAYER_KIND_ENCODER;
  const bool has_feed_forward = run.feed_forward_kind != v1::FEED_FORWARD_KIND_NONE;
  const int parts = (run.kind == v1::LAYER_KIND_FEED_FORWARD ? 0 : 1) + (has_feed_forward ? 1 : 0);
  int64_t count = int64_t{extra.norm_vectors - 2} * run.hidden_size * parts / 2;
  if (has_attention) {
    count +=
        extra.attention + BiasCount(run, 1, extra.query_key_value_bias, extra.output_bias, false);
  }
  if (run.kind == v1::LAYER_KIND_STATE_SPACE) count += extra.state_space;
  if (has_feed_forward) count += extra.feed_forward;
  if (has_feed_forward && extra.feed_forward_bias &&
      (run.expert_count == 0 || extra.experts_have_biases)) {
    count += BiasCount(run, 0, false, false, true);
  }
  return run.expert_count > 0 ? count + extra.experts : count;
}

int64_t BiasCount(const TransformerRunFacts& run, int attention_count, bool query_key_value,
                  bool output, bool feed_forward) {
  const int64_t groups =
      run.key_value_head_count > 0 ? run.key_value_head_count : run.attention_head_count;
  int64_t count = 0;
  if (query_key_value) {
    count += attention_count * (run.attention_head_count + 2 * groups) * HeadSize(run);
  }
  if (output) count += int64_t{attention_count} * run.hidden_size;
  if (!feed_forward) return count;
  const int64_t maps = run.feed_forward_kind == v1::FEED_FORWARD_KIND_SWIGLU ? 2 : 1;
  if (run.expert_count == 0) return count + maps * run.feed_forward_size + run.hidden_size;
  const int64_t width = run.expert_latent_size > 0 ? run.expert_latent_size : run.hidden_size;
  return count + run.expert_count * (maps * run.expert_feed_forward_size + width);
}

}  // namespace parplan
