#include "clients/slurm/node_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "base/check.h"
#include "exports/uniform_plan.h"
#include "planner/model/search_summary.h"
#include "proto/envelope/envelope_json.h"
#include "proto/wire/digest.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/plan_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/planner/program/program_cases.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan::slurm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

Topology TwoNodes() {
  absl::StatusOr<Topology> topology =
      Topology::Create("atlas",
                       {{.node_group_id = "job",
                         .device_kind = "CPU test",
                         .node_count = 2,
                         .node_names = {"node-a", "node-b"},
                         .devices_per_node = 1,
                         .device_memory = Bytes::Of(int64_t{1} << 30)}},
                       {{.tier_id = "fabric", .reach_device_count = 2}});
  PARPLAN_CHECK(topology.ok());
  return *std::move(topology);
}

// A plan for the job `job-7`, signed by the first key.
JobBundle Bundle() {
  const ModelSpec model = SmallGpt(2);
  const Topology topology = TwoNodes();
  v1::PlanPayload payload = MakePayload();
  payload.clear_stages();
  UniformPlan plan{.device_count = 2, .global_batch_size = 8, .stage_layer_counts = {4}};
  plan.strategy.data_parallel_degree = 2;
  FillPayload(PlanOf(plan, model), Prediction(), SearchSummary(), model, &payload);
  payload.set_topology_digest(TopologyDigest(topology));
  payload.set_model_digest(ModelDigest(model));
  const PrivateKey key = FirstKey();
  return {.job_id = "job-7",
          .envelope = EnvelopeToJson(Sign(payload, {&key})),
          .model = ToReadableJson(ModelToProto(model)),
          .topology = ToReadableJson(TopologyToProto(topology)),
          .master_address = "10.0.0.1",
          .master_port = 23456};
}

absl::StatusOr<NodeFiles> FilesOf(const JobBundle& bundle, const std::string& node = "node-b",
                                  const std::string& job = "job-7",
                                  const std::string& exports = "") {
  const PrivateKey key = FirstKey();
  return MakeNodeFiles(bundle, Trusting({&key}),
                       {.cluster = "atlas",
                        .job_id = job,
                        .node_name = node,
                        .folder = "/run/j",
                        .trust_path = "/etc/t",
                        .exports = exports},
                       IssueTime() + absl::Hours(1));
}

TEST(NodeFiles, GiveTasksAVerifiedPlan) {
  ASSERT_OK_AND_ASSIGN(const NodeFiles files, FilesOf(Bundle()));
  EXPECT_THAT(files.at("node.env"), HasSubstr("PARPLAN_PLAN=/run/j/plan.dsse.json\n"));
  EXPECT_THAT(files.at("node.env"), HasSubstr("PARPLAN_NODE_RANK=1\n"));
  EXPECT_THAT(files.at("node.env"), HasSubstr("MASTER_ADDR=10.0.0.1\n"));
  EXPECT_THAT(files.at("rank-0.env"), HasSubstr("PARPLAN_RANK=1\n"));
  EXPECT_EQ(files.count("rank-1.env"), 0);
  EXPECT_EQ(files.at("plan.dsse.json"), Bundle().envelope);
}

TEST(NodeFiles, AreNotMadeOfWhatIsNotVerified) {
  JobBundle other_bytes = Bundle();
  const size_t payload = other_bytes.envelope.find("\"payload\": \"") + 40;
  other_bytes.envelope[payload] = other_bytes.envelope[payload] == 'A' ? 'B' : 'A';
  EXPECT_EQ(ReasonOf(FilesOf(other_bytes)), Reason::kSignatureInvalid);
  EXPECT_EQ(ReasonOf(FilesOf(Bundle(), "node-c")), Reason::kAudienceMismatch);
  EXPECT_EQ(ReasonOf(FilesOf(Bundle(), "node-a", "job-8")), Reason::kAudienceMismatch);
  // Model and topology are not signed; the plan knows them.
  JobBundle other_model = Bundle();
  other_model.model = ToReadableJson(ModelToProto(SmallGpt(3)));
  EXPECT_EQ(ReasonOf(FilesOf(other_model)), Reason::kSpecInvalid);
  JobBundle other_topology = Bundle();
  other_topology.topology.replace(other_topology.topology.find("CPU test"), 8, "CPU fake");
  EXPECT_EQ(ReasonOf(FilesOf(other_topology)), Reason::kTopologyMismatch);
}

