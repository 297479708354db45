#include "server/core/shape.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/model_wire.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::DeviceOffer Offer(int per_node, int min_count, int max_count) {
  v1::DeviceOffer offer;
  offer.set_device_kind("synthetic-device");
  offer.set_devices_per_node(per_node);
  offer.set_device_memory_bytes(int64_t{6} << 30);
  offer.set_min_device_count(min_count);
  offer.set_max_device_count(max_count);
  return offer;
}

TEST(DeviceCounts, ArePowersOfTwoAndTheEndsAsFarAsNodesAllow) {
  EXPECT_THAT(DeviceCounts(Offer(8, 1, 64)), ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_THAT(DeviceCounts(Offer(8, 3, 50)), ElementsAre(4, 8, 16, 32, 48));
  EXPECT_THAT(DeviceCounts(Offer(6, 1, 24)), ElementsAre(1, 2, 24));
  EXPECT_THAT(DeviceCounts(Offer(8, 5, 7)), IsEmpty());
  EXPECT_THAT(DeviceCounts(Offer(8, 24, 24)), ElementsAre(24));
}

TEST(OfferTopology, IsWholeNodesOrAPartOfOne) {
  v1::DeviceOffer offer = Offer(8, 1, 64);
  offer.set_devices_per_switch(16);
  ASSERT_OK_AND_ASSIGN(const Topology part, OfferTopology("c", offer, 4));
  EXPECT_EQ(part.node_groups()[0].node_count, 1);
  EXPECT_EQ(part.node_groups()[0].devices_per_node, 4);
  EXPECT_EQ(part.link_tiers().size(), 1u);
  ASSERT_OK_AND_ASSIGN(const Topology whole, OfferTopology("c", offer, 64));
  EXPECT_EQ(whole.node_groups()[0].node_count, 8);
  ASSERT_EQ(whole.link_tiers().size(), 3u);
  EXPECT_EQ(whole.link_tiers()[1].reach_device_count, 16);
  EXPECT_EQ(whole.link_tiers()[2].reach_device_count, 64);
}

TEST(CheckOffer, NamesTheFieldThatIsWrong) {
  const Limits limits;
  EXPECT_OK(CheckOffer(Offer(8, 1, 8), "offers[0]", limits));
  EXPECT_EQ(FactOf(CheckOffer(Offer(0, 1, 8), "offers[0]", limits), "field"),
            "offers[0].devices_per_node");
  EXPECT_EQ(FactOf(CheckOffer(Offer(8, 9, 8), "offers[0]", limits), "field"),
            "offers[0].max_device_count");
  v1::DeviceOffer offer = Offer(8, 1, 8);
  offer.set_devices_per_switch(12);
  EXPECT_EQ(FactOf(CheckOffer(offer, "offers[0]", limits), "field"),
            "offers[0].devices_per_switch");
}

using Options = google::protobuf::RepeatedPtrField<v1::ShapeOption>;

void AddOption(Options* options, int device_count, double samples_per_second) {
  v1::ShapeOption& option = *options->Add();
  option.set_device_count(device_count);
  if (samples_per_second <= 0.0) return;
  option.set_feasible(true);
  option.set_samples_per_second(samples_per_second);
  const int64_t nanos = static_cast<int64_t>(64.0 / samples_per_second * 1e9);
  option.mutable_step_duration()->set_seconds(nanos / 1000000000);
  option.mutable_step_duration()->set_nanos(static_cast<int32_t>(nanos % 1000000000));
}

TEST(RecommendedOption, IsTheFewestDevicesThatAreUsedAboutAsWellAsTheBest) {
  // Per device: -, 8.5, 9.2, 10, 6.
  Options options;
  AddOption(&options, 1, 0.0);
  AddOption(&options, 2, 17.0);
  AddOption(&options, 4, 36.8);
  AddOption(&options, 8, 80.0);
  AddOption(&options, 16, 96.0);
  EXPECT_EQ(RecommendedOption(options), 2);
}

TEST(RecommendedOption, OfEqualCountsItIsTheFasterOne) {
  Options options;
  AddOption(&options, 8, 76.0);
  AddOption(&options, 8, 80.0);
  EXPECT_EQ(RecommendedOption(options), 1);
}

TEST(RecommendedOption, IsAbsentWhenNothingFits) {
  Options options;
  AddOption(&options, 8, 0.0);
  EXPECT_EQ(RecommendedOption(options), std::nullopt);
  EXPECT_EQ(RecommendedOption({}), std::nullopt);
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

}  // namespace
}  // namespace parplan
