#include "clients/import/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "proto/wire/model_wire.h"
#include "tests/clients/import/import_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<HuggingFaceImport> Import(const std::string& text, const ModelFlags& flags = {}) {
  return ImportHuggingFace({"config.json", text}, flags);
}

TEST(ImportHuggingFace, ReadsLlamaWithGroupedQueries) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(R"({
      "_name_or_path": "meta-llama/Llama-2-70b-hf", "model_type": "llama", "hidden_size": 8192,
      "intermediate_size": 28672, "num_attention_heads": 64, "num_key_value_heads": 8,
      "num_hidden_layers": 80, "vocab_size": 32000, "max_position_embeddings": 4096,
      "tie_word_embeddings": false})"));
  EXPECT_EQ(import.model.model_id(), "Llama-2-70b-hf");
  ASSERT_EQ(import.model.layer_definitions_size(), 3);
  const v1::LayerDefinition& layer = import.model.layer_definitions(1);
  EXPECT_EQ(layer.kind(), v1::LAYER_KIND_DECODER);
  EXPECT_EQ(layer.key_value_head_count(), 8);
  EXPECT_EQ(layer.head_size(), 0);
  EXPECT_EQ(layer.feed_forward_kind(), v1::FEED_FORWARD_KIND_SWIGLU);
  EXPECT_EQ(layer.sequence_length(), 4096);
  EXPECT_EQ(import.model.layer_runs(1).layer_count(), 80);
  EXPECT_EQ(import.model.precision(), v1::PRECISION_BF16);
  EXPECT_FALSE(import.model.layer_definitions(2).tied_embedding());
  EXPECT_THAT(import.notes, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(import.model));
  EXPECT_NEAR(static_cast<double>(model.parameter_count()), 68.98e9, 0.05e9);
}

TEST(ImportHuggingFace, KnowsTheSizesOfItsFamilies) {
  const struct {
    const char* config;
    double parameters;
  } cases[] = {
      {R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
           "vocab_size": 50257})",
       124e6},
      {R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
           "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
           "vocab_size": 32000, "max_position_embeddings": 32768})",
       7.24e9},
      {R"({"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_attention_heads": 12,
           "num_hidden_layers": 12, "vocab_size": 50272, "word_embed_proj_dim": 768,
           "max_position_embeddings": 2048})",
       125e6},
      {R"({"model_type": "bloom", "n_embed": 1024, "n_head": 16, "n_layer": 24,
           "vocab_size": 250880})",
       559e6},
      {R"({"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71,
           "num_hidden_layers": 32, "vocab_size": 65024, "multi_query": true})",
       6.92e9},
      {R"({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32,
           "max_seq_len": 2048, "vocab_size": 50432})",
       6.65e9},
      {R"({"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
           "num_attention_heads": 64, "num_hidden_layers": 44, "vocab_size": 50432,
           "max_position_embeddings": 2048, "tie_word_embeddings": false})",
       20.55e9},
      {R"({"model_type": "bert", "hidden_size": 1024, "num_attention_heads": 16,
           "intermediate_size": 4096, "num_hidden_layers": 24, "vocab_size": 30522,
           "max_position_embeddings": 512})",
       335e6},
      {R"({"model_type": "gemma", "hidden_size": 3072, "intermediate_size": 24576,
           "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
           "num_hidden_layers": 28, "vocab_size": 256000, "max_position_embeddings": 8192})",
       8.54e9},
      {R"({"model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_heads": 8,
           "num_layers": 6, "vocab_size": 32128, "n_positions": 512})",
       60.5e6},
      {R"({"model_type": "vit", "hidden_size": 768, "num_attention_heads": 12,
           "intermediate_size": 3072, "num_hidden_layers": 12, "image_size": 224,
           "patch_size": 16, "num_channels": 3})",
       86.6e6},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.config);
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(test.config));
    ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(import.model));
    EXPECT_NEAR(static_cast<double>(model.parameter_count()), test.parameters,
                0.005 * test.parameters);
  }
}

