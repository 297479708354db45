#include "clients/import/class_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/model/model_spec.h"
#include "proto/wire/model_wire.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kSizes[] =
    "\"num_hidden_layers\": 4, \"hidden_size\": 512, \"intermediate_size\": 1024, "
    "\"num_attention_heads\": 16, \"vocab_size\": 1000, \"max_position_embeddings\": 64, "
    "\"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6, \"architectures\": [\"XForCausalLM\"]";

absl::StatusOr<HuggingFaceImport> ImportFamily(const std::string& family,
                                               const std::string& more = "") {
  return ImportConfigText(absl::StrCat("{\"model_type\": \"", family, "\", ", kSizes, more, "}"));
}

// The heads that hold keys and values, and the notes, of a file that leaves their number out.
std::pair<int, std::vector<std::string>> GroupsOf(const std::string& family,
                                                  const std::string& more = "") {
  const absl::StatusOr<HuggingFaceImport> import = ImportFamily(family, more);
  EXPECT_OK(import) << family;
  if (!import.ok()) return {};
  const v1::LayerDefinition& layer = import->model.layer_definitions(1);
  return {layer.key_value_head_count() > 0 ? layer.key_value_head_count()
                                           : layer.attention_head_count(),
          import->notes};
}

TEST(ClassDefaults, StandForAbsentKeyValueHeadsWithANote) {
  EXPECT_THAT(GroupsOf("mistral"),
              testing::Pair(8, ElementsAre("num_key_value_heads is absent; taken as 8, the default "
                                           "of mistral")));
  EXPECT_THAT(GroupsOf("llama"),
              testing::Pair(16, ElementsAre("num_key_value_heads is absent; taken as "
                                            "num_attention_heads, 16, the default of llama")));
  EXPECT_THAT(GroupsOf("seed_oss"),
              testing::Pair(8, Contains(HasSubstr("the default of seed_oss"))));
  EXPECT_THAT(GroupsOf("brand-new"),
              testing::Pair(16, Contains(HasSubstr("num_attention_heads, 16, since the default of "
                                                   "`brand-new` is not known"))));
  // Null says that there are as many as heads.
  EXPECT_THAT(GroupsOf("mistral", ", \"num_key_value_heads\": null"),
              testing::Pair(16, Contains(HasSubstr("num_key_value_heads is null; taken as"))));
  EXPECT_THAT(GroupsOf("mistral", ", \"num_key_value_heads\": 4"), testing::Pair(4, IsEmpty()));
  // Encoders such as BERT have no such number.
  EXPECT_THAT(ImportConfigText(absl::StrCat("{\"model_type\": \"bert\", ", kSizes, "}"))->notes,
              Not(Contains(HasSubstr("num_key_value_heads"))));
}

// Qwen2's default of 32 is no number for 16 heads, which the class takes all the same.
TEST(ClassDefaults, AreRefusedWhereTheyContradictTheFile) {
  EXPECT_THAT(ImportFamily("qwen2"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_key_value_heads: is absent, and 32 by default; must divide "
                                 "the number of heads 16")));
}

TEST(ClassDefaults, StandForTheWidthOfHeads) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportFamily("minimax_m2"));
  EXPECT_EQ(import.model.layer_definitions(1).head_size(), 128);
  EXPECT_THAT(import.notes, Contains(Eq("head_dim is absent; taken as 128, the default of "
                                        "minimax_m2")));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport given,
                       ImportFamily("minimax_m2", ", \"head_dim\": 64"));
  EXPECT_THAT(given.notes, Not(Contains(HasSubstr("head_dim"))));
}

TEST(ClassDefaults, StandForTheSizesOfExperts) {
  const std::string experts =
      ", \"num_key_value_heads\": 4, \"num_experts\": 8, \"num_experts_per_tok\": 2";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportFamily("qwen3_moe", experts));
  const v1::LayerDefinition& layer = import.model.layer_definitions(1);
  EXPECT_EQ(layer.expert_feed_forward_size(), 768);
  EXPECT_THAT(import.notes, Contains(Eq("moe_intermediate_size is absent; taken as 768, the "
                                        "default of qwen3_moe")));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport shared, ImportFamily("qwen2_moe", experts));
  EXPECT_EQ(shared.model.layer_definitions(1).shared_expert_feed_forward_size(), 5632);
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport none,
      ImportFamily("qwen2_moe", experts + ", \"shared_expert_intermediate_size\": null"));
  EXPECT_EQ(none.model.layer_definitions(1).shared_expert_feed_forward_size(), 0);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport dense,
                       ImportFamily("qwen3_moe", ", \"num_key_value_heads\": 4"));
  EXPECT_THAT(dense.notes, Contains(Eq("num_experts is absent: no layer has experts, and the "
                                       "default of qwen3_moe is 128")));
}

