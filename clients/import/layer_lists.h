// Sizes that a `config.json` gives layer by layer: lists with an entry for each layer, heads of the
// layers with windows, gates of heads, and what chooses the tokens of sparse attention.
// `ReadTransformer` (transformer_config.h) and the readers that it calls use them.

#ifndef PARPLAN_CLIENTS_IMPORT_LAYER_LISTS_H_
#define PARPLAN_CLIENTS_IMPORT_LAYER_LISTS_H_

#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/layer_parts.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Returns how many layers that predict further tokens the list `layer_types` names behind those of
// the model (Step-3.5), or a list of their own, `mtp_layer_types`. 0 if neither does.
int ListedPredictionCount(ConfigFields& fields, int layer_count);

// Returns the texts of `key`. If they are fewer than `layer_count`, those of `further_key` follow.
std::vector<std::string> TextsOfLayers(const char* key, const char* further_key, int layer_count,
                                       ConfigFields& fields);

// Returns the names of the layers that `sparse_attention_config.sparse_attention_freq` says by
// numbers (MiniMax-M3), and sets `field`; empty if the object or its list is absent.
std::vector<std::string> NamesBySparseAttention(ConfigFields& fields, int layer_count,
                                                const char** field);

// Sets the sizes of heads that `per_layer_config` gives by the places of layers: `head_dim`,
// `num_attention_heads` and `num_key_value_heads`.
void ReadSizesByPlace(ConfigFields& fields, std::vector<LayerParts>& layers);

// Sets in `layers` what differs from `run`, whose heads `ReadHeads` (attention_config.h) has read:
//
//   num_query_heads, num_kv_heads,  heads, key-value heads and times that the feed-forward part is
//   ffn_multipliers                 as wide as the layers, lists (OpenELM)
//   attention_other_setting,        heads of the layers with windows (Step-3.5)
//   num_sliding_attention_heads
//   per_layer_config                heads by the places of layers (`ReadSizesByPlace`)
//   num_attention_heads_per_layer   heads of each layer (Laguna)
//   use_head_wise_attn_gate,        a gate of each head (LFM3: `use_attention_gate`; Laguna:
//   use_attention_gate, gating      `gating`, whose other form `ReadLayerExtras` counts)
//   indexer_types                   layers that read the tokens which an earlier one chose
//   index_n_heads beside            parameters of what chooses blocks of tokens, in the layers that
//   index_topk_blocks               have it (MiniMax-M3)
//
// Appends to `notes` the settings that are not priced. `fields` remembers errors; after one the
// layers must not be used.
void ReadLayerLists(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, std::vector<LayerParts>& layers,
                    std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LAYER_LISTS_H_
