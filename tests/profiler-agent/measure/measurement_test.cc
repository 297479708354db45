#include "profiler-agent/measure/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/profile_wire.h"
#include "tests/profiler-agent/measure/probe_roles.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

agent::v1::ProbePlan PlanFor(int rank_count, const std::string& backend = "cpu") {
  agent::v1::ProbePlan plan;
  plan.set_backend(backend);
  plan.set_rank_count(rank_count);
  *plan.mutable_time_budget() = DurationToProto(absl::Minutes(10));
  return plan;
}

// Options for this machine, with ranks of this test, whatever else runs here.
MeasurementOptions OptionsFor(const std::string& role) {
  ::setenv(kRoleVariable, role.c_str(), 1);
  MeasurementOptions options;
  options.probe_program = "/proc/self/exe";
  options.even_if_busy = true;
  return options;
}

absl::StatusOr<v1::Profile> Measure(const agent::v1::ProbePlan& plan,
                                    const MeasurementOptions& options) {
  const absl::StatusOr<NodeInventory> inventory = ReadInventory(options.inventory);
  EXPECT_OK(inventory);
  return MeasureNode(*inventory, plan, options);
}

// Files that jobs of this process left behind.
std::vector<std::string> PlanFiles(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

class MeasureNodeTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", folder_.c_str(), 1); }
  void TearDown() override {
    EXPECT_THAT(PlanFiles(folder_), IsEmpty());
    ::unsetenv("TMPDIR");
  }
  const std::string folder_ = MakeTestFolder();
};

TEST_F(MeasureNodeTest, GivesAProfileThatSaysWhereItIsFrom) {
  ASSERT_OK_AND_ASSIGN(const v1::Profile profile, Measure(PlanFor(2), OptionsFor("answer")));
  EXPECT_OK(ValidateProfile(profile));
  EXPECT_EQ(profile.devices_per_node(), 2);
  EXPECT_THAT(profile.provenance().agent(), HasSubstr("parplan-agent "));
  ASSERT_THAT(profile.provenance().library_versions(), SizeIs(1));
  EXPECT_EQ(profile.provenance().library_versions(0).library(), "linux");
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory());
  EXPECT_THAT(absl::StrJoin(profile.provenance().notes(), " "),
              HasSubstr(InventoryFingerprint(inventory)));
}

TEST_F(MeasureNodeTest, RefusesWhatRanksShouldNotGive) {
  EXPECT_THAT(Measure(PlanFor(2), OptionsFor("wrong")),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("overlap_slowdown")));
  EXPECT_THAT(Measure(PlanFor(2), OptionsFor("silent")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("rank 0")));
}

TEST_F(MeasureNodeTest, SaysWhichRankWasKilled) {
  std::vector<pid_t> pids;
  MeasurementOptions options = OptionsFor("killed");
  options.on_job = [&pids](NodeJob* job) {
    if (job != nullptr) pids = job->pids();
  };
  EXPECT_THAT(Measure(PlanFor(3), options),
              StatusIs(absl::StatusCode::kAborted, AllOf(HasSubstr("1"), HasSubstr("kill"))));
  ASSERT_THAT(pids, SizeIs(3));
  for (const pid_t pid : pids) EXPECT_NE(::kill(pid, 0), 0) << "process " << pid << " is left";
}

TEST_F(MeasureNodeTest, EndsAllRanksWhenItIsStopped) {
  std::mutex mutex;
  std::condition_variable changed;
  NodeJob* running = nullptr;
  std::vector<pid_t> pids;
  MeasurementOptions options = OptionsFor("pause");
  options.on_job = [&](NodeJob* job) {
    const std::lock_guard<std::mutex> lock(mutex);
    running = job;
    if (job != nullptr) pids = job->pids();
    changed.notify_all();
  };
  std::thread stopper([&] {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return running != nullptr; });
    running->Stop("enough");
  });
  EXPECT_THAT(Measure(PlanFor(2), options),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
  stopper.join();
  ASSERT_THAT(pids, SizeIs(2));
  for (const pid_t pid : pids) EXPECT_NE(::kill(pid, 0), 0) << "process " << pid << " is left";
}

TEST_F(MeasureNodeTest, HasNoProgram) {
  MeasurementOptions options = OptionsFor("answer");
  options.probe_program = folder_ + "/missing";
  EXPECT_THAT(Measure(PlanFor(1), options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing")));
}

TEST_F(MeasureNodeTest, RefusesBusyGpusUnlessTold) {
  MeasurementOptions options = OptionsFor("answer");
  options.device_type = DeviceType::kCuda;
  options.inventory.gpus.library = absl::StrCat(PARPLAN_FAKE_NVML, "/libnvml_busy.so");
  options.even_if_busy = false;
  const absl::StatusOr<v1::Profile> refused = Measure(PlanFor(2, "cuda"), options);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("GPU 1 is used by process 4711"),
                                      HasSubstr("--even-if-busy"))));
  EXPECT_TRUE(IsBusyRefusal(refused.status()));
  options.even_if_busy = true;
  ASSERT_OK_AND_ASSIGN(const v1::Profile profile, Measure(PlanFor(2, "cuda"), options));
  EXPECT_EQ(profile.provenance().driver_version(), "580.95.05");
  EXPECT_EQ(profile.provenance().library_versions(0).library(), "cuda");
  EXPECT_EQ(profile.provenance().library_versions(0).version(), "13.0");
  EXPECT_THAT(absl::StrJoin(profile.provenance().notes(), " "),
              HasSubstr("Measured while GPU 1 is used"));
}

