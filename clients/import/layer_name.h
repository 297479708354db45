// Names of the layer definitions of a model whose layers differ. `ReadTransformer`
// (transformer_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_LAYER_NAME_H_
#define PARPLAN_CLIENTS_IMPORT_LAYER_NAME_H_

#include <string>
#include <vector>

#include "clients/import/layer_parts.h"

namespace parplan {

// Returns the id of a layer's definition among `all`: its kind, and what sets it apart from other
// layers of that kind; of its sizes those that are not the model's.
std::string LayerName(const LayerParts& parts, const std::vector<LayerParts>& all, bool is_encoder);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LAYER_NAME_H_
