// Reads from a `config.json` which parts each layer of a model has. `ReadTransformer`
// (transformer_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_LAYER_LAYOUT_H_
#define PARPLAN_CLIENTS_IMPORT_LAYER_LAYOUT_H_

#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/layer_parts.h"
#include "clients/import/opaque_config.h"

namespace parplan {

// Returns the parts of each of `layer_count` layers. `has_experts` is set only where a letter or
// name says it; `ReadExperts` (expert_config.h) reads the other rules. Fields are:
//
//   hybrid_override_pattern        a letter for each layer: M a state space, * attention, - a
//                                  feed-forward part, E one of experts
//   layer_types, layers_block_type, a name for each layer
//   attention_layers
//   attn_type_list                 a number for each layer: 1 has attention, 0 a state space
//   hybrid_layer_pattern           a number for each layer: 1 has a window, 0 reads all tokens
//   linear_attn_config             lists of the places, from 1, of either kind (Kimi Linear)
//   sparse_attention_config        numbers above 0 for the layers that choose blocks of tokens
//   layer_group_size               the last layer of each group has attention, the others linear
//                                  attention
//   full_attn_idxs                 the layers with attention, from 0, the others a convolution
//   block_configs                  the parts of each layer (block_config.h)
//   attn_layer_period, _offset,    every n-th layer has attention, the others a state space
//   full_attention_interval
//   attn_layer_indices             the layers with attention, from 0
//   state_size, no heads           state spaces alone
//   sliding_window and others      layers with windows
//
// Falcon-H1, state spaces alone and `block_configs` come before the other fields, then
// `hybrid_override_pattern`, then the first list of names that is not empty, then `attn_type_list`,
// `linear_attn_config` and `full_attn_idxs`; beside any of these `attn_layer_period`,
// `full_attention_interval` and `attn_layer_indices` do not count. Without any, MiMo-V2, MiniMax,
// Step-3.5 and RecurrentGemma have the rule of their class (family_layers.h). Each layer has one
// part if letters give them, or if some layer is named a feed-forward part or one of experts.
// Opaque layers, and all layers of a model of state spaces alone, have no feed-forward part. Other
// layers have one. Falcon-H1 has a state space beside attention in all. `*` in `opaque` makes all
// layers opaque. An error, which `fields` remembers, names the field; a kind of layer that is not
// known is one, unless `opaque` has it. After an error the result must not be used.
std::vector<LayerParts> ReadLayerLayout(const FamilyTraits& traits, ConfigFields& fields,
                                        int layer_count, const GivenOpaqueLayers& opaque);

// Returns the length of `layer_types`, `layers_block_type` or `hybrid_override_pattern`, the first
// that is not empty; 0 if there is none.
int ListedLayerCount(ConfigFields& fields);

// Returns whether a field says that all attention reads the tokens before and behind.
bool ReadsBothWays(ConfigFields& fields);

// Returns whether the layers are state spaces alone: a size of the state is there, and no number of
// heads.
bool HasOnlyStateSpaces(const ConfigFields& fields);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LAYER_LAYOUT_H_
