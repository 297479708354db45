// How the planners of the Galvatron papers, and the baselines they are compared with, divide layers
// into pipeline stages. `PlanningRules` has one.

#ifndef PARPLAN_PLANNER_MODEL_PARTITIONER_H_
#define PARPLAN_PLANNER_MODEL_PARTITIONER_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace parplan {

// The names in comments are those of `PlanningOptions.partitioner` and `planctl plan
// --partitioner`.
enum class Partitioner {
  kBest,    // `best`: the best of even, greedy and balanced stages, and layers moved between them
  kEven,    // `even`: equal numbers of transformer layers
  kGreedy,  // `greedy`: memory filled from the last stage on, as Galvatron's public code does
};

// Returns the name, which lives as long as the program.
absl::string_view PartitionerName(Partitioner partitioner);

// Returns the partitioner of a name, or nothing.
std::optional<Partitioner> FindPartitioner(absl::string_view name);

// Returns all names, separated by ", ".
absl::string_view PartitionerNames();

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PARTITIONER_H_
