#include "profiler-agent/measure/node_load.h"

#include <gtest/gtest.h>

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

TEST(BusyText, OfGpusIsWhatTheDriverTells) {
  NodeInventory inventory;
  inventory.gpus.devices.resize(1);
  inventory.gpus.devices[0].memory_bytes = 1000;
  inventory.gpus.states.resize(1);
  inventory.gpus.states[0].processes = {{7}};
  EXPECT_EQ(BusyText(inventory, DeviceType::kCuda, 1), "GPU 0 is used by process 7");
}

}  // namespace
}  // namespace parplan
