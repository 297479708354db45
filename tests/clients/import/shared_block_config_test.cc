#include "clients/import/shared_block_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Five layers, 16 wide, three of them with one of two blocks.
constexpr char kShared[] = R"({"model_type": "zamba2", "hidden_size": 16, "num_hidden_layers": 5,
    "layers_block_type": ["mamba", "hybrid", "hybrid", "mamba", "hybrid"], "num_mem_blocks": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "attention_head_dim": 8,
    "attention_hidden_size": 32, "intermediate_size": 24, "adapter_rank": 3, "mamba_d_state": 8,
    "mamba_d_conv": 4, "mamba_expand": 2, "mamba_ngroups": 1, "n_mamba_heads": 4,
    "mamba_headdim": 8, "chunk_size": 16, "use_conv_bias": true, "add_bias_linear": false,
    "vocab_size": 50, "max_position_embeddings": 32})";

// Products to the gate, the channels, both projections of the state and the time steps; the
// convolution, three numbers a head, a norm, the product back, and the norm before it all.
constexpr int64_t kSharedRecurrence =
    16 * (32 + 32 + 2 * 8 + 4) + (32 + 16) * 5 + 3 * 4 + 32 + 32 * 16 + 16;
constexpr int64_t kSharedOwn = 16 * 16 + 3 * (16 + 2 * 24);
constexpr int64_t kSharedBlock = 32 * (32 + 2 * 16) + 32 * 16 + 3 * 16 * 24 + 32 + 16;
constexpr int64_t kSharedTables = 50 * 16 + 16;

TEST(ReadSharedBlocks, CountsEachBlockOnce) {
  EXPECT_EQ(ParametersOf(kShared),
            5 * kSharedRecurrence + 3 * kSharedOwn + 2 * kSharedBlock + kSharedTables);
  EXPECT_EQ(ParametersOf(With(kShared, R"({"num_mem_blocks": 1})")),
            ParametersOf(kShared) - kSharedBlock);
  // Narrow matrices beside queries, keys and values, all as wide as the doubled input.
  EXPECT_EQ(ParametersOf(With(kShared, R"({"use_shared_attention_adapter": true})")),
            ParametersOf(kShared) + 3 * 3 * 6 * 32);
  EXPECT_EQ(ParametersOf(With(kShared, R"({"add_bias_linear": true})")),
            ParametersOf(kShared) + 5 * (32 + 32 + 16 + 4 + 16) + 2 * (2 * 24 + 16));
  EXPECT_EQ(ParametersOf(With(kShared, R"({"tie_word_embeddings": false})")),
            ParametersOf(kShared) + 50 * 16);
}

TEST(ReadSharedBlocks, LayersPassOnTheInputOfTheModel) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(kShared));
  EXPECT_EQ(LayersOf(import.model), "ooooo");
  for (const v1::LayerDefinition& layer : import.model.layer_definitions()) {
    if (layer.kind() != v1::LAYER_KIND_OPAQUE) continue;
    EXPECT_EQ(layer.opaque().boundary_bytes_per_sample(), 2 * 16 * 32 * 2);
    EXPECT_GT(layer.opaque().kept_bytes_per_sample(), layer.opaque().boundary_bytes_per_sample());
  }
  EXPECT_THAT(import.notes, Contains(HasSubstr("num_mem_blocks 2: 3 layers share as many blocks")));
}

// The defaults of `Zamba2Config` of transformers 5.24, whose class makes 2,481,848,336 parameters
// of them on PyTorch's meta device.
TEST(ReadSharedBlocks, CountsTheModelOfTransformers) {
  std::string kinds;
  for (int i = 0; i < 54; ++i) {
    const bool is_hybrid = (i >= 6 && i <= 42 && i % 6 == 0) || i == 47 || i == 51;
    kinds += std::string(i == 0 ? "" : ", ") + (is_hybrid ? "\"hybrid\"" : "\"mamba\"");
  }
  EXPECT_EQ(ParametersOf(R"({"model_type": "zamba2", "hidden_size": 2560, "num_hidden_layers": 54,
      "layers_block_type": [)" +
                         kinds + R"(], "num_attention_heads": 32, "n_mamba_heads": 8,
      "mamba_d_state": 64, "mamba_expand": 2, "chunk_size": 256, "vocab_size": 32000,
      "max_position_embeddings": 4096})"),
            2481848336);
}

TEST(ReadSharedBlocks, RefusesWhatItDoesNotKnow) {
  const struct {
    const char* change;
    const char* error;
  } cases[] = {
      {R"({"layers_block_type": ["mamba"]})",
       "config.json: layers_block_type: must have an entry for each of the 5 layers"},
      {R"({"layers_block_type": ["mamba", "hybrid", "moe", "mamba", "mamba"]})",
       "config.json: layers_block_type[2]: must be `mamba`"},
      {R"({"attention_hidden_size": 16})",
       "config.json: attention_hidden_size: must be twice hidden_size, 32"},
      {R"({"num_attention_heads": 5})", "config.json: num_attention_heads: must divide"},
      {R"({"attention_head_dim": 4})", "config.json: attention_head_dim: must be 8"},
      {R"({"use_shared_mlp_adapter": false})", "config.json: use_shared_mlp_adapter: must be true"},
      {R"({"num_quuxes": 3})", "config.json: num_quuxes"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(With(kShared, test.change)).status().ToString(),
                HasSubstr(test.error))
        << test.change;
  }
}

}  // namespace
}  // namespace parplan
