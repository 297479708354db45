// Layers that differ from each other, and the structures that only some layers have.

#include "clients/import/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/wire/model_wire.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ImportHuggingFace, ExpertsReplaceTheFeedForwardPartOfTheirLayers) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(kMixture));
  ASSERT_EQ(import.model.layer_definitions_size(), 3);
  const v1::LayerDefinition& layer = import.model.layer_definitions(1);
  EXPECT_EQ(layer.expert_count(), 8);
  EXPECT_EQ(layer.experts_per_token(), 2);
  EXPECT_EQ(layer.expert_feed_forward_size(), 16);
  EXPECT_EQ(layer.shared_expert_feed_forward_size(), 0);
  EXPECT_EQ(import.model.layer_runs(1).layer_count(), 6);
  const int64_t attention = 64 * (2 * 128 + 2 * 64) + 2 * 32 + 2 * 64;
  EXPECT_EQ(ParametersOf(kMixture), 6 * (attention + 8 * 3 * 64 * 16 + 64 * 8) + 2 * 100 * 64 + 64);
  // A shared expert, by its width and by its number.
  const int64_t shared = 6 * 3 * 64 * 48;
  EXPECT_EQ(ParametersOf(With(kMixture, R"({"shared_expert_intermediate_size": 48})")) -
                ParametersOf(kMixture),
            shared);
  EXPECT_EQ(ParametersOf(With(kMixture, R"({"n_shared_experts": 3})")) - ParametersOf(kMixture),
            shared);
}

// d is a dense layer, e one with experts.
TEST(ImportHuggingFace, EveryRuleOfExpertLayersGivesItsRuns) {
  const struct {
    const char* change;
    const char* layers;
  } cases[] = {
      {R"({"first_k_dense_replace": 2})", "ddeeee"},
      {R"({"first_k_dense_replace": 1, "moe_layer_freq": 2})", "ddeded"},
      {R"({"decoder_sparse_step": 2})", "dedede"},
      {R"({"interleave_moe_layer_step": 3})", "ddedde"},
      {R"({"mlp_only_layers": [0, 5]})", "deeeed"},
      {R"({"moe_layers": [1, 2]})", "deeddd"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.change);
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                         ImportConfigText(With(kMixture, test.change)));
    std::string layers;
    for (const v1::ModelLayerRun& run : import.model.layer_runs()) {
      if (run.layer_definition_id() == "decoder-dense") layers.append(run.layer_count(), 'd');
      if (run.layer_definition_id() == "decoder-experts") layers.append(run.layer_count(), 'e');
    }
    EXPECT_EQ(layers, test.layers);
    EXPECT_EQ(import.model.layer_definitions_size(), 4);
  }
}

TEST(ImportHuggingFace, WindowsShorterThanTheSequenceBelongToTheirLayers) {
  const struct {
    const char* change;
    const char* layers;
  } cases[] = {
      {R"({"model_type": "mistral", "sliding_window": 16})", "www"},
      {R"({"model_type": "gemma2", "head_dim": 16, "sliding_window": 16})", "w.w"},
      {R"({"model_type": "gemma3_text", "head_dim": 16, "sliding_window": 16,
           "sliding_window_pattern": 3})",
       "ww."},
      {R"({"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention",
                                                 "full_attention"]})",
       "w.."},
      {R"({"attention_chunk_size": 16, "layer_types": ["chunked_attention", "full_attention",
                                                       "chunked_attention"]})",
       "c.c"},
      {R"({"attention_chunk_size": 16, "no_rope_layers": [1, 1, 0]})", "cc."},
      {R"({"attention_chunk_size": 16, "no_rope_layer_interval": 2})", "c.c"},
      {R"({"model_type": "qwen2", "sliding_window": 16, "use_sliding_window": true,
           "max_window_layers": 2})",
       "..w"},
      {R"({"model_type": "mistral", "sliding_window": 32})", "..."},
      {R"({"model_type": "mistral", "sliding_window": null})", "..."},
      {R"({"model_type": "qwen2", "sliding_window": 16, "use_sliding_window": false})", "..."},
  };
  for (const auto& test : cases) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                         ImportConfigText(With(kGated, test.change)));
    EXPECT_EQ(LayersOf(import.model), test.layers) << test.change;
    EXPECT_THAT(import.notes, IsEmpty()) << test.change;
    EXPECT_EQ(ParametersOf(With(kGated, test.change)),
              ParametersOf(With(With(kGated, test.change).c_str(),
                                R"({"sliding_window": null, "attention_chunk_size": null,
                                    "layer_types": null})")));
  }
  // Layers whose windows are as long as the sequence are one run with the others.
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport import,
      ImportConfigText(
          With(kGated, R"({"model_type": "gemma2", "head_dim": 16, "sliding_window": 32})")));
  EXPECT_EQ(import.model.layer_definitions_size(), 3);
  EXPECT_EQ(import.model.layer_runs(1).layer_count(), 3);
}

