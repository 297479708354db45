#include "clients/import/layer_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(ReadLayerLayout, WindowsHaveManyNames) {
  const struct {
    const char* change;
    const char* layers;
  } cases[] = {
      {R"({"model_type": "gpt_neo", "window_size": 16,
           "attention_layers": ["global", "local", "global"]})",
       ".w."},
      {R"({"model_type": "cohere2", "sliding_window": 16, "layer_switch": 2,
           "order_of_interleaved_layers": "local_attn_first"})",
       "w.w"},
      // The last layer reads all tokens, unlike that of a number.
      {R"({"model_type": "exaone4", "sliding_window": 16, "sliding_window_pattern": "LG"})", "w.."},
      {R"({"model_type": "exaone4", "sliding_window": 16, "sliding_window_pattern": 2})", "w.w"},
      // Without a window letters mean nothing.
      {R"({"model_type": "exaone4", "sliding_window_pattern": "LLLG"})", "..."},
      {R"({"model_type": "exaone4", "sliding_window": 16, "use_sliding_window": false,
           "sliding_window_pattern": "LG"})",
       "..."},
      // 15 tokens on either side, and itself.
      {R"({"model_type": "modernbert", "local_attention": 30, "global_attn_every_n_layers": 2,
           "num_key_value_heads": null})",
       ".w."},
      {R"({"model_type": "minimax_m2", "attn_type_list": [1, 1, 1]})", "..."},
      {R"({"sliding_window": 16, "global_attn_every_n_layers": 3})", "ww."},
  };
  for (const auto& test : cases) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                         ImportConfigText(With(kGated, test.change)));
    EXPECT_EQ(LayersOf(import.model), test.layers) << test.change;
  }
}

TEST(ReadLayerLayout, LayersOfEncodersAreNamedSo) {
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport import,
      ImportConfigText(With(kGated, R"({"model_type": "modernbert", "local_attention": 30,
          "global_attn_every_n_layers": 2, "num_key_value_heads": null})")));
  EXPECT_EQ(import.model.layer_runs(1).layer_definition_id(), "encoder");
  EXPECT_EQ(import.model.layer_runs(2).layer_definition_id(), "encoder-window");
  EXPECT_EQ(import.model.layer_definitions(2).kind(), v1::LAYER_KIND_ENCODER);
}

// Files that newer releases of transformers wrote: they call state spaces linear attention, and the
// list of layers says how many there are.
TEST(ReadLayerLayout, ListsOfLayersSayTheirNumber) {
  constexpr char kHybrid[] = R"({"model_type": "nemotron_h", "num_hidden_layers": null,
      "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp"],
      "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 4, "n_groups": 1,
      "conv_kernel": 4, "chunk_size": 16, "num_nextn_predict_layers": 0,
      "mtp_layers_block_type": ["full_attention"]})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(With(kGated, kHybrid)));
  EXPECT_EQ(LayersOf(import.model), "sf.f");
  EXPECT_EQ(ParametersOf(With(kGated, kHybrid)),
            ParametersOf(With(With(kGated, kHybrid).c_str(),
                              R"({"layers_block_type": null, "num_hidden_layers": 4,
                                  "hybrid_override_pattern": "M-*-"})")));
  EXPECT_THAT(ImportConfigText(With(kGated, R"({"num_hidden_layers": null})")).status().ToString(),
              HasSubstr("config.json: num_hidden_layers: is required"));
}

// A letter is one part, also if the pattern has no letter for feed-forward parts.
TEST(ReadLayerLayout, LettersAreSingleParts) {
  constexpr char kPattern[] = R"({"model_type": "nemotron_h", "num_hidden_layers": 4,
      "hybrid_override_pattern": "MM*M", "mamba_num_heads": 8, "mamba_head_dim": 16,
      "ssm_state_size": 4, "n_groups": 1, "conv_kernel": 4, "chunk_size": 16})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(With(kGated, kPattern)));
  EXPECT_EQ(LayersOf(import.model), "ss.s");
  for (const v1::LayerDefinition& layer : import.model.layer_definitions()) {
    const bool is_end =
        layer.kind() == v1::LAYER_KIND_EMBEDDING || layer.kind() == v1::LAYER_KIND_HEAD;
    EXPECT_TRUE(is_end || layer.feed_forward_kind() == v1::FEED_FORWARD_KIND_NONE)
        << layer.layer_definition_id();
  }
}

TEST(ReadLayerLayout, WindowsOfGptNeoHaveEitherName) {
  constexpr char kLocal[] = R"({"attention_layers": ["global", "local", "global"]})";
  const std::string config = With(kGated, kLocal);
  for (const char* window : {R"({"window_size": 16})", R"({"sliding_window": 16})"}) {
    EXPECT_OK(ImportConfigText(With(config.c_str(), window)).status()) << window;
  }
}

TEST(ReadLayerLayout, RefusesByTheFieldThatSaysIt) {
  const struct {
    const char* change;
    const char* field;
  } cases[] = {
      {R"({"layer_types": ["full_attention", "linear_attention", "full_attention"]})",
       "layer_types[1]: `linear_attention`"},
      {R"({"attn_type_list": [1]})", "attn_type_list: must have an entry for each"},
      {R"({"sliding_window": 16, "sliding_window_pattern": "LX"})",
       "sliding_window_pattern: must be a whole number, or letters"},
      {R"({"order_of_interleaved_layers": "global_first"})",
       "order_of_interleaved_layers: must be"},
      {R"({"attention_layers": ["global", "local", "global"]})", "window_size: is required"},
      {R"({"mamba_d_ssm": 64})", "mamba_d_ssm: is of a state space"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(With(kGated, test.change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("config.json: ", test.field))))
        << test.change;
  }
}

