#include "clients/import/family_traits.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

constexpr auto kHead = QueryKeyNorm::kHead;
constexpr auto kAllHeads = QueryKeyNorm::kAllHeads;

// A decoder of two matrices with layer norms, and biases wherever there is a product.
constexpr FamilyTraits Plain(absl::string_view model_type) {
  return {.model_type = model_type,
          .is_gated = false,
          .has_query_key_value_bias = true,
          .has_output_bias = true,
          .has_feed_forward_bias = true,
          .norm_vector_count = 4,
          .final_norm_vector_count = 2};
}

// The same with positions that training learns, and one table for words and head.
constexpr FamilyTraits PlainWithTables(absl::string_view model_type) {
  FamilyTraits traits = Plain(model_type);
  traits.is_tied = true;
  traits.has_position_table = true;
  return traits;
}

// An encoder built like BERT, whose norms stand behind the parts of a layer.
constexpr FamilyTraits PlainEncoder(absl::string_view model_type, int token_type_count) {
  FamilyTraits traits = PlainWithTables(model_type);
  traits.is_encoder = true;
  traits.final_norm_vector_count = 0;
  traits.token_type_count = token_type_count;
  traits.has_embedding_norm = true;
  traits.has_dense_head = true;
  traits.has_head_bias = true;
  return traits;
}

// Qwen's layers of a gated delta rule and, every fourth, of attention with a gate.
constexpr FamilyTraits GatedDeltaHybrid(absl::string_view model_type) {
  return {.model_type = model_type,
          .query_key_norm = kHead,
          .head_size = 256,
          .has_shared_expert_gate = true,
          .has_attention_gate = true};
}

constexpr FamilyTraits PlainWithoutAttentionBias(FamilyTraits traits) {
  traits.has_query_key_value_bias = false;
  traits.has_output_bias = false;
  return traits;
}

constexpr FamilyTraits GptNeo() {
  FamilyTraits traits = PlainWithTables("gpt_neo");
  traits.has_query_key_value_bias = false;
  return traits;
}

// One norm before both parts of a layer, which are parallel.
constexpr FamilyTraits PlainParallel(FamilyTraits traits) {
  traits.norm_vector_count = 2;
  traits.is_parallel = true;
  traits.has_head_bias = true;
  return traits;
}

constexpr FamilyTraits Falcon(absl::string_view model_type) {
  return {.model_type = model_type,
          .is_gated = false,
          .is_tied = true,
          .norm_vector_count = 4,
          .final_norm_vector_count = 2,
          .parallel_norm_vector_count = 2};
}

constexpr FamilyTraits Bloom() {
  FamilyTraits traits = Plain("bloom");
  traits.is_tied = true;
  traits.has_embedding_norm = true;
  return traits;
}

// Two rows of the table of positions stand for no position.
constexpr FamilyTraits WithTwoMorePositions(FamilyTraits traits) {
  traits.extra_position_count = 2;
  return traits;
}

constexpr FamilyTraits StarCoder2() {
  FamilyTraits traits = Plain("starcoder2");
  traits.is_tied = true;
  return traits;
}

// The gate is GELU's.
constexpr FamilyTraits PhiThreeSmall() {
  FamilyTraits traits = Plain("phi3small");
  traits.is_gated = true;
  traits.is_tied = true;
  return traits;
}

// Norms stand before the parts of a layer and behind the last one.
constexpr FamilyTraits Esm() {
  FamilyTraits traits = PlainEncoder("esm", 0);
  traits.final_norm_vector_count = 2;
  traits.has_embedding_norm = false;
  return traits;
}

// Positions are angles.
constexpr FamilyTraits WithoutPositions(FamilyTraits traits) {
  traits.has_position_table = false;
  return traits;
}

// Alibaba's encoder of texts, whose feed-forward parts have a gate.
constexpr FamilyTraits Gte() {
  FamilyTraits traits = WithoutPositions(PlainEncoder("gte", 1));
  traits.is_gated = true;
  return traits;
}

