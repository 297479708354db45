#include "clients/kubeflow/train_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace parplan::kubeflow {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kGpu[] = "nvidia.com/gpu";

std::string Recorded(const std::string& name) {
  std::ifstream file(PARPLAN_KUBEFLOW_DATA "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

json Waiting() { return json::parse(Recorded("waiting.json")); }

absl::StatusOr<TrainJob> Read(const json& object) {
  return ReadTrainJob(object.dump(), "job.json", kGpu);
}

// Expects an error of the caller whose message has `part`.
void ExpectError(const json& object, const std::string& part) {
  const absl::StatusOr<TrainJob> job = Read(object);
  ASSERT_FALSE(job.ok()) << object;
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr(part));
  EXPECT_EQ(GetErrorDetail(job.status())->reason, Reason::kSpecInvalid);
}

TEST(ReadTrainJob, ReadsARecordedJob) {
  const absl::StatusOr<TrainJob> job = ReadTrainJob(Recorded("waiting.json"), "job.json", kGpu);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name, "training/llama2-7b");
  EXPECT_EQ(job->resource_version, "481516");
  EXPECT_EQ(job->plugin, "parplan");
  EXPECT_FALSE(job->is_done);
  EXPECT_TRUE(job->is_suspended);
  EXPECT_TRUE(job->has_trainer);
  EXPECT_EQ(job->devices_per_node, 8);
  EXPECT_EQ(job->processes_per_node, 8);
  EXPECT_EQ(job->model, "llama2-7b");
  EXPECT_EQ(job->global_batch_size, 64);
  EXPECT_EQ(job->min_node_count, std::nullopt);
  EXPECT_EQ(job->max_node_count, 2);
}

TEST(ReadTrainJob, LeavesAbsentWhatTheJobLeavesToOthers) {
  const absl::StatusOr<TrainJob> job = ReadTrainJob(Recorded("no-trainer.json"), "job.json", kGpu);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->has_trainer);
  EXPECT_EQ(job->devices_per_node, std::nullopt);
  EXPECT_EQ(job->global_batch_size, std::nullopt);
  EXPECT_EQ(job->model, "");
  const absl::StatusOr<TrainJob> plain = ReadTrainJob(Recorded("plain.json"), "job.json", kGpu);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->plugin, "");
  EXPECT_FALSE(plain->is_suspended);
}

TEST(ReadTrainJob, FindsThePatchThatWeMade) {
  json object = Waiting();
  EXPECT_FALSE(Read(object)->has_runtime_patches);
  object["spec"]["runtimePatches"] = {{{"manager", "kueue"}}};
  EXPECT_TRUE(Read(object)->has_runtime_patches);
  EXPECT_EQ(Read(object)->own_runtime_patch, std::nullopt);
  object["spec"]["runtimePatches"].push_back({{"manager", kPatchManager}});
  EXPECT_EQ(Read(object)->own_runtime_patch, 1);
  object["spec"]["runtimePatches"][0] = 7;
  ExpectError(object, "spec.runtimePatches[0]: must be an object");
  object["spec"]["runtimePatches"][0] = {{"manager", 7}};
  ExpectError(object, "spec.runtimePatches[0].manager: must be a string");
  object["spec"]["runtimePatches"] = "none";
  ExpectError(object, "spec.runtimePatches: must be a list");
}

TEST(ReadTrainJob, CountsTheNamedResourceAlone) {
  const absl::StatusOr<TrainJob> job =
      ReadTrainJob(Recorded("plain.json"), "job.json", "amd.com/gpu");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->devices_per_node, std::nullopt);
}

TEST(ReadTrainJob, TakesNullForAbsentAndWordsOfOlderReleases) {
  json object = Waiting();
  object["metadata"]["namespace"] = nullptr;
  object["spec"]["trainer"]["numProcPerNode"] = "auto";
  const absl::StatusOr<TrainJob> job = Read(object);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name, "llama2-7b");
  EXPECT_EQ(job->processes_per_node, std::nullopt);
}

TEST(ReadTrainJob, RefusesOtherKindsByName) {
  for (const char* const kind : {"Job", "JobSet", "trainjob", "", "ClusterTrainingRuntime"}) {
    json object = Waiting();
    object["kind"] = kind;
    ExpectError(object, "job.json: kind");
  }
  json object = Waiting();
  object["kind"] = "TrainJobList";
  ExpectError(object, "one TrainJob at a time");
  object = Waiting();
  object["apiVersion"] = "trainer.kubeflow.org/v2";
  ExpectError(object, "job.json: apiVersion");
  object.erase("apiVersion");
  ExpectError(object, "job.json: apiVersion");
  ExpectError(json::array({Waiting()}), "must hold one TrainJob");
}

