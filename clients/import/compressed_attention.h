// Attention over compressed keys, and the streams between layers, as DeepSeek-V4 has them.
// `ReadLayerVariants` (layer_variants.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_COMPRESSED_ATTENTION_H_
#define PARPLAN_CLIENTS_IMPORT_COMPRESSED_ATTENTION_H_

#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/layer_parts.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Returns whether layers of the family have such attention.
bool HasCompressedAttention(const FamilyTraits& traits);

// Returns the names of the layers that `compress_ratios` says: tokens whose keys become one; 0 or 1
// for a layer that reads a window alone. Without the list the first two layers are heavily
// compressed, and behind them the two forms take turns (`DeepseekV4Config` of transformers 5.24).
// `fields` remembers errors.
std::vector<std::string> NamesByCompression(ConfigFields& fields, int layer_count);

// Sets the parameters of the layers: queries and the output behind narrow vectors, one key that is
// also the value, compressors with what chooses among their keys, and maps between the streams of
// the residual (manifold-constrained hyper-connections), which make all layers pass on several
// times their width. Adds the map of the streams to the head of `facts`. `run` has the heads.
// Layers that predict further tokens are left out with a note. `fields` remembers errors; after one
// the layers must not be used.
void ReadCompressedAttention(ConfigFields& fields, const TransformerRunFacts& run,
                             std::vector<LayerParts>& layers, ModelFacts& facts,
                             std::vector<std::string>* notes);

// Sets the parameters of Hunyuan 4 likewise: maps before and behind each part, none between
// streams.
void ReadIndependentStreams(ConfigFields& fields, const TransformerRunFacts& run,
                            std::vector<LayerParts>& layers, ModelFacts& facts,
                            std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_COMPRESSED_ATTENTION_H_
