#include "profiler-agent/probe/link_probe_plan.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/profiler-agent/probe/probe_requests.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using agent::v1::ProbePlan;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LinkProbePlan, HasGroupsThatLieOnSeveralNodes) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan plan, LinkProbePlan(Request(4), 2));
  EXPECT_EQ(plan.rank_count(), 8);
  EXPECT_EQ(DevicesPerNode(plan), 4);
  EXPECT_THAT(ShapesOf(plan, v1::COLLECTIVE_ALL_REDUCE),
              ElementsAre(std::pair(2, 4), std::pair(4, 2), std::pair(8, 1)));
  EXPECT_THAT(plan.layers(), IsEmpty());
  EXPECT_FALSE(plan.measures_overlap());
  EXPECT_THAT(LinkProbePlan(Request(4), 1), StatusIs(absl::StatusCode::kInvalidArgument));
  // A node of three: groups of two that begin at even ranks cross its edge.
  ASSERT_OK_AND_ASSIGN(const ProbePlan odd, LinkProbePlan(Request(3), 2));
  EXPECT_TRUE(ShapesOf(odd, v1::COLLECTIVE_ALL_REDUCE).contains({2, 1}));
}

TEST(CheckLinkProbe, TakesThePlansOfAgents) {
  for (const int devices : {1, 2, 3, 8}) {
    for (const int nodes : {2, 3, 16}) {
      ProbeRequest request = Request(devices);
      request.largest_message_bytes = int64_t{1} << 30;
      ASSERT_OK_AND_ASSIGN(const ProbePlan plan, LinkProbePlan(request, nodes));
      const LinkProbeBounds bounds = {.devices_per_node = devices, .node_count = nodes};
      EXPECT_OK(CheckLinkProbe(plan, bounds)) << devices << " x " << nodes;
      EXPECT_OK(CheckLinkProbe(IncrementalProbe(plan, v1::Profile(), {}), bounds));
    }
  }
}

TEST(CheckLinkProbe, RefusesWhatAnotherNodeHasNoBusinessToAsk) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan good, LinkProbePlan(Request(2), 2));
  const LinkProbeBounds bounds = {.devices_per_node = 2};
  ASSERT_OK(CheckLinkProbe(good, bounds));
  const std::pair<const char*, void (*)(ProbePlan&)> cases[] = {
      {"backend", [](ProbePlan& plan) { plan.set_backend("cuda"); }},
      {"backend", [](ProbePlan& plan) { plan.set_backend("./stranger.so"); }},
      {"devices_per_node", [](ProbePlan& plan) { plan.set_devices_per_node(64); }},
      {"devices_per_node", [](ProbePlan& plan) { plan.set_devices_per_node(0); }},
      {"rank_count", [](ProbePlan& plan) { plan.set_rank_count(1 << 30); }},
      {"rank_count", [](ProbePlan& plan) { plan.set_rank_count(2); }},
      {"layers", [](ProbePlan& plan) { plan.add_layers(); }},
      {"models", [](ProbePlan& plan) { plan.add_models(); }},
      {"measures_copies", [](ProbePlan& plan) { plan.set_measures_copies(true); }},
      {"torch", [](ProbePlan& plan) { plan.mutable_torch()->set_program("/bin/sh"); }},
      {"task",
       [](ProbePlan& plan) {
         plan.GetReflection()->MutableUnknownFields(&plan)->AddVarint(1000, 1);
       }},
      {"meeting", [](ProbePlan& plan) { plan.mutable_meeting()->set_rendezvous("a:1"); }},
      {"time_budget", [](ProbePlan& plan) { plan.clear_time_budget(); }},
      {"time_budget", [](ProbePlan& plan) { plan.mutable_time_budget()->set_seconds(86400); }},
      {"time_budget", [](ProbePlan& plan) { plan.mutable_time_budget()->set_nanos(-1); }},
      {"collective_time_limit",
       [](ProbePlan& plan) { plan.mutable_collective_time_limit()->set_seconds(86400); }},
      {"precision", [](ProbePlan& plan) { plan.set_precision(std::nan("")); }},
      {"precision", [](ProbePlan& plan) { plan.set_precision(-1.0); }},
      {"collectives[0].collective",
       [](ProbePlan& plan) {
         plan.mutable_collectives(0)->set_collective(static_cast<v1::Collective>(99));
       }},
      {"collectives[0].participant_count",
       [](ProbePlan& plan) { plan.mutable_collectives(0)->set_participant_count(0); }},
      {"collectives[0].participant_count",
       [](ProbePlan& plan) { plan.mutable_collectives(0)->set_participant_count(3); }},
      {"collectives[0].participant_count",
       [](ProbePlan& plan) { plan.mutable_collectives(0)->set_rank_stride(-1); }},
      {"collectives[0].participant_count",
       [](ProbePlan& plan) {
         plan.mutable_collectives(0)->set_participant_count(1 << 30);
         plan.mutable_collectives(0)->set_rank_stride(1 << 30);
       }},
      {"collectives[0].message_size_bytes",
       [](ProbePlan& plan) { plan.mutable_collectives(0)->set_message_size_bytes(0); }},
      {"collectives[0].message_size_bytes",
       [](ProbePlan& plan) {
         plan.mutable_collectives(0)->set_message_size_bytes((int64_t{1} << 30) + 1);
       }},
  };
  for (const auto& [field, spoil] : cases) {
    ProbePlan plan = good;
    spoil(plan);
    EXPECT_THAT(CheckLinkProbe(plan, bounds),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
  }
}

// Fields that are added to plans must not reach other nodes unless they are only links.
TEST(CheckLinkProbe, RefusesEveryFieldThatIsNotOfLinks) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan good, LinkProbePlan(Request(2), 2));
  const LinkProbeBounds bounds = {.devices_per_node = 2};
  const google::protobuf::Descriptor* type = ProbePlan::descriptor();
  std::vector<std::string> taken;
  for (int i = 0; i < type->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type->field(i);
    ProbePlan plan = good;
    const google::protobuf::Reflection* reflection = plan.GetReflection();
    if (!field->is_repeated() && reflection->HasField(plan, field)) {
      taken.push_back(field->name());
      continue;
    }
    if (field->is_repeated()) {
      if (reflection->FieldSize(plan, field) > 0) {
        taken.push_back(field->name());
        continue;
      }
      reflection->AddMessage(&plan, field);
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      reflection->MutableMessage(&plan, field);
    } else {
      ASSERT_EQ(field->cpp_type(), google::protobuf::FieldDescriptor::CPPTYPE_BOOL);
      reflection->SetBool(&plan, field, true);
    }
    EXPECT_THAT(CheckLinkProbe(plan, bounds),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field->name())));
  }
  EXPECT_THAT(
      taken, testing::UnorderedElementsAre("backend", "rank_count", "collectives", "time_budget",
                                           "collective_time_limit", "layer_time_limit", "precision",
                                           "devices_per_node"));
}

// A share of the smallest message is at least one number for each rank.
TEST(LinkProbePlan, OfManyNodesHasEachCollectiveOnce) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan plan, LinkProbePlan(Request(8), 512));
  std::set<std::string> keys;
  for (const auto& key : plan.collectives()) {
    EXPECT_TRUE(keys.insert(key.SerializeAsString()).second) << key.ShortDebugString();
  }
}

}  // namespace
}  // namespace parplan
