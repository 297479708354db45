#include "clients/import/extra_parameters.h"

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
using ::testing::Not;

TEST(ReadLayerExtras, NormsOfQueriesAndKeysAreAsAFieldSays) {
  // 3 layers; queries are 64 wide, keys 32, heads 16.
  const struct {
    const char* base;
    const char* flag;
    int64_t difference;
  } cases[] = {
      {R"({"model_type": "cohere"})", R"({"use_qk_norm": true})", 3 * (64 + 32)},
      {R"({"model_type": "stablelm"})", R"({"qk_layernorm": true})", 3 * (64 + 32)},
      {R"({"model_type": "glm4_moe"})", R"({"use_qk_norm": true})", 3 * 2 * 16},
      {R"({"model_type": "llama4_text", "head_dim": 16})", R"({"use_qk_norm": true})", 0},
      {R"({"model_type": "apertus"})", R"({"qk_norm": false})", -3 * 2 * 16},
      {R"({"model_type": "qwen3", "head_dim": 16})", R"({"use_qk_norm": true})", 0},
      {R"({"model_type": "minimax_m2", "head_dim": 16})", R"({"use_qk_norm": true,
                                              "qk_norm_type": "per_layer"})",
       0},
      // The type says how wide they are, where there are some.
      {R"({"model_type": "minimax_m2", "head_dim": 16})", R"({"qk_norm_type": "per_head"})",
       3 * (2 * 16 - (64 + 32))},
      {R"({"model_type": "qwen3", "head_dim": 16})", R"({"qk_norm_type": "per_layer"})",
       3 * (64 + 32 - 2 * 16)},
      {R"({"model_type": "llama"})", R"({"use_qk_norm": true, "qk_norm_type": "olmo"})",
       3 * (64 + 32)},
      {R"({"model_type": "llama"})", R"({"use_qk_norm": true, "qk_norm_type": "qwen3"})",
       3 * 2 * 16},
      {R"({"model_type": "llama"})", R"({"qk_norm_type": "per_layer"})", 0},
      {R"({"model_type": "llama"})", R"({"use_qk_norm": false, "qk_norm_type": "per_layer"})", 0},
  };
  for (const auto& test : cases) {
    const std::string base = With(kGated, test.base);
    EXPECT_EQ(ParametersOf(With(base.c_str(), test.flag)) - ParametersOf(base), test.difference)
        << test.base << test.flag;
  }
  EXPECT_THAT(
      ImportConfigText(With(kGated, R"({"use_qk_norm": true, "qk_norm_type": "per_token"})"))
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("config.json: qk_norm_type: must be `per_layer`")));
}

// Two numbers of each of 3 layers, in Apertus.
TEST(ReadLayerExtras, AnActivationMayHaveParameters) {
  const std::string plain = With(kGated, R"({"model_type": "apertus", "hidden_act": "relu2"})");
  EXPECT_EQ(ParametersOf(With(plain.c_str(), R"({"hidden_act": "xielu"})")),
            ParametersOf(plain) + 3 * 2);
}

// Norms of 3 layers, each of a scale and a shift of 64.
TEST(ReadLayerExtras, ParallelPartsShareANormAsTheFamilySays) {
  const struct {
    const char* base;
    const char* change;
    int64_t difference;
  } cases[] = {
      {R"({"model_type": "stablelm"})", R"({"use_parallel_residual": true})", -3 * 2 * 64},
      {R"({"model_type": "gpt_neox"})", R"({"use_parallel_residual": true})", 0},
      {R"({"model_type": "falcon", "multi_query": false})", R"({"parallel_attn": false})",
       3 * 2 * 64},
      {R"({"model_type": "falcon", "new_decoder_architecture": true, "num_kv_heads": 2})",
       R"({"num_ln_in_parallel_attn": 1})", -3 * 2 * 64},
      {R"({"model_type": "falcon", "new_decoder_architecture": true, "num_kv_heads": 2})",
       R"({"num_ln_in_parallel_attn": 2})", 0},
  };
  for (const auto& test : cases) {
    const std::string base = With(kGated, test.base);
    EXPECT_EQ(ParametersOf(With(base.c_str(), test.change)) - ParametersOf(base), test.difference)
        << test.base << test.change;
  }
}

TEST(ReadLayerExtras, ANoteSaysWhatIsPricedOfParallelParts) {
  for (const char* change :
       {R"({"model_type": "gptj"})", R"({"model_type": "gpt_neox", "use_parallel_residual": true})",
        R"({"model_type": "falcon", "multi_query": false})", R"({"model_type": "cohere"})"}) {
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(With(kGated, change)));
    EXPECT_THAT(import.notes, Contains(HasSubstr("an exchange of tensor parallelism is priced for "
                                                 "each, as the runtimes fsdp and deepspeed")))
        << change;
  }
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(kGated));
  EXPECT_THAT(import.notes, Not(Contains(HasSubstr("parallel: "))));
}

TEST(ReadLayerExtras, PlainDecodersHaveTheBiasesOfTheirFamily) {
  const int64_t matrices = 3 * (4 * 64 * 64 + 2 * 64 * 96);
  const int64_t feed_forward = 96 + 64;
  const int64_t norm = 2 * 64;
  const char base[] = R"({"num_key_value_heads": null, "tie_word_embeddings": false})";
  const std::string plain = With(kGated, base);
  const struct {
    const char* change;
    int64_t rest;
  } cases[] = {
      // A bias of each word in the head, none in attention, one norm in a layer.
      {R"({"model_type": "gptj", "rotary_dim": 16})", 3 * (feed_forward + norm) + norm + 100},
      {R"({"model_type": "codegen", "rotary_dim": 16})", 3 * (feed_forward + norm) + norm + 100},
      {R"({"model_type": "phi"})", 3 * (feed_forward + norm + 4 * 64) + norm + 100},
      {R"({"model_type": "gpt_neo"})", 3 * (feed_forward + 2 * norm + 64) + norm + 32 * 64},
      {R"({"model_type": "apertus"})", 3 * (norm + 2 * 16) + 64},
      {R"({"model_type": "nanochat"})", 0},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(ParametersOf(With(plain.c_str(), test.change)), matrices + 2 * 100 * 64 + test.rest)
        << test.change;
  }
}

// DeepSeek-V3.2: queries of the indexer from their compressed vector, a key with a norm, a weight
// of each head.
TEST(ReadIndexer, CountsItsMatricesAndSaysThatItIsNotPriced) {
  constexpr char kIndexer[] =
      R"({"index_n_heads": 4, "index_head_dim": 8, "index_topk": 16, "model_type": "deepseek_v32",
          "indexer_types": ["full", "full", "full"],
          "layer_types": ["indexed_attention", "indexed_attention", "indexed_attention"]})";
  const std::string indexed = With(kLatent, kIndexer);
  EXPECT_EQ(ParametersOf(indexed) - ParametersOf(kLatent),
            3 * (24 * 4 * 8 + 64 * 8 + 2 * 8 + 64 * 4));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(indexed));
  EXPECT_THAT(import.notes, Contains(HasSubstr("index_topk 16")));
  for (const char* change : {R"({"q_lora_rank": 0})", R"({"indexer_types": ["shared"]})",
                             R"({"index_topk": null})", R"({"index_head_dim": 0})"}) {
    EXPECT_THAT(ImportConfigText(With(indexed.c_str(), change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config.json: index")))
        << change;
  }
}

}  // namespace
}  // namespace parplan
