#include "planner/model/schedule_traits.h"

#include <cstddef>
#include <iterator>

#include "base/check.h"

namespace parplan {
namespace {

constexpr ScheduleTraits kScheduleTraits[] = {
    {.schedule = Schedule::kOneForwardOneBackward,
     .name = "1f1b",
     .title = "1F1B",
     .dimension = std::nullopt,
     .has_virtual_stages = false,
     .needs_whole_groups = false,
     .has_steady_state = true,
     .warm_up = WarmUpLaw::kFillPipeline,
     .backward_split = BackwardSplit::kWhole},
    {.schedule = Schedule::kGpipe,
     .name = "gpipe",
     .title = "GPipe",
     .dimension = SearchDimension::kGpipe,
     .has_virtual_stages = false,
     .needs_whole_groups = false,
     .has_steady_state = false,
     .warm_up = WarmUpLaw::kAllForwardPasses,
     .backward_split = BackwardSplit::kWhole},
    {.schedule = Schedule::kInterleaved,
     .name = "interleaved",
     .title = "interleaved 1F1B",
     .dimension = SearchDimension::kInterleaved,
     .has_virtual_stages = true,
     .needs_whole_groups = true,
     .has_steady_state = true,
     .warm_up = WarmUpLaw::kFillVirtualStages,
     .backward_split = BackwardSplit::kWhole},
    {.schedule = Schedule::kZeroBubble,
     .name = "zb-h1",
     .title = "ZB-H1",
     .dimension = SearchDimension::kZeroBubble,
     .has_virtual_stages = false,
     .needs_whole_groups = false,
     .has_steady_state = true,
     .warm_up = WarmUpLaw::kFillPipeline,
     .backward_split = BackwardSplit::kInputsThenWeights},
};

// `TraitsOf` indexes the table by the value of the enumerator.
constexpr bool SchedulesAreInOrder() {
  for (size_t i = 0; i < std::size(kScheduleTraits); ++i) {
    if (static_cast<size_t>(kScheduleTraits[i].schedule) != i + 1) return false;
  }
  return true;
}
static_assert(std::size(kScheduleTraits) == kScheduleCount && SchedulesAreInOrder());

}  // namespace

absl::Span<const ScheduleTraits> KnownSchedules() { return kScheduleTraits; }

const ScheduleTraits& TraitsOf(Schedule schedule) {
  const int index = static_cast<int>(schedule) - 1;
  PARPLAN_CHECK(index >= 0 && index < kScheduleCount);
  return kScheduleTraits[index];
}

std::optional<Schedule> FindSchedule(absl::string_view name) {
  for (const ScheduleTraits& traits : kScheduleTraits) {
    if (traits.name == name) return traits.schedule;
  }
  return std::nullopt;
}

}  // namespace parplan
