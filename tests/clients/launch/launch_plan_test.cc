#include "clients/launch/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "planner/model/search_summary.h"
#include "proto/wire/digest.h"
#include "proto/wire/plan_wire.h"
#include "tests/planner/program/program_cases.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;
using Variables = std::map<std::string, std::string>;

Topology NodesOf(int node_count, int devices_per_node, std::vector<std::string> names) {
  absl::StatusOr<Topology> topology =
      Topology::Create("atlas",
                       {{.node_group_id = "all",
                         .device_kind = "CPU test",
                         .node_count = node_count,
                         .node_names = std::move(names),
                         .devices_per_node = devices_per_node,
                         .device_memory = Bytes::Of(int64_t{1} << 30)}},
                       {{.tier_id = "all", .reach_device_count = node_count * devices_per_node}});
  PARPLAN_CHECK(topology.ok());
  return *std::move(topology);
}

VerifiedPlan Verified(const Plan& plan, const ModelSpec& model, const Topology& topology) {
  v1::PlanPayload payload = MakePayload();
  payload.clear_stages();
  FillPayload(plan, Prediction(), SearchSummary(), model, &payload);
  payload.set_topology_digest(TopologyDigest(topology));
  payload.set_model_digest(ModelDigest(model));
  payload.clear_node_names();
  for (const std::string& name : topology.NodeNames()) payload.add_node_names(name);
  const PrivateKey key = FirstKey();
  absl::StatusOr<VerifiedPlan> verified =
      PlanVerifier(Trusting({&key}))
          .Verify(Sign(payload, {&key}), ExpectedAudience(), IssueTime() + absl::Hours(1));
  PARPLAN_CHECK(verified.ok());
  return *std::move(verified);
}

Variables MapOf(const LaunchVariables& variables) {
  Variables map;
  for (const auto& [name, value] : variables) {
    EXPECT_TRUE(map.emplace(name, value).second) << name << " is told twice";
  }
  return map;
}

// Two stages of two ranks each, which share tensors, on two nodes whose names are not in the
// order of the alphabet.
class TwoStages : public testing::Test {
 protected:
  const ModelSpec model_ = SmallGpt(2);
  const Topology topology_ = NodesOf(2, 2, {"n9", "n1"});
  const Plan plan_ = PlanOf(
      model_, 4, {2, 2}, {Strategy{.tensor_parallel_degree = 2, .data_parallel_degree = 1}}, 8, 4);
  const VerifiedPlan verified_ = Verified(plan_, model_, topology_);
};

