#include "clients/import/layer_variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "clients/import/hugging_face.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Four layers of 64, of which the second and third see a window.
constexpr char kFour[] = R"({"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 1000, "intermediate_size": 96, "head_dim": 24,
    "max_position_embeddings": 32, "sliding_window": 8, "rms_norm_eps": 1e-6,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]})";
constexpr int64_t kWidth = 64;
constexpr int64_t kWords = 1000 * kWidth;
constexpr int64_t kGatedPart = 3 * kWidth * 96;

std::string Four(const char* model_type, const std::string& change) {
  const std::string named = std::string(R"({"model_type": ")") + model_type + R"("})";
  return With(With(kFour, named.c_str()).c_str(), change.c_str());
}

// Queries of 4 heads of 24 and output of 4 of 16; keys of 24 and values of 16 of one group, and of
// two where there is a window, with a sink a head.
TEST(LayerVariants, MiMoHasOtherHeadsInWindows) {
  const std::string config =
      Four("mimo_v2_flash", R"({"v_head_dim": 16, "num_key_value_heads": 1, "layer_types": null,
          "hybrid_layer_pattern": [0, 1, 1, 0], "attention_value_scale": 0.707,
          "add_swa_attention_sink_bias": true, "swa_num_key_value_heads": 2, "swa_head_dim": 24,
          "swa_v_head_dim": 16, "swa_num_attention_heads": 4, "attention_chunk_size": 8,
          "sliding_window_size": 8})");
  const int64_t whole = kWidth * (4 * 24 + 4 * 16 + 24 + 16);
  const int64_t window = kWidth * (4 * 24 + 4 * 16 + 2 * 24 + 2 * 16) + 4;
  EXPECT_EQ(ParametersOf(config),
            2 * whole + 2 * window + 4 * (kGatedPart + 2 * kWidth) + 2 * kWords + kWidth);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("v_head_dim 16: the layers have the parameters")));
  const v1::LayerDefinition& second = import.model.layer_definitions(2);
  EXPECT_EQ(second.layer_definition_id(), "decoder-2-groups-window");
  // The token itself, and eight before it.
  EXPECT_EQ(second.attention_window(), 9);
  // MiMoV2FlashConfig saves the window as its size plus 1, beside that size.
  const std::string saved = With(config.c_str(), R"({"sliding_window": 9})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport again, ImportConfigText(saved));
  EXPECT_EQ(again.model.SerializeAsString(), import.model.SerializeAsString());
  const std::string alone = With(config.c_str(), R"({"sliding_window_size": null})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport plain, ImportConfigText(alone));
  EXPECT_EQ(plain.model.layer_definitions(2).attention_window(), 8);
  EXPECT_EQ(second.key_value_head_count(), 2);
  EXPECT_EQ(second.head_size(), 24);
}

// The class has values of 128 whatever the width of keys.
TEST(LayerVariants, MiMoHasValuesOf128UnlessAFieldGivesThem) {
  const std::string config = Four("mimo_v2_flash", R"({"head_dim": 192})");
  EXPECT_EQ(ParametersOf(config), ParametersOf(With(config.c_str(), R"({"v_head_dim": 128})")));
}

// Heads of 48 and one group where there is no window, whose keys are the values.
TEST(LayerVariants, GemmaFourHasWiderHeadsWithoutWindows) {
  const std::string config =
      Four("gemma4_text", R"({"global_head_dim": 48, "num_global_key_value_heads": 1,
          "attention_k_eq_v": true, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0})");
  const int64_t whole = kWidth * (2 * 4 * 48 + 48) + 2 * 48;
  const int64_t window = kWidth * (2 * 4 * 24 + 2 * 2 * 24) + 2 * 24;
  const int64_t rest = 4 * (kGatedPart + 4 * kWidth) + kWords + kWidth;
  EXPECT_EQ(ParametersOf(config), 2 * whole + 2 * window + rest);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("attention_k_eq_v")));
  EXPECT_EQ(LayersOf(import.model), "....");
  const v1::LayerDefinition& first = import.model.layer_definitions(1);
  EXPECT_EQ(first.head_size(), 48);
  EXPECT_EQ(first.key_value_head_count(), 1);
  // The dense part beside two experts of 32, three norms, and scales of the router.
  const std::string mixed =
      With(config.c_str(), R"({"enable_moe_block": true, "num_experts": 2, "top_k_experts": 1,
                          "moe_intermediate_size": 32})");
  EXPECT_EQ(ParametersOf(mixed) - ParametersOf(config),
            4 * (2 * 3 * kWidth * 32 + 2 * kWidth + 4 * kWidth + 2));
  // The class has no experts unless the switch is on.
  const std::string off = With(mixed.c_str(), R"({"enable_moe_block": null})");
  EXPECT_EQ(ParametersOf(off), ParametersOf(config));
  // The newer list of the same sizes.
  const std::string listed =
      With(config.c_str(), R"({"global_head_dim": null, "num_global_key_value_heads": null,
          "per_layer_config": {"0": {"head_dim": 48, "num_key_value_heads": 1},
                               "3": {"head_dim": 48, "num_key_value_heads": 1}}})");
  EXPECT_EQ(ParametersOf(listed), ParametersOf(config));
}

