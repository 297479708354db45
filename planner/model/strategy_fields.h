// The number of fields of `Strategy`, for code that reads only some of them.
//
//   static_assert(kStrategyFieldCount == 13, "say whether the new field changes the layout");
//
// A new field then fails to compile wherever it could be forgotten without a trace, for example
// where strategies that differ in it would be taken for one. Sources of the planner, the exporters,
// the clients and proto/wire assert it.

#ifndef PARPLAN_PLANNER_MODEL_STRATEGY_FIELDS_H_
#define PARPLAN_PLANNER_MODEL_STRATEGY_FIELDS_H_

#include "planner/model/strategy.h"

namespace parplan {

// A value for a field of any type; only for counting, so it has no definition.
struct AnyField {
  template <typename T>
  // Converts to any type.
  operator T() const;  // NOLINT(google-explicit-constructor)
};

// Returns how many values initialize a `Strategy`, if `fields` do.
template <typename... Fields>
consteval int CountStrategyFields() {
  if constexpr (requires { Strategy{Fields()..., AnyField()}; }) {
    return CountStrategyFields<Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

inline constexpr int kStrategyFieldCount = CountStrategyFields();

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_STRATEGY_FIELDS_H_