TEST(ImportHuggingFace, ReadsLatentAttention) {
  const int64_t keys_and_values = 64 * (16 + 4) + 16 + 16 * 4 * (12 + 8);
  const int64_t output = 4 * 8 * 64;
  const int64_t attention = 64 * 24 + 24 + 24 * 4 * 16 + keys_and_values + output + 2 * 64;
  const int64_t mixture = 9 * 3 * 64 * 16 + 64 * 8 + 8;
  const int64_t rest = 3 * 64 * 96 + 2 * mixture + 2 * 100 * 64 + 64;
  EXPECT_EQ(ParametersOf(kLatent), 3 * attention + rest);
  // Queries straight from the stream.
  EXPECT_EQ(ParametersOf(With(kLatent, R"({"q_lora_rank": 0})")),
            3 * (64 * 4 * 16 + keys_and_values + output + 2 * 64) + rest);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(kLatent));
  const v1::LayerDefinition& layer = import.model.layer_definitions(1);
  EXPECT_EQ(layer.latent_attention().query_rank(), 24);
  EXPECT_EQ(layer.latent_attention().rotary_head_size(), 4);
  EXPECT_EQ(layer.latent_attention().value_head_size(), 8);
  EXPECT_EQ(LayersOf(import.model), ".::");
}

// DeepSeek-V3, section 2.2: the map of the pair and three norms, and a layer like the last one.
TEST(ImportHuggingFace, LayersThatPredictFurtherTokensFollowTheOthers) {
  const std::string config = With(kLatent, R"({"num_nextn_predict_layers": 1})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(LayersOf(import.model), ".::P");
  EXPECT_THAT(import.notes, Contains(HasSubstr("--prediction-layers 0 leaves these layers out")));
  const auto& definitions = import.model.layer_definitions();
  EXPECT_EQ(definitions.rbegin()->further_token_count(), 1);
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(import.model));
  EXPECT_EQ(model.layer(4).parameter_count - model.layer(3).parameter_count, 2 * 64 * 64 + 3 * 64);
  ModelFlags flags;
  flags.prediction_layer_count = 0;
  EXPECT_EQ(ParametersOf(config, flags), ParametersOf(kLatent));
  flags.prediction_layer_count = 2;
  EXPECT_THAT(ImportConfigText(config, flags).status().ToString(),
              HasSubstr("--prediction-layers"));
}

TEST(ImportHuggingFace, ModulesThatPredictFurtherTokensCountIfTheyAreUsed) {
  const struct {
    const char* change;
    const char* layers;
  } cases[] = {
      {R"({"num_mtp_modules": 2, "use_mtp": true, "mtp_transformer_layers": 1})", "...pp"},
      {R"({"num_mtp_modules": 2, "use_mtp": false})", "..."},
      {R"({"mtp_num_hidden_layers": 1})", "...p"},
  };
  for (const auto& test : cases) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                         ImportConfigText(With(kGated, test.change)));
    EXPECT_EQ(LayersOf(import.model), test.layers) << test.change;
  }
  EXPECT_THAT(
      ImportConfigText(With(kGated, R"({"num_mtp_modules": 1, "mtp_transformer_layers": 2})"))
          .status()
          .ToString(),
      HasSubstr("config.json: mtp_transformer_layers: must be 1"));
}