// DeepSeek-V3's class has three dense layers, one shared expert, and queries of rank 1536.
TEST(ClassDefaults, StandForWhatLatentAttentionAndDenseLayersHave) {
  const std::string sizes =
      ", \"kv_lora_rank\": 64, \"qk_rope_head_dim\": 16, \"qk_nope_head_dim\": 32, "
      "\"v_head_dim\": 32, \"n_routed_experts\": 8, \"num_experts_per_tok\": 2, "
      "\"moe_intermediate_size\": 256";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportFamily("deepseek_v3", sizes));
  EXPECT_EQ(import.model.layer_runs(1).layer_count(), 3);
  EXPECT_EQ(import.model.layer_definitions(1).latent_attention().query_rank(), 1536);
  EXPECT_EQ(import.model.layer_definitions(2).shared_expert_feed_forward_size(), 256);
  EXPECT_THAT(import.notes,
              AllOf(Contains(HasSubstr("q_lora_rank is absent; taken as 1536")),
                    Contains(HasSubstr("n_shared_experts is absent; taken as 1")),
                    Contains(HasSubstr("first_k_dense_replace is absent; taken as 3"))));
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport given,
      ImportFamily("deepseek_v3", sizes + ", \"q_lora_rank\": null, \"n_shared_experts\": null, "
                                          "\"first_k_dense_replace\": 0"));
  EXPECT_EQ(given.model.layer_definitions(1).latent_attention().query_rank(), 0);
  EXPECT_EQ(given.model.layer_definitions(1).shared_expert_feed_forward_size(), 0);
  EXPECT_THAT(given.notes, IsEmpty());
}

// The config.json of Qwen-7B. By its class (modeling_qwen.py): 32 layers of 4 * 4096^2 and
// 3 * 4096 * 11008 matrices, 3 * 4096 biases and 2 norms, 2 tables of 151936 and the final norm:
// 7,721,324,544, the number of its safetensors index.
TEST(ImportHuggingFace, ReadsTheFirstQwen) {
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport import,
      ImportConfigText(R"({"architectures": ["QWenLMHeadModel"], "attn_dropout_prob": 0.0,
          "bf16": false, "emb_dropout_prob": 0.0, "fp16": false, "fp32": false,
          "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 22016,
          "kv_channels": 128, "layer_norm_epsilon": 1e-06, "max_position_embeddings": 32768,
          "model_type": "qwen", "no_bias": true, "num_attention_heads": 32,
          "num_hidden_layers": 32, "onnx_safe": null, "rotary_emb_base": 10000, "rotary_pct": 1.0,
          "scale_attn_weights": true, "seq_length": 8192, "tie_word_embeddings": false,
          "tokenizer_class": "QWenTokenizer", "use_cache": true, "use_dynamic_ntk": true,
          "use_flash_attn": "auto", "use_logn_attn": true, "vocab_size": 151936})"));
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(import.model));
  EXPECT_EQ(model.parameter_count(), 7721324544);
  EXPECT_EQ(model.layer(1).feed_forward_size, 11008);
}

// Falcon-40B's first files have neither its present name nor its flag.
TEST(ImportHuggingFace, ReadsTheFirstFilesOfFalcon40B) {
  constexpr char kSizesOfFalcon[] =
      R"("hidden_size": 8192, "n_head": 128, "n_layer": 60, "parallel_attn": true, "bias": false,
         "alibi": false, "vocab_size": 65024, "layer_norm_epsilon": 1e-5,
         "apply_residual_connection_post_layernorm": false, )";
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport first,
      ImportConfigText(absl::StrCat("{", kSizesOfFalcon,
                                    R"("architectures": ["RWForCausalLM"], "n_head_kv": 8,
                                       "model_type": "RefinedWeb"})")));
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport later,
      ImportConfigText(absl::StrCat("{", kSizesOfFalcon,
                                    R"("num_kv_heads": 8, "new_decoder_architecture": true,
                                       "model_type": "falcon"})")));
  ASSERT_OK_AND_ASSIGN(const ModelSpec of_first, ModelFromProto(first.model));
  ASSERT_OK_AND_ASSIGN(const ModelSpec of_later, ModelFromProto(later.model));
  EXPECT_EQ(of_first.parameter_count(), of_later.parameter_count());
  EXPECT_EQ(of_first.layer(1).key_value_head_count, 8);
}

TEST(ClassDefaults, OfUnknownNamesAreNone) {
  EXPECT_TRUE(DefaultsOfClass("brand-new").model_type.empty());
  EXPECT_EQ(DefaultsOfClass("brand-new").key_value_head_count, 0);
}

}  // namespace
}  // namespace parplan
