// Parameters before the first and behind the last layer of a decoder or encoder. `ReadTransformer`
// (transformer_config.h) adds them up.

#ifndef PARPLAN_CLIENTS_IMPORT_END_PARAMETERS_H_
#define PARPLAN_CLIENTS_IMPORT_END_PARAMETERS_H_

#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/extra_parameters.h"
#include "clients/import/family_traits.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Reads what embedding and head of a model with the width of `run` have beyond a table of words, a
// product and the scale of a norm, and adds it to both extra counts of `facts`: positions, types of
// tokens, further norms, a narrower table with its projections, the head of masked words, a bias. A
// count may fall below 0, if an end has less. `extra` says how many vectors the final norm has.
// Appends what is not priced to `notes`. Without `counts_all_parameters` the counts stay as they
// are, as after an error, which `fields` remembers. `notes` and `facts` are not null.
void ReadEndParameters(const FamilyTraits& traits, bool counts_all_parameters,
                       const TransformerRunFacts& run, const LayerExtras& extra,
                       ConfigFields& fields, std::vector<std::string>* notes, ModelFacts* facts);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_END_PARAMETERS_H_