TEST_F(TwoStages, GivesEachRankItsPlace) {
  ASSERT_OK_AND_ASSIGN(const LaunchPlan launch, LaunchPlan::Create(verified_, model_, topology_,
                                                                   {.master_address = "10.0.0.9",
                                                                    .master_port = 23456,
                                                                    .plan_path = "/run/p/plan"}));
  ASSERT_EQ(launch.rank_count(), 4);
  EXPECT_EQ(launch.NodeNamed("n9"), 0);
  EXPECT_EQ(launch.NodeNamed("n1"), 1);
  EXPECT_EQ(launch.NodeNamed("n2"), -1);

  Variables node = MapOf(launch.VariablesOfNode(1));
  EXPECT_EQ(node["PARPLAN_PLAN"], "/run/p/plan");
  EXPECT_EQ(node["PARPLAN_NODE"], "n1");
  EXPECT_EQ(node["PARPLAN_NODE_RANK"], "1");
  EXPECT_EQ(node["PARPLAN_NODE_COUNT"], "2");
  EXPECT_EQ(node["PARPLAN_DEVICE_COUNT"], "4");
  EXPECT_EQ(node["PARPLAN_PIPELINE_DEGREE"], "2");
  EXPECT_EQ(node["PARPLAN_SCHEDULE"], "1f1b");
  EXPECT_EQ(node["PARPLAN_MICRO_BATCH_SIZE"], "2");
  EXPECT_EQ(node["PARPLAN_MICRO_BATCH_SIZE_PER_RANK"], "2");
  EXPECT_EQ(node["PARPLAN_GRADIENT_ACCUMULATION_STEPS"], "4");
  EXPECT_EQ(node["PARPLAN_JOB_ID"], "job-7");
  EXPECT_EQ(node["MASTER_ADDR"], "10.0.0.9");
  EXPECT_EQ(node["MASTER_PORT"], "23456");
  EXPECT_EQ(node.count("PARPLAN_TRUST"), 0);

  Variables rank = MapOf(launch.VariablesOfRank(3));
  EXPECT_EQ(rank["PARPLAN_RANK"], "3");
  EXPECT_EQ(rank["RANK"], "3");
  EXPECT_EQ(rank["WORLD_SIZE"], "4");
  EXPECT_EQ(rank["LOCAL_RANK"], "1");
  EXPECT_EQ(rank["LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(rank["PARPLAN_STAGE"], "1");
  EXPECT_EQ(rank["PARPLAN_STAGES"], "1");
  EXPECT_EQ(rank["PARPLAN_TENSOR_DEGREE"], "2");
  EXPECT_EQ(rank["PARPLAN_TENSOR_RANK"], "1");
  EXPECT_EQ(rank["PARPLAN_DATA_DEGREE"], "1");
  EXPECT_EQ(rank["PARPLAN_SHARDING"], "none");
  // Variables of ranks and of nodes go into one environment.
  for (const auto& [name, unused] : rank) EXPECT_EQ(node.count(name), 0) << name;
}

TEST_F(TwoStages, TheMapNamesTheGroupsThatVariablesMean) {
  ASSERT_OK_AND_ASSIGN(const LaunchPlan launch, LaunchPlan::Create(verified_, model_, topology_));
  const Json map = Json::parse(launch.RankMapJson());
  EXPECT_EQ(map["device_count"], 4);
  EXPECT_EQ(map["nodes"][0]["name"], "n9");
  EXPECT_EQ(map["ranks"][2]["node"], "n1");
  EXPECT_EQ(map["ranks"][2]["device"], 0);
  for (int rank = 0; rank < 4; ++rank) {
    Variables variables = MapOf(launch.VariablesOfRank(rank));
    const Json& group = map["groups"][std::stoi(variables["PARPLAN_TENSOR_GROUP"])];
    EXPECT_EQ(group["purpose"], "tensor");
    const int first = rank / 2 * 2;
    EXPECT_EQ(group["ranks"], Json({first, first + 1}));
    EXPECT_EQ(variables.count("PARPLAN_GRADIENT_GROUP"), 0) << "nobody holds the same";
  }
  // Members and lists of groups agree.
  for (const Json& group : map["groups"]) {
    for (const Json& rank : map["ranks"]) {
      const auto has = [](const Json& list, const Json& item) {
        return std::find(list.begin(), list.end(), item) != list.end();
      };
      EXPECT_EQ(has(group["ranks"], rank["rank"]), has(rank["groups"], group["id"]));
    }
  }
}

TEST_F(TwoStages, WhatThePlanWasNotMadeForIsRefused) {
  EXPECT_EQ(ReasonOf(LaunchPlan::Create(verified_, SmallGpt(3), topology_)), Reason::kSpecInvalid);
  EXPECT_EQ(ReasonOf(LaunchPlan::Create(verified_, model_, NodesOf(2, 2, {"n9", "n2"}))),
            Reason::kTopologyMismatch);
  // Nodes in another order are other ranks.
  EXPECT_EQ(
      ReasonOf(LaunchPlan::Create(verified_, model_, topology_, {.node_names = {"n1", "n9"}})),
      Reason::kTopologyMismatch);
  EXPECT_EQ(ReasonOf(LaunchPlan::Create(verified_, model_, topology_, {.master_port = 65535})),
            Reason::kSpecInvalid);
}

TEST(LaunchPlan, NodesThatThePlanDoesNotNameAreGiven) {
  const ModelSpec model = SmallGpt(2);
  const Topology topology = NodesOf(2, 1, {});
  const VerifiedPlan verified =
      Verified(PlanOf(model, 2, {4}, {Strategy{.data_parallel_degree = 2}}, 8, 1), model, topology);
  ASSERT_OK_AND_ASSIGN(
      const LaunchPlan given,
      LaunchPlan::Create(verified, model, topology, {.node_names = {"pod-1", "pod-0"}}));
  EXPECT_EQ(given.NodeNamed("pod-1"), 0);
  ASSERT_OK_AND_ASSIGN(const LaunchPlan numbered, LaunchPlan::Create(verified, model, topology));
  EXPECT_EQ(numbered.NodeNamed("node-1"), 1);
  EXPECT_THAT(
      LaunchPlan::Create(verified, model, topology, {.node_names = {"pod-0"}}).status().message(),
      HasSubstr("2 nodes, not for 1"));
}

// If layers of a rank are split in different ways, a variable would be wrong for some of them.
TEST(LaunchPlan, OneDegreeIsToldOnlyWhereThereIsOne) {
  const ModelSpec model = SmallGpt(2);
  const Topology topology = NodesOf(1, 2, {});
  const Strategy tensor{.tensor_parallel_degree = 2};
  const Strategy data{.data_parallel_degree = 2};
  ASSERT_OK_AND_ASSIGN(
      const LaunchPlan launch,
      LaunchPlan::Create(Verified(PlanOf(model, 2, {4}, {tensor, data}, 8, 1), model, topology),
                         model, topology));
  const Variables variables = MapOf(launch.VariablesOfRank(1));
  EXPECT_EQ(variables.count("PARPLAN_TENSOR_DEGREE"), 0);
  EXPECT_EQ(variables.count("PARPLAN_TENSOR_GROUP"), 0);
  EXPECT_EQ(variables.count("PARPLAN_STAGE_GROUP"), 1);
  EXPECT_EQ(variables.count("PARPLAN_MICRO_BATCH_SIZE_PER_RANK"), 0);
  EXPECT_EQ(MapOf(launch.VariablesOfNode(0)).count("PARPLAN_MICRO_BATCH_SIZE_PER_RANK"), 0);
  std::set<std::string> purposes;
  const Json map = Json::parse(launch.RankMapJson());
  for (const Json& group : map["groups"]) {
    purposes.insert(group["purpose"].get<std::string>());
  }
  EXPECT_THAT(purposes, testing::IsSupersetOf({"tensor", "gradient", "stage"}));
}

// Steps times accumulation times replicas is the batch, in whichever place the variables are.
TEST(LaunchPlan, SizesOfARankMultiplyToTheBatch) {
  const ModelSpec model = SmallGpt(2);
  const Topology topology = NodesOf(1, 4, {});
  const Strategy tensor{.tensor_parallel_degree = 2, .data_parallel_degree = 1};
  const Strategy data{.data_parallel_degree = 2};
  Plan mixed = PlanOf(model, 4, {2, 2}, {data}, 24, 3);
  for (StageLayerRun& run : mixed.stages[1].layer_runs) run.strategy = tensor;
  int by_node = 0;
  int by_rank = 0;
  for (const Plan& plan : {PlanOf(model, 4, {2, 2}, {data}, 24, 3), mixed}) {
    ASSERT_OK_AND_ASSIGN(const LaunchPlan launch,
                         LaunchPlan::Create(Verified(plan, model, topology), model, topology));
    const Variables node = MapOf(launch.VariablesOfNode(0));
    EXPECT_EQ(node.at("PARPLAN_GRADIENT_ACCUMULATION_STEPS"), "3");
    const Json map = Json::parse(launch.RankMapJson());
    EXPECT_EQ(map["gradient_accumulation_steps"], 3);
    for (int rank = 0; rank < 4; ++rank) {
      const Variables own = MapOf(launch.VariablesOfRank(rank));
      const bool is_of_node = node.count("PARPLAN_MICRO_BATCH_SIZE_PER_RANK") > 0;
      EXPECT_EQ(map.contains("micro_batch_size_per_rank"), is_of_node);
      EXPECT_NE(own.count("PARPLAN_MICRO_BATCH_SIZE_PER_RANK") > 0, is_of_node);
      ++(is_of_node ? by_node : by_rank);
      const std::string& size = (is_of_node ? node : own).at("PARPLAN_MICRO_BATCH_SIZE_PER_RANK");
      EXPECT_EQ(std::stoi(size) * std::stoi(own.at("PARPLAN_DATA_DEGREE")) * 3, 24);
    }
  }
  EXPECT_EQ(by_node, 4);
  EXPECT_EQ(by_rank, 4);
}

// A plan that the executor cannot run has ranks and nodes all the same.
TEST(LaunchPlan, SaysWhyThereAreNoGroups) {
  const ModelSpec model = SmallGpt(2);
  const Topology topology = NodesOf(1, 8, {});
  // 12 heads are not for 8 ranks.
  ASSERT_OK_AND_ASSIGN(
      const LaunchPlan launch,
      LaunchPlan::Create(
          Verified(PlanOf(model, 8, {4}, {Strategy{.tensor_parallel_degree = 8}}, 8, 1), model,
                   topology),
          model, topology));
  const Json map = Json::parse(launch.RankMapJson());
  EXPECT_THAT(map["no_groups_because"].get<std::string>(), HasSubstr("heads"));
  EXPECT_EQ(map["groups"].size(), 0);
  EXPECT_EQ(MapOf(launch.VariablesOfRank(5)).at("PARPLAN_TENSOR_RANK"), "5");
}

// The executor runs no such plan, and other programs are started with the same variables.
TEST(LaunchPlan, PlacesRanksWithoutLayers) {
  const ModelSpec model = SmallGpt(2);
  const Topology topology = NodesOf(1, 6, {});
  ASSERT_OK_AND_ASSIGN(
      const LaunchPlan launch,
      LaunchPlan::Create(
          Verified(PlanOf(model, 6, {2, 0, 2}, {Dp(2, kZero1)}, 8, 2), model, topology), model,
          topology));
  for (int rank = 0; rank < 6; ++rank) {
    const Variables variables = MapOf(launch.VariablesOfRank(rank));
    EXPECT_EQ(variables.at("PARPLAN_STAGE"), std::to_string(rank / 2));
    EXPECT_EQ(variables.at("PARPLAN_DATA_DEGREE"), "2");
    EXPECT_EQ(variables.at("PARPLAN_DATA_RANK"), std::to_string(rank % 2));
    EXPECT_EQ(variables.count("PARPLAN_SHARDING"), rank / 2 == 1 ? 0 : 1);
  }
  EXPECT_EQ(MapOf(launch.VariablesOfNode(0)).at("PARPLAN_MICRO_BATCH_SIZE_PER_RANK"), "2");
  const Json map = Json::parse(launch.RankMapJson());
  EXPECT_THAT(map["no_groups_because"].get<std::string>(), HasSubstr("stages[1]: it has no layer"));
}

}  // namespace
}  // namespace parplan
