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

// Facts beyond its sizes on which the parameters of a layer depend. Numbers without another unit
// are parameters.
struct LayerExtras {
  // Whether the maps to queries, keys and values, the map to attention's output, and the
  // feed-forward part have biases.
  bool query_key_value_bias = false;
  bool output_bias = false;
  bool feed_forward_bias = false;
  // Vectors as wide as the hidden size in the norms of a layer and of the final norm; a norm with a
  // shift has two.
  int norm_vectors = 2;
  int final_norm_vectors = 1;
  // Norms of queries and keys, sinks, gates and indexers of attention, in a layer that has it.
  int64_t attention = 0;
  // In a layer with a feed-forward part: those of its activation.
  int64_t feed_forward = 0;
  // In a layer with a state space, and in one with experts (state_space_config.h, expert_config.h).
  int64_t state_space = 0;
  int64_t experts = 0;
  // Whether `feed_forward_bias` holds for experts too.
  bool experts_have_biases = true;
};

// Reads biases, norms and gates of a model with the sizes of `run`, whose heads `ReadHeads`
// (attention_config.h) has read if it has attention, and appends what is not priced to `notes`.
// `state_space` and `experts` are left to the caller. `fields` remembers errors; after one the
// result must not be used.
LayerExtras ReadLayerExtras(const FamilyTraits& traits, ConfigFields& fields,
                            const TransformerRunFacts& run, std::vector<std::string>* notes);

// Returns the parameters of a layer beyond those that model.proto derives from its sizes; negative
// if it has fewer.
int64_t ExtraParameterCount(const TransformerRunFacts& run, const LayerExtras& extra);

// Returns the parameters of biases: of `attention_count` attention blocks, if `query_key_value` of
// their queries, keys and values and if `output` of their output, and if `feed_forward` of the
// feed-forward part or of all experts, shared ones excepted. REQUIRES, unchecked: `run` has heads
// if `query_key_value`.
int64_t BiasCount(const TransformerRunFacts& run, int attention_count, bool query_key_value,
                  bool output, bool feed_forward);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_EXTRA_PARAMETERS_H_
