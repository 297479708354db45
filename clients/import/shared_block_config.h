// Reads a model whose layers share blocks of attention, as Zamba2's do. `ReadModelConfig`
// (model_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_SHARED_BLOCK_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_SHARED_BLOCK_CONFIG_H_

#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Reads Zamba2 (arXiv 2411.15242): layers of a state space, some of them with a block of attention
// and a feed-forward part before it that reads the layer's input beside the model's. There are
// `num_mem_blocks` such blocks, which take turns; a layer adds narrow matrices of its own. All
// layers are opaque, since they pass on the model's input too. The first layer with a block has its
// parameters, which `notes` says; a stage with a later one needs a copy that nothing counts.
// Vocabulary, tied embedding, model id, precision and optimizer are left to the caller. `config`
// remembers errors; after one the facts must not be used.
ModelFacts ReadSharedBlocks(ConfigFields& config, std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SHARED_BLOCK_CONFIG_H_