// Sorted by kind, then by family.
constexpr FamilyTraits kFamilies[] = {
    // Gated decoders with root-mean-square norms.
    {.model_type = "baichuan"},
    // The model of 1.58 bits has a norm before the last product of each part (family_layers.h).
    {.model_type = "bitnet"},
    {.model_type = "chatglm"},
    {.model_type = "cohere",
     .is_tied = true,
     .norm_vector_count = 1,
     .named_query_key_norm = kAllHeads,
     .is_parallel = true},
    {.model_type = "cohere2",
     .is_tied = true,
     .norm_vector_count = 1,
     .windowed_layers = WindowedLayers::kAllButEveryFourth,
     .is_parallel = true},
    // Scales of both residual connections count like norms.
    {.model_type = "doge", .norm_vector_count = 4, .query_key_norm = kHead},
    {.model_type = "ernie4_5", .is_tied = true},
    {.model_type = "exaone"},
    {.model_type = "exaone4",
     .query_key_norm = kHead,
     .windowed_layers = WindowedLayers::kAllButEveryFourth},
    {.model_type = "gemma", .is_tied = true, .head_size = 256, .vocabulary_size = 256000},
    {.model_type = "gemma2",
     .is_tied = true,
     .norm_vector_count = 4,
     .head_size = 256,
     .vocabulary_size = 256000,
     .windowed_layers = WindowedLayers::kAlternate},
    {.model_type = "gemma3_text",
     .is_tied = true,
     .norm_vector_count = 4,
     .query_key_norm = kHead,
     .attention_head_count = 8,
     .head_size = 256,
     .vocabulary_size = 262208,
     .sequence_length = 131072,
     .windowed_layers = WindowedLayers::kAllButEverySixth},
    {.model_type = "gemma3n_text",
     .is_tied = true,
     .norm_vector_count = 4,
     .query_key_norm = kHead,
     .head_size = 256,
     .vocabulary_size = 262400,
     .windowed_layers = WindowedLayers::kAllButEveryFifth},
    {.model_type = "gemma4_text",
     .is_tied = true,
     .norm_vector_count = 4,
     .query_key_norm = kHead,
     .head_size = 256,
     .vocabulary_size = 262144,
     .windowed_layers = WindowedLayers::kAllButEverySixth},
    // This one differs from Gemma 4 in that its layers have no vectors of their own.
    {.model_type = "gemma4_unified_text",
     .is_tied = true,
     .norm_vector_count = 4,
     .query_key_norm = kHead,
     .head_size = 256,
     .vocabulary_size = 262144,
     .windowed_layers = WindowedLayers::kAllButEverySixth},
    {.model_type = "glm", .has_query_key_value_bias = true, .head_size = 128},
    {.model_type = "glm4",
     .has_query_key_value_bias = true,
     .norm_vector_count = 4,
     .head_size = 128},
    {.model_type = "granite"},
    {.model_type = "hunyuan_v1_dense", .query_key_norm = kHead},
    // The class has norms behind both parts unless `use_post_norm` is false.
    {.model_type = "hyperclovax"},
    {.model_type = "internlm2"},
    {.model_type = "lfm2", .is_tied = true, .query_key_norm = kHead},
    {.model_type = "lfm3", .is_tied = true, .query_key_norm = kHead},
    {.model_type = "llama"},
    {.model_type = "nemotron-nas"},
    {.model_type = "minicpm", .is_tied = true},
    {.model_type = "minicpm3", .is_tied = true, .value_heads_share_width = true},
    {.model_type = "mistral"},
    {.model_type = "olmo", .norm_vector_count = 0, .final_norm_vector_count = 0},
    {.model_type = "olmo2", .query_key_norm = kAllHeads},
    {.model_type = "olmo3",
     .query_key_norm = kAllHeads,
     .windowed_layers = WindowedLayers::kAllButEveryFourth},
    {.model_type = "openelm", .is_tied = true},
    {.model_type = "phi3"},
    // Queries, keys and values have biases whatever `no_bias` says.
    {.model_type = "qwen", .has_query_key_value_bias = true},
    {.model_type = "qwen2", .has_query_key_value_bias = true, .uses_given_window = false},
    {.model_type = "qwen3", .query_key_norm = kHead, .head_size = 128, .uses_given_window = false},
    {.model_type = "smollm3", .is_tied = true, .uses_given_window = false},
    {.model_type = "stablelm",
     .norm_vector_count = 4,
     .final_norm_vector_count = 2,
     .parallel_norm_vector_count = 2,
     .named_query_key_norm = kAllHeads},
    {.model_type = "vaultgemma",
     .is_tied = true,
     .head_size = 256,
     .vocabulary_size = 256000,
     .windowed_layers = WindowedLayers::kAlternate},
    // Mixtures of experts.
    {.model_type = "afmoe",
     .norm_vector_count = 4,
     .query_key_norm = kHead,
     .windowed_layers = WindowedLayers::kAllButEveryFourth,
     .has_router_bias = true,
     .has_attention_gate = true},
    {.model_type = "gpt_oss",
     .has_query_key_value_bias = true,
     .has_output_bias = true,
     .has_feed_forward_bias = true,
     .head_size = 64,
     .windowed_layers = WindowedLayers::kAlternate},
    {.model_type = "arctic"},
    // Its latent attention has no norms of queries and keys whatever `use_qk_norm` says.
    {.model_type = "bailing_hybrid",
     .named_query_key_norm = QueryKeyNorm::kNone,
     .has_router_bias = true},
    {.model_type = "axk2", .has_router_bias = true},
    {.model_type = "bailing_moe_linear", .query_key_norm = kHead, .has_router_bias = true},
    {.model_type = "cohere2_moe",
     .is_tied = true,
     .norm_vector_count = 1,
     .head_size = 128,
     .windowed_layers = WindowedLayers::kAllButEveryFourth,
     .is_parallel = true},
    {.model_type = "dbrx"},
    {.model_type = "deepseek_v2"},
    {.model_type = "deepseek_v3", .has_router_bias = true},
    {.model_type = "deepseek_v32", .has_router_bias = true},
    {.model_type = "deepseek_v4", .head_size = 512, .has_router_bias = true},
    {.model_type = "ernie4_5_moe", .is_tied = true, .has_router_bias = true},
    {.model_type = "glm4_moe", .has_router_bias = true},
    {.model_type = "glm4_moe_lite", .has_router_bias = true},
    {.model_type = "glm_moe_dsa", .has_router_bias = true},
    {.model_type = "granitemoe"},
    {.model_type = "granitemoeshared"},
    {.model_type = "hunyuan_v1_moe", .query_key_norm = kHead},
    {.model_type = "hy_v4", .has_router_bias = true},
    {.model_type = "jetmoe", .is_tied = true},
    {.model_type = "kimi_k2", .has_router_bias = true},
    {.model_type = "llama4_text",
     .named_query_key_norm = QueryKeyNorm::kNone,
     .head_size = 128,
     .has_shared_expert = true},
    {.model_type = "laguna", .query_key_norm = kHead, .has_router_bias = true},
    {.model_type = "lfm2_moe", .is_tied = true, .query_key_norm = kHead},
    {.model_type = "longcat_flash"},
    {.model_type = "mimo_v2_flash", .head_size = 192, .has_router_bias = true},
    {.model_type = "minimax"},
    {.model_type = "minimax_m3_vl_text",
     .query_key_norm = kHead,
     .head_size = 128,
     .has_router_bias = true},
    {.model_type = "minimax_m2", .query_key_norm = kAllHeads, .named_query_key_norm = kAllHeads},
    {.model_type = "mixtral"},
    {.model_type = "olmoe", .query_key_norm = kAllHeads},
    {.model_type = "phimoe", .norm_vector_count = 4, .final_norm_vector_count = 2},
    {.model_type = "qwen2_moe",
     .has_query_key_value_bias = true,
     .uses_given_window = false,
     .has_shared_expert_gate = true},
    {.model_type = "qwen3_moe", .query_key_norm = kHead, .uses_given_window = false},
    {.model_type = "step3_text"},
    {.model_type = "step3p5", .query_key_norm = kHead, .head_size = 128, .has_router_bias = true},
    // State spaces, alone and between layers of attention.
    {.model_type = "bamba", .has_state_space_heads = true, .state_space_state_size = 256},
    {.model_type = "falcon_h1", .has_state_space_heads = true, .state_space_state_size = 256},
    {.model_type = "falcon_mamba", .is_tied = true},
    {.model_type = "granitemoehybrid",
     .has_state_space_heads = true,
     .state_space_state_size = 256},
    {.model_type = "jamba", .has_state_norms = true},
    {.model_type = "mamba", .is_tied = true},
    {.model_type = "mamba2", .has_state_space_heads = true, .state_space_state_size = 128},
    {.model_type = "nemotron_h",
     .is_gated = false,
     .has_state_space_heads = true,
     .state_space_state_size = 128},
    {.model_type = "kimi_linear", .has_router_bias = true},
    {.model_type = "recurrent_gemma",
     .is_tied = true,
     .has_output_bias = true,
     .has_feed_forward_bias = true},
    GatedDeltaHybrid("qwen3_5_moe_text"),
    GatedDeltaHybrid("qwen3_5_text"),
    GatedDeltaHybrid("qwen3_next"),
    // Plain decoders.
    {.model_type = "apertus", .is_gated = false, .query_key_norm = kHead},
    {.model_type = "apertus1p5_text", .is_gated = false, .query_key_norm = kHead},
    {.model_type = "arcee", .is_gated = false},
    WithTwoMorePositions(PlainWithTables("biogpt")),
    Bloom(),
    PlainParallel(PlainWithoutAttentionBias(Plain("codegen"))),
    Falcon("falcon"),
    Falcon("RefinedWeb"),
    PlainWithTables("gpt-sw3"),
    PlainWithTables("gpt2"),
    PlainWithTables("gpt_bigcode"),
    GptNeo(),
    Plain("gpt_neox"),
    PlainParallel(PlainWithoutAttentionBias(Plain("gptj"))),
    {.model_type = "mpt", .is_gated = false, .is_tied = true},
    {.model_type = "nanochat",
     .is_gated = false,
     .norm_vector_count = 0,
     .final_norm_vector_count = 0},
    {.model_type = "nemotron",
     .is_gated = false,
     .norm_vector_count = 4,
     .final_norm_vector_count = 2},
    WithTwoMorePositions(PlainWithTables("opt")),
    PlainParallel(Plain("phi")),
    PhiThreeSmall(),
    StarCoder2(),
    // Its first layer has no norm of its own, as ModernBERT's.
    {.model_type = "modernbert-decoder",
     .is_tied = true,
     .has_dense_head = true,
     .has_head_bias = true},
    // Encoders.
    PlainEncoder("bert", 2),
    PlainEncoder("camembert", 2),
    PlainEncoder("deberta-v2", 0),
    PlainEncoder("distilbert", 0),
    PlainEncoder("electra", 2),
    Esm(),
    {.model_type = "eurobert", .is_encoder = true},
    Gte(),
    // Its first layer has no norm of its own: the one behind the embedding stands there.
    {.model_type = "modernbert",
     .is_encoder = true,
     .is_tied = true,
     .has_dense_head = true,
     .has_head_bias = true},
    PlainEncoder("mpnet", 0),
    PlainEncoder("roberta", 2),
    WithoutPositions(PlainEncoder("roformer", 2)),
    PlainEncoder("xlm-roberta", 2),
};

