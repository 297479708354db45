#include "clients/import/end_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Three plain layers of 64 values for 32 tokens and 100 words.
constexpr char kPlainDecoder[] = R"({"model_type": "opt", "hidden_size": 64, "ffn_dim": 96,
    "num_attention_heads": 4, "num_hidden_layers": 3, "vocab_size": 100,
    "max_position_embeddings": 32})";

constexpr int64_t kPlainLayers = 3 * (4 * (64 * 64 + 64) + 2 * 64 * 96 + 96 + 64 + 2 * 2 * 64);

TEST(ReadEndParameters, ANarrowerTableHasProjections) {
  const int64_t positions = (32 + 2) * 64;
  EXPECT_EQ(ParametersOf(kPlainDecoder), kPlainLayers + 100 * 64 + positions + 2 * 64);
  // As OPT-350m has it: tied, without a final norm.
  const std::string narrow =
      With(kPlainDecoder, R"({"word_embed_proj_dim": 24, "do_layer_norm_before": false})");
  EXPECT_EQ(ParametersOf(narrow), kPlainLayers + 100 * 24 + 2 * 24 * 64 + positions);
  EXPECT_EQ(ParametersOf(With(narrow.c_str(), R"({"tie_word_embeddings": false})")),
            kPlainLayers + 2 * 100 * 24 + 2 * 24 * 64 + positions);
  EXPECT_EQ(ParametersOf(With(narrow.c_str(), R"({"do_layer_norm_before": true})")),
            ParametersOf(narrow) + 2 * 64);
  EXPECT_EQ(ParametersOf(With(narrow.c_str(), R"({"do_layer_norm_before": true,
                                                  "_remove_final_layer_norm": true})")),
            ParametersOf(narrow));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(narrow));
  EXPECT_THAT(import.notes, Contains(HasSubstr("the table of words is 24 wide, the layers 64")));
}

// OPT-350m, 331,196,416 parameters, and Galactica's norms without parameters.
TEST(ReadEndParameters, CountsWhatIsPublishedOfOpt) {
  EXPECT_EQ(ParametersOf(R"({"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096,
      "num_attention_heads": 16, "num_hidden_layers": 24, "max_position_embeddings": 2048,
      "vocab_size": 50272, "word_embed_proj_dim": 512, "do_layer_norm_before": false})"),
            331196416);
  EXPECT_EQ(ParametersOf(With(kPlainDecoder, R"({"layer_norm_elementwise_affine": false})")),
            ParametersOf(kPlainDecoder) - 3 * 4 * 64 - 2 * 64);
}

// DeepSeek-VL2 and Hunyuan say that there is a head, and the widths of a classifier that is not.
TEST(ReadEndParameters, AModelHasAHeadAndNoClassifier) {
  EXPECT_EQ(ParametersOf(With(kPlainDecoder, R"({"lm_head": true, "dense_list": [64, 0],
                "add_classification_head": false})")),
            ParametersOf(kPlainDecoder));
  EXPECT_THAT(ImportConfigText(With(kPlainDecoder, R"({"lm_head": false})")).status().ToString(),
              HasSubstr("config.json: lm_head: must be true"));
  EXPECT_THAT(ImportConfigText(With(kPlainDecoder, R"({"dense_list": [64, 2],
                                                       "add_classification_head": true})"))
                  .status()
                  .ToString(),
              HasSubstr("config.json: dense_list: is not known"));
}

// The file of all-mpnet-base-v2, whose class of transformers 5.24 has 109,518,527 parameters.
TEST(ReadEndParameters, CountsWhatTheClassOfMpnetHas) {
  constexpr char kMpnet[] = R"({"model_type": "mpnet", "hidden_act": "gelu", "hidden_size": 768,
      "intermediate_size": 3072, "layer_norm_eps": 1e-05, "max_position_embeddings": 514,
      "num_attention_heads": 12, "num_hidden_layers": 12, "relative_attention_num_buckets": 32,
      "vocab_size": 30527})";
  EXPECT_EQ(ParametersOf(kMpnet), 109518527);
  EXPECT_EQ(ParametersOf(With(kMpnet, R"({"relative_attention_num_buckets": 64})")),
            109518527 + 32 * 12);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(kMpnet));
  EXPECT_THAT(import.notes, Contains(HasSubstr("scores by the distance of two tokens")));
}

TEST(ReadEndParameters, PositionsAreATableUnlessAFieldSaysOtherwise) {
  const int64_t learned = ParametersOf(kPlainDecoder);
  for (const char* change :
       {R"({"alibi": true})", R"({"attn_config": {"alibi": true, "alibi_bias_max": 8}})",
        R"({"position_embedding_type": "rotary"})", R"({"learned_pos_emb": false})"}) {
    EXPECT_EQ(ParametersOf(With(kPlainDecoder, change)), learned - (32 + 2) * 64) << change;
  }
  EXPECT_EQ(ParametersOf(With(kPlainDecoder, R"({"position_embedding_type": "absolute"})")),
            learned);
  EXPECT_THAT(ImportConfigText(With(kPlainDecoder, R"({"attn_config": {"quux_size": 3}})"))
                  .status()
                  .ToString(),
              HasSubstr("config.json: attn_config.quux_size: is not known"));
}