TEST(ImportHuggingFace, TakesTheSequenceLengthOfTheFlagOrSaysWhatItTook) {
  const char config[] = R"({"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
      "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
      "vocab_size": 152064, "max_position_embeddings": 131072})";
  ASSERT_OK_AND_ASSIGN(HuggingFaceImport import, Import(config));
  EXPECT_EQ(import.model.layer_definitions(1).sequence_length(), kLongestDefaultSequenceLength);
  EXPECT_THAT(import.notes, Contains(HasSubstr("131072")));
  ModelFlags flags;
  flags.sequence_lengths = {8192};
  flags.precision = v1::PRECISION_FP16;
  ASSERT_OK_AND_ASSIGN(import, Import(config, flags));
  for (const v1::LayerDefinition& definition : import.model.layer_definitions()) {
    EXPECT_EQ(definition.sequence_length(), 8192);
  }
  EXPECT_EQ(import.model.precision(), v1::PRECISION_FP16);
}

TEST(ImportHuggingFace, ImagesHavePatchesAndClasses) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(R"({"model_type": "vit",
      "hidden_size": 1280, "num_attention_heads": 16, "num_hidden_layers": 32, "image_size": 224,
      "patch_size": 14, "num_labels": 10})"));
  EXPECT_EQ(import.model.layer_definitions(0).kind(), v1::LAYER_KIND_PATCH_EMBEDDING);
  EXPECT_EQ(import.model.layer_definitions(0).vocabulary_size(), 14 * 14 * 3);
  EXPECT_EQ(import.model.layer_definitions(1).sequence_length(), 257);
  EXPECT_EQ(import.model.layer_definitions(2).vocabulary_size(), 10);
}

TEST(ImportHuggingFace, ErrorsNameFileAndField) {
  EXPECT_THAT(Import("[]").status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("config.json: must hold one JSON object")));
  EXPECT_THAT(Import("{").status().ToString(), HasSubstr("config.json: must be JSON"));
  EXPECT_THAT(Import(R"({"model_type": "mamba"})").status().ToString(),
              HasSubstr("config.json: num_hidden_layers: is required"));
  EXPECT_THAT(Import(R"({"model_type": "llama", "hidden_size": -1})").status().ToString(),
              HasSubstr("config.json: "));
  EXPECT_THAT(Import(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                         "num_attention_heads": 3, "vocab_size": 10})")
                  .status()
                  .ToString(),
              HasSubstr("config.json: "));
}

// Returns `base` with the members of `change` over its own; null removes a member.
std::string With(const char* base, const char* change) {
  nlohmann::json object = nlohmann::json::parse(base);
  object.merge_patch(nlohmann::json::parse(change));
  return object.dump();
}

int64_t ParametersOf(const std::string& config, const ModelFlags& flags = {}) {
  const absl::StatusOr<HuggingFaceImport> import = Import(config, flags);
  EXPECT_OK(import.status());
  if (!import.ok()) return 0;
  const absl::StatusOr<ModelSpec> model = ModelFromProto(import->model);
  EXPECT_OK(model.status());
  return model.ok() ? model->parameter_count() : 0;
}

constexpr char kGated[] = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 100,
    "max_position_embeddings": 32})";

constexpr char kMixture[] = R"({"model_type": "qwen3_moe", "hidden_size": 64,
    "intermediate_size": 96, "moe_intermediate_size": 16, "num_experts": 8,
    "num_experts_per_tok": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "num_hidden_layers": 6, "vocab_size": 100, "max_position_embeddings": 32})";

// 23 configurations of the models that people train, and what comes of them. The numbers are worked
// out by hand in the file, from the sizes alone; study_test.py computes each derivation again.
TEST(ImportHuggingFace, ConfigurationsHaveTheParametersWorkedOutByHand) {
  const std::string folder = SourceDir() + "/tests/clients/import/";
  const nlohmann::json expected =
      nlohmann::json::parse(ReadTestFile(folder + "golden/model_parameters.json"));
  ASSERT_EQ(expected["models"].size(), 23U);
  for (const nlohmann::json& model : expected["models"]) {
    const std::string name = model["config"].get<std::string>();
    SCOPED_TRACE(name);
    const std::string text = ReadTestFile(folder + "data/" + name + ".json");
    if (model.contains("parameters")) {
      // Published numbers leave out what predicts further tokens.
      ModelFlags flags;
      flags.prediction_layer_count = 0;
      EXPECT_EQ(ParametersOf(text, flags), model["parameters"].get<int64_t>());
    } else {
      EXPECT_THAT(
          Import(text).status(),
          StatusIs(absl::StatusCode::kInvalidArgument,
                   HasSubstr("config.json: " + model["refused_field"].get<std::string>() + ": ")));
    }
  }
}

