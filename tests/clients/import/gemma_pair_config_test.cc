#include "clients/import/gemma_pair_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// An encoder of two layers, 16 wide, and a decoder of three, 8 wide.
constexpr char kGemmaPair[] = R"({"model_type": "t5gemma", "is_encoder_decoder": true,
    "dropout_rate": 0.0, "vocab_size": 50, "tie_word_embeddings": true,
    "encoder": {"model_type": "t5_gemma_module", "hidden_size": 16, "intermediate_size": 24,
                "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                "head_dim": 8, "vocab_size": 50, "sliding_window": 5,
                "layer_types": ["sliding_attention", "full_attention"],
                "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 32},
    "decoder": {"model_type": "t5_gemma_module", "hidden_size": 8, "intermediate_size": 12,
                "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1,
                "head_dim": 8, "vocab_size": 50, "sliding_window": 6, "is_decoder": true,
                "cross_attention_hidden_size": 16, "max_position_embeddings": 32}})";

constexpr int64_t kGemmaEncoder = 16 * 8 * (2 * 4 + 2 * 2) + 3 * 16 * 24 + 4 * 16;
// Keys and values of the second attention read vectors of the encoder.
constexpr int64_t kGemmaDecoder =
    8 * 8 * (2 * 2 + 2) + 8 * 8 * 2 * 2 + 16 * 8 * 2 + 3 * 8 * 12 + 6 * 8;

TEST(ReadGemmaPair, BothPartsHaveSizesOfTheirOwn) {
  const int64_t tables = 50 * 16 + 50 * 8 + 16 + 8;
  EXPECT_EQ(ParametersOf(kGemmaPair), 2 * kGemmaEncoder + 3 * kGemmaDecoder + tables);
  // The head then has a table of its own.
  EXPECT_EQ(ParametersOf(With(kGemmaPair, R"({"tie_word_embeddings": false})")),
            ParametersOf(kGemmaPair) + 50 * 8);
}

TEST(ReadGemmaPair, WindowsOfTheEncoderReadBothWays) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(kGemmaPair));
  ASSERT_EQ(import.model.layer_definitions_size(), 6);
  const auto& layers = import.model.layer_definitions();
  EXPECT_EQ(layers[1].kind(), v1::LAYER_KIND_ENCODER);
  EXPECT_EQ(layers[1].attention_window(), 6);
  EXPECT_EQ(layers[2].attention_window(), 0);
  // Every second layer of the decoder, from the first, has a window.
  EXPECT_EQ(layers[3].kind(), v1::LAYER_KIND_CROSS_DECODER);
  EXPECT_EQ(layers[3].layer_definition_id(), "cross-decoder-window");
  EXPECT_EQ(layers[3].attention_window(), 6);
  EXPECT_EQ(layers[4].attention_window(), 0);
  EXPECT_EQ(import.model.layer_runs_size(), 7);
}

// T5Gemma 2 has one table, norms of queries and keys, and one attention in each layer.
TEST(ReadGemmaPair, TheSecondHasOneAttentionInEachLayer) {
  nlohmann::json config = nlohmann::json::parse(kGemmaPair);
  config["model_type"] = "t5gemma2";
  config["decoder"] = config["encoder"];
  config["encoder"] = {{"text_config", config["encoder"]}, {"vision_config", {{"hidden_size", 8}}}};
  const int64_t layer = kGemmaEncoder + 2 * 8;
  EXPECT_EQ(ParametersOf(config.dump()), 4 * layer + 50 * 16 + 2 * 16 + 16);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config.dump()));
  EXPECT_THAT(import.notes, Contains(HasSubstr("encoder.vision_config: this tower is left out")));
  // 5 tokens on both sides: two before each, and itself.
  EXPECT_EQ(import.model.layer_definitions(1).attention_window(), 3);
  config["decoder"]["hidden_size"] = 32;
  EXPECT_THAT(ImportConfigText(config.dump()).status().ToString(),
              HasSubstr("config.json: decoder.hidden_size: must be that of the encoder"));
}

// The sizes of T5Gemma 2B-2B (`T5GemmaConfig` of transformers 5.24, whose class makes
// 5,596,853,760 parameters of them on PyTorch's meta device).
TEST(ReadGemmaPair, CountsThePublishedModel) {
  const nlohmann::json part = {
      {"hidden_size", 2304},      {"intermediate_size", 9216}, {"num_hidden_layers", 26},
      {"num_attention_heads", 8}, {"num_key_value_heads", 4},  {"head_dim", 256},
      {"vocab_size", 256000},     {"sliding_window", 4096},    {"max_position_embeddings", 8192}};
  const nlohmann::json config = {
      {"model_type", "t5gemma"}, {"encoder", part}, {"decoder", part}, {"vocab_size", 256000}};
  EXPECT_EQ(ParametersOf(config.dump()), 5596853760);
}

TEST(ReadGemmaPair, NamesTheFieldOfEachPart) {
  const struct {
    const char* part;
    const char* field;
    const char* value;
    const char* error;
  } cases[] = {
      {"encoder", "hidden_size", "null", "config.json: encoder.hidden_size: is required"},
      {"decoder", "num_quuxes", "3", "config.json: decoder.num_quuxes"},
      {"decoder", "vocab_size", "60", "config.json: decoder.vocab_size: must be that of the"},
      {"decoder", "cross_attention_hidden_size", "8",
       "config.json: decoder.cross_attention_hidden_size: must be the width of the encoder, 16"},
      {"decoder", "num_key_value_heads", "3", "config.json: decoder.num_key_value_heads: must"},
  };
  for (const auto& test : cases) {
    nlohmann::json config = nlohmann::json::parse(kGemmaPair);
    config[test.part][test.field] = nlohmann::json::parse(test.value);
    EXPECT_THAT(ImportConfigText(config.dump()).status().ToString(), HasSubstr(test.error));
  }
  EXPECT_THAT(ImportConfigText(With(kGemmaPair, R"({"decoder": null})")).status().ToString(),
              HasSubstr("config.json: decoder: is required"));
}

}  // namespace
}  // namespace parplan