// Granite 4.0 Micro and 350M have the sizes of the state spaces of the hybrid models.
TEST(ReadLayerLayout, AListOfAttentionAloneLeavesStateSpacesOut) {
  constexpr char kDense[] = R"({"model_type": "granitemoehybrid", "num_local_experts": 0,
      "num_experts_per_tok": 0, "shared_intermediate_size": 96,
      "layer_types": ["attention", "attention", "attention"]})";
  const std::string dense = With(kGated, kDense);
  const std::string silent = With(dense.c_str(), R"({"mamba_chunk_size": 256,
      "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": 8, "mamba_d_state": 256,
      "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 16, "mamba_proj_bias": false})");
  EXPECT_EQ(ParametersOf(silent), ParametersOf(dense));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(silent));
  EXPECT_EQ(LayersOf(import.model), "...");
  EXPECT_THAT(import.notes, Contains(HasSubstr("mamba_d_state 256: no layer has a state space")));
}

// Decoders of texts that were made encoders: gte-Qwen2, EmbeddingGemma.
TEST(ReadsBothWays, MakesLayersThoseOfAnEncoder) {
  for (const char* change :
       {R"({"is_causal": false})", R"({"causal": false})",
        R"({"use_bidirectional_attention": true})", R"({"use_bidirectional_attention": "all"})"}) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(With(kGated, change)));
    EXPECT_EQ(import.model.layer_definitions(1).kind(), v1::LAYER_KIND_ENCODER) << change;
    EXPECT_THAT(import.notes, Contains(HasSubstr("attention reads the whole sequence"))) << change;
  }
  for (const char* change :
       {R"({"is_causal": true})", R"({"use_bidirectional_attention": "vision"})"}) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(With(kGated, change)));
    EXPECT_EQ(import.model.layer_definitions(1).kind(), v1::LAYER_KIND_DECODER) << change;
  }
  EXPECT_THAT(
      ImportConfigText(With(kGated, R"({"is_causal": true, "use_bidirectional_attention": true})"))
          .status()
          .ToString(),
      HasSubstr("config.json: use_bidirectional_attention: contradicts is_causal"));
  // Half of Gemma 3's window is on either side.
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport import,
      ImportConfigText(With(kGated, R"({"model_type": "gemma3_text", "head_dim": 16,
          "sliding_window": 30, "use_bidirectional_attention": true,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})")));
  EXPECT_EQ(LayersOf(import.model), "w.w");
}

// Kimi Linear's own names: places from 1, and an object with the sizes.
constexpr char kByPlaces[] = R"({"model_type": "kimi_linear", "kv_lora_rank": 16,
    "qk_nope_head_dim": 12, "qk_rope_head_dim": 4, "v_head_dim": 8, "head_dim": 16,
    "mla_use_nope": true, "num_expert_group": 1, "moe_router_activation_func": "sigmoid",
    "linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1, 2], "head_dim": 8,
                           "num_heads": 4, "short_conv_kernel_size": 4}})";

TEST(ReadLayerLayout, LayersMayBeListedByTheirPlaces) {
  const std::string config = With(kGated, kByPlaces);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "ss.");
  const v1::LayerDefinition& layer = import.model.layer_definitions(1);
  EXPECT_EQ(layer.state_space().inner_size(), 32);
  EXPECT_EQ(layer.state_space().head_count(), 4);
  EXPECT_THAT(import.notes, Contains(HasSubstr("parameters of Kimi Delta Attention")));
  // Queries, keys, values and the product back; a number a head; the narrow products of decays and
  // gate; convolutions; first values of the decays; norms of a head and of the layer.
  const int64_t mixer = 4 * 64 * 32 + 64 * 4 + 2 * (64 * 8 + 8 * 32) + 3 * 32 * 4 + 32 + 4 + 8 + 64;
  EXPECT_EQ(layer.parameter_count(), mixer + 3 * 64 * 96 + 64);
  // The names of newer files.
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"linear_attn_config": null,
                "layer_types": ["linear_attention", "linear_attention", "full_attention"],
                "linear_num_heads": 4, "linear_head_dim": 8, "linear_conv_kernel_dim": 4})")),
            ParametersOf(config));
}

TEST(ReadLayerLayout, ListsOfPlacesHaveEachLayerOnce) {
  const struct {
    const char* lists;
    const char* message;
  } cases[] = {
      {R"("full_attn_layers": [3], "kda_layers": [1])", "kda_layers: must have each layer that"},
      {R"("full_attn_layers": [3], "kda_layers": [1, 2, 3])",
       "kda_layers: must have each of the 3"},
      {R"("full_attn_layers": [4], "kda_layers": [1, 2, 3])",
       "full_attn_layers: must have each of"},
      {R"("full_attn_layers": [0], "kda_layers": [1, 2, 3])", "full_attn_layers[0]: "},
      {R"("full_attn_layers": 3, "kda_layers": [1, 2])", "full_attn_layers: must be a list"},
      {R"("full_attn_layers": [3], "kda_layers": [1, 2], "num_quuxes": 2)", "num_quuxes: is not"},
      {R"("full_attn_layers": [3], "kda_layers": [1, 2], "num_heads": 0)", "num_heads: "},
  };
  for (const auto& test : cases) {
    const std::string change = absl::StrCat(
        R"({"linear_attn_config": {"head_dim": 8, "num_heads": 4, "short_conv_kernel_size": 4, )",
        test.lists, "}}");
    EXPECT_THAT(
        ImportConfigText(With(With(kGated, kByPlaces).c_str(), change.c_str())).status().ToString(),
        HasSubstr(absl::StrCat("config.json: linear_attn_config.", test.message)))
        << test.lists;
  }
}

}  // namespace
}  // namespace parplan
