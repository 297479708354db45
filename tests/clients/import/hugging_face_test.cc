#include "clients/import/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "proto/wire/model_wire.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/clients/import/import_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ImportHuggingFace, ReadsLlamaWithGroupedQueries) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(R"({
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
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(test.config));
    ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(import.model));
    EXPECT_NEAR(static_cast<double>(model.parameter_count()), test.parameters,
                0.005 * test.parameters);
  }
}

// The published configuration of microsoft/Phi-3-small-8k-instruct. Its class has a bias in each
// linear map, whatever `attention_bias` says, norms of two vectors and a tied table:
//
//   table            100352 x 4096                                          411,041,792
//   layer            4096 x 6144 + 6144, 4096 x 4096 + 4096,
//                    4096 x 28672 + 28672, 14336 x 4096 + 4096, 4 x 4096    218,163,200  x 32
//   last norm        2 x 4096                                                     8,192
TEST(ImportHuggingFace, CountsThePublishedPhiThreeSmall) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(R"({
      "architectures": ["Phi3SmallForCausalLM"], "attention_bias": false,
      "attention_dropout_prob": 0.0, "blocksparse_block_size": 64,
      "blocksparse_homo_head_pattern": false, "blocksparse_num_local_blocks": 16,
      "blocksparse_triton_kernel_block_size": 64, "blocksparse_vert_stride": 8,
      "bos_token_id": 100257, "dense_attention_every_n_layers": 2, "embedding_dropout_prob": 0.1,
      "eos_token_id": 100257, "ff_dim_multiplier": null, "ff_intermediate_size": 14336,
      "ffn_dropout_prob": 0.1, "gegelu_limit": 20.0, "gegelu_pad_to_256": true,
      "hidden_act": "gegelu", "hidden_size": 4096, "initializer_range": 0.02,
      "layer_norm_epsilon": 1e-05, "max_position_embeddings": 8192, "model_type": "phi3small",
      "mup_attn_multiplier": 1.0, "mup_embedding_multiplier": 10.0, "mup_use_scaling": true,
      "mup_width_multiplier": 8.0, "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": 8, "pad_sequence_to_multiple_of_64": true,
      "reorder_and_upcast_attn": false, "rope_embedding_base": 1000000,
      "rope_position_scale": 1.0, "torch_dtype": "bfloat16", "transformers_version": "4.38.1",
      "use_cache": true, "vocab_size": 100352})"));
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(import.model));
  EXPECT_EQ(model.parameter_count(), 411'041'792 + int64_t{32} * 218'163'200 + 8'192);
  EXPECT_EQ(model.parameter_count(), 7'392'272'384);
  EXPECT_EQ(model.layer_count(), 34);
  // Every second layer has sparse attention, which no layer kind says.
  EXPECT_THAT(import.notes,
              Contains(HasSubstr("blocksparse_block_size: attention is priced over")));
}

TEST(ImportHuggingFace, TakesTheSequenceLengthOfTheFlagOrSaysWhatItTook) {
  const char config[] = R"({"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
      "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
      "vocab_size": 152064, "max_position_embeddings": 131072})";
  ASSERT_OK_AND_ASSIGN(HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(import.model.layer_definitions(1).sequence_length(), kLongestDefaultSequenceLength);
  EXPECT_THAT(import.notes, Contains(HasSubstr("131072")));
  ModelFlags flags;
  flags.sequence_lengths = {8192};
  flags.precision = v1::PRECISION_FP16;
  ASSERT_OK_AND_ASSIGN(import, ImportConfigText(config, flags));
  for (const v1::LayerDefinition& definition : import.model.layer_definitions()) {
    EXPECT_EQ(definition.sequence_length(), 8192);
  }
  EXPECT_EQ(import.model.precision(), v1::PRECISION_FP16);
}

TEST(ImportHuggingFace, ImagesHavePatchesAndClasses) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(R"({"model_type": "vit",
      "hidden_size": 1280, "num_attention_heads": 16, "num_hidden_layers": 32, "image_size": 224,
      "patch_size": 14, "num_labels": 10})"));
  EXPECT_EQ(import.model.layer_definitions(0).kind(), v1::LAYER_KIND_PATCH_EMBEDDING);
  EXPECT_EQ(import.model.layer_definitions(0).vocabulary_size(), 14 * 14 * 3);
  EXPECT_EQ(import.model.layer_definitions(1).sequence_length(), 257);
  EXPECT_EQ(import.model.layer_definitions(2).vocabulary_size(), 10);
}

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
          ImportConfigText(text).status(),
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

TEST(ImportHuggingFace, TheLanguageModelOfSeveralPartsIsTakenAndItsTowersAreNamed) {
  const std::string config =
      absl::StrCat(R"({"model_type": "llava", "image_token_index": 7, "text_config": )", kGated,
                   R"(, "vision_config": {"hidden_size": 32, "num_hidden_layers": 2}})");
  EXPECT_EQ(ParametersOf(config), ParametersOf(kGated));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr("vision_config (num_hidden_layers 2")));
  EXPECT_THAT(ImportConfigText(absl::StrCat(R"({"model_type": "llava", "text_config": )",
                                            With(kGated, R"({"hidden_size": -1})"), "}"))
                  .status()
                  .ToString(),
              HasSubstr("config.json: text_config.hidden_size: "));
}

