#include "clients/import/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/wire/model_wire.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
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
                0.02 * test.parameters);
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
              HasSubstr("config.json: model_type: `mamba` is not supported"));
  EXPECT_THAT(Import(R"({"model_type": "llama", "hidden_size": -1})").status().ToString(),
              HasSubstr("config.json: "));
  EXPECT_THAT(Import(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                         "num_attention_heads": 3, "vocab_size": 10})")
                  .status()
                  .ToString(),
              HasSubstr("config.json: "));
}

TEST(ImportHuggingFace, MixturesOfExpertsAreRefused) {
  for (const char* config :
       {R"({"model_type": "mixtral", "num_local_experts": 8})", R"({"model_type": "qwen2_moe"})",
        R"({"hidden_size": 4096, "num_local_experts": 8})",
        R"({"model_type": "deepseek_v3", "n_routed_experts": 256})"}) {
    EXPECT_THAT(Import(config).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mixtures of experts")))
        << config;
  }
}

}  // namespace
}  // namespace parplan