TEST(ImportHuggingFace, LayoutsOfHybridModelsAreRead) {
  constexpr char kJamba[] = R"({"model_type": "jamba", "attn_layer_period": 4,
      "attn_layer_offset": 2, "expert_layer_period": 2, "expert_layer_offset": 1,
      "num_hidden_layers": 6, "num_experts": 4, "num_experts_per_tok": 2})";
  constexpr char kNemotron[] = R"({"model_type": "nemotron_h", "num_hidden_layers": 6,
      "hybrid_override_pattern": "M-M*-M", "mamba_num_heads": 8, "mamba_head_dim": 8,
      "ssm_state_size": 16, "n_groups": 2, "head_dim": 16})";
  constexpr char kNext[] = R"({"model_type": "qwen3_next", "num_hidden_layers": 4, "head_dim": 16,
      "full_attention_interval": 4, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
      "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4})";
  constexpr char kBamba[] = R"({"model_type": "bamba", "attn_layer_indices": [1],
      "mamba_n_heads": 8, "mamba_d_head": "auto", "mamba_n_groups": 1, "mamba_d_state": 16})";
  constexpr char kGranite[] = R"({"model_type": "granitemoehybrid", "mamba_n_heads": 8,
      "layer_types": ["mamba", "attention", "mamba"], "num_local_experts": 0,
      "shared_intermediate_size": 48})";
  const struct {
    const char* change;
    const char* layers;
  } cases[] = {{kJamba, "sS.SsS"},
               {kNemotron, "sfs.fs"},
               {kNext, "sss."},
               {kBamba, "s.s"},
               {kGranite, "s.s"}};
  for (const auto& test : cases) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                         ImportConfigText(With(kGated, test.change)));
    EXPECT_EQ(LayersOf(import.model), test.layers) << test.change;
  }
  const struct {
    const char* change;
    const char* field;
  } refused[] = {
      {R"({"hybrid_override_pattern": "M-"})", "hybrid_override_pattern: must have an entry"},
      {R"({"hybrid_override_pattern": "M-X"})", "hybrid_override_pattern[2]: `X`"},
      {R"({"layers_block_type": ["attention", "attention", "conv"]})", "layers_block_type[2]"},
      {R"({"attn_layer_period": 2, "attn_layer_offset": 2})", "attn_layer_offset: must be below"},
      {R"({"attn_layer_indices": [3]})", "attn_layer_indices: must name layers below 3"},
      {R"({"hybrid_override_pattern": "MMM", "mamba_num_heads": 7})", "state_space.head_count"},
      {R"({"hybrid_override_pattern": "MME"})", "num_experts: is required"},
      {R"({"hybrid_override_pattern": "MMM", "mamba_d_state": -1})", "mamba_d_state: must be"},
  };
  for (const auto& test : refused) {
    EXPECT_THAT(ImportConfigText(With(kGated, test.change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.field)))
        << test.change;
  }
}

TEST(ImportHuggingFace, GatesOfManyWideHeadsAreCountedInFull) {
  constexpr char kWide[] = R"({"hidden_size": 65536, "num_attention_heads": 65536,
      "num_key_value_heads": 65536, "head_dim": 2})";
  const std::string plain = With(kGated, kWide);
  const std::string gated = With(plain.c_str(), R"({"attn_output_gate": true})");
  EXPECT_EQ(ParametersOf(gated) - ParametersOf(plain), 3 * (int64_t{65536} * 65536 * 2));
}

// Mamba-2 of 2.7 billion parameters, as published: 64 layers of 2560, inner size 5120, 80 heads.
TEST(ImportHuggingFace, StateSpacesAloneHaveTheParametersOfMambaTwo) {
  const int64_t layer = int64_t{2560} * (2 * 5120 + 2 * 128 + 80) + (5120 + 2 * 128) * 5 + 3 * 80 +
                        5120 + int64_t{5120} * 2560 + 2560;
  const int64_t count = ParametersOf(R"({"model_type": "mamba2", "hidden_size": 2560,
      "num_hidden_layers": 64, "num_heads": 80, "head_dim": 64, "state_size": 128, "n_groups": 1,
      "expand": 2, "conv_kernel": 4, "vocab_size": 50288, "tie_word_embeddings": true})");
  EXPECT_EQ(count, 64 * layer + int64_t{50288} * 2560 + 2560);
  EXPECT_NEAR(static_cast<double>(count), 2.7e9, 0.005 * 2.7e9);
}

