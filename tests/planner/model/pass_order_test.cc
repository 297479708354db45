#include "planner/model/pass_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/cost/pipeline_schedule.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;

const PipelineShape kPipelineShapes[] = {
    {Schedule::kOneForwardOneBackward, 1, 1, 3},
    {Schedule::kOneForwardOneBackward, 4, 1, 2},
    {Schedule::kOneForwardOneBackward, 4, 1, 9},
    {Schedule::kGpipe, 3, 1, 5},
    {Schedule::kGpipe, 1, 1, 4},
    {Schedule::kInterleaved, 1, 3, 2},
    {Schedule::kInterleaved, 4, 1, 6},
    {Schedule::kInterleaved, 2, 2, 2},
    {Schedule::kInterleaved, 2, 3, 6},
    {Schedule::kInterleaved, 4, 2, 8},
    {Schedule::kInterleaved, 3, 4, 3},
    // The last group lacks micro-batches.
    {Schedule::kInterleaved, 4, 2, 6},
    {Schedule::kInterleaved, 3, 2, 1},
    // Groups of more micro-batches than there are devices; the last one whole, smaller, or alone.
    {Schedule::kInterleaved, 2, 2, 6, 3},
    {Schedule::kInterleaved, 2, 2, 5, 3},
    {Schedule::kInterleaved, 2, 3, 9, 9},
    {Schedule::kInterleaved, 4, 2, 11, 7},
    {Schedule::kInterleaved, 3, 4, 17, 7},
    {Schedule::kInterleaved, 4, 3, 29, 5},
    {Schedule::kZeroBubble, 1, 1, 3},
    {Schedule::kZeroBubble, 4, 1, 2},
    {Schedule::kZeroBubble, 4, 1, 9},
    {Schedule::kZeroBubble, 3, 1, 3},
};

std::string Describe(const PipelineShape& shape) {
  return absl::StrCat(TraitsOf(shape.schedule).name, " P=", shape.pipeline_parallel_degree,
                      " V=", shape.virtual_stage_count, " m=", shape.micro_batch_count,
                      " G=", shape.micro_batch_group_size);
}

int StageCount(const PipelineShape& shape) {
  return shape.pipeline_parallel_degree * shape.virtual_stage_count;
}

// `f0.2` is the forward pass of stage 0 over micro-batch 2.
std::vector<std::string> Names(const PipelineShape& shape, int device) {
  std::vector<std::string> names;
  for (const PipelinePass& pass : PassOrder(shape, device)) {
    const char* letter = pass.is_backward() ? "b" : "f";
    if (pass.kind == PassKind::kBackwardInputs) letter = "i";
    if (pass.kind == PassKind::kBackwardWeights) letter = "w";
    names.push_back(absl::StrCat(letter, pass.stage_index, ".", pass.micro_batch));
  }
  return names;
}

TEST(PassOrder, OneForwardOneBackwardAlternatesAfterItsWarmUp) {
  const PipelineShape shape{Schedule::kOneForwardOneBackward, 3, 1, 4};
  EXPECT_THAT(Names(shape, 0),
              ElementsAre("f0.0", "f0.1", "f0.2", "b0.0", "f0.3", "b0.1", "b0.2", "b0.3"));
  EXPECT_THAT(Names(shape, 2),
              ElementsAre("f2.0", "b2.0", "f2.1", "b2.1", "f2.2", "b2.2", "f2.3", "b2.3"));
}

TEST(PassOrder, GpipeGoesBackwardAfterAllForwardPasses) {
  EXPECT_THAT(Names({Schedule::kGpipe, 2, 1, 3}, 0),
              ElementsAre("f0.0", "f0.1", "f0.2", "b0.0", "b0.1", "b0.2"));
}

