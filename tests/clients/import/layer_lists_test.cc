#include "clients/import/layer_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "clients/import/hugging_face.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kListedWidth = 64;
// Table, head and last norm of 100 words.
constexpr int64_t kListedEnds = 2 * 100 * kListedWidth + kListedWidth;

std::string ErrorWith(const std::string& config, const char* change) {
  return ImportConfigText(With(config.c_str(), change)).status().ToString();
}

// Two layers: 2 and 4 heads of 16, one and two key-value heads, 64 and 96 wide. 1.3 x 64 is 83.2,
// next to 96 among the multiples of 32, and 1.0 x 64 is one.
TEST(ReadLayerLists, OpenElmHasHeadsAndWidthsOfEachLayer) {
  const std::string config = R"({"model_type": "openelm", "model_dim": 64,
      "num_transformer_layers": 2, "head_dim": 16, "num_query_heads": [2, 4],
      "num_kv_heads": [1, 2], "num_gqa_groups": 2, "ffn_multipliers": [1.0, 1.3],
      "qkv_multipliers": [0.5, 1.0], "ffn_dim_divisor": 32, "ffn_with_glu": true,
      "activation_fn_name": "swish", "normalization_layer_name": "rms_norm",
      "normalize_qk_projections": true, "share_input_output_layers": true, "vocab_size": 100,
      "max_context_length": 32, "rope_freq_constant": 10000, "rope_max_length": 64})";
  const int64_t first = 2 * kListedWidth * 32 + 2 * kListedWidth * 16 + 3 * kListedWidth * 64;
  const int64_t second = 2 * kListedWidth * 64 + 2 * kListedWidth * 32 + 3 * kListedWidth * 96;
  // A tied table; norms of layers, of queries and keys, and the last one.
  EXPECT_EQ(ParametersOf(config),
            first + second + 2 * (2 * kListedWidth + 2 * 16) + 100 * kListedWidth + kListedWidth);
  EXPECT_THAT(ErrorWith(config, R"({"num_kv_heads": [1]})"), HasSubstr("num_kv_heads: must have"));
  EXPECT_THAT(ErrorWith(config, R"({"num_query_heads": [2, 3]})"),
              HasSubstr("num_query_heads: must be multiples of the key-value heads, 2"));
  EXPECT_THAT(ErrorWith(config, R"({"ffn_multipliers": [1.0, -1]})"),
              HasSubstr("ffn_multipliers[1]: must be a number above 0"));
  EXPECT_THAT(ErrorWith(config, R"({"ffn_multipliers": null})"),
              HasSubstr("ffn_multipliers: is required"));
  EXPECT_THAT(ErrorWith(config, R"({"normalization_layer_name": "layer_norm"})"),
              HasSubstr("normalization_layer_name: must be `rms_norm`"));
}