TEST(ImportHuggingFace, AnUnknownFamilyIsReadByItsFieldsWithANote) {
  const std::string config = With(kGated, R"({"model_type": "brand-new", "hidden_act": "silu",
      "rms_norm_eps": 1e-5, "architectures": ["BrandNewForCausalLM"]})");
  EXPECT_EQ(ParametersOf(config), ParametersOf(kGated));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("`brand-new` is not known")));
  EXPECT_THAT(ImportConfigText(With(kGated, R"({"model_type": "brand-new"})")).status().ToString(),
              HasSubstr("config.json: model_type: `brand-new` is not known"));
}

// Files of Hugging Face leave out what equals the default of the family: heads of Gemma 3.
TEST(ImportHuggingFace, DefaultsOfAFamilyAreTakenWithANote) {
  const char config[] = R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
      "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
      "sliding_window": 1024}})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes,
              Contains(HasSubstr("text_config leaves these to the defaults of gemma3_text: "
                                 "num_attention_heads 8, num_key_value_heads 4, vocab_size "
                                 "262208")));
  EXPECT_EQ(ParametersOf(config), 34 * (int64_t{2560} * (2 * 8 * 256 + 2 * 4 * 256) +
                                        3 * 2560 * 10240 + 4 * 2560 + 2 * 256) +
                                      int64_t{262208} * 2560 + 2560);
}

TEST(ImportHuggingFace, WhisperHasAnEncoderAndADecoderOfTheirOwnLengths) {
  const char config[] = R"({"model_type": "whisper", "d_model": 64, "encoder_layers": 2,
      "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_layers": 3,
      "decoder_attention_heads": 8, "decoder_ffn_dim": 256, "num_mel_bins": 80,
      "max_source_positions": 1500, "max_target_positions": 448, "vocab_size": 1000,
      "num_hidden_layers": 2, "classifier_proj_size": 256})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(import.model.layer_definitions(1).kind(), v1::LAYER_KIND_ENCODER);
  EXPECT_EQ(import.model.layer_definitions(1).sequence_length(), 1500);
  EXPECT_EQ(import.model.layer_definitions(2).kind(), v1::LAYER_KIND_CROSS_DECODER);
  EXPECT_EQ(import.model.layer_definitions(2).sequence_length(), 448);
  // Keys have no biases.
  const int64_t encoder = 4 * 64 * 64 + 2 * 64 * 128 + 3 * 64 + 128 + 64 + 2 * 2 * 64;
  const int64_t decoder = 8 * 64 * 64 + 2 * 64 * 256 + 6 * 64 + 256 + 64 + 3 * 2 * 64;
  const int64_t convolutions = 3 * 80 * 64 + 64 + 3 * 64 * 64 + 64;
  EXPECT_EQ(ParametersOf(config),
            2 * encoder + 3 * decoder + convolutions + (1000 + 1500 + 448) * 64 + 2 * 64 + 2 * 64);
}

TEST(ImportHuggingFace, ImagesTakeTheirClassesFromTheirNames) {
  const char config[] = R"({"model_type": "vit", "hidden_size": 64, "num_attention_heads": 4,
      "num_hidden_layers": 2, "image_size": 32, "patch_size": 16,
      "id2label": {"0": "a", "1": "b", "2": "c"}})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_EQ(import.model.layer_definitions(2).vocabulary_size(), 3);
}

// Llama's own files give a factor and a multiple: 14336 of Llama-3-8B, 28672 of Llama-3-70B.
TEST(ImportHuggingFace, LlamasRuleHasAFactor) {
  const struct {
    const char* config;
    int size;
  } cases[] = {
      {R"({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "multiple_of": 1024,
           "ffn_dim_multiplier": 1.3, "vocab_size": 128256})",
       14336},
      {R"({"dim": 8192, "n_layers": 80, "n_heads": 64, "n_kv_heads": 8, "multiple_of": 4096,
           "ffn_dim_multiplier": 1.3, "vocab_size": 128256})",
       28672},
      {R"({"dim": 4096, "n_layers": 32, "n_heads": 32, "multiple_of": 256, "vocab_size": 32000})",
       11008},
      // Mistral's say the width.
      {R"({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "hidden_dim": 14336,
           "vocab_size": 32000})",
       14336},
  };
  for (const auto& test : cases) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(test.config));
    EXPECT_EQ(import.model.layer_definitions(1).feed_forward_size(), test.size) << test.config;
  }
  EXPECT_THAT(
      ImportConfigText(With(cases[0].config, R"({"ffn_dim_multiplier": -1})")).status().ToString(),
      HasSubstr("config.json: ffn_dim_multiplier: must be above 0"));
}

// Files of Mamba-2 and Nemotron-H, which Python wrote.
TEST(ImportHuggingFace, TakesInfinityWhereNoSizeIs) {
  const std::string mamba = R"({"model_type": "mamba2", "hidden_size": 64, "num_heads": 8,
      "head_dim": 16, "state_size": 4, "num_hidden_layers": 2, "vocab_size": 100,
      "tie_word_embeddings": false, "time_step_limit": [0.0, Infinity], "quux": NaN)";
  EXPECT_OK(ImportConfigText(mamba + "}").status());
  EXPECT_THAT(ImportConfigText(mamba + R"(, "chunk_size": Infinity})").status().ToString(),
              HasSubstr("config.json: chunk_size: must be a whole number"));
}

TEST(ImportHuggingFace, AFlagThatChangesASizeDropsTheParametersOfTheOldOne) {
  ModelFlags flags;
  flags.feed_forward_size = 128;
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                       ImportConfigText(With(kGated, R"({"attention_bias": true})"), flags));
  EXPECT_EQ(import.model.layer_definitions(1).parameter_count(), 0);
  EXPECT_EQ(import.model.layer_definitions(1).feed_forward_size(), 128);
}

}  // namespace
}  // namespace parplan