// The first device has gradients of weights right after those of inputs; the last of three lets two
// backward passes go first, and ends the step with the two weight passes that are left.
TEST(PassOrder, ZeroBubbleLetsWeightsWaitForAsManyBackwardPassesAsDevicesInFront) {
  const PipelineShape shape{Schedule::kZeroBubble, 3, 1, 4};
  EXPECT_THAT(Names(shape, 0), ElementsAre("f0.0", "f0.1", "f0.2", "i0.0", "w0.0", "f0.3", "i0.1",
                                           "w0.1", "i0.2", "w0.2", "i0.3", "w0.3"));
  EXPECT_THAT(Names(shape, 2), ElementsAre("f2.0", "i2.0", "f2.1", "i2.1", "f2.2", "i2.2", "w2.0",
                                           "f2.3", "i2.3", "w2.1", "w2.2", "w2.3"));
  // Fewer micro-batches than devices in front.
  EXPECT_THAT(Names({Schedule::kZeroBubble, 3, 1, 1}, 2), ElementsAre("f2.0", "i2.0", "w2.0"));
}

// ZB-H1 keeps on every device what 1F1B keeps on the first one: at most P micro-batches are between
// their forward and their weight pass, and somewhere just as many.
TEST(PassOrder, ZeroBubbleKeepsAsManyMicroBatchesAsTheFirstDeviceOfOneForwardOneBackward) {
  for (int devices : {2, 3, 5, 8}) {
    for (int64_t m : {1, 2, 4, 5, 17}) {
      for (int device = 0; device < devices; ++device) {
        int64_t kept = 0;
        int64_t most = 0;
        for (const PipelinePass& pass : PassOrder({Schedule::kZeroBubble, devices, 1, m}, device)) {
          if (pass.kind == PassKind::kForward) most = std::max(most, ++kept);
          if (pass.kind == PassKind::kBackwardWeights) --kept;
        }
        EXPECT_EQ(kept, 0);
        EXPECT_EQ(most, std::min<int64_t>(devices, m)) << device << " of " << devices << ", " << m;
        EXPECT_EQ(most, InFlightMicroBatchCount(Schedule::kZeroBubble, devices, device, m));
      }
    }
  }
}

// The first device of Megatron's example: two devices with two stages each, 2 (2 - 1) + 2
// passes of warm-up.
TEST(PassOrder, InterleavedStagesTakeTurnsOverGroupsOfMicroBatches) {
  EXPECT_THAT(Names({Schedule::kInterleaved, 2, 2, 4}, 0),
              ElementsAre("f0.0", "f0.1", "f2.0", "f2.1", "f0.2", "b2.0", "f0.3", "b2.1", "f2.2",
                          "b0.0", "f2.3", "b0.1", "b2.2", "b2.3", "b0.2", "b0.3"));
}

// The example of `microbatch_group_size_per_vp_stage` in Megatron's model_parallel_config.py: two
// devices with two stages each, groups of three of five micro-batches.
TEST(PassOrder, LargerGroupsAreMegatrons) {
  const auto forward = [](int device) {
    std::vector<int64_t> micro_batches;
    for (const PipelinePass& pass : PassOrder({Schedule::kInterleaved, 2, 2, 5, 3}, device)) {
      if (!pass.is_backward()) micro_batches.push_back(pass.micro_batch);
    }
    return micro_batches;
  };
  EXPECT_THAT(forward(0), ElementsAre(0, 1, 2, 0, 1, 2, 3, 4, 3, 4));
  EXPECT_EQ(forward(1), forward(0));
  // 2 (2 - 1) + 3 passes of warm-up on the first device.
  EXPECT_THAT(
      Names({Schedule::kInterleaved, 2, 2, 5, 3}, 0),
      ElementsAre("f0.0", "f0.1", "f0.2", "f2.0", "f2.1", "f2.2", "b2.0", "f0.3", "b2.1", "f0.4",
                  "b2.2", "f2.3", "b0.0", "f2.4", "b0.1", "b0.2", "b2.3", "b2.4", "b0.3", "b0.4"));
}

