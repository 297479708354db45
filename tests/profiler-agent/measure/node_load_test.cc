#include "profiler-agent/measure/node_load.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"

namespace parplan {
namespace {

TEST(BusyCpuText, WantsAsManyFreeCoresAsRanks) {
  EXPECT_EQ(BusyCpuText(0.4, 2, 2), "");
  EXPECT_EQ(BusyCpuText(0.6, 2, 2),
            "the load is 0.60 on 2 cores, of which the measurement needs 2");
  EXPECT_EQ(BusyCpuText(1.5, 2, 1), "");
  EXPECT_NE(BusyCpuText(1.6, 2, 1), "");
  EXPECT_EQ(BusyCpuText(60.0, 64, 4), "");
  // More ranks than cores share them.
  EXPECT_EQ(BusyCpuText(0.4, 2, 8), "");
  EXPECT_NE(BusyCpuText(2.0, 2, 8), "");
}

TEST(BusyText, OfGpusIsWhatTheDriverReports) {
  NodeInventory inventory;
  inventory.gpus.devices.resize(1);
  inventory.gpus.devices[0].memory_bytes = 1000;
  inventory.gpus.states.resize(1);
  inventory.gpus.states[0].processes = {{7}};
  EXPECT_EQ(BusyText(inventory, DeviceType::kCuda, 1), "GPU 0 is used by process 7");
}

std::vector<GpuState> GpusWith(const std::vector<std::vector<int64_t>>& processes) {
  std::vector<GpuState> gpus(processes.size());
  for (size_t i = 0; i < gpus.size(); ++i) gpus[i].processes = processes[i];
  return gpus;
}

TEST(StrangersOn, AreThoseWhoAreNoRanks) {
  for (const bool has_ids : {true, false}) {
    EXPECT_EQ(StrangersOn(GpusWith({{11}, {12}}), {11, 12}, has_ids), "");
    // A rank may be on several GPUs, and one that has not come yet on none.
    EXPECT_EQ(StrangersOn(GpusWith({{11}, {11}}), {11, 12}, has_ids), "");
    EXPECT_EQ(StrangersOn(GpusWith({{11}, {7}}), {11, 12}, has_ids),
              "process 7 has begun to use the GPUs");
    EXPECT_EQ(StrangersOn(GpusWith({{11}, {7, 12}}), {11, 12}, has_ids),
              "process 7 has begun to use the GPUs");
  }
  EXPECT_EQ(StrangersOn(GpusWith({{}, {7}}), {11, 12}, true),
            "process 7 has begun to use the GPUs");
}

TEST(StrangersOn, AreCountedWhereIdsAreOfTheNode) {
  EXPECT_EQ(StrangersOn(GpusWith({{900001}, {900002}}), {11, 12}, false), "");
  EXPECT_EQ(StrangersOn(GpusWith({{900001, 900002}, {900001}}), {11, 12}, false), "");
  EXPECT_EQ(StrangersOn(GpusWith({{900001}, {900002, 900003}}), {11, 12}, false),
            "3 processes use the GPUs, but the measurement has only 2");
  // Memory that the driver keeps for itself does not count.
  std::vector<GpuState> silent(2);
  EXPECT_EQ(StrangersOn(silent, {11, 12}, false), "");
}

TEST(HasIdsOfTheNode, InTheFirstNamespaceOnly) {
  const std::string folder = MakeTestFolder();
  std::filesystem::create_symlink("pid:[4026531836]", folder + "/first");
  std::filesystem::create_symlink("pid:[4026533021]", folder + "/pod");
  EXPECT_TRUE(HasIdsOfTheNode(folder + "/first"));
  EXPECT_FALSE(HasIdsOfTheNode(folder + "/pod"));
  EXPECT_FALSE(HasIdsOfTheNode(folder + "/missing"));
}

}  // namespace
}  // namespace parplan
