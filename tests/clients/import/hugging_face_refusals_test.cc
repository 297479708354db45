// What is refused, and by which field.

#include "clients/import/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ImportHuggingFace, ErrorsNameFileAndField) {
  EXPECT_THAT(ImportConfigText("[]").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("config.json: must hold one JSON object")));
  EXPECT_THAT(ImportConfigText("{").status().ToString(), HasSubstr("config.json: must be JSON"));
  EXPECT_THAT(ImportConfigText(R"({"model_type": "mamba"})").status().ToString(),
              HasSubstr("config.json: num_hidden_layers: is required"));
  EXPECT_THAT(ImportConfigText(R"({"model_type": "llama", "hidden_size": -1})").status().ToString(),
              HasSubstr("config.json: "));
  EXPECT_THAT(ImportConfigText(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                         "num_attention_heads": 3, "vocab_size": 10})")
                  .status()
                  .ToString(),
              HasSubstr("config.json: "));
}

TEST(ImportHuggingFace, WhatIsUnknownIsRefusedByNameOrNoted) {
  const struct {
    const char* change;
    const char* field;
  } refused[] = {
      {R"({"kv_lora_rank": 512})", "qk_rope_head_dim"},
      {R"({"v_head_dim": 128})", "v_head_dim"},
      {R"({"mamba_d_state": 16})", "mamba_d_state"},
      {R"({"add_cross_attention": true})", "add_cross_attention"},
      {R"({"use_cla": true})", "use_cla"},
      {R"({"quux": [1, 2, 3]})", "quux"},
      {R"({"ffn_multipliers": [0.5, 1, 2]})", "ffn_multipliers"},
      {R"({"num_quuxes": 2})", "num_quuxes"},
      {R"({"layer_types": ["full_attention", "linear_attention", "full_attention"]})",
       "layer_types[1]"},
  };
  for (const auto& test : refused) {
    EXPECT_THAT(ImportConfigText(With(kGated, test.change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("config.json: ", test.field, ": "))))
        << test.change;
  }
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport import,
      ImportConfigText(With(kGated, R"({"quux": 3, "num_quuxes": 0, "use_quux": false})")));
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr("not known and ignored, because the names speak "
                                                  "of no sizes: quux")));
}

TEST(ImportHuggingFace, ContradictionsAndWrongTypesNameTheField) {
  const struct {
    const char* base;
    const char* change;
    const char* field;
  } cases[] = {
      {kGated, R"({"num_attention_heads": 5})", "num_attention_heads: must divide hidden_size"},
      {kGated, R"({"num_key_value_heads": 3})", "num_key_value_heads: must divide"},
      {kGated, R"({"hidden_size": "64"})", "hidden_size: must be a whole number"},
      {kGated, R"({"hidden_size": 1e30})", "hidden_size: must be a whole number"},
      {kGated, R"({"hidden_size": 64.5})", "hidden_size: must be a whole number"},
      {kGated, R"({"num_hidden_layers": -1})", "num_hidden_layers: must be a whole number"},
      {kGated, R"({"num_hidden_layers": 1000000})", "num_hidden_layers: must be at most"},
      {kGated, R"({"vocab_size": null})", "vocab_size: is required"},
      {kGated, R"({"attention_bias": 1})", "attention_bias: must be true or false"},
      {kGated, R"({"model_type": 3})", "model_type: must be a text"},
      {kGated, R"({"tie_word_embeddings": "yes"})", "tie_word_embeddings: must be true or false"},
      {kGated, R"({"layer_types": ["full_attention"]})",
       "layer_types: must have an entry for each"},
      {kGated, R"({"layer_types": 3})", "layer_types: must be a list"},
      {kGated, R"({"text_config": 3})", "text_config: must be an object"},
      {kGated, R"({"n_positions": 64, "hidden_size": 64, "n_embd": 32})", "n_embd: contradicts"},
      {kMixture, R"({"num_experts_per_tok": 9})", "num_experts_per_tok: must be 1 to"},
      {kMixture, R"({"num_experts_per_tok": null})", "num_experts_per_tok: must be 1 to"},
      {kMixture, R"({"first_k_dense_replace": 7})", "first_k_dense_replace: must be at most"},
      {kMixture, R"({"mlp_only_layers": [6]})", "mlp_only_layers: must name layers below 6"},
      // Errors have the spelling of the file.
      {kMixture, R"({"num_dense_layers": 7})", "json: num_dense_layers: must be at most"},
      {kMixture, R"({"num_experts_per_tok": null, "moe_k": 9})", "json: moe_k: must be 1 to"},
      {kMixture, R"({"num_experts_per_tok": null, "ffn_config": {"moe_top_k": 9}})",
       "json: ffn_config.moe_top_k: must be 1 to"},
      {kGated, R"({"num_mtp_modules": 100})", "json: num_mtp_modules: must be at most"},
      {kGated, R"({"num_nextn_predict_layers": 0, "num_mtp_modules": 100})",
       "json: num_mtp_modules: must be at most"},
      {kGated, R"({"mtp_num_hidden_layers": 100})", "json: mtp_num_hidden_layers: must be at most"},
      {kGated, R"({"num_hidden_layers": null, "n_layer": 1000000})", "json: n_layer: must be"},
      {kGated, R"({"num_attention_heads": null, "n_head": 5})", "json: n_head: must divide hidden"},
      {kGated, R"({"num_key_value_heads": null, "n_kv_heads": 3})",
       "json: n_kv_heads: must divide"},
      {kGated, R"({"num_key_value_heads": null, "attn_config": {"kv_n_heads": 3}})",
       "json: attn_config.kv_n_heads: must divide"},
      {kGated, R"({"attention_head_dim": 16777216})", "json: attention_head_dim: times"},
      {kMixture, R"({"num_experts": 16777216, "moe_intermediate_size": 16777216})", "2^50"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(With(test.base, test.change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.field)))
        << test.change;
  }
  // Every beginning of a file is refused.
  const std::string whole = kMixture;
  for (size_t length = 0; length < whole.size(); length += 7) {
    EXPECT_THAT(ImportConfigText(whole.substr(0, length)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config.json: must")));
  }
}

}  // namespace
}  // namespace parplan
