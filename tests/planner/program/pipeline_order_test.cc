#include "planner/program/pipeline_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "planner/cost/pipeline_schedule.h"

namespace parplan {
namespace {

struct Case {
  Schedule schedule;
  int devices;
  int virtual_stages;
  int64_t micro_batches;
};

const Case kCases[] = {
    {Schedule::kOneForwardOneBackward, 1, 1, 3},
    {Schedule::kOneForwardOneBackward, 4, 1, 2},
    {Schedule::kOneForwardOneBackward, 4, 1, 9},
    {Schedule::kGpipe, 3, 1, 5},
    {Schedule::kGpipe, 1, 1, 4},
    {Schedule::kInterleaved, 2, 2, 2},
    {Schedule::kInterleaved, 2, 3, 6},
    {Schedule::kInterleaved, 4, 2, 8},
    {Schedule::kInterleaved, 3, 4, 3},
};

// What the cost model predicts is what runs: passes of each device in the order of their
// simulated starts.
TEST(PipelineOrderTest, IsTheOrderOfTheSimulation) {
  for (const Case& c : kCases) {
    const int stage_count = c.devices * c.virtual_stages;
    const StageTimes times{.forward = Seconds::Of(1.0), .backward = Seconds::Of(2.0)};
    const std::vector<PipelineEvent> events =
        PipelineEvents({.schedule = c.schedule, .virtual_stage_count = c.virtual_stages},
                       std::vector<StageTimes>(stage_count, times), c.micro_batches);
    for (int device = 0; device < c.devices; ++device) {
      std::vector<PipelineEvent> own;
      for (const PipelineEvent& event : events) {
        if (event.stage_index % c.devices == device) own.push_back(event);
      }
      std::sort(own.begin(), own.end(),
                [](const PipelineEvent& a, const PipelineEvent& b) { return a.start < b.start; });
      std::vector<PipelinePass> expected;
      for (const PipelineEvent& event : own) {
        expected.push_back({event.stage_index, event.micro_batch_index, event.is_backward});
      }
      EXPECT_EQ(PassesOf(c.schedule, c.devices, c.virtual_stages, device, c.micro_batches),
                expected)
          << c.devices << " devices, device " << device;
    }
  }
}

// All devices together never wait for each other in a circle.
TEST(PipelineOrderTest, EveryPassCanBeDone) {
  for (const Case& c : kCases) {
    const int stage_count = c.devices * c.virtual_stages;
    std::vector<std::vector<PipelinePass>> passes;
    for (int device = 0; device < c.devices; ++device) {
      passes.push_back(PassesOf(c.schedule, c.devices, c.virtual_stages, device, c.micro_batches));
      EXPECT_EQ(passes.back().size(), 2u * c.virtual_stages * c.micro_batches);
    }
    // [stage][micro-batch]
    std::vector<std::vector<char>> forward(stage_count, std::vector<char>(c.micro_batches, 0));
    auto backward = forward;
    std::vector<size_t> next(c.devices, 0);
    bool has_moved = true;
    while (has_moved) {
      has_moved = false;
      for (int device = 0; device < c.devices; ++device) {
        if (next[device] == passes[device].size()) continue;
        const PipelinePass& pass = passes[device][next[device]];
        const int stage = pass.stage_index;
        const bool is_ready = pass.is_backward ? forward[stage][pass.micro_batch] &&
                                                     (stage + 1 == stage_count ||
                                                      backward[stage + 1][pass.micro_batch])
                                               : stage == 0 || forward[stage - 1][pass.micro_batch];
        if (!is_ready) continue;
        (pass.is_backward ? backward : forward)[stage][pass.micro_batch] = 1;
        ++next[device];
        has_moved = true;
      }
    }
    for (int device = 0; device < c.devices; ++device) {
      EXPECT_EQ(next[device], passes[device].size());
    }
  }
}

}  // namespace
}  // namespace parplan
