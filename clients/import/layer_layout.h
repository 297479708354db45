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
  bool has_feed_forward = true;
  // The feed-forward part is a mixture of experts.
  bool has_experts = false;
  // Tokens that attention reads at most: of a window that slides, or of a chunk; 0: all of them.
  int attention_window = 0;
  int attention_chunk_size = 0;
  // The name of the kind, of an opaque layer.
  std::string opaque_kind;

  friend bool operator==(const LayerParts&, const LayerParts&) = default;
};

// Returns the parts of each of `layer_count` layers, but for experts:
//
//   hybrid_override_pattern        a letter for each layer, which has one part: M a state space,
//                                  * attention, - a feed-forward part, E one of experts
//   layer_types, layers_block_type, a name for each layer
//   attention_layers
//   attn_type_list                 a number for each layer: 1 has attention
//   attn_layer_period, _offset     every n-th layer has attention, the others a state space
//   attn_layer_indices             the layers with attention
//   state_size, no heads           state spaces alone
//   sliding_window and others      layers with windows
//
// An error, which `fields` remembers, names the field; a kind of layer that is not known is one,
// unless `opaque` has it.
std::vector<LayerParts> ReadLayerLayout(const FamilyTraits& traits, ConfigFields& fields,
                                        int layer_count, const GivenOpaqueLayers& opaque);

// Returns the length of the list that names the layers; 0 if there is none.
int ListedLayerCount(ConfigFields& fields);

// Returns whether a field says that all attention reads the tokens before and behind.
bool ReadsBothWays(ConfigFields& fields);

// Returns whether the layers are state spaces alone.
bool HasOnlyStateSpaces(const ConfigFields& fields);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LAYER_LAYOUT_H_
