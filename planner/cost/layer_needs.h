// What a problem may ask of the measurements of a layer, and what came of it.

#ifndef PARPLAN_PLANNER_COST_LAYER_NEEDS_H_
#define PARPLAN_PLANNER_COST_LAYER_NEEDS_H_

#include <string>
#include <vector>

namespace parplan {

// Sentences collected while measurements are resolved.
struct ResolutionNotes {
  // What is needed and not there, for the PROFILE_MISSING error.
  std::vector<std::string> missing;
  // What is used and was not measured, for `Prediction::estimated_items`.
  std::vector<std::string> estimated;
};

struct LayerNeeds {
  // Ascending; contains 1.
  std::vector<int> tensor_parallel_degrees;
  // Whether what lies outside the measurements may be extended from them or
  // estimated from theory.
  bool allow_estimates = false;
  // Whether strategies with tensor parallelism use sequence parallelism where no
  // memory was measured with or without it.
  bool sequence_parallel = false;
};

// Where a number comes from, best first.
enum class MeasurementSource {
  // A stopwatch at this very point.
  kMeasured = 1,
  // Between measured points.
  kInterpolated = 2,
  // Outside the measured points, by their own trend.
  kExtrapolated = 3,
  // From theory, where the layer was measured elsewhere scaled to what was.
  kEstimated = 4,
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_NEEDS_H_
