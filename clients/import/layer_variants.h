// Attention whose sizes differ from layer to layer, and layers that pass more than their output to
// the next one, as MiMo-V2, Gemma 3n, Gemma 4 and DeepSeek-V4
// have them. `ReadTransformer`
// (transformer_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_LAYER_VARIANTS_H_
#define PARPLAN_CLIENTS_IMPORT_LAYER_VARIANTS_H_

#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/layer_parts.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Sets sizes of heads, key-value heads, further parameters and what is passed on in those of
// `layers` that differ from `run`, whose heads `ReadHeads` (attention_config.h) has read. Adds the
// tables of what is passed on to the embedding of `facts`. What is not priced is appended to
// `notes`. `fields` remembers errors; after one the layers must not be used.
void ReadLayerVariants(const FamilyTraits& traits, ConfigFields& fields,
                       const TransformerRunFacts& run, std::vector<LayerParts>& layers,
                       ModelFacts& facts, std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LAYER_VARIANTS_H_
