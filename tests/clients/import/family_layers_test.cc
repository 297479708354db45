#include "clients/import/family_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "clients/import/hugging_face.h"
#include "planner/model/parameter_parts.h"
#include "proto/wire/model_wire.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kHidden = 64;
// Table, head and last norm of 100 words.
constexpr int64_t kBothEnds = 2 * 100 * kHidden + kHidden;
constexpr int64_t kNorms = 2 * kHidden;
constexpr int64_t kDensePart = 3 * kHidden * 96;
// Four heads of 16, two key-value heads.
constexpr int64_t kAttention = 2 * kHidden * 64 + 2 * kHidden * 32;

TEST(FamilyLayers, DogeHasADynamicMaskAndScalesOfResiduals) {
  const std::string config =
      With(kGated, R"({"model_type": "doge", "keep_window_size": 2048, "is_moe": false,
                       "num_experts": 16384, "num_experts_per_tok": 64,
                       "expert_retrieval_size": 64, "num_cdmoe_experts": 16384,
                       "num_cdmoe_heads": 4, "num_cdmoe_experts_per_head": 8})");
  // Norms of queries and keys; a number of each key-value head from its values, and its scale.
  const int64_t layer = kAttention + 2 * 16 + 2 * 2 * 16 + 2 + kNorms + 2 * kHidden + kDensePart;
  EXPECT_EQ(ParametersOf(config), 3 * layer + kBothEnds);
  EXPECT_THAT(ImportConfigText(With(config.c_str(), R"({"is_moe": true})")).status().ToString(),
              HasSubstr("is_moe: is of experts of one vector"));
}

TEST(FamilyLayers, BitNetHasANormBeforeTheLastProductOfEachPart) {
  const std::string config = With(kGated, R"({"model_type": "bitnet", "hidden_act": "relu2"})");
  EXPECT_EQ(ParametersOf(config),
            3 * (kAttention + kHidden + kNorms + kDensePart + 96) + kBothEnds);
}

TEST(FamilyLayers, StepHasNarrowQueriesAndNamesItsLayersWithExpertsInAText) {
  const std::string config =
      With(kGated, R"({"model_type": "step3_text", "num_key_value_heads": null, "head_dim": 32,
                  "num_attention_groups": 1, "share_q_dim": 24, "moe_intermediate_size": 16,
                  "moe_num_experts": 8, "moe_top_k": 3, "share_expert_dim": 32,
                  "moe_layers_enum": "1,2", "norm_expert_weight": false,
                  "moe_router_activation": "softmax", "max_position_embeddings": null,
                  "max_position_embedding": 32})");
  const int64_t attention =
      kHidden * 24 + 24 + 24 * 128 + 2 * kHidden * 32 + 128 * kHidden + kNorms;
  const int64_t experts = 8 * 3 * kHidden * 16 + kHidden * 8 + 3 * kHidden * 32;
  EXPECT_EQ(ParametersOf(config), 3 * attention + kDensePart + 2 * experts + kBothEnds);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), ".::");
  EXPECT_THAT(import.notes, Contains(HasSubstr("share_q_dim 24")));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport listed,
                       ImportConfigText(With(config.c_str(), R"({"moe_layers_enum": [1, 2]})")));
  EXPECT_EQ(LayersOf(listed.model), ".::");
  EXPECT_THAT(
      ImportConfigText(With(config.c_str(), R"({"moe_layers_enum": null})")).status().ToString(),
      HasSubstr("moe_layers_enum: is required"));
  // Attention has the narrow matrices alone, and nothing is negative.
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(import.model));
  EXPECT_EQ(ParametersByPart(model).attention, 3 * attention);
  EXPECT_EQ(ParametersByPart(model).other, 0);
  for (const char* bad : {"1,x", "1,,2", "3", "-1"}) {
    const std::string change = std::string(R"({"moe_layers_enum": ")") + bad + R"("})";
    EXPECT_THAT(ImportConfigText(With(config.c_str(), change.c_str())).status().ToString(),
                HasSubstr("moe_layers_enum: must"))
        << bad;
  }
}

