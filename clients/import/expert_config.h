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

// The experts of the layers that have some. A router chooses some of the routed experts for each
// token; shared experts process every token.
struct Experts {
  // Number of routed experts of a layer; 0 for a dense model. The others are 0 then, except
  // `dense_size`.
  int count = 0;
  // Number of routed experts that process one token.
  int per_token = 0;
  // Feed-forward width of one routed expert.
  int size = 0;
  // Feed-forward width of all shared experts together, and of a dense part beside the experts; 0 if
  // there are none.
  int shared_size = 0;
  // Width of the vectors that experts read and return; 0 if that is the model's.
  int latent_size = 0;
  // Width of the feed-forward part of all layers if the model has only a shared expert (`count` is
  // 0); else 0.
  int dense_size = 0;
  // Parameters that each layer with experts has beside them and the matrix of the router, for
  // example the gate of the shared expert, biases of the router, and norms.
  int64_t extra_parameter_count = 0;
  // Whether each layer has experts; empty if `count` is 0.
  std::vector<bool> in_layer;
};

// Reads the experts of a model; `run` has the number of its layers and its hidden size.
// `plain_size` is the width of an expert if the file gives none. A file with one expert, no width
// of experts and no shared expert is read as a dense model. Appends the fields that it ignores, and
// the defaults that it takes, to `notes`. After an error, which `fields` remembers, the result must
// not be used.
Experts ReadExperts(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, int plain_size,
                    std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_EXPERT_CONFIG_H_
