#include "clients/import/compressed_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Four layers, 32 wide: a window alone, two heavily compressed, and one whose compressed keys are
// chosen.
constexpr char kCompressed[] = R"({"model_type": "deepseek_v4", "hidden_size": 32,
    "moe_intermediate_size": 16, "n_routed_experts": 8, "n_shared_experts": 1,
    "num_experts_per_tok": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16,
    "num_hidden_layers": 4, "vocab_size": 100, "q_lora_rank": 12, "o_lora_rank": 6, "o_groups": 2,
    "qk_rope_head_dim": 4, "index_n_heads": 3, "index_head_dim": 8, "index_topk": 4,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "num_hash_layers": 1, "sliding_window": 8,
    "compress_ratios": [0, 128, 128, 4], "compress_rope_theta": 160000, "scoring_func": "sqrtsoftplus",
    "swiglu_limit": 10.0, "max_position_embeddings": 32})";

constexpr int64_t kCompressedWide = 32;
constexpr int64_t kCompressedHeads = 4 * 16;
// Queries, the key, the output of two groups of heads, and sinks.
constexpr int64_t kCompressedAttention = 12 * (kCompressedWide + 1 + kCompressedHeads) +
                                         kCompressedWide * 16 + 16 + kCompressedHeads * 6 +
                                         2 * 6 * kCompressedWide + 4;
// Weights of 4 streams before a part, behind it and between streams; of two parts.
constexpr int64_t kCompressedStreams = 2 * (24 * (4 * kCompressedWide + 1) + 3);
constexpr int64_t kCompressedExperts = 9 * 3 * kCompressedWide * 16 + 8 * kCompressedWide + 8;
constexpr int64_t kCompressedPlainLayer =
    kCompressedAttention + kCompressedStreams + kCompressedExperts + 2 * kCompressedWide;
constexpr int64_t kCompressedHeavy = 2 * kCompressedWide * 16 + 128 * 16 + 16;
constexpr int64_t kCompressedSparse = 2 * kCompressedWide * 32 + 4 * 32 + 16;
constexpr int64_t kCompressedIndexer =
    2 * kCompressedWide * 16 + 4 * 16 + 8 + 12 * 3 * 8 + kCompressedWide * 3;
constexpr int64_t kCompressedEnds =
    2 * 100 * kCompressedWide + kCompressedWide + 4 * (4 * kCompressedWide + 1) + 1;

TEST(CompressedAttention, LayersHaveWhatTheirRatioSays) {
  EXPECT_EQ(ParametersOf(kCompressed), 4 * kCompressedPlainLayer + 2 * kCompressedHeavy +
                                           kCompressedSparse + kCompressedIndexer +
                                           kCompressedEnds);
  EXPECT_EQ(ParametersOf(With(kCompressed, R"({"compress_ratios": [0, 0, 1, 0]})")),
            4 * kCompressedPlainLayer + kCompressedEnds);
  // Names of newer files, and what a file without either has.
  EXPECT_EQ(ParametersOf(With(kCompressed, R"({"compress_ratios": null, "layer_types":
                ["sliding_attention", "heavily_compressed_attention",
                 "heavily_compressed_attention", "compressed_sparse_attention"],
                "mlp_layer_types": ["hash_moe", "moe", "moe", "moe"],
                "compress_rates": {"compressed_sparse_attention": 4,
                                   "heavily_compressed_attention": 128}})")),
            ParametersOf(kCompressed));
  EXPECT_EQ(ParametersOf(With(kCompressed, R"({"compress_ratios": null})")),
            ParametersOf(kCompressed) + kCompressedHeavy);
  EXPECT_EQ(ParametersOf(With(kCompressed, R"({"compress_rates":
                {"heavily_compressed_attention": 64}})")),
            ParametersOf(kCompressed) - 2 * 64 * 16);
}

TEST(CompressedAttention, LayersPassOnTheirStreams) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                       ImportConfigText(With(kCompressed, R"({"num_nextn_predict_layers": 1,
                           "compress_ratios": [0, 128, 128, 4, 0]})")));
  EXPECT_EQ(LayersOf(import.model), "oooo");
  for (const v1::LayerDefinition& layer : import.model.layer_definitions()) {
    if (layer.kind() != v1::LAYER_KIND_OPAQUE) continue;
    EXPECT_EQ(layer.opaque().boundary_bytes_per_sample(), 4 * kCompressedWide * 32 * 2);
  }
  EXPECT_THAT(import.notes, Contains(HasSubstr("num_nextn_predict_layers 1: layers that predict")));
}

// The sizes of DeepSeek-V4-Flash (`DeepseekV4Config` of transformers 5.24, whose class makes
// 284,325,869,015 parameters of them on PyTorch's meta device, without the biases of routers).
TEST(CompressedAttention, CountsThePublishedModel) {
  const int64_t count = ParametersOf(R"({"model_type": "deepseek_v4", "hidden_size": 4096,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
      "num_experts_per_tok": 6, "num_attention_heads": 64, "num_key_value_heads": 1,
      "head_dim": 512, "num_hidden_layers": 43, "vocab_size": 129280, "q_lora_rank": 1024,
      "o_lora_rank": 1024, "o_groups": 8, "qk_rope_head_dim": 64, "index_n_heads": 64,
      "index_head_dim": 128, "index_topk": 512, "hc_mult": 4, "sliding_window": 128,
      "max_position_embeddings": 1048576, "num_hash_layers": 3})");
  EXPECT_EQ(count, 284325869015 + 43 * 256);
}