// One layer of the class is two here. Four of the twelve experts give back what they receive, so
// of six chosen ones four compute.
TEST(FamilyLayers, LongCatHasTwoLayersInOne) {
  const std::string config =
      With(kLatent, R"({"model_type": "longcat_flash", "num_hidden_layers": null, "num_layers": 2,
                        "intermediate_size": null, "ffn_hidden_size": 96,
                        "moe_intermediate_size": null, "expert_ffn_hidden_size": 16,
                        "num_experts_per_tok": null, "moe_topk": 6, "n_shared_experts": null,
                        "first_k_dense_replace": null, "zero_expert_num": 4,
                        "zero_expert_type": "identity", "router_bias": false, "head_dim": 4,
                        "attention_method": "MLA", "mla_scale_q_lora": true,
                        "mla_scale_kv_lora": true})");
  const int64_t latent = kHidden * 24 + 24 + 24 * 4 * 16 + kHidden * (16 + 4) + 16 +
                         16 * 4 * (12 + 8) + 4 * 8 * kHidden + kNorms;
  const int64_t experts = 8 * 3 * kHidden * 16 + kHidden * (8 + 4);
  EXPECT_EQ(ParametersOf(config), 4 * (latent + kDensePart) + 2 * experts + kBothEnds);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), ":.:.");
  EXPECT_EQ(import.model.layer_definitions(1).experts_per_token(), 4);
  EXPECT_EQ(import.model.layer_definitions(1).shared_expert_feed_forward_size(), 96);
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"router_bias": true})")),
            4 * (latent + kDensePart) + 2 * (experts + 12) + kBothEnds);
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"num_hidden_layers": 4})")),
            ParametersOf(config));
  EXPECT_THAT(
      ImportConfigText(With(config.c_str(), R"({"num_hidden_layers": 3})")).status().ToString(),
      HasSubstr("num_hidden_layers: must be twice num_layers, 4"));
  EXPECT_THAT(
      ImportConfigText(With(config.c_str(), R"({"zero_expert_type": "zero"})")).status().ToString(),
      HasSubstr("zero_expert_type: must be `identity`"));
}

// Attention has as many heads for each of two chosen experts as there are key-value heads, here 2;
// eight experts have queries and outputs of their own.
TEST(FamilyLayers, JetMoeHasExpertsInAttention) {
  const std::string config =
      With(kGated, R"({"model_type": "jetmoe", "num_attention_heads": null, "kv_channels": 16,
                       "num_local_experts": 8, "num_experts_per_tok": 2, "hidden_size": 64})");
  const int64_t attention = 2 * 8 * kHidden * 32 + 2 * kHidden * 32 + 8 * kHidden + kHidden;
  const int64_t experts = 8 * kDensePart + 8 * kHidden + kHidden;
  EXPECT_EQ(ParametersOf(config), 3 * (attention + experts + kNorms) + kBothEnds - 100 * kHidden);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(import.model.layer_definitions(1).attention_head_count(), 4);
  EXPECT_THAT(import.notes, Contains(HasSubstr("attention has 8 experts")));
  EXPECT_THAT(
      ImportConfigText(With(config.c_str(), R"({"num_attention_heads": 8})")).status().ToString(),
      HasSubstr("num_attention_heads: must be num_key_value_heads times the experts"));
  // Sizes whose product with the width of the layers has more than 63 bits.
  EXPECT_THAT(ImportConfigText(
                  With(config.c_str(), R"({"hidden_size": 8388608, "num_local_experts": 1048576,
                           "num_key_value_heads": 4096, "kv_channels": 2048,
                           "intermediate_size": 1, "num_hidden_layers": 1})"))
                  .status()
                  .ToString(),
              HasSubstr("num_local_experts: times the width 8388608 of the heads of one must be at "
                        "most 16777216"));
}

// Snowflake Arctic, 480 B: the sizes of its published file. 35 layers of 56 heads of 128 with 8
// key-value heads, 128 experts of 4864, a router, a dense part as wide as the layers, three norms.
TEST(FamilyLayers, ArcticHasADensePartBesideItsExperts) {
  const std::string config = R"({"model_type": "arctic", "hidden_size": 7168,
      "intermediate_size": 4864, "num_hidden_layers": 35, "num_attention_heads": 56,
      "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 4096,
      "num_local_experts": 128, "num_experts_per_tok": 2, "moe_layer_frequency": 1,
      "parallel_attn_mlp_res": true, "use_residual": true, "moe_min_capacity": 0,
      "moe_token_dropping": true, "moe_train_capacity_factor": 1,
      "enable_expert_tensor_parallelism": false})";
  const int64_t width = 7168;
  const int64_t layer = 2 * width * width + 2 * width * 1024 + 128 * 3 * width * 4864 +
                        128 * width + 3 * width * width + 3 * width;
  EXPECT_EQ(ParametersOf(config), 35 * layer + 2 * 32000 * width + width);
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"parallel_attn_mlp_res": false})")),
            35 * (layer - 3 * width * width - width) + 2 * 32000 * width + width);
}

