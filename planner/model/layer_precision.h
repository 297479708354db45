// The recipe by which a layer's linear maps are quantised. The cost model asks it.

#ifndef PARPLAN_PLANNER_MODEL_LAYER_PRECISION_H_
#define PARPLAN_PLANNER_MODEL_LAYER_PRECISION_H_

#include <optional>

#include "planner/model/layer_definition.h"
#include "planner/model/precision.h"
#include "planner/model/runtime_traits.h"

namespace parplan {

// Returns the recipe of `precision` for the linear maps of `layer`; nothing if they have the
// operands that lie in memory: those of tables and heads, of layers with `wide_products`, and all
// maps of a precision without a recipe.
inline std::optional<Quantisation> QuantisationOf(const LayerDefinition& layer,
                                                  Precision precision) {
  if (!IsTransformer(layer.kind) || layer.wide_products) return std::nullopt;
  return TraitsOf(precision).quantisation;
}

// Returns whether the weights of linear maps exist quantised only, which takes a recipe that can
// and a runtime that does.
inline bool HasQuantisedParameters(Precision precision, const RuntimeTraits& runtime) {
  const std::optional<Quantisation>& quantisation = TraitsOf(precision).quantisation;
  return quantisation.has_value() && quantisation->has_parameters && runtime.quantised_parameters;
}

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_LAYER_PRECISION_H_
