#include "planner/model/schedule_traits.h"

#include <cstddef>
#include <iterator>

#include "base/check.h"

namespace parplan {
namespace {

constexpr ScheduleTraits kTraits[] = {
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
};

// `TraitsOf` indexes the table by the value of the enumerator.
constexpr bool IsInOrder() {
  for (size_t i = 0; i < std::size(kTraits); ++i) {
    if (static_cast<size_t>(kTraits[i].schedule) != i + 1) return false;
  }
  return true;
}
static_assert(std::size(kTraits) == kScheduleCount && IsInOrder());

}  // namespace

absl::Span<const ScheduleTraits> KnownSchedules() { return kTraits; }

const ScheduleTraits& TraitsOf(Schedule schedule) {
  const int index = static_cast<int>(schedule) - 1;
  PARPLAN_CHECK(index >= 0 && index < kScheduleCount);
  return kTraits[index];
}

std::optional<Schedule> FindSchedule(absl::string_view name) {
  for (const ScheduleTraits& traits : kTraits) {
    if (traits.name == name) return traits.schedule;
  }
  return std::nullopt;
}

}  // namespace parplan