TEST(ReadTrainJob, NamesTheFieldThatIsMissingOrOfAWrongType) {
  const auto refuses = [](const char* pointer, const json& value, const std::string& field) {
    json object = Waiting();
    object[json::json_pointer(pointer)] = value;
    ExpectError(object, "job.json: " + field);
  };
  json object = Waiting();
  object["metadata"].erase("name");
  ExpectError(object, "job.json: metadata.name");
  object = Waiting();
  object.erase("metadata");
  ExpectError(object, "job.json: metadata.name");
  object = Waiting();
  object.erase("spec");
  ExpectError(object, "job.json: spec");
  refuses("/metadata", "name", "metadata");
  refuses("/metadata/name", 7, "metadata.name");
  refuses("/metadata/annotations", json::array(), "metadata.annotations");
  refuses("/spec", 1, "spec");
  refuses("/spec/suspend", "true", "spec.suspend");
  refuses("/spec/trainer", "node", "spec.trainer");
  refuses("/spec/trainer/resourcesPerNode", 8, "spec.trainer.resourcesPerNode");
  refuses("/spec/trainer/resourcesPerNode/limits", "8", "spec.trainer.resourcesPerNode.limits");
  refuses("/spec/trainer/numProcPerNode", "all", "spec.trainer.numProcPerNode");
  refuses("/spec/trainer/numProcPerNode", 4, "spec.trainer.numProcPerNode");
  refuses("/spec/trainer/resourcesPerNode/requests/nvidia.com~1gpu", "4",
          "spec.trainer.resourcesPerNode.requests.nvidia.com/gpu");
}

TEST(ReadTrainJob, RefusesCountsThatAreNone) {
  for (const json& count : {json("0"), json("-8"), json(" 8"), json("8k"), json("1e3"), json(""),
                            json(8.5), json(0), json(-1), json(true), json(int64_t{1} << 40),
                            json("99999999999999999999"), json("2147483648")}) {
    json object = Waiting();
    object["spec"]["trainer"]["resourcesPerNode"]["limits"][kGpu] = count;
    ExpectError(object, "limits.nvidia.com/gpu");
  }
  for (const char* const count : {"0", "-64", "64.0", "many", "", "9223372036854775808"}) {
    json object = Waiting();
    object["metadata"]["annotations"][kBatchAnnotation] = count;
    ExpectError(object, "metadata.annotations.parplan.io/global-batch-size");
    object = Waiting();
    object["metadata"]["annotations"][kMaxNodesAnnotation] = count;
    ExpectError(object, "metadata.annotations.parplan.io/max-nodes");
  }
  json object = Waiting();
  object["metadata"]["annotations"][kMinNodesAnnotation] = "3";
  ExpectError(object, "metadata.annotations.parplan.io/min-nodes");
}

TEST(ReadTrainJob, RefusesUnknownAnnotationsOfItsOwnAlone) {
  json object = Waiting();
  object["metadata"]["annotations"]["parplan.io/max-node"] = "4";
  ExpectError(object, "metadata.annotations.parplan.io/max-node");
  ExpectError(object, kMaxNodesAnnotation);
  object = Waiting();
  object["metadata"]["annotations"]["parplan.example/model"] = "x";
  EXPECT_TRUE(Read(object).ok());
  object["metadata"]["annotations"]["parplan.example/model"] = 5;
  ExpectError(object, "must be a string");
}

TEST(ReadTrainJob, EveryTruncationIsAnErrorAndNoCrash) {
  const std::string text = Waiting().dump();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(ReadTrainJob(text.substr(0, size), "job.json", kGpu).ok()) << size;
  }
}

TEST(ReadTrainJob, RefusesTextsThatAreNotOneObjectOnce) {
  EXPECT_FALSE(ReadTrainJob("", "job.json", kGpu).ok());
  EXPECT_FALSE(ReadTrainJob("apiVersion: trainer.kubeflow.org/v1alpha1", "job.json", kGpu).ok());
  EXPECT_FALSE(ReadTrainJob(std::string(kMaxTrainJobBytes + 1, ' '), "job.json", kGpu).ok());
  const std::string text = Waiting().dump();
  EXPECT_FALSE(ReadTrainJob(text + text, "job.json", kGpu).ok());
  // The API server does not say which of two equal members it would take.
  EXPECT_FALSE(ReadTrainJob("{\"kind\":\"Job\"," + text.substr(1), "job.json", kGpu).ok());
  EXPECT_FALSE(ReadTrainJob(std::string(100'000, '['), "job.json", kGpu).ok());
}

}  // namespace
}  // namespace parplan::kubeflow
