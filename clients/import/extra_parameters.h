// Parameters of layers that do not follow from their sizes: biases, norms, gates. The readers of
// configurations and of the arguments of Megatron-LM add them up.

#ifndef PARPLAN_CLIENTS_IMPORT_EXTRA_PARAMETERS_H_
#define PARPLAN_CLIENTS_IMPORT_EXTRA_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Facts beyond its sizes on which the parameters of a layer depend.
struct LayerExtras {
  bool query_key_value_bias = false;
  bool output_bias = false;
  bool feed_forward_bias = false;
  // Vectors as wide as the hidden size in the norms of a layer and of the final norm.
  int norm_vectors = 2;
  int final_norm_vectors = 1;
  // In attention: norms of queries and keys, sinks, gates.
  int64_t attention = 0;
  int64_t state_space = 0;
  // In layers with experts.
  int64_t experts = 0;
  bool experts_have_biases = true;
};

// Reads biases, norms and gates of a model with the sizes of `run`, and appends what is not priced
// to `notes`. `state_space` and `experts` are left to the caller.
LayerExtras ReadLayerExtras(const FamilyTraits& traits, ConfigFields& fields,
                            const TransformerRunFacts& run, std::vector<std::string>* notes);

// Returns the parameters of a layer beyond those that model.proto derives from its sizes; negative
// if it has fewer.
int64_t ExtraParameterCount(const TransformerRunFacts& run, const LayerExtras& extra);

// Returns the parameters of biases: of `attention_count` attention blocks (query, key and value;
// output) and of the feed-forward part.
int64_t BiasCount(const TransformerRunFacts& run, int attention_count, bool query_key_value,
                  bool output, bool feed_forward);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_EXTRA_PARAMETERS_H_