// Hunyuan 4: the streams have no weights between each other, latent attention has a gate as wide as
// its values and a sink of each head, and layers may read the tokens that an earlier one chose.
TEST(CompressedAttention, StreamsMayBeIndependent) {
  const std::string config =
      With(kLatent, R"({"model_type": "hy_v4", "hc_mult": 3, "hc_magnitude": 2.0,
                        "learnable_sink_init": 0.0, "index_n_heads": 2, "index_head_dim": 8,
                        "index_topk": 4, "indexer_types": ["full", "shared", "full"]})");
  const int64_t width = 64;
  const int64_t attention = width * 24 + 24 + 24 * 4 * 16 + width * (16 + 4) + 16 +
                            16 * 4 * (12 + 8) + 4 * 8 * width + width * 4 * 8 + 4;
  const int64_t indexer = 24 * 2 * 8 + width * (8 + 2) + 2 * 8;
  const int64_t streams = 2 * (6 * (3 * width + 1) + 2);
  const int64_t experts = 9 * 3 * width * 16 + 8 * width + 8;
  EXPECT_EQ(ParametersOf(config), 3 * (attention + streams + 2 * width) + 2 * indexer +
                                      3 * width * 96 + 2 * experts + 2 * 100 * width + width +
                                      3 * (3 * width + 1) + 1);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "ooo");
  for (const auto& [change, error] :
       {std::pair(R"({"indexer_types": ["shared", "full", "full"]})",
                  "config.json: indexer_types[0]: must be `full`: there is no layer before"),
        std::pair(R"({"indexer_types": ["full", "other", "full"]})",
                  "config.json: indexer_types[1]: must be `full` or `shared`"),
        std::pair(R"({"indexer_types": ["full"]})",
                  "config.json: indexer_types: must have an entry for each of the 3 layers"),
        std::pair(R"({"kv_lora_rank": null})", "config.json: ")}) {
    EXPECT_THAT(ImportConfigText(With(config.c_str(), change)).status().ToString(),
                HasSubstr(error));
  }
}

// Without lists Hunyuan 4's first layer is dense, and layers share indexers by fours behind it.
TEST(CompressedAttention, IndependentStreamsHaveTheDefaultsOfTheirClass) {
  const char* const sizes = R"({"model_type": "hy_v4", "num_hidden_layers": 7, "hc_mult": 3,
                                "index_n_heads": 2, "index_head_dim": 8, "index_topk": 4,
                                "first_k_dense_replace": null})";
  const std::string config = With(kLatent, sizes);
  const std::string listed = With(config.c_str(), R"({
      "indexer_types": ["full", "full", "shared", "shared", "shared", "full", "shared"],
      "mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse"]})");
  EXPECT_EQ(ParametersOf(config), ParametersOf(listed));
  // The text of the model with a tower of images.
  const std::string whole =
      absl::StrCat(R"({"model_type": "hy_v4_vl", "text_config": )",
                   With(config.c_str(), R"({"model_type": "hy_v4_vl_text"})"), "}");
  EXPECT_EQ(ParametersOf(whole), ParametersOf(config));
  // Streams of a family that is not known are no detail.
  EXPECT_THAT(ImportConfigText(With(kGated, R"({"hc_mult": 3})")).status().ToString(),
              HasSubstr("hc_mult: is not known and might change the layers"));
}

TEST(CompressedAttention, RefusesWhatItDoesNotKnow) {
  const struct {
    const char* change;
    const char* error;
  } cases[] = {
      {R"({"compress_ratios": [0, 128, 128]})",
       "config.json: compress_ratios: must have an entry for each of the 4 layers"},
      {R"({"compress_ratios": [0, 128, 128, 2]})", "config.json: compress_ratios[3]: must be 0 or"},
      {R"({"o_groups": 3})", "config.json: o_groups: must divide the width of all heads, 64"},
      {R"({"num_key_value_heads": 2})", "config.json: num_key_value_heads: must be 1"},
      {R"({"hc_mult": 65})", "config.json: hc_mult: must be at most 64"},
      {R"({"o_lora_rank": null})", "config.json: o_lora_rank: is required"},
      {R"({"index_topk": null})", "config.json: index_topk: is required"},
      {R"({"compress_rates": {"other": 2}})", "config.json: compress_rates.other: is not known"},
      // DeepSeek-V4.1's tables of words beside the layers.
      {R"({"engram_layer_ids": [1, 2]})", "config.json: engram_layer_ids"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(With(kCompressed, test.change)).status().ToString(),
                HasSubstr(test.error))
        << test.change;
  }
}

}  // namespace
}  // namespace parplan
