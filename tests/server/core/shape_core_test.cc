#include "server/core/shape_core.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/model_wire.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;

v1::DeviceOffer Offer(int per_node, int min_count, int max_count) {
  v1::DeviceOffer offer;
  offer.set_device_kind("synthetic-device");
  offer.set_devices_per_node(per_node);
  offer.set_device_memory_bytes(int64_t{6} << 30);
  offer.set_min_device_count(min_count);
  offer.set_max_device_count(max_count);
  return offer;
}

class ShapeCoreTest : public CoreTest {
 protected:
  v1::ShapePlanRequest ShapeQuestion() const {
    v1::ShapePlanRequest request;
    request.set_parent("clusters/synthetic");
    *request.mutable_model() = ModelToProto(*SyntheticModel({}));
    *request.add_offers() = Offer(8, 1, 8);
    request.set_global_batch_size(16);
    return request;
  }
};

TEST_F(ShapeCoreTest, SaysWhatEveryCountCouldDo) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedShape shape, AskShape(ShapeQuestion()));
  std::vector<int> counts;
  for (const v1::ShapeOption& option : shape->options()) {
    counts.push_back(option.device_count());
    if (!option.feasible()) {
      EXPECT_FALSE(option.infeasible_reason().empty());
      continue;
    }
    EXPECT_GT(option.samples_per_second(), 0.0);
    EXPECT_GE(option.same_node_device_count(), 1);
    EXPECT_LE(option.same_switch_device_count(), option.device_count());
    EXPECT_FALSE(option.gist().empty());
  }
  EXPECT_THAT(counts, ElementsAre(1, 2, 4, 8));
  ASSERT_TRUE(shape->has_recommended_option_index());
  EXPECT_TRUE(shape->options(shape->recommended_option_index()).feasible());
  EXPECT_EQ(*store().CountPlans("synthetic"), 0);
}

TEST_F(ShapeCoreTest, AnEqualQuestionIsAnsweredFromTheCacheUntilAProfileComes) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedShape first, AskShape(ShapeQuestion()));
  const int searches = planner.search_count;
  ASSERT_OK_AND_ASSIGN(const SharedShape second, AskShape(ShapeQuestion()));
  EXPECT_FALSE(first->from_cache());
  EXPECT_TRUE(second->from_cache());
  EXPECT_EQ(planner.search_count, searches);
  v1::Profile newer = SyntheticProfile({});
  newer.set_overlap_slowdown(1.5);
  ASSERT_OK(Upload(newer, "second-upload").status());
  EXPECT_FALSE((*AskShape(ShapeQuestion()))->from_cache());
}

TEST_F(ShapeCoreTest, WhatEightDevicesCanDoIsWhatCreatePlanThenPromises) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedShape shape, AskShape(ShapeQuestion()));
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
  EXPECT_EQ(shape->options(3).step_duration().SerializeAsString(),
            PayloadOf(*plan).prediction().step_duration().SerializeAsString());
}

TEST_F(ShapeCoreTest, ThatNothingFitsIsAnAnswer) {
  StartMeasured();
  v1::ShapePlanRequest request = ShapeQuestion();
  request.mutable_offers(0)->set_device_memory_bytes(int64_t{320} << 20);
  ASSERT_OK_AND_ASSIGN(const SharedShape shape, AskShape(request));
  EXPECT_FALSE(shape->has_recommended_option_index());
  EXPECT_FALSE(shape->infeasible_reason().empty());
  EXPECT_GT(shape->options(3).smallest_device_memory_bytes(), int64_t{320} << 20);
}

TEST_F(ShapeCoreTest, AnOfferThatWasNotMeasuredIsOneOptionAndAllOfThemAreAnError) {
  StartMeasured();
  v1::ShapePlanRequest request = ShapeQuestion();
  *request.add_offers() = Offer(8, 8, 8);
  request.mutable_offers(1)->set_device_kind("unknown");
  ASSERT_OK_AND_ASSIGN(const SharedShape shape, AskShape(request));
  EXPECT_EQ(shape->options(4).offer_index(), 1);
  EXPECT_FALSE(shape->options(4).feasible());
  request.mutable_offers()->DeleteSubrange(0, 1);
  const absl::Status status = AskShape(request).status();
  EXPECT_EQ(ReasonOf(status), Reason::kProfileMissing);
  EXPECT_EQ(FactOf(status, "count"), "1");
}

