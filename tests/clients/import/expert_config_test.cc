#include "clients/import/expert_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

TEST(ReadExperts, LayersWithExpertsAreThoseOfNamesOrOfAFirstAndALast) {
  const struct {
    const char* change;
    const char* layers;
  } cases[] = {
      {R"({"mlp_layer_types": ["dense", "sparse", "sparse", "dense", "sparse", "sparse"]})",
       ".::.::"},
      {R"({"num_dense_layers": 2})", "..::::"},
      {R"({"moe_layer_start_index": 1, "moe_layer_end_index": 4})", ".::::."},
      {R"({"moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_layer_interval": 1})",
       ".:::::"},
      {R"({"moe_layer_interval": 2})", ".:.:.:"},
      // A mark for each layer.
      {R"({"moe_layer_freq": [0, 1, 1, 0, 1, 1]})", ".::.::"},
      {R"({"moe_layer_freq": [1, 1, 1, 1, 1, 1]})", "::::::"},
      {R"({"moe_layer_freq": 2})", ":.:.:."},
      {R"({"moe_layer_frequency": 2})", ".:.:.:"},
      {R"({"expert_layer_period": 2, "expert_layer_offset": 1})", ".:.:.:"},
      {R"({"is_moe_layer": [false, true, true, true, true, false],
           "first_last_k_dense_replace": 1})",
       ".::::."},
  };
  for (const auto& test : cases) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                         ImportConfigText(With(kMixture, test.change)));
    EXPECT_EQ(LayersOf(import.model), test.layers) << test.change;
  }
  for (const char* types : {R"(["dense"])", R"(["dense", "sparse", "dense", "sparse", "dense",
                                               "routed"])",
                            "3"}) {
    EXPECT_THAT(ImportConfigText(
                    With(kMixture, absl::StrCat(R"({"mlp_layer_types": )", types, "}").c_str()))
                    .status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mlp_layer_types")));
  }
}

TEST(ReadExperts, RulesThatNameNoLayersAreRefused) {
  for (const char* flags : {"[false, true]", "[0, 1, 1, 1, 1, 1]", "true"}) {
    EXPECT_THAT(
        ImportConfigText(With(kMixture, absl::StrCat(R"({"is_moe_layer": )", flags, "}").c_str()))
            .status()
            .ToString(),
        HasSubstr("config.json: is_moe_layer"));
  }
  for (const char* marks : {"[0, 1]", "[0, 1, 2, 1, 1, 1]"}) {
    EXPECT_THAT(
        ImportConfigText(With(kMixture, absl::StrCat(R"({"moe_layer_freq": )", marks, "}").c_str()))
            .status()
            .ToString(),
        HasSubstr("config.json: moe_layer_freq: must be a whole number, or 0 or 1 for each of"));
  }
  EXPECT_THAT(
      ImportConfigText(With(kMixture, R"({"expert_layer_period": 2, "expert_layer_offset": 5})"))
          .status()
          .ToString(),
      HasSubstr("config.json: expert_layer_offset: must be below expert_layer_period 2"));
}

TEST(ReadExperts, AFlagSaysWhetherThereAreSome) {
  EXPECT_EQ(ParametersOf(With(kMixture, R"({"use_moe": true})")), ParametersOf(kMixture));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                       ImportConfigText(With(kMixture, R"({"use_moe": false})")));
  EXPECT_EQ(LayersOf(import.model), "......");
  EXPECT_THAT(ImportConfigText(With(kGated, R"({"use_moe": true})")).status().ToString(),
              HasSubstr("config.json: num_experts: is required beside use_moe"));
}