TEST(ImportHuggingFace, EveryFieldAddsTheParametersItIsAbout) {
  // 3 layers of 4 heads of 16 and 2 key-value heads: query 64 wide, key and value 32 each.
  const int64_t plain = ParametersOf(kGated);
  EXPECT_EQ(plain, 3 * (64 * (2 * 64 + 2 * 32) + 3 * 64 * 96 + 2 * 64) + 2 * 100 * 64 + 64);
  const struct {
    const char* change;
    int64_t difference;
  } cases[] = {
      {R"({"attention_bias": true})", 3 * (64 + 2 * 32 + 64)},
      {R"({"mlp_bias": true})", 3 * (2 * 96 + 64)},
      {R"({"tie_word_embeddings": true})", -100 * 64},
      {R"({"head_dim": 32})", 3 * 64 * (2 * 64 + 2 * 32)},
      {R"({"num_key_value_heads": 1})", -3 * 64 * 2 * 16},
      {R"({"num_key_value_heads": null})", 3 * 64 * 2 * 32},
      {R"({"model_type": "qwen2"})", 3 * (64 + 2 * 32)},
      {R"({"model_type": "qwen3", "head_dim": 16})", 3 * 2 * 16},
      {R"({"model_type": "olmo2"})", 3 * (64 + 32)},
      {R"({"model_type": "olmo"})", -3 * 2 * 64 - 64},
      {R"({"model_type": "gemma2", "head_dim": 16})", 3 * 2 * 64 - 100 * 64},
      {R"({"lm_head_bias": true})", 100},
      {R"({"model_type": "smollm3"})", -100 * 64},
      {R"({"rope_theta": 500000.0, "bos_token_id": 1, "rope_scaling": {"factor": 8.0}})", 0},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(ParametersOf(With(kGated, test.change)) - plain, test.difference) << test.change;
  }
}

TEST(ImportHuggingFace, ExpertsReplaceTheFeedForwardPartOfTheirLayers) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(kMixture));
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
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(With(kMixture, test.change)));
    std::string layers;
    for (const v1::ModelLayerRun& run : import.model.layer_runs()) {
      if (run.layer_definition_id() == "decoder-dense") layers.append(run.layer_count(), 'd');
      if (run.layer_definition_id() == "decoder-experts") layers.append(run.layer_count(), 'e');
    }
    EXPECT_EQ(layers, test.layers);
    EXPECT_EQ(import.model.layer_definitions_size(), 4);
  }
}

TEST(ImportHuggingFace, TheLanguageModelOfSeveralPartsIsTakenAndItsTowersAreNamed) {
  const std::string config =
      absl::StrCat(R"({"model_type": "llava", "image_token_index": 7, "text_config": )", kGated,
                   R"(, "vision_config": {"hidden_size": 32, "num_hidden_layers": 2}})");
  EXPECT_EQ(ParametersOf(config), ParametersOf(kGated));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(config));
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr("vision_config (num_hidden_layers 2")));
  EXPECT_THAT(Import(absl::StrCat(R"({"model_type": "llava", "text_config": )",
                                  With(kGated, R"({"hidden_size": -1})"), "}"))
                  .status()
                  .ToString(),
              HasSubstr("config.json: text_config.hidden_size: "));
}

// Returns the layers between embedding and head, a letter each: . reads all tokens, w a window of
// 16, c a chunk of 16, s is a state space, f a feed-forward part alone, o opaque, p predicts a
// further token; in upper case with experts.
std::string LayersOf(const v1::ModelSpec& model) {
  std::string layers;
  for (int i = 1; i + 1 < model.layer_runs_size(); ++i) {
    for (const v1::LayerDefinition& definition : model.layer_definitions()) {
      if (definition.layer_definition_id() != model.layer_runs(i).layer_definition_id()) continue;
      char letter = '.';
      if (definition.attention_window() == 16) letter = 'w';
      if (definition.attention_chunk_size() == 16) letter = 'c';
      if (definition.kind() == v1::LAYER_KIND_STATE_SPACE) letter = 's';
      if (definition.kind() == v1::LAYER_KIND_FEED_FORWARD) letter = 'f';
      if (definition.kind() == v1::LAYER_KIND_OPAQUE) letter = 'o';
      if (definition.prediction_depth() > 0) letter = 'p';
      if (definition.expert_count() > 0) letter = letter == '.' ? ':' : letter - 'a' + 'A';
      layers.append(model.layer_runs(i).layer_count(), letter);
    }
  }
  return layers;
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
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(With(kGated, test.change)));
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
      Import(With(kGated, R"({"model_type": "gemma2", "head_dim": 16, "sliding_window": 32})")));
  EXPECT_EQ(import.model.layer_definitions_size(), 3);
  EXPECT_EQ(import.model.layer_runs(1).layer_count(), 3);
}

