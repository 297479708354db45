// The structure of a family of models that its configurations leave unsaid. The readers of
// `config.json` ask for them.

#ifndef PARPLAN_CLIENTS_IMPORT_FAMILY_TRAITS_H_
#define PARPLAN_CLIENTS_IMPORT_FAMILY_TRAITS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "clients/import/class_defaults.h"

namespace parplan {

// The norms of queries and keys: none, one vector as wide as a head for each of both, or vectors as
// wide as all heads.
enum class QueryKeyNorm { kNone, kHead, kAllHeads };

// The layers that see only a window of the sequence, if a window is given and neither a list of
// layers nor a period. The others see the whole sequence: every second one from the second layer
// on, every sixth from the sixth, every fifth from the fifth, every fourth from the fourth.
enum class WindowedLayers {
  kAll,
  kAlternate,
  kAllButEverySixth,
  kAllButEveryFifth,
  kAllButEveryFourth
};

// Sizes and structure that the code of a family fixes, or takes if its configuration is silent.
// Everything that a configuration can say is read from its fields. The values are those of the
// model and configuration classes of Hugging Face Transformers; docs/import.md says which parameter
// counts were compared. A default `FamilyTraits` is a gated decoder with root-mean-square norms.
struct FamilyTraits {
  // The member `model_type` of the configurations of this family.
  absl::string_view model_type;
  // Three matrices in the feed-forward part, else two.
  bool is_gated = true;
  // Attention reads the whole sequence, without a causal mask.
  bool is_encoder = false;
  // The head uses the table of the embedding.
  bool is_tied = false;
  // Biases of the maps to queries, keys and values, of attention's output, and of the feed-forward
  // part.
  bool has_query_key_value_bias = false;
  bool has_output_bias = false;
  bool has_feed_forward_bias = false;
  // A table of positions that training learns.
  bool has_position_table = false;
  // A norm behind the embedding.
  bool has_embedding_norm = false;
  // Before the head's product stand a matrix as wide as the layers, an activation and a norm.
  bool has_dense_head = false;
  // The head's product has a bias.
  bool has_head_bias = false;
  // Vectors as wide as the hidden size in the norms of a layer, scales and shifts counted apart,
  // and in the final norm.
  int norm_vector_count = 2;
  int final_norm_vector_count = 1;
  // The first of these two for a layer whose parts are parallel; 0 for as many.
  int parallel_norm_vector_count = 0;
  // Norms of queries and keys.
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  // The norms that there are if a field asks for some.
  QueryKeyNorm named_query_key_norm = QueryKeyNorm::kHead;
  // The next four are taken if the configuration gives none; 0: there is no default.
  int attention_head_count = 0;
  int head_size = 0;
  int vocabulary_size = 0;
  int sequence_length = 0;
  // Rows that the table of positions has beyond positions.
  int extra_position_count = 0;
  // Types of tokens, which have a table if there are any.
  int token_type_count = 0;
  WindowedLayers windowed_layers = WindowedLayers::kAll;
  // A given window counts even if `use_sliding_window` is absent.
  bool uses_given_window = true;
  // Attention and feed-forward part read the same input.
  bool is_parallel = false;
  // `intermediate_size` is the width of one expert if there are experts, and one expert of that
  // width processes every token.
  bool has_shared_expert = false;
  // A gate of one output weighs the shared expert.
  bool has_shared_expert_gate = false;
  // A number for each expert that only the choice of experts uses (DeepSeek-V3, section 2.1.2).
  bool has_router_bias = false;
  // If a configuration of latent attention is silent, the heads of the values share the width of
  // the layers.
  bool value_heads_share_width = false;
  // A gate of attention's output, as wide as the queries.
  bool has_attention_gate = false;
  // Norms of the time step and of both projections of the state.
  bool has_state_norms = false;
  // The recurrence has heads (Mamba-2).
  bool has_state_space_heads = false;
  // Width of the state of a state space if the configuration gives none.
  int state_space_state_size = 16;
  // Further sizes that are taken if the configuration gives none. Set by the reader of a model's
  // layers (model_config.cc) alone.
  ClassDefaults defaults;
};

// Returns whether the family is one of Ling's with linear attention: 2.5 and 3, which have one
// name, or the first one.
inline bool IsLing(const FamilyTraits& traits) {
  return traits.model_type == "bailing_hybrid" || traits.model_type == "bailing_moe_linear";
}

// Returns whether the family is Falcon under either of its names.
inline bool IsFalcon(const FamilyTraits& traits) {
  return traits.model_type == "falcon" || traits.model_type == "RefinedWeb";
}

// Returns whether it is the one of 40B, whose first files do not say that it has the later
// architecture.
inline bool IsLaterFalcon(const FamilyTraits& traits) { return traits.model_type == "RefinedWeb"; }

// Returns the traits of `model_type`, which live as long as the process; null for a family without
// an entry.
const FamilyTraits* FindFamilyTraits(absl::string_view model_type);

// Returns the family whose class has this name: `qwen2` for `Qwen2ForCausalLM`. Empty for classes
// of other tasks, and of families without an entry.
std::string FamilyOfClass(absl::string_view class_name);

// Returns the family of the language model in a model of several parts: `qwen2` for `qwen2_5_vl`.
// A name without an entry is returned as it is.
std::string LanguageFamily(absl::string_view model_type);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_FAMILY_TRAITS_H_
