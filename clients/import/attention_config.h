// Reads the heads of attention from a `config.json`. `ReadTransformer` (transformer_config.h) calls
// it.

#ifndef PARPLAN_CLIENTS_IMPORT_ATTENTION_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_ATTENTION_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Reads heads, key-value heads, the width of a head and latent attention into `run`, which has its
// width, and checks that they fit. Defaults of the family are named in `notes`. After an error,
// which `fields` remembers, the run must not be used.
void ReadHeads(const FamilyTraits& traits, ConfigFields& fields, TransformerRunFacts& run,
               std::vector<std::string>* notes);

// Reads the indexer that chooses the tokens which latent attention reads (DeepSeek-V3.2) and
// returns its parameters in a layer; 0 if there is none. Appends to `notes` that it is not priced.
int64_t ReadIndexer(ConfigFields& fields, const TransformerRunFacts& run,
                    std::vector<std::string>* notes);

// Returns the width of a head. REQUIRES: the run has heads.
int HeadSize(const TransformerRunFacts& run);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_ATTENTION_CONFIG_H_
