// Limits of model specifications, and the form of their names. `LayerDefinition::Create` and
// `ModelSpec::Create` check them. The largest number of layers is that of a planning problem:
// `kMaxLayerCount` (planning_problem.h).

#ifndef PARPLAN_PLANNER_MODEL_MODEL_LIMITS_H_
#define PARPLAN_PLANNER_MODEL_MODEL_LIMITS_H_

#include <cstdint>
#include <string>

namespace parplan {

// Largest width, count or length inside one layer, in elements, heads, experts or tokens; also the
// widest that all heads of attention, or all groups of a state space, may be together. Larger ones
// are typing errors, and their products would overflow.
inline constexpr int kMaxModelSize = 1 << 24;

// Largest number of parameters of a model. Its bytes, multiplied by any factor of a plan, stay
// within 64 bits.
inline constexpr int64_t kMaxModelParameterCount = int64_t{1} << 50;

// Largest number of tokens after the next one that a model predicts (multi-token prediction).
// Published models have 1 to 3.
inline constexpr int kMaxFurtherTokenCount = 64;

// Form of the ids of models and layer definitions, as errors state it. The letters are those of
// ASCII.
inline constexpr char kModelIdRule[] = "must be 1 to 63 letters, digits, `-`, `_` or `.`";

// Returns whether `id` follows kModelIdRule.
bool IsModelId(const std::string& id);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_MODEL_LIMITS_H_
