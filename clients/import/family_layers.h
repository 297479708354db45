// The rules by which classes of Hugging Face Transformers count layers, name them and choose
// windows where a file of their family is silent, and parameters that one family alone has.
// `ReadTransformer` (transformer_config.h) and `ReadLayerLayout` (layer_layout.h) call them.

#ifndef PARPLAN_CLIENTS_IMPORT_FAMILY_LAYERS_H_
#define PARPLAN_CLIENTS_IMPORT_FAMILY_LAYERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Returns the names of `layer_count` layers, as `layer_types` has them, of a family whose class
// makes them by a rule of its own if no list is there: MiMo-V2, MiniMax, Step-3.5, RecurrentGemma
// and Cohere 2 with experts, or by `layer_group_size`, which Ling's class has if a file has none.
// Empty for other families. MiniMax's first files have no rule; without a list `fields` remembers
// an error about `attn_type_list`, and the result is empty.
std::vector<std::string> LayersOfFamily(const FamilyTraits& traits, ConfigFields& fields,
                                        int layer_count);

// Returns the number of tokens that layers with a window read, by `sliding_window`,
// `sliding_window_size` or `attention_window_size`; 0 if there is none.
int ReadWindow(const FamilyTraits& traits, ConfigFields& fields);

// Returns the number of layers of LongCat-Flash: `num_layers` counts pairs of them, since a layer
// of its class has attention and a dense part twice. Returns 0 for other families, and if there is
// no such field.
int CountPairedLayers(const FamilyTraits& traits, ConfigFields& fields,
                      std::vector<std::string>* notes);

// Returns the parameters that each layer of the family has beyond those of `run`'s heads, norms and
// biases; negative if it has fewer. 0 for families without a rule of their own, and after an error.
// Notes what is not priced. REQUIRES, unchecked: `run` has heads.
int64_t FamilyParameterCount(const FamilyTraits& traits, ConfigFields& fields,
                             const TransformerRunFacts& run, std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_FAMILY_LAYERS_H_
