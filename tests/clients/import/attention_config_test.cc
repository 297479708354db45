#include "clients/import/attention_config.h"

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

// Mistral's class has 8 of them where the config is silent, and Llama's one a head.
TEST(ReadHeads, KeyValueHeadsThatAreAbsentAreThoseOfTheFamily) {
  constexpr char kSilent[] = R"({"num_attention_heads": 16, "num_key_value_heads": null})";
  for (const char* const family :
       {R"({"model_type": "mistral"})", R"({"model_type": "mixtral", "num_local_experts": 4,
                                            "num_experts_per_tok": 2})"}) {
    const std::string base = With(kGated, family);
    const std::string silent = With(base.c_str(), kSilent);
    EXPECT_EQ(ParametersOf(silent),
              ParametersOf(With(silent.c_str(), R"({"num_key_value_heads": 8})")))
        << family;
  }
  const std::string llama = With(kGated, kSilent);
  EXPECT_EQ(ParametersOf(llama),
            ParametersOf(With(llama.c_str(), R"({"num_key_value_heads": 16})")));
}

// The first files of Falcon-7B, and of Falcon-40B, which leave its later architecture unsaid.
TEST(ReadHeads, FalconsFirstNameMeansTheSame) {
  constexpr char kFalcon[] = R"({"model_type": "falcon", "hidden_size": 64, "n_head": 4,
      "n_layer": 3, "vocab_size": 100, "multi_query": true, "parallel_attn": true, "bias": false,
      "alibi": false})";
  EXPECT_EQ(ParametersOf(With(kFalcon, R"({"model_type": "RefinedWebModel"})")),
            ParametersOf(kFalcon));
  EXPECT_EQ(
      ParametersOf(With(kFalcon, R"({"model_type": "RefinedWeb", "n_head_kv": 2})")),
      ParametersOf(With(kFalcon, R"({"new_decoder_architecture": true, "num_kv_heads": 2})")));
}

TEST(ReadHeads, MegatronsNamesMeanTheSameAndMustAgree) {
  const int64_t wide = ParametersOf(With(kGated, R"({"head_dim": 32})"));
  EXPECT_EQ(ParametersOf(With(kGated, R"({"head_dim": 32, "kv_channels": 32})")), wide);
  for (const char* name : {"kv_channels", "attention_head_size"}) {
    EXPECT_EQ(ParametersOf(With(kGated, absl::StrCat(R"({")", name, R"(": 16})").c_str())),
              ParametersOf(kGated));
    // Alone, another size shows another structure: JetMoE's attention has experts.
    EXPECT_THAT(ImportConfigText(With(kGated, absl::StrCat(R"({")", name, R"(": 32})").c_str()))
                    .status()
                    .ToString(),
                HasSubstr(absl::StrCat("config.json: ", name, ": must be the width over")));
  }
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

}  // namespace
}  // namespace parplan
