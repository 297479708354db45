#include "clients/kubeflow/node_recommendation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

namespace parplan::kubeflow {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TrainJob WaitingJob() {
  TrainJob job;
  job.name = "training/llama2-7b";
  job.resource_version = "481516";
  job.plugin = "parplan";
  job.is_suspended = true;
  job.has_trainer = true;
  return job;
}

json ObjectNamed(const std::string& name) {
  std::ifstream file(PARPLAN_KUBEFLOW_DATA "/" + name);
  return json::parse(file);
}

TEST(ReasonToSkip, IsEmptyForAJobThatWaitsForUs) {
  TrainJob job = WaitingJob();
  EXPECT_EQ(ReasonToSkip(job, "parplan"), "");
  EXPECT_THAT(ReasonToSkip(job, "another"), HasSubstr("names `parplan`, not `another`"));
  job.is_done = true;
  EXPECT_THAT(ReasonToSkip(job, "parplan"), HasSubstr(kDoneAnnotation));
  job.plugin.clear();
  EXPECT_THAT(ReasonToSkip(job, "parplan"), HasSubstr(kPluginAnnotation));
}

// Twin: the numbers of both ranges, one by one.
TEST(AcceptedNodes, IsWhatBothRangesHave) {
  constexpr int kMost = 5;
  for (int min = 1; min <= kMost; ++min) {
    for (int max = min; max <= kMost; ++max) {
      for (int own_min = 0; own_min <= kMost; ++own_min) {
        for (int own_max = 0; own_max <= kMost; ++own_max) {
          if (own_max > 0 && std::max(own_min, 1) > own_max) continue;
          TrainJob job = WaitingJob();
          if (own_min > 0) job.min_node_count = own_min;
          if (own_max > 0) job.max_node_count = own_max;
          std::set<int> both;
          for (int nodes = min; nodes <= max; ++nodes) {
            if (nodes >= own_min && (own_max == 0 || nodes <= own_max)) both.insert(nodes);
          }
          const absl::StatusOr<NodeRange> accepted = AcceptedNodes(job, {.min = min, .max = max});
          ASSERT_EQ(accepted.ok(), !both.empty());
          if (!accepted.ok()) continue;
          EXPECT_EQ(accepted->min, *both.begin());
          EXPECT_EQ(accepted->max, *both.rbegin());
        }
      }
    }
  }
}

TEST(AcceptedNodes, NamesTheAnnotationBeyondTheQuota) {
  TrainJob job = WaitingJob();
  job.min_node_count = 9;
  EXPECT_THAT(
      std::string(AcceptedNodes(job, {.min = 1, .max = 8}).status().message()),
      testing::AllOf(HasSubstr("training/llama2-7b: metadata.annotations.parplan.io/min-nodes"),
                     HasSubstr("at most 8")));
  job.min_node_count.reset();
  job.max_node_count = 1;
  EXPECT_THAT(std::string(AcceptedNodes(job, {.min = 2, .max = 8}).status().message()),
              testing::AllOf(HasSubstr("parplan.io/max-nodes"), HasSubstr("at least 2")));
}

TEST(AcceptedNodes, RefusesAJobThatRuns) {
  TrainJob job = WaitingJob();
  job.is_suspended = false;
  EXPECT_THAT(std::string(AcceptedNodes(job, {.min = 1, .max = 8}).status().message()),
              HasSubstr("spec.suspend"));
}

TEST(NodeCountPatch, SetsTheNodesAndTheAnnotationAndNothingElse) {
  const json object = ObjectNamed("waiting.json");
  const json patched = object.patch(json::parse(NodeCountPatch(WaitingJob(), 2, false)));
  json expected = object;
  expected["spec"]["trainer"]["numNodes"] = 2;
  expected["metadata"]["annotations"][kDoneAnnotation] = "yes";
  EXPECT_EQ(patched, expected);
  EXPECT_EQ(patched["spec"]["suspend"], true);
}

TEST(NodeCountPatch, MakesATrainerWhereThereIsNone) {
  TrainJob job = WaitingJob();
  job.has_trainer = false;
  job.resource_version = "481600";
  const json patched =
      ObjectNamed("no-trainer.json").patch(json::parse(NodeCountPatch(job, 4, false)));
  EXPECT_EQ(patched["spec"]["trainer"], json({{"numNodes", 4}}));
}

TEST(NodeCountPatch, GivesThePodsTheNumberToo) {
  const json object = ObjectNamed("waiting.json");
  const json patched = object.patch(json::parse(NodeCountPatch(WaitingJob(), 2, true)));
  const json::json_pointer pod(
      "/trainingRuntimeSpec/template/spec/replicatedJobs/0/template/spec/template");
  ASSERT_EQ(patched["spec"]["runtimePatches"].size(), 1U);
  EXPECT_EQ(patched["spec"]["runtimePatches"][0]["manager"], kPatchManager);
  EXPECT_EQ(patched["spec"]["runtimePatches"][0][pod],
            json({{"metadata", {{"annotations", {{"parplan.io/nodes", "2"}}}}}}));
  // Patches of others stay, and one of our own is replaced.
  json others = object;
  others["spec"]["runtimePatches"] = {{{"manager", "kueue"}}};
  TrainJob job = WaitingJob();
  job.has_runtime_patches = true;
  const json both = others.patch(json::parse(NodeCountPatch(job, 3, true)));
  ASSERT_EQ(both["spec"]["runtimePatches"].size(), 2U);
  EXPECT_EQ(both["spec"]["runtimePatches"][0], others["spec"]["runtimePatches"][0]);
  job.own_runtime_patch = 1;
  const json again = both.patch(json::parse(NodeCountPatch(job, 4, true)));
  ASSERT_EQ(again["spec"]["runtimePatches"].size(), 2U);
  EXPECT_EQ(again["spec"]["runtimePatches"][1][pod]["metadata"]["annotations"]["parplan.io/nodes"],
            "4");
}

TEST(NodeCountPatch, FailsOnAJobThatChanged) {
  const json patch = json::parse(NodeCountPatch(WaitingJob(), 2, false));
  for (const char* const pointer :
       {"/metadata/resourceVersion", "/spec/suspend",
        "/metadata/annotations/trainer.kubeflow.org~1autoconf-plugin"}) {
    json object = ObjectNamed("waiting.json");
    object[json::json_pointer(pointer)] = "another";
    EXPECT_THROW(object.patch(patch), json::other_error) << pointer;
  }
}

TEST(NodeCountPatch, AFileThatNoServerHasStoredNeedsNoVersion) {
  TrainJob job = WaitingJob();
  job.resource_version.clear();
  json object = ObjectNamed("waiting.json");
  object["metadata"].erase("resourceVersion");
  EXPECT_EQ(object.patch(json::parse(NodeCountPatch(job, 3, false)))["spec"]["trainer"]["numNodes"],
            3);
}

}  // namespace
}  // namespace parplan::kubeflow
