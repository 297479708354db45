// Names of a strategy's parts in files and variables that other programs read. Launch variables and
// the messages of exporters use them.

#ifndef PARPLAN_PLANNER_MODEL_STRATEGY_NAMES_H_
#define PARPLAN_PLANNER_MODEL_STRATEGY_NAMES_H_

#include "absl/strings/string_view.h"
#include "planner/model/strategy.h"

namespace parplan {

// Returns `none`, `zero-1`, `zero-2` or `zero-3`.
constexpr absl::string_view ShardingLevelName(ShardingLevel level) {
  switch (level) {
    case ShardingLevel::kNone:
      return "none";
    case ShardingLevel::kOptimizer:
      return "zero-1";
    case ShardingLevel::kGradients:
      return "zero-2";
    case ShardingLevel::kParameters:
      return "zero-3";
  }
  return "?";
}

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_STRATEGY_NAMES_H_