// Fields of MiniMax-M2 about parts that no layer has.
TEST(ReadExperts, FieldsOfPartsThatNoLayerHasChangeNothing) {
  EXPECT_EQ(ParametersOf(With(kMixture, R"({"mlp_intermediate_size": 128,
                "shared_moe_mode": "sigmoid", "shared_intermediate_size": 0})")),
            ParametersOf(kMixture));
  // It is the width of dense layers.
  EXPECT_EQ(ParametersOf(With(kMixture, R"({"mlp_intermediate_size": 128,
                "first_k_dense_replace": 1})")),
            ParametersOf(With(kMixture, R"({"intermediate_size": 128,
                "first_k_dense_replace": 1})")));
  EXPECT_THAT(ImportConfigText(With(kMixture, R"({"shared_moe_mode": "sigmoid",
                  "shared_expert_intermediate_size": 16})"))
                  .status()
                  .ToString(),
              HasSubstr("config.json: shared_moe_mode: is not known"));
}

// Ling-mini-2.0 of inclusionAI, whose `model_type` transformers does not know. Published are 16.26
// billion parameters; by hand they are
//   tables         2 * 157,184 * 2,048                                          643,825,664
//   attention      20 * (2,048 * (16 + 2 * 4 + 16) * 128 + 2 * 128 + 2 * 2,048) 209,802,240
//   dense layer    3 * 2,048 * 5,120                                             31,457,280
//   expert layers  19 * (257 * 3 * 2,048 * 512 + 256 * (2,048 + 1))          15,370,556,160
//   last norm                                                                         2,048
TEST(ReadExperts, RouterBiasesOfBailingsMixturesAreRead) {
  constexpr char kLing[] = R"({"architectures": ["BailingMoeV2ForCausalLM"],
      "model_type": "bailing_moe", "attention_dropout": 0.0, "num_hidden_layers": 20,
      "hidden_size": 2048, "intermediate_size": 5120, "eos_token_id": 156892,
      "first_k_dense_replace": 1, "hidden_act": "silu", "max_position_embeddings": 32768,
      "moe_intermediate_size": 512, "norm_topk_prob": true, "num_experts_per_tok": 8,
      "num_attention_heads": 16, "num_experts": 256, "num_key_value_heads": 4,
      "rope_theta": 600000, "rope_scaling": null, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16", "use_bias": false, "use_rmsnorm": true, "rms_norm_eps": 1e-06,
      "head_dim": 128, "num_shared_experts": 1, "use_cache": true, "use_qkv_bias": false,
      "embedding_dropout": 0.0, "output_dropout": 0.0, "vocab_size": 157184,
      "partial_rotary_factor": 0.5, "router_dtype": "fp32",
      "moe_router_enable_expert_bias": true, "routed_scaling_factor": 2.5, "n_group": 8,
      "topk_group": 4, "use_qk_norm": true, "score_function": "sigmoid",
      "moe_shared_expert_intermediate_size": 512})";
  EXPECT_EQ(ParametersOf(kLing), 16255643392);
}

TEST(ReadExperts, NamesOfOtherFamiliesMeanTheSame) {
  const int64_t plain = ParametersOf(kMixture);
  for (const char* same : {
           R"({"num_experts_per_tok": null, "moe_k": 2})",
           R"({"num_experts_per_tok": null, "moe_topk": [2, 2, 2, 2, 2, 2]})",
           R"({"moe_intermediate_size": [16, 16, 16, 16, 16, 16]})",
           R"({"num_experts": null, "num_experts_per_tok": null, "moe_intermediate_size": null,
               "intermediate_size": null, "ffn_config": {"ffn_hidden_size": 16,
               "moe_num_experts": 8, "moe_top_k": 2, "moe_loss_weight": 0.05}})",
       }) {
    EXPECT_EQ(ParametersOf(With(kMixture, same)), plain) << same;
  }
  for (const char* name : {"num_shared_expert", "moe_num_shared_experts"}) {
    EXPECT_EQ(ParametersOf(With(kMixture, absl::StrCat(R"({")", name, R"(": 2})").c_str())) - plain,
              6 * 3 * 64 * 32);
  }
  EXPECT_EQ(ParametersOf(With(kMixture, R"({"use_routing_bias": true})")) - plain, 6 * 8);
  EXPECT_THAT(ImportConfigText(With(kMixture, R"({"moe_topk": [2, 3]})")).status().ToString(),
              HasSubstr("config.json: moe_topk: must be a whole number"));
  EXPECT_THAT(
      ImportConfigText(With(kMixture, R"({"ffn_config": {"moe_quux": 3}})")).status().ToString(),
      HasSubstr("config.json: ffn_config.moe_quux: is not known"));
}

}  // namespace
}  // namespace parplan