// Four layers, of which the third and the fourth have experts, and two further ones behind them.
// Layers with windows have six heads, the others four.
TEST(ReadLayerLists, StepHasOtherHeadsInWindowsAndListsFurtherLayers) {
  const std::string config = R"({"model_type": "step3p5", "hidden_size": 64,
      "intermediate_size": 96, "num_attention_heads": 4, "num_attention_groups": 2, "head_dim": 16,
      "num_hidden_layers": 4, "num_nextn_predict_layers": 2, "vocab_size": 100, "max_seq_len": 32,
      "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention",
                      "sliding_attention", "sliding_attention"], "sliding_window": 16,
      "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 6,
                                  "num_attention_groups": 2, "head_dim": 16},
      "moe_intermediate_size": 16, "moe_num_experts": 8, "moe_top_k": 2, "share_expert_dim": 32,
      "moe_layers_enum": "2,3", "use_moe_router_bias": false, "use_head_wise_attn_gate": true,
      "swiglu_limits": [0, 0, 7, 7, 0, 0], "rope_theta": [1, 2, 3, 4, 5, 6]})";
  const auto attention = [](int64_t heads) {
    // Gate, norms of the layer, norms of queries and keys.
    return 2 * kListedWidth * 16 * (heads + 2) + kListedWidth * heads + 2 * kListedWidth + 2 * 16;
  };
  const int64_t dense = 3 * kListedWidth * 96;
  const int64_t experts = 8 * 3 * kListedWidth * 16 + 8 * kListedWidth + 3 * kListedWidth * 32;
  ModelFlags without;
  without.prediction_layer_count = 0;
  EXPECT_EQ(ParametersOf(config, without),
            2 * attention(4) + 2 * attention(6) + 2 * dense + 2 * experts + kListedEnds);
  // A further layer has its projection of two widths and two norms beside its layer.
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), ".wW:pp");
  const v1::LayerDefinition& last =
      import.model.layer_definitions(import.model.layer_definitions_size() - 2);
  EXPECT_EQ(last.attention_head_count(), 6);
  EXPECT_EQ(last.expert_count(), 0);
  EXPECT_EQ(last.attention_window(), 16);
  // Names have the sizes that are not those of the model.
  std::string names;
  for (const v1::LayerDefinition& layer : import.model.layer_definitions()) {
    absl::StrAppend(&names, layer.layer_definition_id(), " ");
  }
  EXPECT_THAT(names, HasSubstr("decoder-dense-6-heads-2-groups-window "));
  EXPECT_THAT(names, HasSubstr("decoder-dense "));
  EXPECT_THAT(names, Not(HasSubstr("-0-")));
  // Files that the class saved list the further layers apart.
  const std::string saved = With(config.c_str(), R"({"layer_types": ["full_attention",
      "sliding_attention", "sliding_attention", "full_attention"],
      "mtp_layer_types": ["sliding_attention", "sliding_attention"],
      "attention_other_setting": null, "num_sliding_attention_heads": 6,
      "moe_layers_enum": null, "mlp_layer_types": ["dense", "dense", "sparse", "sparse"],
      "mtp_mlp_layer_types": ["dense", "dense"]})");
  EXPECT_EQ(ParametersOf(saved), ParametersOf(config));
  EXPECT_THAT(ErrorWith(config, R"({"moe_layers_enum": null})"),
              HasSubstr("moe_layers_enum: is required"));
  // Without a list the class has no windows, whatever their size, and no heads of windows.
  const std::string without_list = With(config.c_str(), R"({"layer_types": null})");
  EXPECT_EQ(ParametersOf(without_list, without),
            4 * attention(4) + 2 * dense + 2 * experts + kListedEnds);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport whole, ImportConfigText(without_list));
  EXPECT_EQ(LayersOf(whole.model).substr(0, 3), "..:");
  EXPECT_THAT(ErrorWith(config, R"({"mlp_bias": true})"), HasSubstr("mlp_bias: must be false"));
  EXPECT_OK(ImportConfigText(With(config.c_str(), R"({"mlp_bias": false})")).status());
  EXPECT_THAT(ErrorWith(config, R"({"num_nextn_predict_layers": 1})"),
              HasSubstr("layer_types: must have an entry for each of the 4 layers"));
  EXPECT_THAT(ErrorWith(config, R"({"attention_other_setting": {"attention_type": "quux"}})"),
              HasSubstr("attention_other_setting.attention_type: must be `sliding_attention`"));
  EXPECT_THAT(ErrorWith(config, R"({"att_impl_type": "MFA"})"), HasSubstr("must be `GQA`"));
  EXPECT_THAT(ErrorWith(config, R"({"sink": true})"), HasSubstr("sink: is of attention sinks"));
  EXPECT_THAT(ErrorWith(config, R"({"attention_other_setting":
                      {"attention_type": "sliding_attention", "num_quuxes": 1}})"),
              HasSubstr("attention_other_setting.num_quuxes: is not known"));
}

TEST(ReadLayerLists, MiniMaxChoosesBlocksOfTokensInSomeLayers) {
  const std::string config = With(kMixture, R"({"model_type": "minimax_m3_vl_text",
      "num_hidden_layers": 3, "moe_intermediate_size": null, "intermediate_size": 16,
      "dense_intermediate_size": 96, "shared_intermediate_size": 32, "n_shared_experts": 1,
      "moe_layer_freq": [0, 1, 1], "use_qk_norm": true, "qk_norm_type": "per_head",
      "use_routing_bias": false, "swiglu_alpha": 1.702,
      "sparse_attention_config": {"use_sparse_attention": true, "sparse_num_index_heads": 2,
          "sparse_index_dim": 16, "sparse_block_size": 128, "sparse_topk_blocks": 2,
          "sparse_init_block": 0, "sparse_local_block": 1, "sparse_score_type": "max",
          "sparse_attention_freq": [0, 1, 1], "sparse_disable_index_value": [0, 1, 1]}})");
  const int64_t attention =
      2 * kListedWidth * 128 + 2 * kListedWidth * 64 + 2 * 32 + 2 * kListedWidth;
  const int64_t experts = 8 * 3 * kListedWidth * 16 + 8 * kListedWidth + 3 * kListedWidth * 32;
  const int64_t indexer = kListedWidth * (2 * 16 + 16) + 2 * 16;
  const int64_t all =
      3 * attention + 3 * kListedWidth * 96 + 2 * experts + 2 * indexer + kListedEnds;
  EXPECT_EQ(ParametersOf(config), all);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("sparse attention is priced over all tokens")));
  // The names of newer files.
  const std::string saved = With(config.c_str(), R"({"sparse_attention_config": null,
      "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
      "index_n_heads": 2, "index_head_dim": 16, "index_block_size": 128, "index_topk_blocks": 2,
      "index_local_blocks": 1})");
  EXPECT_EQ(ParametersOf(saved), all);
  EXPECT_THAT(ErrorWith(saved, R"({"index_head_dim": null})"),
              HasSubstr("index_head_dim: is required"));
  EXPECT_THAT(
      ErrorWith(config, R"({"sparse_attention_config": {"sparse_num_index_heads": 2,
          "sparse_index_dim": 16, "sparse_attention_freq": [0, 1]}})"),
      HasSubstr("sparse_attention_config.sparse_attention_freq: must have an entry for each"));
  EXPECT_THAT(ErrorWith(config, R"({"sparse_attention_config": {"sparse_num_index_heads": 2,
          "sparse_index_dim": 16, "sparse_attention_freq": [0, 1, 1],
          "sparse_disable_index_value": [0, 0, 1]}})"),
              HasSubstr("sparse_disable_index_value: must be 1"));
  // Layers that differ in this alone have names of their own.
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"moe_layer_freq": [1, 1, 1]})")),
            3 * attention + 3 * experts + 2 * indexer + kListedEnds);
}

