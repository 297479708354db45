// The rules by which configuration classes of Hugging Face Transformers name layers and choose
// windows where a file of their family is silent. `ReadLayerLayout` (layer_layout.h) calls both.

#ifndef PARPLAN_CLIENTS_IMPORT_FAMILY_LAYERS_H_
#define PARPLAN_CLIENTS_IMPORT_FAMILY_LAYERS_H_

#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"

namespace parplan {

// Returns the names of `layer_count` layers, as `layer_types` has them, of a family whose class
// makes them by a rule of its own if no list is there: MiMo-V2, MiniMax and RecurrentGemma. Empty
// for other families. MiniMax's first files have no rule; without a list `fields` remembers an
// error about `attn_type_list`, and the result is empty.
std::vector<std::string> LayersOfFamily(const FamilyTraits& traits, ConfigFields& fields,
                                        int layer_count);

// Returns the number of tokens that layers with a window read, by `sliding_window`,
// `sliding_window_size` or `attention_window_size`; 0 if there is none.
int ReadWindow(const FamilyTraits& traits, ConfigFields& fields);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_FAMILY_LAYERS_H_