// Nemotron 3 Super: 120.6 billion parameters without the layer that predicts a further token
// (arXiv 2604.12374): 40 state spaces, 40 layers of experts that read 1024 of 4096 values, and 8 of
// attention.
constexpr char kNemotronSuper[] = R"({"model_type": "nemotron_h", "hidden_size": 4096,
    "vocab_size": 131072, "num_hidden_layers": 88, "hybrid_override_pattern":
    "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME",
    "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
    "intermediate_size": 2688, "moe_intermediate_size": 2688, "moe_latent_size": 1024,
    "moe_shared_expert_intermediate_size": 5376, "n_routed_experts": 512, "n_shared_experts": 1,
    "num_experts_per_tok": 22, "mamba_num_heads": 128, "mamba_head_dim": 64,
    "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "chunk_size": 128,
    "mlp_hidden_act": "relu2", "max_position_embeddings": 8192, "tie_word_embeddings": false,
    "use_conv_bias": true, "num_nextn_predict_layers": 0})";

TEST(ImportHuggingFace, LatentExpertsHaveTheParametersOfNemotronSuper) {
  const int64_t hidden = 4096, latent = 1024;
  const int64_t attention = hidden * (2 * 32 * 128 + 2 * 2 * 128) + hidden;
  const int64_t mamba = hidden * (2 * 8192 + 2 * 1024 + 128) + 8192 * hidden +
                        (8192 + 2 * 1024) * 5 + 3 * 128 + 8192 + hidden;
  const int64_t experts =
      512 * 2 * latent * 2688 + 2 * hidden * latent + hidden * 512 + 2 * hidden * 5376 + hidden;
  const int64_t count = ParametersOf(kNemotronSuper);
  EXPECT_EQ(count, 8 * attention + 40 * mamba + 40 * experts + 2 * 131072 * hidden + hidden);
  EXPECT_NEAR(static_cast<double>(count), 120.6e9, 0.001 * 120.6e9);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(kNemotronSuper));
  EXPECT_EQ(import.model.layer_definitions(2).expert_latent_size(), 1024);
}

// Layers of one part each are named for a further token, too: attention and experts, in the words
// or letters of either release.
TEST(ImportHuggingFace, ReadsThePartsOfLayersForFurtherTokens) {
  for (const char* parts : {R"({"num_nextn_predict_layers": 1,
                                "mtp_hybrid_override_pattern": "*E"})",
                            R"({"num_nextn_predict_layers": 1,
                                "mtp_layers_block_type": ["attention", "moe"]})"}) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                         ImportConfigText(With(kNemotronSuper, parts)));
    const auto& definitions = import.model.layer_definitions();
    const v1::LayerDefinition& layer = definitions[definitions.size() - 2];
    EXPECT_EQ(layer.kind(), v1::LAYER_KIND_DECODER);
    EXPECT_EQ(layer.prediction_depth(), 1);
    EXPECT_EQ(layer.expert_count(), 512);
    EXPECT_EQ(layer.expert_latent_size(), 1024);
    EXPECT_EQ(layer.key_value_head_count(), 2);
  }
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport dense,
                       ImportConfigText(With(kNemotronSuper, R"({"num_nextn_predict_layers": 2,
                                                "mtp_hybrid_override_pattern": "*-"})")));
  const auto& definitions = dense.model.layer_definitions();
  EXPECT_EQ(definitions[definitions.size() - 2].prediction_depth(), 2);
  EXPECT_EQ(definitions[definitions.size() - 2].expert_count(), 0);
  const struct {
    const char* change;
    const char* error;
  } cases[] = {{R"({"num_nextn_predict_layers": 1})", "needs attention in the last layer"},
               {R"({"num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "M"})",
                "mtp_hybrid_override_pattern: must be attention with a feed-forward part"},
               {R"({"num_nextn_predict_layers": 1, "mtp_layers_block_type": ["attention"]})",
                "mtp_layers_block_type: must be attention with a feed-forward part"}};
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(With(kNemotronSuper, test.change)).status().ToString(),
                HasSubstr(test.error))
        << test.change;
  }
}

// The number of heads follows from the inner size and the size of a head; without either it is
// asked for, since Mamba-2 is not Mamba.
TEST(ImportHuggingFace, MambaTwoNeedsItsHeads) {
  constexpr char kMambaTwo[] = R"({"model_type": "mamba2", "hidden_size": 64, "expand": 2,
      "num_hidden_layers": 2, "num_heads": 8, "head_dim": 16, "state_size": 4, "n_groups": 1,
      "conv_kernel": 4, "vocab_size": 100, "tie_word_embeddings": false})";
  EXPECT_EQ(ParametersOf(With(kMambaTwo, R"({"num_heads": null})")), ParametersOf(kMambaTwo));
  // Its time step has no rank.
  EXPECT_EQ(ParametersOf(With(kMambaTwo, R"({"time_step_rank": 4})")), ParametersOf(kMambaTwo));
  EXPECT_THAT(ImportConfigText(With(kMambaTwo, R"({"num_heads": null, "head_dim": null})"))
                  .status()
                  .ToString(),
              HasSubstr("config.json: num_heads: is required"));
}