// The last two layers read the keys and values of the first two; each has a vector of 8.
TEST(LayerVariants, LayersThatPassMoreThanTheirOutputAreOpaque) {
  const std::string config =
      Four("gemma4_text", R"({"global_head_dim": 48, "hidden_size_per_layer_input": 8,
          "vocab_size_per_layer_input": 500, "num_kv_shared_layers": 2,
          "use_double_wide_mlp": true})");
  const int64_t whole = kWidth * (2 * 4 * 48) + 48;
  const int64_t whole_keys = kWidth * (2 * 2 * 48) + 48;
  const int64_t window = kWidth * (2 * 4 * 24) + 24;
  const int64_t window_keys = kWidth * (2 * 2 * 24) + 24;
  const int64_t narrow = 2 * kWidth * 8 + kWidth;
  const int64_t table = (500 + kWidth) * 4 * 8 + 8;
  EXPECT_EQ(ParametersOf(config), 2 * whole + whole_keys + 2 * window + window_keys +
                                      4 * (narrow + 4 * kWidth) + 6 * kGatedPart + table + kWords +
                                      kWidth);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "oooo");
  // The output, four vectors, and keys and values of two layers.
  const int64_t passed = kWidth + 4 * 8 + 2 * 2 * 48 + 2 * 2 * 24;
  const v1::OpaqueLayer& opaque = import.model.layer_definitions(1).opaque();
  EXPECT_EQ(opaque.boundary_bytes_per_sample(), 2 * 32 * passed);
  EXPECT_GE(opaque.kept_bytes_per_sample(), opaque.boundary_bytes_per_sample());
  EXPECT_THAT(import.notes, Contains(HasSubstr("num_kv_shared_layers")));
}

// Three further streams of the width, with products at both ends.
TEST(LayerVariants, GemmaThreeNHasStreams) {
  const std::string config =
      Four("gemma3n_text", R"({"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 500,
          "num_kv_shared_layers": 0, "altup_num_inputs": 4, "laurel_rank": 2,
          "intermediate_size": [96, 96, 96, 96], "activation_sparsity_pattern": [0.95, 0, 0, 0],
          "altup_active_idx": 0, "altup_coef_clip": 120.0, "altup_correct_scale": true})");
  const int64_t attention = kWidth * (2 * 4 * 24 + 2 * 2 * 24) + 2 * 24;
  const int64_t streams = 2 * kWidth + 4 * kWidth + 16 + 64 + 2 * kWidth * 2 + kWidth;
  const int64_t narrow = 2 * kWidth * 8 + kWidth;
  EXPECT_EQ(ParametersOf(config), 4 * (attention + kGatedPart + 4 * kWidth + narrow + streams) +
                                      (500 + kWidth) * 4 * 8 + 8 + 2 * 3 * kWidth * kWidth +
                                      kWords + kWidth);
}