TEST(NodeFiles, AreThoseOfOtherProgramsToo) {
  ASSERT_OK_AND_ASSIGN(const NodeFiles files,
                       FilesOf(Bundle(), "node-b", "job-7", "megatron,galvatron"));
  EXPECT_THAT(files.at("node.env"), HasSubstr("PARPLAN_EXPORT_MEGATRON=/run/j/megatron\n"));
  EXPECT_THAT(files.at("megatron/megatron.args"), HasSubstr("--num-layers=2\n"));
  EXPECT_EQ(files.count("galvatron/galvatron_config.json"), 1);
  EXPECT_EQ(ReasonOf(FilesOf(Bundle(), "node-b", "job-7", "nemo")), Reason::kSpecInvalid);
  // Nothing is derived from what is not verified.
  JobBundle altered = Bundle();
  const size_t payload = altered.envelope.find("\"payload\": \"") + 40;
  altered.envelope[payload] = altered.envelope[payload] == 'A' ? 'B' : 'A';
  EXPECT_EQ(ReasonOf(FilesOf(altered, "node-b", "job-7", "megatron")), Reason::kSignatureInvalid);

  const std::string folder = MakeTestFolder() + "/17";
  ASSERT_OK(WriteNodeFiles(folder, files));
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadText(folder + "/megatron/megatron.args"));
  EXPECT_EQ(text, files.at("megatron/megatron.args"));
  struct stat facts = {};
  ASSERT_EQ(::stat((folder + "/megatron").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0755);
}

TEST(NodeFiles, SayWhyThereIsNoPlan) {
  ASSERT_OK_AND_ASSIGN(const NodeFiles files,
                       FilesOf({.job_id = "job-7", .without_plan = "away\nLD_PRELOAD=x"}));
  ASSERT_EQ(files.size(), 1);
  EXPECT_EQ(files.at("node.env"), "PARPLAN_NO_PLAN=away LD_PRELOAD=x\n");
}

TEST(NodeFiles, AFolderIsReplacedWhole) {
  const std::string folder = MakeTestFolder() + "/deep/17";
  ASSERT_OK(WriteNodeFiles(folder, {{"node.env", "A=1\n"}, {"rank-0.env", "B=1\n"}}));
  ASSERT_OK(WriteNodeFiles(folder, RefusalFiles("bad\nplan")));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, UnorderedElementsAre("refused"));
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadText(folder + "/refused"));
  EXPECT_EQ(text, "bad plan\n");
  struct stat facts = {};
  ASSERT_EQ(::stat((folder + "/refused").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0644);
  ASSERT_OK(RemoveNodeFiles(folder));
  ASSERT_OK(RemoveNodeFiles(folder));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(NodeFiles, AreNotWrittenWhereOthersWrite) {
  const std::string parent = MakeTestFolder() + "/open";
  std::filesystem::create_directory(parent);
  ASSERT_EQ(::chmod(parent.c_str(), 01777), 0);
  EXPECT_THAT(WriteNodeFiles(parent + "/17", RefusalFiles("no")).message(), HasSubstr("node_dir"));
  EXPECT_TRUE(std::filesystem::is_empty(parent));
  // It is as it was.
  struct stat facts = {};
  ASSERT_EQ(::stat(parent.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 01777);
}

// Whatever a daemon's mask hides, users read what their tasks need.
TEST(NodeFiles, AreReadableUnderAnyMask) {
  const std::string top = MakeTestFolder();
  const mode_t mask = ::umask(0077);
  const absl::Status written = WriteNodeFiles(top + "/a/b/17", {{"node.env", "A=1\n"}});
  ::umask(mask);
  ASSERT_OK(written);
  for (const char* const path : {"/a", "/a/b", "/a/b/17"}) {
    struct stat facts = {};
    ASSERT_EQ(::stat((top + path).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0755) << path;
  }
}

TEST(NodeFiles, SayWhatKeepsThemFromBeingWritten) {
  const std::string name(300, 'x');
  EXPECT_THAT(WriteNodeFiles(MakeTestFolder() + "/17", {{name, "A=1\n"}}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(name), HasSubstr("File name too long"))));
}

TEST(ReadText, ReadsFilesAlone) {
  EXPECT_THAT(ReadText("/dev/zero").status().message(), HasSubstr("no regular file"));
  EXPECT_TRUE(absl::IsNotFound(ReadText(MakeTestFolder() + "/none").status()));
}

TEST(JobBundle, ComesBackFromTheSpool) {
  const std::string spool = MakeTestFolder();
  JobBundle bundle = Bundle();
  bundle.job_id = "17";
  bundle.node_names = {"n2", "n1"};
  ASSERT_OK(WriteBundle(spool, bundle));
  ASSERT_OK_AND_ASSIGN(const JobBundle back, ReadBundle(spool, "17"));
  EXPECT_EQ(back.ToJson(), bundle.ToJson());
  EXPECT_EQ(back.envelope, bundle.envelope);
  EXPECT_THAT(back.node_names, testing::ElementsAre("n2", "n1"));
  // One job's file under another's name.
  std::filesystem::copy(BundlePath(spool, "17"), BundlePath(spool, "18"));
  EXPECT_EQ(ReadBundle(spool, "18").status().code(), absl::StatusCode::kDataLoss);
  RemoveBundle(spool, "17");
  EXPECT_EQ(ReadBundle(spool, "17").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(JobBundle::FromJson("{\"job_id\": 4}").ok());
  EXPECT_FALSE(JobBundle::FromJson(R"({"job_id": "4", "job_id": "5"})").ok());
}

}  // namespace
}  // namespace parplan::slurm