constexpr std::pair<absl::string_view, absl::string_view> kLanguageFamilies[] = {
    // Falcon's name in its own files before transformers had it, but for the model of 40B.
    {"RefinedWebModel", "falcon"},
    {"gemma3", "gemma3_text"},
    {"gemma3n", "gemma3n_text"},
    {"apertus1p5", "apertus1p5_text"},
    {"gemma4", "gemma4_text"},
    {"gemma4_unified", "gemma4_unified_text"},
    {"glm4v_moe_text", "glm4_moe"},
    {"glm4v_text", "glm4"},
    {"hy_v4_vl_text", "hy_v4"},
    {"llama4", "llama4_text"},
    {"minimax_m1", "minimax"},
    {"minimax_m3", "minimax_m3_vl_text"},
    {"minimax_m3_text", "minimax_m3_vl_text"},
    {"minimax_m3_vl", "minimax_m3_vl_text"},
    {"minimax_text_01", "minimax"},
    {"mistral3", "mistral"},
    {"paligemma", "gemma"},
    {"qwen2_5_omni_text", "qwen2"},
    {"qwen2_5_vl", "qwen2"},
    {"qwen2_5_vl_text", "qwen2"},
    {"qwen2_vl", "qwen2"},
    {"qwen2_vl_text", "qwen2"},
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
    {"qwen3_omni_moe_text", "qwen3_moe"},
    {"qwen3_vl", "qwen3"},
    {"qwen3_vl_moe", "qwen3_moe"},
    {"qwen3_vl_moe_text", "qwen3_moe"},
    {"qwen3_vl_text", "qwen3"},
    {"step3_vl", "step3_text"},
    {"step3p7", "step3p5"},
};

}  // namespace

const FamilyTraits* FindFamilyTraits(absl::string_view model_type) {
  const auto* const found =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [&](const FamilyTraits& traits) { return traits.model_type == model_type; });
  return found == std::end(kFamilies) ? nullptr : found;
}

std::string FamilyOfClass(absl::string_view class_name) {
  bool is_model = false;
  for (const absl::string_view end :
       {"ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForPreTraining"}) {
    is_model = is_model || absl::ConsumeSuffix(&class_name, end);
  }
  const auto letters = [](absl::string_view name) {
    std::string lower = absl::AsciiStrToLower(name);
    std::erase_if(lower, [](char c) { return c == '_' || c == '-'; });
    return lower;
  };
  const std::string name = letters(class_name);
  if (!is_model || name.empty()) return "";
  for (const FamilyTraits& traits : kFamilies) {
    const std::string known = letters(traits.model_type);
    // Families of models of several parts have a name of their own for the language model.
    if (known == name || known == name + "text") return std::string(traits.model_type);
  }
  return "";
}

std::string LanguageFamily(absl::string_view model_type) {
  for (const auto& [whole, language] : kLanguageFamilies) {
    if (whole == model_type) return std::string(language);
  }
  return std::string(model_type);
}

}  // namespace parplan