constexpr char kLatent[] = R"({"model_type": "deepseek_v3", "hidden_size": 64,
    "intermediate_size": 96, "moe_intermediate_size": 16, "n_routed_experts": 8,
    "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
    "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 3, "vocab_size": 100,
    "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4,
    "v_head_dim": 8, "max_position_embeddings": 32})";

TEST(ImportHuggingFace, ReadsLatentAttention) {
  const int64_t keys_and_values = 64 * (16 + 4) + 16 + 16 * 4 * (12 + 8);
  const int64_t output = 4 * 8 * 64;
  const int64_t attention = 64 * 24 + 24 + 24 * 4 * 16 + keys_and_values + output + 2 * 64;
  const int64_t mixture = 9 * 3 * 64 * 16 + 64 * 8 + 8;
  const int64_t rest = 3 * 64 * 96 + 2 * mixture + 2 * 100 * 64 + 64;
  EXPECT_EQ(ParametersOf(kLatent), 3 * attention + rest);
  // Queries straight from the stream.
  EXPECT_EQ(ParametersOf(With(kLatent, R"({"q_lora_rank": null})")),
            3 * (64 * 4 * 16 + keys_and_values + output + 2 * 64) + rest);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(kLatent));
  const v1::LayerDefinition& layer = import.model.layer_definitions(1);
  EXPECT_EQ(layer.latent_attention().query_rank(), 24);
  EXPECT_EQ(layer.latent_attention().rotary_head_size(), 4);
  EXPECT_EQ(layer.latent_attention().value_head_size(), 8);
  EXPECT_EQ(LayersOf(import.model), ".::");
}

// DeepSeek-V3, section 2.2: the map of the pair and three norms, and a layer like the last one.
TEST(ImportHuggingFace, LayersThatPredictFurtherTokensFollowTheOthers) {
  const std::string config = With(kLatent, R"({"num_nextn_predict_layers": 1})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(config));
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
  EXPECT_THAT(Import(config, flags).status().ToString(), HasSubstr("--prediction-layers"));
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
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(With(kGated, test.change)));
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
    EXPECT_THAT(Import(With(kGated, test.change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.field)))
        << test.change;
  }
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

