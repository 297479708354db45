// Reads the heads of attention from a `config.json`. `ReadTransformer` (transformer_config.h) and
// `ReadLayerExtras` (extra_parameters.h) call it.

#ifndef PARPLAN_CLIENTS_IMPORT_ATTENTION_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_ATTENTION_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Reads heads, key-value heads (0: as many as heads), the width of a head (0: not given) and latent
// attention into `run`, which has its `hidden_size`, and checks that they fit. With latent
// attention the width of a head is that of a query, and all heads have keys and values of their
// own, whatever the file says. A number of heads that is the family's default is named in `notes`;
// its other defaults are not. After an error, which `fields` remembers, the run must not be used.
void ReadHeads(const FamilyTraits& traits, ConfigFields& fields, TransformerRunFacts& run,
               std::vector<std::string>* notes);

// Reads the indexer that chooses the tokens which latent attention reads (DeepSeek-V3.2) and
// returns its parameters in a layer; 0 if there is none. Appends to `notes` that an indexer is not
// priced. `run` was read by `ReadHeads`. After an error, which `fields` remembers, the number means
// nothing.
int64_t ReadIndexer(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, std::vector<std::string>* notes);

// Returns the width of a head: `head_size`, or else the hidden size divided by the heads. REQUIRES,
// unchecked: the run has heads.
int HeadSize(const TransformerRunFacts& run);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_ATTENTION_CONFIG_H_
