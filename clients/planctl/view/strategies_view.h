// Shows the decision tree of the paper planners: its strategies, and which rule leaves out what.
// `planctl strategies` shows it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_STRATEGIES_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_STRATEGIES_VIEW_H_

#include <optional>
#include <string>

#include "planner/search/space/tree_paths.h"

namespace parplan::planctl {

// The part of the tree to show. No strategy is left for a pipeline degree that does not divide the
// devices, nor with `limits.only_powers_of_two` if the number of devices is not a power of two. The
// views take time linear in the ordered paths (`TreePaths`, planner/search/space/tree_paths.h).
struct StrategiesQuestion {
  // Devices to divide, at least 1.
  int device_count = 8;
  // Limits on the strategies of the tree.
  TreeLimits limits;
  // Whether every strategy is also there with recomputation.
  bool recompute = true;
  // Shows only this pipeline degree, a divisor of `device_count`; absent: all of them.
  std::optional<int> pipeline_parallel_degree;
};

// Returns the strategies by pipeline degree with their paths, and for each rule how many paths it
// leaves out and which: as text, or as one JSON object (docs/planctl.md). The text lists at most 24
// paths of a rule; the object has all.
std::string StrategiesText(const StrategiesQuestion& question);
std::string StrategiesJson(const StrategiesQuestion& question);

// Returns the tree as an SVG file: one column per level, one row per path whose pipeline, if it has
// one, comes first. Paths left out are grey and name the rule; those with a pipeline in another
// place are only counted. About 0.4 kB a path.
std::string StrategiesSvg(const StrategiesQuestion& question);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_STRATEGIES_VIEW_H_