// Three layers of BERT, 64 wide.
constexpr char kBert[] = R"({"model_type": "bert", "hidden_size": 64,
    "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 3,
    "vocab_size": 100, "max_position_embeddings": 32})";

// A matrix, its bias, a norm, and a bias of each word.
constexpr int64_t kMaskedHead = 64 * 64 + 64 + 2 * 64 + 100;

TEST(ReadEndParameters, EncodersPredictMaskedWords) {
  const int64_t bert = kPlainLayers + 100 * 64 + 32 * 64 + 2 * 64 + 2 * 64 + kMaskedHead;
  const struct {
    const char* change;
    int64_t difference;
  } cases[] = {
      {R"({})", 0},
      {R"({"type_vocab_size": 1})", -64},
      {R"({"model_type": "distilbert"})", -2 * 64},
      {R"({"model_type": "distilbert", "hidden_size": null, "dim": 64, "n_heads": 4,
           "num_attention_heads": null, "n_layers": 3, "num_hidden_layers": null,
           "intermediate_size": null, "hidden_dim": 96, "sinusoidal_pos_embds": false})",
       -2 * 64},
      // No norm behind the embedding, one behind the last layer; positions as angles.
      {R"({"model_type": "esm", "position_embedding_type": "rotary"})", -2 * 64 - 32 * 64},
      // A table of twice 8 distances with a norm, and neither positions nor types.
      {R"({"model_type": "deberta-v2", "relative_attention": true, "position_buckets": 8,
           "max_relative_positions": -1, "norm_rel_ebd": "layer_norm", "share_att_key": true,
           "pos_att_type": ["p2c", "c2p"], "position_biased_input": false})",
       -2 * 64 - 32 * 64 + (2 * 8 + 2) * 64},
      {R"({"model_type": "deberta-v2", "relative_attention": true, "position_buckets": 8,
           "max_relative_positions": -1, "norm_rel_ebd": "none", "share_att_key": true,
           "pos_att_type": ["p2c", "c2p"], "position_biased_input": false})",
       -2 * 64 - 32 * 64 + 2 * 8 * 64},
      {R"({"share_att_key": false})", 0},
      // Tables of 24 values, of which a matrix with a bias makes 64.
      {R"({"model_type": "electra", "embedding_size": 24})",
       -(100 + 32 + 2 + 2) * (64 - 24) + 24 * 64 + 64 - (64 * 64 + 64 + 2 * 64) +
           (64 * 24 + 24 + 2 * 24)},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(ParametersOf(With(kBert, test.change)), bert + test.difference) << test.change;
  }
  EXPECT_THAT(ImportConfigText(With(kBert, R"({"relative_attention": true})")).status().ToString(),
              HasSubstr("config.json: share_att_key: must be true"));
  EXPECT_THAT(ImportConfigText(With(kBert, R"({"num_hidden_groups": 1})")).status().ToString(),
              HasSubstr("config.json: num_hidden_groups: is of layers that share parameters"));
}

TEST(ReadEndParameters, EncodersOfTodayHaveGatesAndFewerNorms) {
  const int64_t layers = 3 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 64);
  EXPECT_EQ(ParametersOf(With(kBert, R"({"model_type": "modernbert", "decoder_bias": true,
                "classifier_bias": false, "norm_bias": false})")),
            layers + 100 * 64 + 64 + 64 * 64 + 64 + 100);
  EXPECT_EQ(ParametersOf(With(kBert, R"({"model_type": "eurobert", "hidden_act": "silu"})")),
            layers + 2 * 100 * 64 + 64);
}

// Apertus 1.5: the head has no rows for the words of images and sounds.
TEST(ReadEndParameters, AHeadMayHaveFewerRowsThanTheEmbedding) {
  const std::string config = With(kGated, R"({"model_type": "apertus1p5_text"})");
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"output_vocab_size": 70})")),
            ParametersOf(config) - 30 * 64);
  EXPECT_EQ(ParametersOf(With(config.c_str(), R"({"output_vocab_size": 100})")),
            ParametersOf(config));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import,
                       ImportConfigText(With(config.c_str(), R"({"output_vocab_size": 70})")));
  EXPECT_THAT(import.notes, Contains(HasSubstr("output_vocab_size 70: the head has as many rows")));
  for (const auto& [change, error] :
       {std::pair(R"({"output_vocab_size": 101})", "output_vocab_size: must be at most vocab_size"),
        std::pair(R"({"output_vocab_size": 70, "tie_word_embeddings": true})",
                  "output_vocab_size: must be vocab_size beside tie_word_embeddings"),
        std::pair(R"({"output_vocab_size": "70"})", "output_vocab_size: must be")}) {
    EXPECT_THAT(ImportConfigText(With(config.c_str(), change)).status().ToString(),
                HasSubstr(error));
  }
}

}  // namespace
}  // namespace parplan
