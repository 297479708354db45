#include "clients/import/block_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "clients/import/hugging_face.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

// The published forms of one entry, with the fields that real files have.
constexpr char kBlocks[] = R"({"model_type": "nemotron-nas", "hidden_size": 512,
    "num_attention_heads": 8, "num_key_value_heads": null, "intermediate_size": null,
    "block_configs": [
      {"attention": {"n_heads_in_group": 4, "no_op": false, "num_sink_tokens": null,
                     "replace_with_linear": false, "sparsify": null, "unshifted_sink": false,
                     "use_prefill_window_in_sink_attention": false, "window_length": null},
       "ffn": {"ffn_mult": 2.625, "no_op": false, "replace_with_linear": false, "sparsify": null}},
      {"attention": {"n_heads_in_group": null, "no_op": true},
       "ffn": {"ffn_mult": 1.3125, "no_op": false}},
      {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": null, "no_op": true}}]})";

std::string Blocks(const char* change = "{}") {
  return With(With(kGated, kBlocks).c_str(), change);
}

TEST(ReadBlocks, GiveEachLayerItsParts) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(Blocks()));
  EXPECT_EQ(LayersOf(import.model), ".f.");
  const auto& layers = import.model.layer_definitions();
  ASSERT_EQ(layers.size(), 5);
  EXPECT_EQ(layers[1].key_value_head_count(), 2);
  // Two thirds of 2.625 times 512 are 896, which is rounded up to 1,024.
  EXPECT_EQ(layers[1].feed_forward_size(), 1024);
  EXPECT_EQ(layers[2].feed_forward_size(), 512);
  EXPECT_EQ(layers[2].kind(), v1::LAYER_KIND_FEED_FORWARD);
  EXPECT_EQ(layers[3].key_value_head_count(), 1);
  EXPECT_EQ(layers[3].feed_forward_kind(), v1::FEED_FORWARD_KIND_NONE);
  // Each part with the norm before it.
  constexpr int64_t kWidth = 512;
  const int64_t parts = kWidth * (2 * 512 + 2 * 128) + kWidth + 3 * kWidth * 1024 + kWidth +
                        3 * kWidth * 512 + kWidth + kWidth * (2 * 512 + 2 * 64) + kWidth;
  EXPECT_EQ(ParametersOf(Blocks()), parts + 2 * 100 * kWidth + kWidth);
}

// Llama-3.1-Nemotron-51B has the widths of Llama-3.1-70B where its search changed nothing.
TEST(ReadBlocks, WidthsFollowLlamasRule) {
  const std::string config =
      Blocks(R"({"hidden_size": 8192, "num_attention_heads": 64, "num_hidden_layers": 1,
          "block_configs": [{"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 5.25}}]})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(import.model.layer_definitions(1).feed_forward_size(), 28672);
  EXPECT_EQ(import.model.layer_definitions(1).key_value_head_count(), 8);
}

TEST(ReadBlocks, LayersOfOneFormAreOneRun) {
  const std::string config = Blocks(R"({"block_configs": [
          {"attention": {"num_key_value_heads": 2}, "ffn": {"intermediate_size": 96}},
          {"attention": {"num_key_value_heads": 2}, "ffn": {"intermediate_size": 96}},
          {"attention": {"num_key_value_heads": 4}, "ffn": {"intermediate_size": 96}}]})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  ASSERT_EQ(import.model.layer_runs_size(), 4);
  EXPECT_EQ(import.model.layer_runs(1).layer_definition_id(), "decoder-2-groups");
  EXPECT_EQ(import.model.layer_runs(1).layer_count(), 2);
  EXPECT_EQ(import.model.layer_runs(2).layer_definition_id(), "decoder-4-groups");
}

// DeciLM of 2023.
TEST(ReadBlocks, GroupsOfLayersMayBeAList) {
  const std::string config =
      With(kGated, R"({"num_key_value_heads": null, "num_key_value_heads_per_layer": [4, 2, 2]})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "...");
  EXPECT_EQ(ParametersOf(config),
            ParametersOf(With(kGated, R"({"num_key_value_heads": 2})")) + 64 * 2 * 2 * 16);
}

TEST(ReadBlocks, ErrorsNamePlaceAndField) {
  const struct {
    const char* change;
    const char* message;
  } cases[] = {
      {R"({"block_configs": 7})", "block_configs: must be a list"},
      {R"({"block_configs": [7, 7, 7]})", "block_configs[0]: must be an object"},
      {R"({"block_configs": []})", "block_configs: must have an entry for each of the 3 layers"},
      {R"({"block_configs": [{}, {}, {}]})", "block_configs[0].attention: is required"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {}, "ffn": {"ffn_mult": 1}}]})",
       "block_configs[0].attention.n_heads_in_group: is required"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 3},
           "ffn": {"ffn_mult": 1}}]})",
       "block_configs[0].attention.n_heads_in_group: must divide the number of heads 8"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 4,
           "num_key_value_heads": 4}, "ffn": {"ffn_mult": 1}}]})",
       "block_configs[0].attention.num_key_value_heads: contradicts n_heads_in_group"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 4},
           "ffn": {}}]})",
       "block_configs[0].ffn.ffn_mult: is required"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 4},
           "ffn": {"ffn_mult": -1}}]})",
       "block_configs[0].ffn.ffn_mult: must be above 0"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 4},
           "ffn": {"ffn_mult": 1e11}}]})",
       "block_configs[0].ffn.ffn_mult: times the width must be at most"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"no_op": true},
           "ffn": {"no_op": true}}]})",
       "block_configs[0].ffn.no_op: leaves a layer without attention"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"replace_with_linear": true},
           "ffn": {"ffn_mult": 1}}]})",
       "block_configs[0].attention.replace_with_linear: is a part of a layer that has no run"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 4},
           "ffn": {"ffn_mult": 1, "num_quuxes": 2}}]})",
       "block_configs[0].ffn.num_quuxes: is not known"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 4,
           "foo_cache": true}, "ffn": {"ffn_mult": 1}}]})",
       "block_configs[0].attention.foo_cache: is not known"},
      {R"({"num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 4},
           "ffn": {"ffn_mult": 1e-9}}]})",
       "block_configs[0].ffn.ffn_mult: times the width leaves no feed-forward part"},
      {R"({"block_configs": null, "num_key_value_heads_per_layer": [4, 2]})",
       "num_key_value_heads_per_layer: must have an entry for each of the 3 layers"},
      {R"({"block_configs": null, "num_key_value_heads_per_layer": [8, 3, 2]})",
       "num_key_value_heads_per_layer[1]: must divide the number of heads 8"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(Blocks(test.change)).status().ToString(),
                HasSubstr(std::string("config.json: ") + test.message))
        << test.change;
  }
}

}  // namespace
}  // namespace parplan
