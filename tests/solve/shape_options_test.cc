#include "solve/shape_options.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/rejection.h"
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
  EXPECT_EQ(whole.fabric_id(), "");
  offer.set_fabric_id("nvlink-3+hdr-8x200");
  ASSERT_OK_AND_ASSIGN(const Topology named, OfferTopology("c", offer, 64));
  EXPECT_EQ(named.fabric_id(), "nvlink-3+hdr-8x200");
}

TEST(CheckOffer, NamesTheFieldThatIsWrong) {
  constexpr int kMost = 512;
  EXPECT_OK(CheckOffer(Offer(8, 1, 8), "offers[0]", kMost));
  EXPECT_EQ(Rejection(CheckOffer(Offer(0, 1, 8), "offers[0]", kMost)),
            "SPEC_INVALID offers[0].devices_per_node");
  EXPECT_EQ(Rejection(CheckOffer(Offer(8, 9, 8), "offers[0]", kMost)),
            "SPEC_INVALID offers[0].max_device_count");
  v1::DeviceOffer offer = Offer(8, 1, 8);
  offer.set_devices_per_switch(12);
  EXPECT_EQ(Rejection(CheckOffer(offer, "offers[0]", kMost)),
            "SPEC_INVALID offers[0].devices_per_switch");
  offer = Offer(8, 1, 8);
  offer.set_fabric_id("nvlink-3+hdr-8x200");
  EXPECT_OK(CheckOffer(offer, "offers[0]", kMost));
  offer.set_fabric_id("string");
  EXPECT_EQ(Rejection(CheckOffer(offer, "offers[0]", kMost)), "SPEC_INVALID offers[0].fabric_id");
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

}  // namespace
}  // namespace parplan
