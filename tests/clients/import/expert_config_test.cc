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