TEST(ImportHuggingFace, UnknownKindsOfLayersAreOpaqueIfTheirSizesAreGiven) {
  const std::string config =
      With(kGated, R"({"layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3})");
  EXPECT_THAT(Import(config).status().ToString(), HasSubstr("layer_types[0]: `conv`"));
  ASSERT_OK_AND_ASSIGN(const GivenOpaqueLayers opaque, ReadOpaqueLayers({"sizes.json", R"({
      "conv": {"fields": ["conv_L_cache"], "parameterCount": 1000,
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
       {"[]", R"({"conv": 3})", R"({"conv": {}})", R"({"conv": {"opaque": {"kept": 3}}})",
        R"({"conv": {"opaque": {}, "fields": 3}})", R"({"conv": {"opaque": {}, "fields": [3]}})",
        R"({"conv": {"opaque": {"keptBytesPerSample": -1}}})"}) {
    EXPECT_THAT(ReadOpaqueLayers({"sizes.json", bad}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sizes.json")))
        << bad;
  }
}

TEST(ImportHuggingFace, AnUnknownFamilyIsReadByItsFieldsWithANote) {
  const std::string config = With(kGated, R"({"model_type": "brand-new", "hidden_act": "silu",
      "rms_norm_eps": 1e-5, "architectures": ["BrandNewForCausalLM"]})");
  EXPECT_EQ(ParametersOf(config), ParametersOf(kGated));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("`brand-new` is not known")));
  EXPECT_THAT(Import(With(kGated, R"({"model_type": "brand-new"})")).status().ToString(),
              HasSubstr("config.json: model_type: `brand-new` is not known"));
}

// Files of Hugging Face leave out what equals the default of the family: heads of Gemma 3.
TEST(ImportHuggingFace, DefaultsOfAFamilyAreTakenWithANote) {
  const char config[] = R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
      "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
      "sliding_window": 1024}})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("num_attention_heads 8 is the default of gemma3")));
  EXPECT_THAT(import.notes, Contains(HasSubstr("vocab_size 262208 is the default of gemma3_text")));
  EXPECT_EQ(ParametersOf(config), 34 * (int64_t{2560} * (2 * 8 * 256 + 2 * 4 * 256) +
                                        3 * 2560 * 10240 + 4 * 2560 + 2 * 256) +
                                      int64_t{262208} * 2560 + 2560);
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
      {R"({"embedding_size": 32})", "embedding_size"},
      {R"({"quux": [1, 2, 3]})", "quux"},
      {R"({"num_quuxes": 2})", "num_quuxes"},
      {R"({"layer_types": ["full_attention", "linear_attention", "full_attention"]})",
       "layer_types[1]"},
  };
  for (const auto& test : refused) {
    EXPECT_THAT(Import(With(kGated, test.change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("config.json: ", test.field, ": "))))
        << test.change;
  }
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                       Import(With(kGated, R"({"quux": 3, "num_quuxes": 0, "use_quux": false})")));
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
      {kMixture, R"({"num_experts": 16777216, "moe_intermediate_size": 16777216})", "2^50"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(Import(With(test.base, test.change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.field)))
        << test.change;
  }
  // Every beginning of a file is refused.
  const std::string whole = kMixture;
  for (size_t length = 0; length < whole.size(); length += 7) {
    EXPECT_THAT(Import(whole.substr(0, length)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config.json: must")));
  }
}

TEST(ImportHuggingFace, WhisperHasAnEncoderAndADecoderOfTheirOwnLengths) {
  const char config[] = R"({"model_type": "whisper", "d_model": 64, "encoder_layers": 2,
      "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_layers": 3,
      "decoder_attention_heads": 8, "decoder_ffn_dim": 256, "num_mel_bins": 80,
      "max_source_positions": 1500, "max_target_positions": 448, "vocab_size": 1000,
      "num_hidden_layers": 2, "classifier_proj_size": 256})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(config));
  EXPECT_EQ(import.model.layer_definitions(1).kind(), v1::LAYER_KIND_ENCODER);
  EXPECT_EQ(import.model.layer_definitions(1).sequence_length(), 1500);
  EXPECT_EQ(import.model.layer_definitions(2).kind(), v1::LAYER_KIND_CROSS_DECODER);
  EXPECT_EQ(import.model.layer_definitions(2).sequence_length(), 448);
  const int64_t encoder = 4 * 64 * 64 + 2 * 64 * 128 + 4 * 64 + 128 + 64 + 2 * 2 * 64;
  const int64_t decoder = 8 * 64 * 64 + 2 * 64 * 256 + 8 * 64 + 256 + 64 + 3 * 2 * 64;
  const int64_t convolutions = 3 * 80 * 64 + 64 + 3 * 64 * 64 + 64;
  EXPECT_EQ(ParametersOf(config),
            2 * encoder + 3 * decoder + convolutions + (1000 + 1500 + 448) * 64 + 2 * 64 + 2 * 64);
}

TEST(ImportHuggingFace, ImagesTakeTheirClassesFromTheirNames) {
  const char config[] = R"({"model_type": "vit", "hidden_size": 64, "num_attention_heads": 4,
      "num_hidden_layers": 2, "image_size": 32, "patch_size": 16,
      "id2label": {"0": "a", "1": "b", "2": "c"}})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, Import(config));
  EXPECT_EQ(import.model.layer_definitions(2).vocabulary_size(), 3);
}

TEST(ImportHuggingFace, AFlagThatChangesASizeDropsTheParametersOfTheOldOne) {
  ModelFlags flags;
  flags.feed_forward_size = 128;
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                       Import(With(kGated, R"({"attention_bias": true})"), flags));
  EXPECT_EQ(import.model.layer_definitions(1).parameter_count(), 0);
  EXPECT_EQ(import.model.layer_definitions(1).feed_forward_size(), 128);
}

}  // namespace
}  // namespace parplan
