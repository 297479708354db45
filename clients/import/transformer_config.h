// Reads the layers of a decoder or encoder, with experts, state spaces or neither, from a
// `config.json`. `ReadModelConfig` (model_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_TRANSFORMER_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_TRANSFORMER_CONFIG_H_

#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/model_facts.h"
#include "clients/import/opaque_config.h"

namespace parplan {

// Reads everything but the table of words: runs, experts, windows, and the parameters that
// model.proto does not derive from the sizes. Layers that predict further tokens are the last runs,
// one each. Runs have names only if layers differ or there are such layers. Model id, vocabulary,
// tied embedding, precision and optimizer are left to the caller. Assumptions and what is left out
// are appended to `notes`. After an error, which `fields` remembers, the facts must not be used.
//
// Layers of a kind that `opaque` has take its sizes; if all do, only width, sequence and ends are
// read, and the runs are opaque. A field of a structure that no run has is refused unless such a
// kind lists it, or `*` makes all layers opaque.
//
// Without `counts_all_parameters` the parameters of biases, further norms and positions are left
// out, as Galvatron's own configurations want it.
ModelFacts ReadTransformer(const FamilyTraits& traits, bool counts_all_parameters,
                           const GivenOpaqueLayers& opaque, ConfigFields& fields,
                           std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_TRANSFORMER_CONFIG_H_
