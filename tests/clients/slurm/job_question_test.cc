#include "clients/slurm/job_question.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan::slurm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

SlurmConfig Site() {
  SlurmConfig config;
  config.cluster = "lab";
  config.devices["gpu:h200"] = {.device_kind = "NVIDIA H200",
                                .device_memory_bytes = 1000,
                                .node_tier = "nvlink",
                                .fabric_tier = "ib"};
  config.devices["gpu:a100"] = {.device_kind = "NVIDIA A100", .device_memory_bytes = 500};
  return config;
}

JobNode Node(const std::string& name, const std::string& gres, int64_t count) {
  return {name, {{gres, count}}};
}

std::string ErrorOf(const std::vector<JobNode>& nodes) {
  return std::string(TopologyOfJob(Site(), nodes).status().message());
}

TEST(TopologyOfJob, IsAGroupOfNodesInTheirOrder) {
  ASSERT_OK_AND_ASSIGN(
      const v1::ClusterTopology message,
      TopologyOfJob(Site(), {Node("n2", "gpu:h200", 4), Node("n1", "gpu:h200", 4)}));
  ASSERT_OK_AND_ASSIGN(const Topology topology, TopologyFromProto(message));
  EXPECT_EQ(topology.device_count(), 8);
  EXPECT_THAT(topology.NodeNames(), testing::ElementsAre("n2", "n1"));
  ASSERT_EQ(topology.link_tiers().size(), 2);
  EXPECT_EQ(topology.link_tiers()[0].tier_id, "nvlink");
  EXPECT_EQ(topology.link_tiers()[0].reach_device_count, 4);
  EXPECT_EQ(topology.link_tiers()[1].reach_device_count, 8);
}

TEST(TopologyOfJob, EveryShapeOfAJobIsAValidTopology) {
  for (const int nodes : {1, 2, 5}) {
    for (const int devices : {1, 2, 8}) {
      std::vector<JobNode> job;
      job.reserve(nodes);
      for (int k = 0; k < nodes; ++k)
        job.push_back(Node("n" + std::to_string(k), "gpu:h200", devices));
      ASSERT_OK_AND_ASSIGN(const v1::ClusterTopology message, TopologyOfJob(Site(), job));
      ASSERT_OK_AND_ASSIGN(const Topology topology, TopologyFromProto(message));
      EXPECT_EQ(topology.device_count(), nodes * devices);
    }
  }
}

// Requests that the planner cannot serve are refused in terms of Slurm.
TEST(TopologyOfJob, ExplainsNodesThatDiffer) {
  EXPECT_THAT(ErrorOf({Node("n1", "gpu:h200", 8), Node("m1", "gpu:a100", 8)}),
              AllOf(HasSubstr("n1 gives the job gpu:h200:8 but m1 gpu:a100:8"),
                    HasSubstr("--gpus-per-node")));
  EXPECT_THAT(ErrorOf({Node("n1", "gpu:h200", 8), Node("n2", "gpu:h200", 4)}),
              HasSubstr("n2 gpu:h200:4"));
  EXPECT_THAT(ErrorOf({{"n1", {{"gpu:h200", 2}, {"gpu:a100", 2}}}}), HasSubstr("one kind"));
  EXPECT_THAT(ErrorOf({Node("n1", "gpu:v100", 8)}), HasSubstr("gpu:v100:8"));
  EXPECT_THAT(ErrorOf({{"n1", {}}}), HasSubstr("--gres"));
}

JobFacts Job() {
  JobFacts job;
  job.job_id = "17";
  job.nodes = {Node("n1", "gpu:h200", 4)};
  job.wishes.plan = "auto";
  job.wishes.model = ToReadableJson(ModelToProto(SmallGpt(2)));
  job.wishes.global_batch_size = 32;
  return job;
}

// A repeated question must not make a second plan; a job that starts anew must.
TEST(QuestionOfJob, ItsRequestIdFollowsFromTheJobAndItsStart) {
  ASSERT_OK_AND_ASSIGN(const v1::CreatePlanRequest first, QuestionOfJob(Site(), Job()));
  ASSERT_OK_AND_ASSIGN(const v1::CreatePlanRequest again, QuestionOfJob(Site(), Job()));
  EXPECT_EQ(first.request_id(), again.request_id());
  EXPECT_THAT(
      first.request_id(),
      testing::ContainsRegex("^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$"));
  EXPECT_EQ(first.job_id(), "17");
  EXPECT_EQ(first.parent(), "clusters/lab");

  // The job's time limit plus a day.
  EXPECT_GT(first.time_to_live().seconds(), 86400);
  JobFacts brief = Job();
  brief.time_limit = absl::Hours(1);
  ASSERT_OK_AND_ASSIGN(const v1::CreatePlanRequest for_brief, QuestionOfJob(Site(), brief));
  EXPECT_EQ(for_brief.time_to_live().seconds(), 25 * 3600);

  JobFacts restarted = Job();
  restarted.restart_count = 1;
  ASSERT_OK_AND_ASSIGN(const v1::CreatePlanRequest second, QuestionOfJob(Site(), restarted));
  EXPECT_NE(first.request_id(), second.request_id());
}

TEST(QuestionOfJob, RefusesWhatIsNoModelByTheNameOfTheOption) {
  const auto error = [](const std::string& model, int64_t batch) {
    JobFacts job = Job();
    job.wishes.model = model;
    job.wishes.global_batch_size = batch;
    return std::string(QuestionOfJob(Site(), job).status().message());
  };
  EXPECT_THAT(error("", 32), HasSubstr("--plan-model"));
  EXPECT_THAT(error("{\"hiden\": 1}", 32), HasSubstr("--plan-model"));
  EXPECT_THAT(error(Job().wishes.model, 0), HasSubstr("--plan-batch"));
}

TEST(QuestionOfJob, AsksForPlansThatTheProgramRuns) {
  const auto target = [](const std::string& exports, const std::string& named,
                         const std::string& space) {
    JobFacts job = Job();
    job.wishes.exports = exports;
    job.wishes.target = named;
    job.wishes.space = space;
    const absl::StatusOr<v1::CreatePlanRequest> request = QuestionOfJob(Site(), job);
    if (!request.ok()) return std::string(request.status().message());
    EXPECT_EQ(request->spec().options().space(), space);
    return request->spec().options().target();
  };
  EXPECT_EQ(target("", "", ""), "");
  EXPECT_EQ(target("", "galvatron", "all,-gpipe"), "galvatron");
  // One export stands for its space, unless the job says what it wants.
  EXPECT_EQ(target("megatron", "", ""), "megatron");
  EXPECT_EQ(target("megatron", "parplan", ""), "parplan");
  EXPECT_EQ(target("megatron", "", "none"), "");
  EXPECT_EQ(target("galvatron,megatron", "", ""), "");
  EXPECT_THAT(target("nemo", "", ""), HasSubstr("--plan-export: must be one of"));
}

// No job is cancelled for what an administrator wrote: such an error has no detail.
TEST(QuestionOfJob, WhatIsWrongWithDevicesIsNotTheJobsFault) {
  SlurmConfig config = Site();
  config.devices["gpu:h200"].reserved_memory_bytes = 2000;
  const absl::Status status = QuestionOfJob(config, Job()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("`devices`"));
  EXPECT_FALSE(GetErrorDetail(status).has_value());
}

}  // namespace
}  // namespace parplan::slurm
