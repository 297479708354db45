#include "planner/model/schedule_traits.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace parplan {
namespace {

TEST(ScheduleTraits, EveryScheduleIsFoundByItsValueAndItsName) {
  ASSERT_EQ(KnownSchedules().size(), kScheduleCount);
  std::set<std::string> names;
  for (const ScheduleTraits& traits : KnownSchedules()) {
    EXPECT_EQ(TraitsOf(traits.schedule).name, traits.name);
    EXPECT_EQ(FindSchedule(traits.name), traits.schedule);
    EXPECT_FALSE(traits.title.empty());
    names.insert(std::string(traits.name));
  }
  EXPECT_EQ(names.size(), kScheduleCount);
  EXPECT_EQ(FindSchedule("1F1B"), std::nullopt);
  EXPECT_EQ(FindSchedule(""), std::nullopt);
}

TEST(ScheduleTraits, EverySpaceHasTheDefaultSchedule) {
  EXPECT_FALSE(TraitsOf(kDefaultSchedule).dimension.has_value());
  EXPECT_FALSE(TraitsOf(kDefaultSchedule).has_virtual_stages);
}

TEST(ScheduleTraits, OnlySchedulesWithVirtualStagesNeedWholeGroups) {
  for (const ScheduleTraits& traits : KnownSchedules()) {
    EXPECT_EQ(traits.has_virtual_stages, traits.needs_whole_groups) << traits.name;
    EXPECT_EQ(traits.has_virtual_stages, traits.warm_up == WarmUpLaw::kFillVirtualStages);
  }
}

TEST(ScheduleTraits, OnlyZeroBubbleSchedulesSplitBackwardPasses) {
  for (const ScheduleTraits& traits : KnownSchedules()) {
    EXPECT_EQ(traits.backward_split == BackwardSplit::kInputsThenWeights,
              traits.dimension == SearchDimension::kZeroBubble)
        << traits.name;
  }
}

}  // namespace
}  // namespace parplan