TEST(LayerVariants, ErrorsNameTheField) {
  const struct {
    const char* model_type;
    const char* change;
    const char* message;
  } cases[] = {
      {"mimo_v2_flash", R"({"swa_num_key_value_heads": 3})",
       "swa_num_key_value_heads: must divide the number of heads 4"},
      {"mimo_v2_flash", R"({"swa_num_attention_heads": 8})", "swa_num_attention_heads: must be"},
      {"mimo_v2_flash", R"({"swa_head_dim": 16777216})", "swa_head_dim: times the number of heads"},
      {"mimo_v2_flash", R"({"v_head_dim": 16777216})", "v_head_dim: times the number of heads"},
      {"mimo_v2_flash", R"({"swa_v_head_dim": 4194305})",
       "swa_v_head_dim: times the number of heads must be at most 16777216"},
      // Products of these sizes are 2^64 and 2^72.
      {"mimo_v2_flash", R"({"hidden_size": 1048576, "num_attention_heads": 1048576,
          "num_key_value_heads": 1048576, "swa_num_key_value_heads": 1048576,
          "swa_num_attention_heads": 1048576, "head_dim": 16, "swa_head_dim": 16,
          "v_head_dim": 8388624, "swa_v_head_dim": 8388624})",
       "v_head_dim: times the number of heads"},
      {"gemma4_text", R"({"hidden_size": 16777216, "head_dim": 1, "global_head_dim": 16777216,
          "num_attention_heads": 16777216, "num_key_value_heads": 16777216,
          "attention_k_eq_v": true})",
       "global_head_dim: times the number of heads"},
      {"gemma4_text", R"({"num_kv_shared_layers": 4})",
       "num_kv_shared_layers: must be below the 4 layers"},
      {"gemma4_text", R"({"num_kv_shared_layers": 3})",
       "num_kv_shared_layers: 3 leaves no layer with a window that has keys"},
      {"gemma3n_text", R"({"num_kv_shared_layers": 2, "layer_types": ["sliding_attention",
          "sliding_attention", "full_attention", "sliding_attention"]})",
       "num_kv_shared_layers: 2 leaves no layer without a window"},
      {"mimo_v2_flash", R"({"layer_types": null, "hybrid_layer_pattern": [0, 1, 2, 0]})",
       "hybrid_layer_pattern: must be 0 or 1 for each layer"},
      {"minimax_text_01", R"({"layer_types": null, "attn_type_list": [0, 0, 2, 1]})",
       "attn_type_list: must be 0 or 1 for each layer"},
      {"gemma4_text", R"({"attention_k_eq_v": true, "num_global_key_value_heads": 3})",
       "num_global_key_value_heads: must divide"},
      {"gemma4_text", R"({"per_layer_config": {"4": {"head_dim": 8}}})",
       "per_layer_config.4: must be an object, and its name a layer below 4"},
      {"gemma4_text", R"({"per_layer_config": {"0": {"quux_dim": 8}}})", "quux_dim"},
      {"gemma3n_text", R"({"altup_num_inputs": 65, "num_kv_shared_layers": 0})",
       "altup_num_inputs: must be at most 64"},
      {"llama", R"({"num_kv_shared_layers": 2})", "num_kv_shared_layers: is of layers that read"},
      {"llama", R"({"v_head_dim": 8})", "v_head_dim: is of multi-head latent attention"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(Four(test.model_type, test.change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.message)))
        << test.change;
  }
}

// Layers of MiniMax: linear attention with a gate and a norm, and attention with groups.
TEST(LayerVariants, MiniMaxHasFixedDecays) {
  const std::string experts = R"("num_local_experts": 2, "num_experts_per_tok": 1,)";
  const std::string numbers =
      Four("minimax_text_01", "{" + experts + R"("layer_types": null, "sliding_window": null,
               "attn_type_list": [0, 0, 0, 1], "layernorm_full_attention_alpha": 3.5})");
  const int64_t linear = 5 * kWidth * 4 * 24 + 4 * 24;
  const int64_t attention = kWidth * (2 * 4 * 24 + 2 * 2 * 24);
  const int64_t mixture = 2 * kGatedPart + 2 * kWidth;
  EXPECT_EQ(ParametersOf(numbers),
            3 * linear + attention + 4 * (mixture + 2 * kWidth) + 2 * kWords + kWidth);
  const std::string names =
      Four("minimax", "{" + experts + R"("sliding_window": null, "block_size": 16,
               "layer_types": ["linear_attention", "linear_attention", "linear_attention",
                               "full_attention"],
               "linear_attn_alpha_factor": 3.5, "linear_attn_beta_factor": 1})");
  EXPECT_EQ(ParametersOf(names), ParametersOf(numbers));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(names));
  EXPECT_THAT(import.notes, Contains(HasSubstr("parameters of Lightning Attention")));
  EXPECT_EQ(import.model.layer_definitions(1).state_space().chunk_size(), 16);
}

