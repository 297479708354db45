#include "clients/import/encoder_decoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

// An encoder of 2 layers and a decoder of 3, 16 wide, for 20 tokens and a table of 50 words.
constexpr char kPair[] = R"({"model_type": "bart", "d_model": 16, "encoder_layers": 2,
    "decoder_layers": 3, "encoder_attention_heads": 2, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 48, "max_position_embeddings": 20,
    "vocab_size": 50})";

constexpr int64_t kPairAttention = 4 * (16 * 16 + 16);
constexpr int64_t kPairEncoder = kPairAttention + 2 * 16 * 32 + 32 + 16 + 4 * 16;
constexpr int64_t kPairDecoder = 2 * kPairAttention + 2 * 16 * 48 + 48 + 16 + 6 * 16;
constexpr int64_t kPairLayers = 2 * kPairEncoder + 3 * kPairDecoder + 50 * 16;

TEST(ReadEncoderAndDecoder, EndsAreThoseOfTheFamily) {
  const int64_t table = 2 * 20 * 16;
  const int64_t norms = 2 * 2 * 16;
  const struct {
    const char* family;
    int64_t ends;
  } cases[] = {
      {"bart", table + 2 * 2 * 16 + norms},
      {"mbart", table + 2 * 2 * 16 + 2 * norms},
      {"blenderbot", table + norms},
      {"blenderbot-small", table + norms},
      {"pegasus", norms},
      {"m2m_100", norms},
      {"marian", 0},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(ParametersOf(
                  With(kPair, absl::StrCat(R"({"model_type": ")", test.family, R"("})").c_str())),
              kPairLayers + test.ends)
        << test.family;
  }
}

TEST(ReadEncoderAndDecoder, BothHaveOneTable) {
  EXPECT_EQ(ParametersOf(With(kPair, R"({"decoder_vocab_size": 50,
                                         "share_encoder_decoder_embeddings": true})")),
            ParametersOf(kPair));
  for (const char* change :
       {R"({"decoder_vocab_size": 60})", R"({"share_encoder_decoder_embeddings": false})"}) {
    EXPECT_THAT(ImportConfigText(With(kPair, change)).status().ToString(),
                HasSubstr("config.json: share_encoder_decoder_embeddings: must be true"));
  }
}

TEST(ReadEncoderAndDecoder, FieldsSayMoreThanTheFamily) {
  const int64_t bart = ParametersOf(kPair);
  const int64_t norms = 2 * 2 * 16;
  const struct {
    const char* change;
    int64_t difference;
  } cases[] = {
      {R"({"normalize_embedding": true, "add_final_layer_norm": false,
           "normalize_before": false, "static_position_embeddings": false})",
       0},
      {R"({"normalize_embedding": false})", -norms},
      {R"({"add_final_layer_norm": true})", norms},
      {R"({"normalize_before": true})", norms},
      {R"({"static_position_embeddings": true})", -2 * (20 + 2) * 16},
      // Rows of a table that is there, and none of sines.
      {R"({"extra_pos_embeddings": 3})", 2 * 16},
      {R"({"extra_pos_embeddings": 1, "static_position_embeddings": true})", -2 * (20 + 2) * 16},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(ParametersOf(With(kPair, test.change)) - bart, test.difference) << test.change;
  }
}

// Whisper large-v3 as published, 1,543,490,560; its positions and lengths are the family's.
TEST(ReadEncoderAndDecoder, WhisperHasNoBiasesOfKeys) {
  EXPECT_EQ(ParametersOf(R"({"model_type": "whisper", "d_model": 1280, "encoder_layers": 32,
      "decoder_layers": 32, "encoder_attention_heads": 20, "decoder_attention_heads": 20,
      "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_mel_bins": 128,
      "vocab_size": 51866})"),
            1543490560);
}

// Encoder and decoder of one layer, 16 wide, in two heads of 4.
constexpr char kT5[] = R"({"model_type": "t5", "d_model": 16, "d_kv": 4, "d_ff": 32,
    "num_heads": 2, "num_layers": 2, "num_decoder_layers": 1, "vocab_size": 50,
    "relative_attention_num_buckets": 6, "n_positions": 20})";

TEST(ReadT5, BiasesOfPositionsAreInOneTableOrInOneOfEachLayer) {
  const int64_t attention = 4 * 16 * 8;
  const int64_t encoder = attention + 2 * 16 * 32 + 2 * 16;
  const int64_t decoder = 2 * attention + 2 * 16 * 32 + 3 * 16;
  const int64_t layers = 2 * encoder + decoder + 50 * 16 + 2 * 16;
  EXPECT_EQ(ParametersOf(kT5), layers + 2 * 6 * 2);
  EXPECT_EQ(ParametersOf(With(kT5, R"({"model_type": "mt5"})")), layers + 50 * 16 + 2 * 6 * 2);
  EXPECT_EQ(ParametersOf(With(kT5, R"({"model_type": "umt5"})")), layers + 50 * 16 + 3 * 6 * 2);
}

TEST(ReadT5, RefusesByField) {
  EXPECT_THAT(ImportConfigText(With(kT5, R"({"d_kv": null, "num_heads": 3})")).status().ToString(),
              HasSubstr("config.json: num_heads: must divide d_model 16"));
  EXPECT_THAT(ImportConfigText(With(kT5, R"({"num_experts": 8})")).status().ToString(),
              HasSubstr("config.json: num_experts: "));
  EXPECT_THAT(
      ImportConfigText(With(kPair, R"({"decoder_attention_heads": 3})")).status().ToString(),
      HasSubstr("config.json: decoder_attention_heads: must divide d_model 16"));
}

}  // namespace
}  // namespace parplan