TEST_F(MeasureNodeTest, StopsWhenSomebodyComesToTheGpus) {
  // Free at the start; later the library reports a process.
  MeasurementOptions options = OptionsFor("pause");
  options.device_type = DeviceType::kCuda;
  options.even_if_busy = false;
  const std::string library = folder_ + "/libnvml.so";
  std::filesystem::copy(absl::StrCat(PARPLAN_FAKE_NVML, "/libnvml_eight.so"), library);
  options.inventory.gpus.library = library;
  options.on_job = [&](NodeJob* job) {
    if (job == nullptr) return;
    std::filesystem::remove(library);
    std::filesystem::copy(absl::StrCat(PARPLAN_FAKE_NVML, "/libnvml_busy.so"), library);
  };
  const absl::StatusOr<v1::Profile> stopped = Measure(PlanFor(2, "cuda"), options);
  EXPECT_TRUE(IsBusyRefusal(stopped.status())) << stopped.status();
  EXPECT_THAT(stopped, StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("process 4711 has begun to use the GPUs")));
  std::filesystem::remove(library);
}

TEST_F(MeasureNodeTest, TakesRanksForItsOwnWhereTheDriverGivesIdsOfTheNode) {
  MeasurementOptions options = OptionsFor("seen");
  options.device_type = DeviceType::kCuda;
  options.even_if_busy = false;
  options.inventory.gpus.library = absl::StrCat(PARPLAN_FAKE_NVML, "/libnvml_pod.so");
  options.pid_namespace = folder_ + "/pid";
  std::filesystem::create_symlink("pid:[4026533021]", options.pid_namespace);
  const std::string notes = folder_ + "/notes";
  // The GPUs are free until there are ranks.
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory(options.inventory));
  ::setenv("PARPLAN_FAKE_NVML_NOTES", notes.c_str(), 1);
  // All GPUs are under load as soon as there is a rank.
  ::setenv("PARPLAN_FAKE_NVML_LOAD", notes.c_str(), 1);
  ASSERT_OK_AND_ASSIGN(const v1::Profile profile,
                       MeasureNode(inventory, PlanFor(2, "cuda"), options));
  EXPECT_THAT(
      profile.provenance().notes(),
      Contains("GPU 1 ran at 345 to 345 MHz under load, median 345, of at most 1980; it took "
               "up to 81 W of 700, at up to 31 degrees Celsius."));
  // With one rank the second process belongs to someone else.
  std::filesystem::remove(notes);
  const absl::StatusOr<v1::Profile> stopped = MeasureNode(inventory, PlanFor(1, "cuda"), options);
  EXPECT_TRUE(IsBusyRefusal(stopped.status())) << stopped.status();
  EXPECT_THAT(stopped.status().message(),
              HasSubstr("2 processes use the GPUs, but the measurement has only 1"));
  ::unsetenv("PARPLAN_FAKE_NVML_NOTES");
  ::unsetenv("PARPLAN_FAKE_NVML_LOAD");
  std::filesystem::remove(notes);
  std::filesystem::remove(options.pid_namespace);
}

TEST_F(MeasureNodeTest, SaysWhyThereIsNoGpu) {
  MeasurementOptions options = OptionsFor("answer");
  options.device_type = DeviceType::kCuda;
  options.inventory.gpus.library = absl::StrCat(PARPLAN_FAKE_NVML, "/libnvml_no_driver.so");
  const absl::StatusOr<v1::Profile> refused = Measure(PlanFor(1, "cuda"), options);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no_driver")));
  EXPECT_FALSE(IsBusyRefusal(refused.status()));
}

TEST(ReadModels, NamesTheFile) {
  const std::string path = MakeTestFolder() + "/model.json";
  EXPECT_THAT(ReadModels({path}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
  std::ofstream(path) << "{\"model_id\": \"m\", \"laier_runs\": []}";
  EXPECT_THAT(ReadModels({path}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("laier_runs")));
  EXPECT_THAT(ReadModels({}), IsOkAndHolds(IsEmpty()));
}

TEST(TopologyOf, NamesDevicesAsTheProfileDoes) {
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory());
  v1::Profile profile;
  profile.set_device_kind("CPU by another name");
  ASSERT_OK_AND_ASSIGN(const v1::ClusterTopology topology,
                       TopologyOf(inventory, {.node = "n", .device_count = 1}, profile));
  EXPECT_EQ(topology.node_groups(0).device_kind(), "CPU by another name");
  EXPECT_EQ(topology.node_groups(0).node_names(0), "n");
}

}  // namespace
}  // namespace parplan