// Two recurrences and one layer of attention, again and again; the feed-forward part is half as
// wide as the field says.
TEST(LayerVariants, RecurrentGemmaHasOpaqueRecurrences) {
  const std::string config =
      Four("recurrent_gemma", R"({"layer_types": null, "sliding_window": null, "head_dim": 16,
          "attention_bias": false, "intermediate_size": 192, "lru_width": 80, "conv1d_width": 4,
          "block_types": ["recurrent", "recurrent", "attention"], "attention_window_size": 8,
          "logits_soft_cap": 30.0})");
  const int64_t part = kGatedPart + 2 * 96 + kWidth + kWidth;
  const int64_t recurrence =
      3 * kWidth * 80 + 2 * 80 + 2 * kWidth + 80 * 5 + 2 * (80 * 20 + 80) + 80;
  const int64_t attention = kWidth * (2 * 64 + 2 * 32) + 2 * kWidth;
  EXPECT_EQ(ParametersOf(config), 3 * recurrence + attention + 4 * part + kWords + kWidth);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(import.model.layer_definitions(1).layer_definition_id(), "recurrence");
  EXPECT_THAT(import.notes, Contains(HasSubstr("recurrences of 80 channels: their layers are")));
  EXPECT_THAT(ImportConfigText(With(config.c_str(), R"({"lru_width": 81})")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lru_width: must be a")));
}

// The rules are those of the classes of transformers: layers that read all tokens are the first and
// every sixth of MiMo-V2, whose first layer is dense, and every second of MiniMax from the first;
// RecurrentGemma's third of each three has attention, with a window of 2,048.
TEST(LayerVariants, FamiliesHaveTheirRuleWithoutAList) {
  const std::string mimo = Four("mimo_v2_flash",
                                R"({"layer_types": null, "num_hidden_layers": 7, "v_head_dim": 24,
          "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32,
          "sliding_window": 16})");
  const std::string mimo_lists =
      With(mimo.c_str(), R"({"hybrid_layer_pattern": [0, 1, 1, 1, 1, 0, 1],
                             "moe_layer_freq": [0, 1, 1, 1, 1, 1, 1]})");
  const std::string minimax = Four("minimax", R"({"layer_types": null, "sliding_window": null,
                          "num_local_experts": 2, "num_experts_per_tok": 1})");
  const std::string minimax_lists = With(minimax.c_str(), R"({"layer_types": ["full_attention",
      "linear_attention", "full_attention", "linear_attention"]})");
  const std::string gemma =
      Four("recurrent_gemma", R"({"layer_types": null, "sliding_window": null, "head_dim": 16,
                                  "intermediate_size": 192})");
  const std::string gemma_lists =
      With(gemma.c_str(), R"({"block_types": ["recurrent", "recurrent", "attention"],
                              "attention_window_size": 2048})");
  const std::pair<std::string, std::string> pairs[] = {
      {mimo, mimo_lists}, {minimax, minimax_lists}, {gemma, gemma_lists}};
  for (const auto& [silent, listed] : pairs) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport by_rule, ImportConfigText(silent));
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport by_list, ImportConfigText(listed));
    EXPECT_EQ(by_rule.model.SerializeAsString(), by_list.model.SerializeAsString()) << silent;
  }
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(mimo));
  EXPECT_EQ(LayersOf(import.model), ".WWWW:W");
  // Files of MiniMax's own code have no such rule.
  const std::string first = With(minimax.c_str(), R"({"model_type": "minimax_text_01"})");
  EXPECT_THAT(ImportConfigText(first).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                                         HasSubstr("attn_type_list: is required")));
}

}  // namespace
}  // namespace parplan
