// The degrees at which a problem needs the costs of a layer, where each number came from, and notes
// on those that were not measured. `CostModel::Create` fills these in; the sources of layers and
// collectives (layer_source.h, collective_costs.h) add to the notes.

#ifndef PARPLAN_PLANNER_COST_LAYER_NEEDS_H_
#define PARPLAN_PLANNER_COST_LAYER_NEEDS_H_

#include <string>
#include <vector>

namespace parplan {

// Sentences for people, one per entry, collected while measurements are resolved.
struct ResolutionNotes {
  // Measurements that are needed and absent, for the PROFILE_MISSING error of `CostModel::Create`.
  std::vector<std::string> missing;
  // Numbers that are used and were not measured, for `Prediction::estimated_items`.
  std::vector<std::string> estimated;
  // Whether collectives of some group of hybrid sharding were measured and others not. Only plans
  // with such groups use them.
  bool estimates_hybrid_groups = false;
};

// The needs of one problem.
struct LayerNeeds {
  // Ascending; contains 1.
  std::vector<int> tensor_parallel_degrees;
  // Whether numbers outside the measurements may be extrapolated from them or estimated from
  // theory.
  bool allow_estimates = false;
  // Whether strategies with tensor parallelism use sequence parallelism on layers whose memory was
  // not measured at any degree above 1. Where it was measured, they do as the measured layer did.
  bool sequence_parallel = false;
};

// The source of a number, best first.
enum class MeasurementSource {
  // Measured at exactly this point.
  kMeasured = 1,
  // Between measured points.
  kInterpolated = 2,
  // Outside the measured points, by their trend.
  kExtrapolated = 3,
  // From theory, scaled to the measurements of the layer at other points if there are any.
  kEstimated = 4,
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_NEEDS_H_
