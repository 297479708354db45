// Reads from a `config.json` which parts each layer of a model has. `ReadTransformer`
// (transformer_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_LAYER_LAYOUT_H_
#define PARPLAN_CLIENTS_IMPORT_LAYER_LAYOUT_H_

#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/opaque_config.h"

namespace parplan {

// The part of a layer before its feed-forward part.
enum class LayerMixer { kAttention, kStateSpace, kNone, kOpaque };

// One layer.
struct LayerParts {
  LayerMixer mixer = LayerMixer::kAttention;
  // The layer has a feed-forward part behind the mixer.
  bool has_feed_forward = true;
  // The feed-forward part is a mixture of experts.
  bool has_experts = false;
  // Tokens that attention reads at most: of a window that slides, or of a chunk; 0: all of them. At
  // most one of the two is above 0.
  int attention_window = 0;
  int attention_chunk_size = 0;
  // The key of an opaque layer in `GivenOpaqueLayers`: the name of its kind, or `*`; else empty.
  std::string opaque_kind;

  friend bool operator==(const LayerParts&, const LayerParts&) = default;
};

// Returns the parts of each of `layer_count` layers. `has_experts` is set only where a letter or
// name says it; `ReadExperts` (expert_config.h) reads the other rules. Fields are:
//
//   hybrid_override_pattern        a letter for each layer: M a state space, * attention, - a
//                                  feed-forward part, E one of experts
//   layer_types, layers_block_type, a name for each layer
//   attention_layers
//   attn_type_list                 a number for each layer: 1 has attention, others a state space
//   attn_layer_period, _offset,    every n-th layer has attention, the others a state space
//   full_attention_interval
//   attn_layer_indices             the layers with attention, from 0
//   state_size, no heads           state spaces alone
//   sliding_window and others      layers with windows
//
// Each layer has one part if letters give them, or if some layer is named a feed-forward part or
// one of experts. Opaque layers, and all layers of a model of state spaces alone, have no
// feed-forward part. Other layers have one. `*` in `opaque` makes all layers opaque. An error,
// which `fields` remembers, names the field; a kind of layer that is not known is one, unless
// `opaque` has it. After an error the result must not be used.
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
