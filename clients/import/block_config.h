// Reads from a `config.json` the parts of layers that a search of architectures chose one by one
// (Nemotron-NAS, DeciLM). `ReadLayerLayout` (layer_layout.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_BLOCK_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_BLOCK_CONFIG_H_

#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/layer_parts.h"

namespace parplan {

// Reads `block_configs`, a list with an object for each of `layer_count` layers of `hidden_size`
// and `head_count` heads:
//
//   attention.n_heads_in_group   heads that share a key (or `num_key_value_heads`)
//   attention.no_op              no attention
//   ffn.ffn_mult                 Llama's rule: two thirds of the product with the width, rounded up
//                                to a multiple of 256 (or `intermediate_size`)
//   ffn.no_op                    no feed-forward part
//
// or `num_key_value_heads_per_layer`, a number for each layer, which is not read beside the list.
// Returns an empty list if neither is there. A layer without both parts, a matrix in place of a
// part (`replace_with_linear`) and fields that are not known are errors with the place in the list,
// which `fields` remembers; after one the result must not be used.
std::vector<LayerParts> ReadBlocks(ConfigFields& fields, int layer_count, int hidden_size,
                                   int head_count);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_BLOCK_CONFIG_H_
