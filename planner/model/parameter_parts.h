// The parameters of a model by the part of it that they belong to. `planctl explain`, the importer
// of Hugging Face and `parplan-study models` show them.

#ifndef PARPLAN_PLANNER_MODEL_PARAMETER_PARTS_H_
#define PARPLAN_PLANNER_MODEL_PARAMETER_PARTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Numbers of parameters; they add up to `ModelSpec::parameter_count`.
struct ParameterParts {
  // Layers before the transformer layers: tables, positions, patches.
  int64_t embedding = 0;
  // Matrices of queries, keys, values and outputs; of latent attention also the norms between them.
  int64_t attention = 0;
  // Matrices of dense feed-forward parts.
  int64_t feed_forward = 0;
  // Experts, shared ones included, routers, and the maps to the narrow vectors of experts and back.
  int64_t experts = 0;
  // The rest of the transformer layers: norms, biases. Negative if a given `parameter_count` is
  // less than the matrices have.
  int64_t other = 0;
  // Recurrences of state-space layers, with their projections and convolutions.
  int64_t state_space = 0;
  // Opaque layers.
  int64_t opaque = 0;
  // Layers that predict further tokens, with all that is in them.
  int64_t prediction = 0;
  // The head; if tied, only its norm and what was given beyond it.
  int64_t head = 0;

  friend bool operator==(const ParameterParts&, const ParameterParts&) = default;
};

// Returns the parts with their names, in this order: `embedding`, `attention`, `feed_forward`,
// `experts`, `other`, `head`, also those that are 0, and `state_space`, `opaque` and `prediction`
// if they are not. Names live as long as the program.
std::vector<std::pair<absl::string_view, int64_t>> NamedParameterParts(const ParameterParts& parts);

// Returns the parameters of all layers of `model` by part.
ParameterParts ParametersByPart(const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PARAMETER_PARTS_H_
