// Pipeline schedules and their differences: one row of traits per schedule. The cost model, the
// planners, planner/check, the exporters and the clients ask it.
//
// Code that needs a property of a schedule asks its row. Some code must treat each schedule by
// itself; where it is a `switch` over `Schedule` without a default, the compiler warns about a new
// schedule, and where it compares with one value, a new schedule takes the `else` branch silently.
// CONTRIBUTING.md ("A schedule") lists both kinds of places.
//
//   if (TraitsOf(plan.schedule).has_virtual_stages) ...

#ifndef PARPLAN_PLANNER_MODEL_SCHEDULE_TRAITS_H_
#define PARPLAN_PLANNER_MODEL_SCHEDULE_TRAITS_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/model/search_space.h"

namespace parplan {

// The order in which the devices of a pipeline do their passes. Enumerators have the values of
// proto/parplan/v1/plan.proto; planner/model/pass_order.h defines each order.
enum class Schedule {
  kOneForwardOneBackward = 1,
  kGpipe = 2,
  // 1F1B over several virtual stages per device (Narayanan et al., SC'21, section 2.2).
  kInterleaved = 3,
  // ZB-H1 (Qi et al., ICLR 2024): 1F1B whose backward passes have two parts, so that the devices
  // behind the first fill the end of the step with gradients of weights.
  kZeroBubble = 4,
};
inline constexpr int kScheduleCount = 4;

// The schedule of a plan or question that names none.
inline constexpr Schedule kDefaultSchedule = Schedule::kOneForwardOneBackward;

// How many forward passes a device does before it begins to do one forward and one backward pass in
// turn, and therefore how many micro-batches it keeps in flight. P is the pipeline degree, V the
// number of virtual stages on a device, and `device` counts from 0.
enum class WarmUpLaw {
  // All forward passes, so that every micro-batch is in flight at once; then all backward passes.
  kAllForwardPasses,
  // P - 1 - device. One more forward pass precedes the first backward pass, so that at most
  // P - device micro-batches are in flight.
  kFillPipeline,
  // 2 (P - 1 - device) + (V - 1) G, in groups of G micro-batches (G is P or more); one more forward
  // pass precedes the first backward pass. `kFillPipeline` if V is 1.
  kFillVirtualStages,
};

// Whether the gradients of inputs and those of weights are computed in one pass or in two.
enum class BackwardSplit {
  // One pass computes the gradients of inputs and weights.
  kWhole,
  // The gradients of weights follow in a pass of their own, as in zero-bubble schedules
  // (Qi et al., ICLR 2024).
  kInputsThenWeights,
};

// The traits of one schedule.
struct ScheduleTraits {
  Schedule schedule;
  // Name in flags, JSON and environment variables: `1f1b`.
  absl::string_view name;
  // Name for readers: `1F1B`.
  absl::string_view title;
  // The dimension that adds the schedule to a search space; empty if every space has it.
  std::optional<SearchDimension> dimension;
  // Plans may have several stages per device. Searches list only plans that do.
  bool has_virtual_stages;
  // In plans with several virtual stages, the number of micro-batches must be a multiple of the
  // pipeline degree, or the plan has groups of another size that `IsGroupSize`
  // (planner/model/pass_order.h) allows. The cost model simulates incomplete groups all the same.
  bool needs_whole_groups;
  // Forward and backward passes alternate between warm-up and cool-down, so that the step time
  // grows by the same amount with each group of micro-batches.
  bool has_steady_state;
  WarmUpLaw warm_up;
  BackwardSplit backward_split;
};

// Returns the rows of all schedules in the order of their values. The table is static.
absl::Span<const ScheduleTraits> KnownSchedules();

// Returns the row of `schedule`, one of the values above; aborts for another. O(1).
const ScheduleTraits& TraitsOf(Schedule schedule);

// Returns the schedule with that `ScheduleTraits::name`, or nothing.
std::optional<Schedule> FindSchedule(absl::string_view name);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_SCHEDULE_TRAITS_H_
