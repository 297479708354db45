#include "clients/import/opaque_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr char kAll[] = R"({"*": {"parameterCount": 1000, "opaque": {}}})";

absl::StatusOr<HuggingFaceImport> Import(const std::string& config, const std::string& sizes) {
  const absl::StatusOr<GivenOpaqueLayers> opaque = ReadOpaqueLayers({"sizes.json", sizes});
  EXPECT_OK(opaque.status());
  return ImportHuggingFace({"config.json", config}, {}, *opaque);
}

// The models for which errors recommend `--opaque`: families that are not known, whose fields say
// neither whether layers are gated nor whether they are causal.
TEST(GivenOpaqueLayers, AllLayersOfAnUnknownFamilyCanBeOpaque) {
  const char* const configs[] = {
      R"({"model_type": "rwkv", "hidden_size": 64, "attention_hidden_size": 64,
          "num_hidden_layers": 3, "vocab_size": 100, "context_length": 32, "rescale_every": 6})",
      R"({"model_type": "griffin", "hidden_size": 64, "num_hidden_layers": 3,
          "vocab_size": 100, "block_types": ["recurrent", "attention"], "lru_width": 64,
          "attention_window_size": 16})",
      R"({"model_type": "zamba2", "hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 100,
          "layers_block_type": ["mamba", "hybrid", "mamba"], "mamba_d_state": 8,
          "num_mem_blocks": 2, "attention_head_dim": 16, "kv_channels": 32})",
      R"({"model_type": "deberta", "hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 100,
          "relative_attention": true, "max_relative_positions": -1, "num_attention_heads": 4})",
      R"({"model_type": "xlstm", "hidden_size": 64, "num_blocks": 3, "vocab_size": 100,
          "ffn_proj_factor": 2.667})",
      R"({"model_type": "new-elm", "model_dim": 64, "num_transformer_layers": 3,
          "vocab_size": 100, "ffn_multipliers": [0.5, 1, 2], "num_kv_heads": [3, 3, 4]})",
  };
  for (const char* config : configs) {
    SCOPED_TRACE(config);
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(config, kAll));
    EXPECT_EQ(LayersOf(import.model), "ooo");
    EXPECT_EQ(import.model.layer_definitions(1).hidden_size(), 64);
    EXPECT_EQ(import.model.layer_definitions(1).parameter_count(), 1000);
    EXPECT_THAT(import.notes, Contains(HasSubstr("is not known; all its layers are opaque")));
  }
  // So can those of a family that is known.
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport known,
      Import(R"({"model_type": "recurrent_gemma", "hidden_size": 64, "num_hidden_layers": 3,
                 "vocab_size": 100, "block_types": ["recurrent", "attention"], "lru_width": 64})",
             kAll));
  EXPECT_EQ(LayersOf(known.model), "ooo");
  EXPECT_EQ(known.model.layer_definitions(1).parameter_count(), 1000);
  // Fields that nothing read are noted.
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(configs[0], kAll));
  EXPECT_THAT(import.notes, Contains(HasSubstr("not read, since --opaque gives the sizes of all "
                                               "layers: rescale_every")));
}

TEST(GivenOpaqueLayers, ErrorsHaveTheLineOfTheFileAndTheKind) {
  const auto error = [](const char* text) {
    return ReadOpaqueLayers({"sizes.json", text}).status().ToString();
  };
  EXPECT_THAT(error("{\"conv\": {\"opaque\": {}},\n\"rest\": {\n \"opaque\": "
                    "{\"keptBytesPerSampel\": 5}}}"),
              HasSubstr("sizes.json:3: rest.opaque.keptBytesPerSampel: no such field"));
  EXPECT_THAT(error("{\n\"conv\": {\"fields\": [],\n\"parameterCount\": true}}"),
              HasSubstr("sizes.json:3: conv.parameterCount: must be a whole number"));
  EXPECT_THAT(error("{\n\n\"conv\": {\"parameterCount\": 5}}"),
              HasSubstr("sizes.json:3: conv.opaque: is required"));
  EXPECT_THAT(error("{\n\"conv\": {\n\n\"fields\": [1]}}"),
              HasSubstr("sizes.json:4: conv.fields: must be a list"));
  EXPECT_THAT(error("{\"conv\": {\"opaque\": {}},\n\"conv\": {\"opaque\": {}}}"),
              HasSubstr("sizes.json:2: "));
}

TEST(GivenOpaqueLayers, TheFamilyMattersOnlyIfAnotherKindIsLeft) {
  constexpr char kKinds[] = R"({"model_type": "brand-new",
      "layer_types": ["conv", "other", "conv"], "num_quuxes": 2})";
  const std::string config = With(kGated, kKinds);
  constexpr char kBoth[] = R"({"conv": {"opaque": {}}, "other": {"opaque": {}}})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(config, kBoth));
  EXPECT_EQ(LayersOf(import.model), "ooo");
  EXPECT_THAT(
      Import(With(config.c_str(), R"({"layer_types": ["conv", "full_attention", "conv"]})"), kBoth)
          .status()
          .ToString(),
      HasSubstr("config.json: model_type: `brand-new` is not known"));
}

// LFM2: short convolutions between layers of attention, whose width follows Llama's rule.
TEST(GivenOpaqueLayers, LayersOfAttentionBetweenOpaqueOnesAreRead) {
  const std::string config =
      With(kGated, R"({"model_type": "lfm2", "block_auto_adjust_ff_dim": true,
      "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 8, "block_ff_dim": 96,
      "block_dim": 64, "block_use_swiglu": true, "block_mlp_init_scale": 1.0,
      "block_use_xavier_init": true, "num_heads": 4, "conv_L_cache": 3,
      "layer_types": ["conv", "full_attention", "conv"]})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                       Import(config, R"({"conv": {"fields": ["conv_L_cache"], "opaque": {}}})"));
  EXPECT_EQ(LayersOf(import.model), "o.o");
  EXPECT_EQ(import.model.layer_definitions(2).feed_forward_size(), 64);
  EXPECT_TRUE(import.model.layer_definitions(3).tied_embedding());
}

TEST(GivenOpaqueLayers, StandForNoModelThatIsReadByRulesOfItsOwn) {
  EXPECT_THAT(Import(R"({"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 96, "num_heads": 4,
                         "num_layers": 2, "vocab_size": 100})",
                     kAll)
                  .status()
                  .ToString(),
              HasSubstr("config.json: model_type: `t5` is read by rules of its own"));
}

}  // namespace
}  // namespace parplan
