#include "clients/import/field_names.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

TEST(FieldSpeaksOfSizes, MatchesWordsBetweenUnderscores) {
  for (const char* key : {"num_quuxes", "kv_quux", "quux_dims", "expert_quux", "quux_layernorm",
                          "Hidden_Quux", "attention_type", "position_quux", "n_quux", "gating"}) {
    EXPECT_TRUE(FieldSpeaksOfSizes(key)) << key;
  }
  // They hold `n_`, `position`, `tie`, `state`, `dim` and `rank` inside other words.
  for (const char* key : {"attention", "generation_quux", "is_composition", "entities", "restated",
                          "redimmed", "franking", "use_flash_attention", ""}) {
    EXPECT_FALSE(FieldSpeaksOfSizes(key)) << key;
  }
}

TEST(FieldHasNoEffect, NamesThatBeginWithAnUnderscoreHaveNone) {
  for (const char* key : {"_attn_implementation_autoset", "_flash_attn_2_enabled",
                          "_attn_implementation", "_name_or_path", "_num_quuxes"}) {
    EXPECT_TRUE(FieldHasNoEffect(key)) << key;
  }
}

// Marian's words that nothing may be translated to, what Qwen3.5's gate of attention is made by,
// and GigaChat's choice of a program for its experts.
TEST(FieldHasNoEffect, SomeNamesSpeakOfOtherThingsThanTheirWords) {
  for (const char* key : {"bad_words_ids", "output_gate_type", "moe_implementation"}) {
    EXPECT_TRUE(FieldHasNoEffect(key)) << key;
  }
}

TEST(FieldHasNoEffect, EndsOfNamesDoNotHideSizes) {
  for (const char* key :
       {"hidden_dropout_prob", "layer_norm_eps", "embedding_init_std", "rope_theta",
        "router_aux_loss_coef", "drop_path_rate", "moe_eval_capacity_factor", "aux_loss_alpha",
        "initializer_range", "embedding_initializer_range", "routed_scaling_factor",
        "output_hidden_states", "output_attentions", "return_dict", "rope_local_base_freq",
        "pooler_num_attention_heads", "time_step_min", "attn_temperature_tuning",
        "layernorm_full_attention_beta"}) {
    EXPECT_TRUE(FieldHasNoEffect(key)) << key;
  }
  for (const char* key :
       {"expand_factor", "ffn_expansion_factor", "mlp_expansion_factor", "ffn_proj_factor",
        "qk_dim_factor", "hidden_size_rate", "num_experts_factor", "output_dim", "output_size",
        "output_hidden_size", "expansion_alpha", "rope_dim", "rope_head_dim", "window_range"}) {
    EXPECT_FALSE(FieldHasNoEffect(key)) << key;
    EXPECT_TRUE(FieldSpeaksOfSizes(key)) << key;
  }
}

}  // namespace
}  // namespace parplan