// RWKV, whose attention has no heads.
TEST(ImportHuggingFace, AttentionWithoutHeadsIsRefusedOrOpaque) {
  constexpr char kRwkv[] = R"({"model_type": "rwkv", "hidden_size": 64, "intermediate_size": 96,
      "attention_hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 100,
      "context_length": 32})";
  EXPECT_THAT(ImportConfigText(kRwkv).status().ToString(),
              HasSubstr("config.json: attention_hidden_size: is of attention without heads"));
}

// An opaque kind explains its own fields alone; one that stands for all layers explains all.
TEST(ImportHuggingFace, OpaqueLayersExcuseNoOtherStructure) {
  const std::string config = With(kGated, R"({"layer_types": ["conv", "full_attention", "conv"]})");
  const auto import = [](const std::string& text, const std::string& sizes) {
    const absl::StatusOr<GivenOpaqueLayers> opaque = ReadOpaqueLayers({"sizes.json", sizes});
    EXPECT_OK(opaque.status());
    return ImportHuggingFace({"config.json", text}, {}, *opaque).status();
  };
  for (const char* field : {"use_cla", "num_kv_shared_layers", "num_hidden_groups",
                            "add_cross_attention", "mamba_d_state", "mamba_d_ssm"}) {
    const std::string shown =
        With(config.c_str(), absl::StrCat(R"({")", field, R"(": 1})").c_str());
    EXPECT_THAT(import(shown, R"({"conv": {"opaque": {}}})"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("config.json: ", field, ": is of "))));
    EXPECT_OK(
        import(shown, absl::StrCat(R"({"conv": {"opaque": {}, "fields": [")", field, R"("]}})")));
    EXPECT_OK(import(shown, R"({"*": {"opaque": {}}})"));
  }
}

TEST(ImportHuggingFace, UnknownKindsOfLayersAreOpaqueIfTheirSizesAreGiven) {
  const std::string config =
      With(kGated,
           R"({"layer_types": ["spectral", "full_attention", "spectral"], "spectral_modes": 3})");
  EXPECT_THAT(ImportConfigText(config).status().ToString(),
              HasSubstr("layer_types[0]: `spectral`"));
  ASSERT_OK_AND_ASSIGN(const GivenOpaqueLayers opaque, ReadOpaqueLayers({"sizes.json", R"({
      "spectral": {"fields": ["spectral_modes"], "parameterCount": 1000,
               "opaque": {"keptBytesPerSample": 4096,
                          "tensorDegrees": [{"tensorParallelDegree": 2, "parameterCount": 500}]}}})"}));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                       ImportHuggingFace({"config.json", config}, {}, opaque));
  EXPECT_EQ(LayersOf(import.model), "o.o");
  const v1::LayerDefinition& layer = import.model.layer_definitions(1);
  EXPECT_EQ(layer.parameter_count(), 1000);
  EXPECT_EQ(layer.opaque().kept_bytes_per_sample(), 4096);
  EXPECT_EQ(layer.opaque().tensor_degrees_size(), 1);
  ASSERT_OK_AND_ASSIGN(const GivenOpaqueLayers all,
                       ReadOpaqueLayers({"sizes.json", R"({"*": {"opaque": {}}})"}));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport whole,
                       ImportHuggingFace({"config.json", kGated}, {}, all));
  EXPECT_EQ(LayersOf(whole.model), "ooo");
  for (const char* bad :
       {"[]", R"({"spectral": 3})", R"({"spectral": {}})",
        R"({"spectral": {"opaque": {"kept": 3}}})", R"({"spectral": {"opaque": {}, "fields": 3}})",
        R"({"spectral": {"opaque": {}, "fields": [3]}})",
        R"({"spectral": {"opaque": {"keptBytesPerSample": -1}}})"}) {
    EXPECT_THAT(ReadOpaqueLayers({"sizes.json", bad}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sizes.json")))
        << bad;
  }
}

}  // namespace
}  // namespace parplan
