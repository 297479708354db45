#include "proto/wire/comparison_wire.h"

#include <variant>

#include "planner/model/plan.h"
#include "proto/wire/duration_wire.h"

namespace parplan {

v1::PlannerComparison ComparisonToProto(const std::string& planner, const PlanningResult& result) {
  v1::PlannerComparison comparison;
  comparison.set_planner(planner);
  if (const PlanFound* found = std::get_if<PlanFound>(&result)) {
    comparison.set_feasible(true);
    *comparison.mutable_step_duration() = DurationToProto(found->prediction.step);
    comparison.set_step_seconds(found->prediction.step.value());
    comparison.set_samples_per_second(found->prediction.samples_per_second);
    comparison.set_peak_memory_bytes(found->prediction.peak_memory.count());
    comparison.set_gist(PlanGist(found->plan));
  } else if (const NothingFits* nothing = std::get_if<NothingFits>(&result)) {
    comparison.set_smallest_device_memory_bytes(nothing->smallest_device_memory.count());
    comparison.set_smallest_device_count(nothing->smallest_device_count.value_or(0));
  } else {
    comparison.set_stopped_early(true);
  }
  return comparison;
}

}  // namespace parplan
