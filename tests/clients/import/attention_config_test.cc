#include "clients/import/attention_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// MiniCPM3's files do not have the size of a head of the values.
TEST(ReadHeads, HeadsOfValuesShareTheWidthInMiniCpm3) {
  constexpr char kSilent[] = R"({"model_type": "minicpm3", "v_head_dim": null,
      "n_routed_experts": null, "n_shared_experts": null, "first_k_dense_replace": null,
      "num_experts_per_tok": null, "moe_intermediate_size": null})";
  const std::string config = With(kLatent, kSilent);
  EXPECT_EQ(ParametersOf(config), ParametersOf(With(config.c_str(), R"({"v_head_dim": 16})")));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("v_head_dim 16 is hidden_size over the number")));
  // DeepSeek's say it.
  EXPECT_THAT(ImportConfigText(With(kLatent, R"({"v_head_dim": null})")).status().ToString(),
              HasSubstr("config.json: v_head_dim: is required"));
}

TEST(ReadHeads, MegatronsNamesMeanTheSameAndMustAgree) {
  EXPECT_EQ(ParametersOf(With(kGated, R"({"kv_channels": 32})")),
            ParametersOf(With(kGated, R"({"head_dim": 32})")));
  EXPECT_EQ(ParametersOf(With(kGated, R"({"attention_head_size": 32})")),
            ParametersOf(With(kGated, R"({"head_dim": 32})")));
  EXPECT_EQ(ParametersOf(With(kGated, R"({"num_key_value_heads": null, "num_query_groups": 2})")),
            ParametersOf(kGated));
  EXPECT_EQ(ParametersOf(With(kGated, R"({"num_query_groups": 0})")), ParametersOf(kGated));
  EXPECT_THAT(
      ImportConfigText(With(kGated, R"({"head_dim": 16, "kv_channels": 32})")).status().ToString(),
      HasSubstr("config.json: kv_channels: contradicts head_dim, which says 16"));
  EXPECT_THAT(
      ImportConfigText(With(kGated, R"({"num_query_groups": 4})")).status().ToString(),
      HasSubstr("config.json: num_query_groups: contradicts num_key_value_heads, which says 2"));
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

}  // namespace
}  // namespace parplan