TEST(FamilyLayers, CohereHasOnePeriodOfWindowsForItsFirstLayersAndOneForTheOthers) {
  const std::string config =
      With(kMixture, R"({"model_type": "cohere2_moe", "moe_intermediate_size": null,
                         "intermediate_size": 16, "prefix_dense_intermediate_size": 96,
                         "first_k_dense_replace": 2, "num_shared_experts": 2,
                         "sliding_window": 16, "sliding_window_pattern": 3,
                         "expert_selection_fn": "sigmoid"})");
  // The first two read all tokens, as the third of each three behind them.
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "..WW:W");
  const int64_t attention = 2 * kHidden * 128 + 2 * kHidden * 64 + kHidden;
  const int64_t experts = 8 * 3 * kHidden * 16 + 8 * kHidden + 3 * kHidden * 32;
  EXPECT_EQ(ParametersOf(config),
            6 * attention + 2 * kDensePart + 4 * experts + 100 * kHidden + kHidden);
}

// Ling: the last layer of each group has latent attention with a gate of each head, the others the
// delta rule with a decay of each channel: five products, decays and gate among them, one number a
// head, a convolution of queries, keys and values, first values of decays, and a norm.
TEST(FamilyLayers, LingHasAttentionInTheLastLayerOfEachGroup) {
  const std::string config =
      With(kLatent, R"({"model_type": "bailing_hybrid", "num_hidden_layers": 4,
                        "layer_group_size": 2, "n_routed_experts": null, "num_experts": 8,
                        "n_shared_experts": null, "num_shared_experts": 1, "head_dim": 16,
                        "q_lora_rank": null, "short_conv_kernel_size": 4, "kda_safe_gate": true,
                        "kda_lower_bound": -5.0, "moe_router_enable_expert_bias": false})");
  const int64_t attention = kHidden * 4 * 16 + kHidden * (16 + 4) + 16 + 16 * 4 * (12 + 8) +
                            4 * 8 * kHidden + kHidden * 4;
  const int64_t rule = 6 * kHidden * 64 + kHidden * 4 + 3 * 64 * 4 + 4 + 64 + 16;
  const int64_t experts = 8 * 3 * kHidden * 16 + 8 * kHidden + 3 * kHidden * 16;
  EXPECT_EQ(ParametersOf(config),
            2 * attention + 2 * rule + 4 * kNorms + kDensePart + 3 * experts + kBothEnds);
  // The class has two dense layers, and groups of six, unless a file says otherwise.
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"first_k_dense_replace": null})")),
            2 * attention + 2 * rule + 4 * kNorms + 2 * kDensePart + 2 * experts + kBothEnds);
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"first_k_dense_replace": null,
                "mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]})")),
            ParametersOf(config));
  EXPECT_EQ(
      ParametersOf(With(config.c_str(), R"({"layer_group_size": null, "num_hidden_layers": 6})")),
      attention + 5 * rule + 6 * kNorms + kDensePart + 5 * experts + kBothEnds);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "s:S:");
  EXPECT_THAT(
      ImportConfigText(With(config.c_str(), R"({"num_hidden_layers": 3})")).status().ToString(),
      HasSubstr("layer_group_size: must divide the number of layers 3"));
}

