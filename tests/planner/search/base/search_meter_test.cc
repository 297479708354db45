#include "planner/search/base/search_meter.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace parplan {
namespace {

TEST(SearchMeter, CountsWithoutALimit) {
  const SearchControl control;
  SearchMeter meter(control);
  EXPECT_TRUE(meter.Expand(3));
  EXPECT_TRUE(meter.Expand(int64_t{1} << 40));
  meter.Prune(5);
  EXPECT_EQ(meter.expanded_state_count(), (int64_t{1} << 40) + 3);
  EXPECT_EQ(meter.pruned_state_count(), 5);
  EXPECT_FALSE(meter.stopped());
  EXPECT_EQ(meter.limit(), SearchLimit::kNone);
}

TEST(SearchMeter, EndsBeyondTheLimitOfStatesAndStaysEnded) {
  const SearchControl control{.max_state_count = 10};
  SearchMeter meter(control);
  EXPECT_TRUE(meter.Expand(10));
  EXPECT_FALSE(meter.Expand(1));
  EXPECT_EQ(meter.limit(), SearchLimit::kStates);
  EXPECT_FALSE(meter.Expand(0));
  // The first limit is the one that is reported.
  meter.Stop(SearchLimit::kTime);
  EXPECT_EQ(meter.limit(), SearchLimit::kStates);
  EXPECT_EQ(meter.expanded_state_count(), 11);
}

TEST(SearchMeter, AsksWhetherToStopOnceEveryFewThousandStates) {
  int question_count = 0;
  const SearchControl control{.should_stop = [&question_count] {
    ++question_count;
    return false;
  }};
  SearchMeter meter(control);
  for (int64_t i = 0; i < 10 * SearchMeter::kStatesBetweenQuestions; ++i) {
    ASSERT_TRUE(meter.Expand(1));
  }
  EXPECT_EQ(question_count, 10);
  EXPECT_TRUE(meter.ShouldContinue());
  EXPECT_EQ(question_count, 11);
}

TEST(SearchMeter, ReportsASearchThatMustStopAsOutOfTime) {
  const SearchControl control{.should_stop = [] { return true; }};
  SearchMeter meter(control);
  EXPECT_TRUE(meter.Expand(1));
  EXPECT_FALSE(meter.ShouldContinue());
  EXPECT_TRUE(meter.stopped());
  EXPECT_EQ(meter.limit(), SearchLimit::kTime);
}

TEST(SearchMeter, GivesAPartNoMoreStatesThanAreLeft) {
  const SearchControl unlimited;
  EXPECT_EQ(SearchMeter(unlimited).PartOf(7).max_state_count, 7);
  const SearchControl control{.max_state_count = 100};
  SearchMeter meter(control);
  EXPECT_EQ(meter.PartOf(7).max_state_count, 7);
  EXPECT_TRUE(meter.Expand(96));
  EXPECT_EQ(meter.PartOf(7).max_state_count, 4);
  EXPECT_TRUE(meter.Expand(4));
  // 0 would stand for no limit.
  EXPECT_EQ(meter.PartOf(7).max_state_count, 1);
}

TEST(SearchMeter, APartThatReachedItsOwnLimitDoesNotEndTheSearch) {
  const SearchControl control{.max_state_count = 100};
  SearchMeter meter(control);
  const SearchControl limited = meter.PartOf(5);
  SearchMeter part(limited);
  EXPECT_FALSE(part.Expand(6));
  part.Prune(2);
  EXPECT_TRUE(meter.Add(part));
  EXPECT_EQ(meter.expanded_state_count(), 6);
  EXPECT_EQ(meter.pruned_state_count(), 2);
  SearchMeter late(limited);
  late.Stop(SearchLimit::kTime);
  EXPECT_FALSE(meter.Add(late));
  EXPECT_EQ(meter.limit(), SearchLimit::kTime);
}

TEST(SearchMeter, PartsCountTowardsTheLimitOfTheSearch) {
  const SearchControl control{.max_state_count = 10};
  SearchMeter meter(control);
  const SearchControl free;
  SearchMeter part(free);
  EXPECT_TRUE(part.Expand(11));
  EXPECT_FALSE(meter.Add(part));
  EXPECT_EQ(meter.limit(), SearchLimit::kStates);
}

}  // namespace
}  // namespace parplan
