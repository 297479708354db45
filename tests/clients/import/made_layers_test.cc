#include "clients/import/made_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "clients/import/hugging_face.h"
#include "proto/wire/model_wire.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// LFM2's own names.
constexpr char kConvolutions[] = R"({"model_type": "lfm2", "conv_L_cache": 3, "conv_bias": false,
    "conv_dim": 64, "conv_dim_out": 64, "conv_use_xavier_init": true, "tie_embedding": true,
    "full_attn_idxs": [1], "use_pos_enc": true})";

constexpr char kBesideEachOther[] = R"({"model_type": "falcon_h1", "mamba_d_ssm": 32,
    "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1,
    "mamba_d_conv": 4, "mamba_expand": 2, "mamba_chunk_size": 16, "mamba_rms_norm": false,
    "mamba_norm_before_gate": false, "mamba_use_mlp": true, "mlp_expansion_factor": 2,
    "projectors_bias": false})";

// Parameters of parts of `kGated`: its norms are counted by each part.
constexpr int64_t kHidden = 64;
constexpr int64_t kFeedForward = 3 * kHidden * 96 + kHidden;
constexpr int64_t kAttention = kHidden * (2 * 64 + 2 * 32) + kHidden;
constexpr int64_t kConvolution = 4 * kHidden * kHidden + 3 * kHidden + kHidden;
constexpr int64_t kTable = 100 * kHidden;

TEST(MadeLayers, ShortConvolutionsAreOpaque) {
  const std::string config = With(kGated, kConvolutions);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "o.o");
  EXPECT_THAT(import.notes,
              Contains(HasSubstr("convolutions over 3 tokens: their layers are opaque")));
  EXPECT_EQ(import.model.layer_definitions(1).layer_definition_id(), "convolution");
  EXPECT_EQ(import.model.layer_definitions(1).parameter_count(), kConvolution + kFeedForward);
  // The norms of queries and keys are as wide as a head; the tables are one, behind a norm.
  EXPECT_EQ(ParametersOf(config), 2 * (kConvolution + kFeedForward) + kAttention + 2 * 16 +
                                      kFeedForward + kTable + kHidden);
  // A list of names says the same, and biases belong to the three vectors and the result of the
  // products, and to the convolution.
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"full_attn_idxs": null,
                "layer_types": ["conv", "full_attention", "conv"], "conv_bias": true})")),
            ParametersOf(config) + 2 * 5 * kHidden);
}

TEST(MadeLayers, ShortConvolutionsMayHaveExperts) {
  const std::string config =
      With(With(kGated, kConvolutions).c_str(),
           R"({"model_type": "lfm2_moe", "num_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 16, "num_dense_layers": 1, "use_expert_bias": false})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "o:o");
  const int64_t experts = 4 * 3 * kHidden * 16 + 4 * kHidden + kHidden;
  EXPECT_EQ(ParametersOf(config),
            2 * kConvolution + kFeedForward + kAttention + 2 * 16 + 2 * experts + kTable + kHidden);
}

TEST(MadeLayers, AttentionBesideAStateSpaceIsOpaque) {
  const std::string config = With(kGated, kBesideEachOther);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), "ooo");
  EXPECT_EQ(import.model.layer_runs(1).layer_count(), 3);
  EXPECT_THAT(import.notes, Contains(HasSubstr("attention and a state space beside each other")));
  // Two inputs of 32, two projections of 8 and four time steps; a convolution of 48 channels with
  // biases; three numbers a head; the product back.
  const int64_t state_space = kHidden * (2 * 32 + 2 * 8 + 4) + 48 * (4 + 1) + 3 * 4 + 32 * kHidden;
  const int64_t layers = 3 * (kAttention + state_space + kFeedForward);
  EXPECT_EQ(ParametersOf(config), layers + 2 * kTable + kHidden);
  // A norm of the recurrence, and a bias of its last product.
  EXPECT_EQ(
      ParametersOf(With(config.c_str(), R"({"mamba_rms_norm": true, "projectors_bias": true})")),
      layers + 3 * (32 + kHidden) + 2 * kTable + kHidden);
}

// The kept bytes grow with the sequence and with the bytes of a value.
TEST(MadeLayers, KeepBytesOfTheirTokens) {
  const auto kept = [](const ModelFlags& flags) {
    const absl::StatusOr<HuggingFaceImport> import =
        ImportConfigText(With(kGated, kConvolutions), flags);
    EXPECT_OK(import.status());
    return import.ok() ? import->model.layer_definitions(1).opaque().kept_bytes_per_sample() : 0;
  };
  // 8 vectors of the convolution, 2 of the feed-forward part and 4 of its width.
  const int64_t of_token = 2 * (10 * kHidden + 4 * 96);
  EXPECT_EQ(kept({}), 32 * of_token);
  EXPECT_EQ(kept({.sequence_lengths = {256}}), 256 * of_token);
  EXPECT_EQ(kept({.precision = v1::PRECISION_FP32}), 2 * 32 * of_token);
}

TEST(MadeLayers, ErrorsNameTheField) {
  const struct {
    const char* base;
    const char* change;
    const char* message;
  } cases[] = {
      {kConvolutions, R"({"conv_dim": 32})", "conv_dim: must be the width of the layers, 64"},
      {kConvolutions, R"({"conv_L_cache": 0})", "conv_L_cache: "},
      {kConvolutions, R"({"conv_L_cache": null})", "conv_dim: is not known"},
      {kConvolutions, R"({"full_attn_idxs": [3]})", "full_attn_idxs: must name layers below 3"},
      {kConvolutions, R"({"full_attn_idxs": [-1]})", "full_attn_idxs[0]: "},
      {kBesideEachOther, R"({"mamba_use_mlp": false})", "mamba_use_mlp: must be true"},
      {kBesideEachOther, R"({"mamba_d_head": 7})", "mamba_n_heads: times the size of a head, 7"},
      {kBesideEachOther, R"({"mamba_n_groups": 3})", "hidden_size: and other sizes break a rule"},
      {kBesideEachOther, R"({"mamba_quuxes": 3})", "mamba_quuxes: is not known"},
  };
  for (const auto& test : cases) {
    const std::string config = With(With(kGated, test.base).c_str(), test.change);
    EXPECT_THAT(ImportConfigText(config).status().ToString(),
                HasSubstr(std::string("config.json: ") + test.message))
        << test.change;
  }
  EXPECT_THAT(
      ImportConfigText(With(kGated, kConvolutions), {.hidden_size = 128}).status().ToString(),
      HasSubstr("--hidden-size: would contradict the sizes of opaque layers"));
}

}  // namespace
}  // namespace parplan