TEST(FamilyLayers, LagunaListsItsHeadsAndSaysTheFormOfItsGates) {
  const std::string config =
      With(kMixture, R"({"model_type": "laguna", "num_hidden_layers": 2, "head_dim": 16,
                         "shared_expert_intermediate_size": 8, "gating": true,
                         "num_attention_heads_per_layer": [4, 6],
                         "mlp_layer_types": ["dense", "sparse"]})");
  // Queries, output and gates of the heads of a layer; keys and values; norms of queries and keys.
  const auto attention = [](int64_t heads) {
    return 2 * kHidden * heads * 16 + kHidden * heads + 2 * kHidden * 32 + 2 * 16;
  };
  const int64_t experts = 8 * 3 * kHidden * 16 + 8 * kHidden + 8 + 3 * kHidden * 8;
  EXPECT_EQ(ParametersOf(config),
            attention(4) + attention(6) + 2 * kNorms + kDensePart + experts + kBothEnds);
  // Without a list the first layer is dense.
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"mlp_layer_types": null})")),
            ParametersOf(config));
  const std::string even =
      With(config.c_str(), R"({"num_attention_heads_per_layer": null, "gating": "per-head"})");
  EXPECT_EQ(ParametersOf(even), 2 * attention(4) + 2 * kNorms + kDensePart + experts + kBothEnds);
  EXPECT_EQ(ParametersOf(With(even.c_str(), R"({"gating": "per-element"})")),
            ParametersOf(even) + 2 * kHidden * 4 * 15);
  const struct {
    const char* change;
    const char* error;
  } cases[] = {
      {R"({"gating": "other"})", "gating: must be `per-head` or `per-element`"},
      {R"({"gating": "per-element"})",
       "num_attention_heads_per_layer: must be num_attention_heads"},
      {R"({"num_attention_heads_per_layer": [4]})",
       "num_attention_heads_per_layer: must have an entry for each of the 2 layers"},
      {R"({"num_attention_heads_per_layer": [4, 5]})",
       "num_attention_heads_per_layer: must be multiples of the key-value heads, 2"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(With(config.c_str(), test.change)).status().ToString(),
                HasSubstr(test.error));
  }
}

TEST(FamilyLayers, FieldsSayThatNormsStandBehindBothPartsToo) {
  const std::string config =
      With(kGated, R"({"model_type": "hyperclovax", "attention_multiplier": 0.1})");
  EXPECT_EQ(ParametersOf(config), ParametersOf(kGated) + 3 * kNorms);
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"use_post_norm": false})")),
            ParametersOf(kGated));
  EXPECT_EQ(ParametersOf(With(kGated, R"({"use_post_norm": true})")), ParametersOf(config));
}

// LFM3: convolutions, windows, a gate of each head, and two norms more than LFM2 has.
TEST(FamilyLayers, LiquidsThirdHasGatesAndFurtherNorms) {
  const std::string config =
      With(kGated, R"({"model_type": "lfm3", "conv_L_cache": 7, "conv_bias": false,
                       "sliding_window": 16, "use_sandwich_norm": true, "head_dim": 16,
                       "use_attention_gate": true, "norm_eps": 1e-05,
                       "layer_types": ["conv", "full_attention", "sliding_attention"]})");
  const int64_t convolution = 4 * kHidden * kHidden + 7 * kHidden;
  const int64_t attention = kAttention + 2 * 16 + kHidden * 4;
  EXPECT_EQ(ParametersOf(config),
            convolution + 2 * attention + 3 * (2 * kNorms + kDensePart) + 100 * kHidden + kHidden);
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"use_attention_gate": false,
                                                  "use_sandwich_norm": false})")),
            ParametersOf(config) - 2 * kHidden * 4 - 3 * kNorms);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "o.w");
  // Without a list the class has attention over all tokens in the third of each four layers.
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport silent,
      ImportConfigText(With(config.c_str(), R"({"layer_types": null, "num_hidden_layers": 7})")));
  EXPECT_EQ(LayersOf(silent.model), "oo.owo.");
}

TEST(FamilyLayers, GemmaMayHaveNoVectorsForEachLayer) {
  const std::string config =
      With(kGated, R"({"model_type": "gemma4_unified_text", "head_dim": 16, "sliding_window": 16,
                       "layer_types": ["sliding_attention", "sliding_attention",
                                       "full_attention"],
                       "per_layer_config": {"02": {"head_dim": 32}}})");
  const int64_t wide = 2 * kHidden * 128 + 2 * kHidden * 64 + 2 * 32;
  EXPECT_EQ(ParametersOf(config), 2 * (kAttention + 2 * 16) + wide + 3 * (2 * kNorms + kDensePart) +
                                      100 * kHidden + kHidden);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "ww.");
}

