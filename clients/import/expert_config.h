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
  // Experts of a layer without shared ones; 0 for a dense model.
  int count = 0;
  // Experts that process one token.
  int per_token = 0;
  // Width of one expert, and of the shared ones together; 0 without.
  int size = 0;
  int shared_size = 0;
  // Width of the vectors that experts read and return; 0 if that is the model's.
  int latent_size = 0;
  // Width of the feed-forward part of all layers if the model has only a shared expert (`count` is
  // 0); else 0.
  int dense_size = 0;
  // Parameters of a layer with experts for the gate of the shared one and biases of the router.
  int64_t extra_parameter_count = 0;
  // Whether each layer has experts; empty if `count` is 0.
  std::vector<bool> in_layer;
};

// Reads the experts of a model with the layer count and hidden size of `run`; one expert without a
// width of its own and without a shared one reads as a dense model; `plain_size` is the width of an
// expert if the file gives none of its own. Fields that are ignored are named in `notes`. After an
// error, which `fields` remembers, the result must not be used.
Experts ReadExperts(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, int plain_size,
                    std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_EXPERT_CONFIG_H_
