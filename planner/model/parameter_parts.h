// The parameters of a model by the part of it that they belong to.

#ifndef PARPLAN_PLANNER_MODEL_PARAMETER_PARTS_H_
#define PARPLAN_PLANNER_MODEL_PARAMETER_PARTS_H_

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Numbers of parameters; they add up to `ModelSpec::parameter_count`.
struct ParameterParts {
  // Layers before the transformer layers: tables, positions, patches.
  int64_t embedding = 0;
  // Matrices of queries, keys, values and outputs.
  int64_t attention = 0;
  // Matrices of dense feed-forward parts.
  int64_t feed_forward = 0;
  // Experts, shared ones included, and routers.
  int64_t experts = 0;
  // The rest of the transformer layers: norms, biases. Negative if a given `parameter_count` is
  // less than the matrices have.
  int64_t other = 0;
  // The head; if tied, only its norm and what was given beyond it.
  int64_t head = 0;

  friend bool operator==(const ParameterParts&, const ParameterParts&) = default;
};

// Returns the parts with their names, in the order of the members: `embedding`, `attention`,
// `feed_forward`, `experts`, `other`, `head`.
std::array<std::pair<absl::string_view, int64_t>, 6> NamedParameterParts(
    const ParameterParts& parts);

// Returns the parameters of all layers of `model` by part.
ParameterParts ParametersByPart(const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PARAMETER_PARTS_H_
