// Configurations of small models of Hugging Face, and short forms to read them.

#ifndef PARPLAN_TESTS_CLIENTS_IMPORT_HUGGING_FACE_CASES_H_
#define PARPLAN_TESTS_CLIENTS_IMPORT_HUGGING_FACE_CASES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "clients/import/hugging_face.h"

namespace parplan {

// A gated decoder of 3 layers and 32 tokens.
inline constexpr char kGated[] =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 100,
    "max_position_embeddings": 32})";

// A mixture of experts in all of 6 layers.
inline constexpr char kMixture[] = R"({"model_type": "qwen3_moe", "hidden_size": 64,
    "intermediate_size": 96, "moe_intermediate_size": 16, "num_experts": 8,
    "num_experts_per_tok": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "num_hidden_layers": 6, "vocab_size": 100, "max_position_embeddings": 32})";

// Latent attention in 3 layers, of which the last two have experts.
inline constexpr char kLatent[] = R"({"model_type": "deepseek_v3", "hidden_size": 64,
    "intermediate_size": 96, "moe_intermediate_size": 16, "n_routed_experts": 8,
    "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
    "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 3, "vocab_size": 100,
    "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4,
    "v_head_dim": 8, "max_position_embeddings": 32})";

// Reads `text` as config.json.
absl::StatusOr<HuggingFaceImport> ImportConfigText(const std::string& text,
                                                   const ModelFlags& flags = {});

// Returns `base` with the members of `change` over its own; null removes a member.
std::string With(const char* base, const char* change);

// Returns the parameters of the model of `config`; a failed expectation and 0 if it is refused.
int64_t ParametersOf(const std::string& config, const ModelFlags& flags = {});

// Returns the layers between embedding and head, a letter each: . reads all tokens, w a window of
// 16, c a chunk of 16, s is a state space, f a feed-forward part alone, o opaque, p predicts a
// further token; in upper case with experts.
std::string LayersOf(const v1::ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_HUGGING_FACE_CASES_H_