TEST_F(ShapeCoreTest, RefusesTooManyOffersAndNone) {
  StartMeasured();
  v1::ShapePlanRequest request = ShapeQuestion();
  for (int i = 0; i < 16; ++i) *request.add_offers() = Offer(8, 8, 8);
  EXPECT_EQ(FactOf(AskShape(request).status(), "field"), "offers");
  request.clear_offers();
  EXPECT_EQ(FactOf(AskShape(request).status(), "field"), "offers");
}

v1::ShapePlanRequest WithMoney(v1::ShapePlanRequest request) {
  v1::MoneyQuestion& money = *request.mutable_money();
  v1::DeviceTerms& terms = *money.add_devices();
  terms.set_device_kind("synthetic-device");
  terms.set_price_per_device_hour(2.0);
  money.set_step_count(1'000'000);
  return request;
}

TEST_F(ShapeCoreTest, SaysWhatARunCostsAndTakesTheCheapestForADeadline) {
  StartMeasured();
  v1::ShapePlanRequest request = WithMoney(ShapeQuestion());
  ASSERT_OK_AND_ASSIGN(const SharedShape any, AskShape(request));
  const v1::MoneyAnswer& money = any->money();
  ASSERT_GE(money.plans_size(), 2);
  const v1::PlanCost* fastest = &money.plans(money.fastest_index());
  for (const v1::PlanCost& plan : money.plans()) {
    const v1::ShapeOption& option = any->options(plan.option_index());
    EXPECT_EQ(plan.device_count(), option.device_count());
    EXPECT_EQ(plan.gist(), option.gist());
    EXPECT_EQ(plan.step_count(), 1'000'000);
    EXPECT_DOUBLE_EQ(plan.run_seconds(), 1e6 * plan.step_seconds());
    EXPECT_NEAR(plan.money(), 2.0 * plan.device_count() * plan.run_seconds() / 3600.0,
                1e-9 * plan.money());
    EXPECT_GE(plan.run_seconds(), fastest->run_seconds());
    EXPECT_GE(plan.money(), money.plans(money.cheapest_index()).money());
    // The device is in no library.
    EXPECT_FALSE(plan.has_energy_joules());
  }
  EXPECT_EQ(money.chosen_index(), money.cheapest_index());

  // Half of the time of the fastest plan: none meets it, and the fastest is named.
  request.mutable_money()->mutable_deadline_duration()->set_seconds(
      static_cast<int64_t>(fastest->run_seconds() / 2));
  ASSERT_OK_AND_ASSIGN(const SharedShape none, AskShape(request));
  EXPECT_FALSE(none->money().has_chosen_index());
  EXPECT_EQ(none->money().nearest_deadline_index(), money.fastest_index());
  EXPECT_THAT(none->money().unmet_reason(), testing::HasSubstr("no plan meets the deadline"));
}

TEST_F(ShapeCoreTest, RefusesPricesOfOtherDevicesBeforeItSearches) {
  StartMeasured();
  v1::ShapePlanRequest request = WithMoney(ShapeQuestion());
  request.mutable_money()->mutable_devices(0)->set_device_kind("another");
  EXPECT_EQ(FactOf(AskShape(request).status(), "field"), "money.devices[0].device_kind");
  request = WithMoney(ShapeQuestion());
  request.mutable_money()->set_wants_energy(true);
  EXPECT_EQ(FactOf(AskShape(request).status(), "field"), "money.wants_energy");
  EXPECT_EQ(planner.search_count, 0);
}

TEST_F(ShapeCoreTest, WeighsAsManyPlansForEachCountAsAreWanted) {
  StartMeasured();
  v1::ShapePlanRequest request = WithMoney(ShapeQuestion());
  request.mutable_options()->set_top_plan_count(3);
  ASSERT_OK_AND_ASSIGN(const SharedShape shape, AskShape(request));
  int feasible = 0;
  for (const v1::ShapeOption& option : shape->options()) feasible += option.feasible() ? 1 : 0;
  EXPECT_GT(shape->money().plans_size(), feasible);
}

}  // namespace
}  // namespace parplan