// A group is valid if Megatron's two checks pass: its size is from the pipeline degree to all
// micro-batches, and the rest is 0 or at least that degree.
TEST(IsGroupSize, IsWhatMegatronTakes) {
  const auto sizes = [](int degree, int64_t count) {
    std::vector<int64_t> taken;
    for (int64_t size = 0; size <= count + 2; ++size) {
      if (IsGroupSize(size, degree, count)) taken.push_back(size);
    }
    return taken;
  };
  EXPECT_THAT(sizes(4, 8), ElementsAre(4, 8));
  EXPECT_THAT(sizes(4, 10), ElementsAre(5, 6, 10));
  EXPECT_THAT(sizes(4, 6), ElementsAre(6));
  EXPECT_THAT(sizes(4, 3), ElementsAre());
  EXPECT_THAT(sizes(2, 5), ElementsAre(3, 5));
  EXPECT_TRUE(IsGroupSize(20, 16, 120));
  EXPECT_FALSE(IsGroupSize(17, 16, 120));
}

TEST(PassOrder, OneDeviceTakesEachMicroBatchThroughAllItsStagesAndBack) {
  EXPECT_THAT(Names({Schedule::kInterleaved, 1, 2, 2}, 0),
              ElementsAre("f0.0", "f1.0", "b1.0", "b0.0", "f0.1", "f1.1", "b1.1", "b0.1"));
}

TEST(PassOrder, HasEachPassOfTheDeviceOnceInOrderOfTicks) {
  for (const PipelineShape& shape : kPipelineShapes) {
    for (int device = 0; device < shape.pipeline_parallel_degree; ++device) {
      const std::vector<PipelinePass> passes = PassOrder(shape, device);
      const bool is_split = shape.schedule == Schedule::kZeroBubble;
      EXPECT_EQ(passes.size(),
                (is_split ? 3 : 2) * shape.virtual_stage_count * shape.micro_batch_count)
          << Describe(shape);
      std::vector<std::string> names = Names(shape, device);
      std::sort(names.begin(), names.end());
      EXPECT_EQ(std::unique(names.begin(), names.end()), names.end()) << Describe(shape);
      for (size_t i = 0; i < passes.size(); ++i) {
        EXPECT_EQ(passes[i].stage_index % shape.pipeline_parallel_degree, device);
        if (i == 0) continue;
        // A weight pass is in the tick of the pass before it.
        const bool may_follow =
            (passes[i].is_backward() && !passes[i - 1].is_backward()) ||
            (passes[i].kind == PassKind::kBackwardWeights && passes[i - 1].is_backward());
        const bool is_later = passes[i].tick > passes[i - 1].tick ||
                              (passes[i].tick == passes[i - 1].tick && may_follow);
        EXPECT_TRUE(is_later) << Describe(shape) << ", pass " << i << " of device " << device;
      }
    }
  }
}

// Every pass comes in a later tick than those it waits for, so devices never wait for each other
// in a circle.
TEST(PassOrder, PassesWaitOnlyForEarlierTicks) {
  for (const PipelineShape& shape : kPipelineShapes) {
    // [stage][micro-batch], -1 where there is no pass.
    std::vector<std::vector<int64_t>> forward(StageCount(shape),
                                              std::vector<int64_t>(shape.micro_batch_count, -1));
    std::vector<std::vector<int64_t>> backward = forward;
    for (int device = 0; device < shape.pipeline_parallel_degree; ++device) {
      for (const PipelinePass& pass : PassOrder(shape, device)) {
        // Nobody waits for weight passes.
        if (pass.kind == PassKind::kBackwardWeights) continue;
        (pass.is_backward() ? backward : forward)[pass.stage_index][pass.micro_batch] = pass.tick;
      }
    }
    for (int stage = 0; stage < StageCount(shape); ++stage) {
      for (int64_t i = 0; i < shape.micro_batch_count; ++i) {
        EXPECT_GE(forward[stage][i], 0) << Describe(shape);
        if (stage > 0) {
          EXPECT_GT(forward[stage][i], forward[stage - 1][i]) << Describe(shape);
          EXPECT_GT(backward[stage - 1][i], backward[stage][i]) << Describe(shape);
        }
      }
    }
    for (int64_t i = 0; i < shape.micro_batch_count; ++i) {
      EXPECT_GE(backward.back()[i], forward.back()[i]) << Describe(shape);
    }
  }
}