// A.X K2: queries and a gate as wide as the values come of twice the narrow vector; norms before
// attention, and before experts, have a gate behind two narrow matrices.
TEST(FamilyLayers, NormsMayHaveGatesBehindNarrowMatrices) {
  const std::string config = With(kLatent, R"({"model_type": "axk2", "gated_norm_rank": 5})");
  const std::string plain = With(kLatent, R"({"model_type": "deepseek_v3"})");
  const int64_t queries = 2 * 24 * 4 * (16 + 8) - 24 * 4 * 16;
  EXPECT_EQ(ParametersOf(config),
            ParametersOf(plain) + 3 * (queries + 2 * kHidden * 5) + 2 * 2 * kHidden * 5);
  EXPECT_THAT(ImportConfigText(With(config.c_str(), R"({"q_lora_rank": 0})")).status().ToString(),
              HasSubstr("q_lora_rank: "));
}

// Ling 2.5: the same fields without those of decays of each channel. Linear attention has queries,
// keys, values, a gate and an output, all as wide as the heads, a norm, and norms of queries and
// keys; latent attention has no gate, and the layers behind the last whole group have it too.
TEST(FamilyLayers, LingWithFixedDecaysHasAttentionBehindTheLastGroup) {
  const std::string config =
      With(kLatent, R"({"model_type": "bailing_hybrid", "num_hidden_layers": 5,
                        "layer_group_size": 2, "n_routed_experts": null, "num_experts": 8,
                        "n_shared_experts": null, "num_shared_experts": 1, "head_dim": 16,
                        "q_lora_rank": null, "group_norm_size": 4, "linear_silu": false,
                        "use_qk_norm": true, "use_qkv_bias": false, "use_bias": false,
                        "moe_router_enable_expert_bias": true})");
  const int64_t attention =
      kHidden * 4 * 16 + kHidden * (16 + 4) + 16 + 16 * 4 * (12 + 8) + 4 * 8 * kHidden;
  const int64_t lightning = 5 * kHidden * 64 + 64 + 2 * 16;
  const int64_t experts = 8 * 3 * kHidden * 16 + 8 * kHidden + 8 + 3 * kHidden * 16;
  EXPECT_EQ(ParametersOf(config),
            3 * attention + 2 * lightning + 5 * kNorms + kDensePart + 4 * experts + kBothEnds);
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"use_qk_norm": false})")),
            ParametersOf(config) - 2 * 2 * 16);
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"first_k_dense_replace": null})")),
            ParametersOf(config));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "s:S::");
  EXPECT_THAT(
      ImportConfigText(With(config.c_str(), R"({"group_norm_size": null, "num_hidden_layers": 4})"))
          .status()
          .ToString(),
      HasSubstr("layer_types[0]: `linear_attention` is a kind of layer that is not known"));
}

// The file of Ring-mini-linear-2.0, whose model card says 16.4 G parameters: attention of grouped
// heads in place of latent attention.
TEST(FamilyLayers, CountsThePublishedModelOfLing) {
  const int64_t count = ParametersOf(R"({"architectures": ["BailingMoeLinearV2ForCausalLM"],
      "attention_dropout": 0.0, "embedding_dropout": 0.0, "eos_token_id": 156892,
      "first_k_dense_replace": 1, "group_norm_size": 4, "head_dim": 128, "hidden_act": "silu",
      "hidden_size": 2048, "intermediate_size": 5120, "layer_group_size": 5, "linear_silu": false,
      "max_position_embeddings": 131072, "model_type": "bailing_moe_linear",
      "moe_intermediate_size": 512, "moe_router_enable_expert_bias": true,
      "moe_shared_expert_intermediate_size": 512, "n_group": 8, "norm_topk_prob": true,
      "num_attention_heads": 16, "num_experts": 256, "num_experts_per_tok": 8,
      "num_hidden_layers": 20, "num_key_value_heads": 4, "num_nextn_predict_layers": 0,
      "num_shared_experts": 1, "output_dropout": 0.0, "pad_token_id": 156892,
      "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-06, "use_qk_norm": true,
      "vocab_size": 157184})");
  const int64_t width = 2048;
  const int64_t lightning = 5 * width * width + width + 2 * 128;
  const int64_t attention = 2 * width * width + 2 * width * 512 + 2 * 128;
  const int64_t experts = 257 * 3 * width * 512 + 256 * width + 256;
  EXPECT_EQ(count, 16 * lightning + 4 * attention + 3 * width * 5120 + 19 * experts +
                       20 * 2 * width + 2 * 157184 * width + width);
  EXPECT_NEAR(static_cast<double>(count), 16.4e9, 0.005 * 16.4e9);
}

}  // namespace
}  // namespace parplan