// The published file of OpenELM-270M (sizes from memory), and its published 271,527,168 parameters.
TEST(ReadLayerLists, CountsThePublishedOpenElm) {
  EXPECT_EQ(ParametersOf(R"({"architectures": ["OpenELMForCausalLM"], "model_type": "openelm",
          "activation_fn_name": "swish", "ffn_dim_divisor": 256,
          "ffn_multipliers": [0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9, 2.13, 2.37, 2.6, 2.83, 3.07,
                              3.3, 3.53, 3.77, 4.0],
          "ffn_with_glu": true, "head_dim": 64, "initializer_range": 0.02,
          "max_context_length": 2048, "model_dim": 1280, "normalization_layer_name": "rms_norm",
          "normalize_qk_projections": true, "num_gqa_groups": 4,
          "num_kv_heads": [3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5],
          "num_query_heads": [12, 12, 12, 12, 12, 16, 16, 16, 16, 16, 16, 16, 20, 20, 20, 20],
          "num_transformer_layers": 16, "qkv_multipliers": [0.5, 1.0],
          "rope_freq_constant": 10000, "rope_max_length": 4096,
          "share_input_output_layers": true, "torch_dtype": "float32", "vocab_size": 32000})"),
            271527168);
}

// The published file of Step-3.5-Flash (sizes from memory). Its class in transformers 5.23 has
// 196,956,118,272 parameters, and 288 biases of the router in each of 42 layers that are no
// parameters there.
TEST(ReadLayerLists, CountsThePublishedStep) {
  std::string kinds;
  for (int i = 0; i < 48; ++i) {
    absl::StrAppend(&kinds, i > 0 ? ", " : "",
                    i % 4 == 0 ? R"("full_attention")" : R"("sliding_attention")");
  }
  std::string places;
  for (int i = 3; i < 45; ++i) absl::StrAppend(&places, i > 3 ? "," : "", i);
  ModelFlags without;
  without.prediction_layer_count = 0;
  EXPECT_EQ(ParametersOf(absl::StrCat(
                             R"({"architectures": ["Step3p5ForCausalLM"], "model_type": "step3p5",
                  "vocab_size": 128896, "hidden_size": 4096, "intermediate_size": 11264,
                  "num_hidden_layers": 45, "num_attention_heads": 64, "num_attention_groups": 8,
                  "head_dim": 128, "max_seq_len": 262144, "use_qk_norm": true,
                  "moe_num_experts": 288, "moe_top_k": 8, "moe_intermediate_size": 1280,
                  "share_expert_dim": 1280, "use_moe": true, "moe_layer_offset": 0,
                  "moe_every_n_layer": 1, "norm_expert_weight": true,
                  "moe_router_activation": "sigmoid", "moe_router_scaling_factor": 3.0,
                  "use_moe_router_bias": true, "need_fp32_gate": true, "att_impl_type": "GQA",
                  "use_head_wise_attn_gate": true, "sliding_window": 512, "zero_centered": true,
                  "attention_other_setting": {"attention_type": "sliding_attention",
                      "num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128,
                      "true_head_dim": 128}, "yarn_only_types": ["full_attention"],
                  "num_nextn_predict_layers": 3, "tie_word_embeddings": false,
                  "layer_types": [)",
                             kinds, R"(], "moe_layers_enum": ")", places, R"("})"),
                         without),
            196956118272 + 42 * 288);
}

}  // namespace
}  // namespace parplan