TEST(PassOrder, TheWarmUpIsWhatPrecedesTheFirstAlternation) {
  for (const PipelineShape& shape : kPipelineShapes) {
    if (shape.micro_batch_group_size == 0 &&
        shape.micro_batch_count % shape.pipeline_parallel_degree != 0) {
      continue;
    }
    for (int device = 0; device < shape.pipeline_parallel_degree; ++device) {
      const std::vector<PipelinePass> passes = PassOrder(shape, device);
      const auto first = std::find_if(passes.begin(), passes.end(),
                                      [](const PipelinePass& pass) { return pass.is_backward(); });
      EXPECT_EQ(first - passes.begin(),
                std::min(WarmUpPassCount(shape, device) + 1,
                         int64_t{shape.virtual_stage_count} * shape.micro_batch_count))
          << Describe(shape) << ", device " << device;
    }
  }
}

// `StepTime` evaluates the order without listing it. Here it is played from the list alone: each
// pass starts when its device is free and its message has come.
TEST(PassOrder, PlayedPassByPassItTakesTheStepTime) {
  std::mt19937_64 random(11);
  const auto duration = [&random] { return static_cast<double>(1 + random() % 1000); };
  for (const PipelineShape& shape : kPipelineShapes) {
    std::vector<StageTimes> stages;
    for (int stage = 0; stage < StageCount(shape); ++stage) {
      stages.push_back({Seconds::Of(duration()), Seconds::Of(duration()),
                        Seconds::Of(shape.pipeline_parallel_degree > 1 ? duration() : 0.0),
                        Seconds()});
      stages.back().backward_weights = stages.back().backward * 0.375;
    }
    std::vector<std::vector<PipelinePass>> orders;
    for (int device = 0; device < shape.pipeline_parallel_degree; ++device) {
      orders.push_back(PassOrder(shape, device));
    }
    // [stage][micro-batch] when the pass ended; -1 before.
    std::vector<std::vector<double>> forward(StageCount(shape),
                                             std::vector<double>(shape.micro_batch_count, -1));
    std::vector<std::vector<double>> backward = forward;
    std::vector<size_t> next(orders.size(), 0);
    std::vector<double> free(orders.size(), 0.0);
    const int last = StageCount(shape) - 1;
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (size_t device = 0; device < orders.size(); ++device) {
        if (next[device] == orders[device].size()) continue;
        const PipelinePass& pass = orders[device][next[device]];
        const int stage = pass.stage_index;
        double arrival = 0.0;
        if (!pass.is_backward() && stage > 0) {
          if (forward[stage - 1][pass.micro_batch] < 0) continue;
          arrival = forward[stage - 1][pass.micro_batch] + stages[stage - 1].send.value();
        }
        if (pass.kind == PassKind::kBackwardWeights) {
          EXPECT_GE(backward[stage][pass.micro_batch], 0) << Describe(shape);
          free[device] += stages[stage].backward_weights.value();
          ++next[device];
          has_moved = true;
          continue;
        }
        if (pass.is_backward() && stage < last) {
          if (backward[stage + 1][pass.micro_batch] < 0) continue;
          arrival = backward[stage + 1][pass.micro_batch] + stages[stage].send.value();
        }
        Seconds work = pass.is_backward() ? stages[stage].backward : stages[stage].forward;
        if (pass.kind == PassKind::kBackwardInputs) work = work - stages[stage].backward_weights;
        free[device] = std::max(free[device], arrival) + work.value();
        (pass.is_backward() ? backward : forward)[stage][pass.micro_batch] = free[device];
        ++next[device];
        has_moved = true;
      }
    }
    const double end = *std::max_element(free.begin(), free.end());
    const double step = StepTime({.schedule = shape.schedule,
                                  .virtual_stage_count = shape.virtual_stage_count,
                                  .micro_batch_group_size = shape.micro_batch_group_size},
                                 stages, shape.micro_batch_count)
                            .value();
    EXPECT_NEAR(end, step, 1e-9 * step) << Describe(shape);
    for (size_t device = 0; device < orders.size(); ++device) {
      EXPECT_EQ(next[device], orders[device].size()) << Describe(shape);
    }
  }
}

}  // namespace
}  // namespace parplan
