// Reads a mixture of experts from a `config.json`. `ReadTransformer` (transformer_config.h) calls
// it.

#ifndef PARPLAN_CLIENTS_IMPORT_EXPERT_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_EXPERT_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/model_facts.h"

namespace parplan {

// The experts of the layers that have some.
struct Experts {
  int count = 0;
  int per_token = 0;
  int size = 0;
  int shared_size = 0;
  // Width of layers that have only a shared expert.
  int dense_size = 0;
  int64_t extra_parameter_count = 0;
  // One per layer; empty if `count` is 0.
  std::vector<bool> in_layer;
};

// Reads the experts of a model with the layers and width of `run`; `plain_size` is the width of an
// expert if the file gives none of its own. `count` is 0 for a dense model. What was ignored is
// appended to `notes`. After an error, which `fields` remembers, the result must not be used.
Experts ReadExperts(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, int plain_size,
                    std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_EXPERT_CONFIG_H_
