#include "planner/check/schedule_simulation.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "planner/cost/pipeline_schedule.h"
#include "tests/support/group_size_dice.h"

namespace parplan {
namespace {

// A pipeline in the terms of both sides.
struct Twins {
  PipelineRules rules;
  std::vector<StageTimes> stages;
  SimulatedPipeline simulated;
  int64_t micro_batch_count = 1;
};

// Stages alike, nearly alike, of small whole numbers (with zeros), or all different.
Twins Draw(uint64_t seed, int64_t most_micro_batches) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> time(0.1, 2.0);
  Twins twins;
  const Schedule schedules[] = {Schedule::kGpipe, Schedule::kOneForwardOneBackward,
                                Schedule::kInterleaved, Schedule::kZeroBubble};
  twins.rules.schedule = schedules[seed % 4];
  twins.rules.virtual_stage_count =
      twins.rules.schedule == Schedule::kInterleaved ? 1 + static_cast<int>(random() % 4) : 1;
  twins.rules.blocking_messages =
      random() % 2 == 0 && twins.rules.schedule != Schedule::kZeroBubble;
  twins.rules.serial_messages = random() % 2 == 0;
  twins.rules.early_gradient_sync = random() % 2 == 0;
  const int device_count = 1 + static_cast<int>(random() % 8);
  twins.micro_batch_count =
      1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most_micro_batches));
  twins.rules.micro_batch_group_size =
      DrawGroupSize(device_count, twins.rules.virtual_stage_count, twins.micro_batch_count, random);
  const uint64_t kind = random() % 4;
  const double forward = time(random);
  const double backward = time(random);
  const double send = 0.2 * time(random);
  const auto draw = [&](double usual) {
    switch (kind) {
      case 0:
        return Seconds::Of(usual);
      case 1:
        return Seconds::Of(usual * (1.0 + 0.02 * time(random)));
      case 2:
        return Seconds::Of(static_cast<double>(random() % 4));
      default:
        return Seconds::Of(usual * time(random));
    }
  };
  twins.simulated = {twins.rules.schedule,
                     twins.rules.virtual_stage_count,
                     twins.rules.micro_batch_group_size,
                     twins.rules.blocking_messages,
                     twins.rules.serial_messages,
                     twins.rules.early_gradient_sync,
                     {}};
  for (int j = 0; j < device_count * twins.rules.virtual_stage_count; ++j) {
    StageTimes stage = {draw(forward), draw(backward), draw(send),
                        Seconds::Of(random() % 2 == 0 ? 3.0 * time(random) : 0.0)};
    // From no part of a backward pass to all of it.
    stage.backward_weights = stage.backward * (static_cast<double>(random() % 5) / 4.0);
    twins.stages.push_back(stage);
    twins.simulated.stages.push_back(
        {stage.forward, stage.backward, stage.send, stage.gradient_sync, stage.backward_weights});
  }
  return twins;
}

void ExpectAgreement(const Twins& twins, ScheduleEvaluator& evaluator) {
  const double played = SimulateStep(twins.simulated, twins.micro_batch_count).value();
  EXPECT_NEAR(evaluator.StepTime(twins.rules, twins.stages, twins.micro_batch_count).value(),
              played, 1e-12 * played)
      << "schedule " << static_cast<int>(twins.rules.schedule) << ", " << twins.stages.size()
      << " stages, " << twins.rules.virtual_stage_count << " a device, " << twins.micro_batch_count
      << " micro-batches in groups of " << twins.rules.micro_batch_group_size << ", blocking "
      << twins.rules.blocking_messages << ", serial " << twins.rules.serial_messages;
}

TEST(SimulateStep, AgreesWithTheScheduleOfTheCostModel) {
  ScheduleEvaluator evaluator;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ExpectAgreement(Draw(seed, 40), evaluator);
  }
}

TEST(SimulateStep, AgreesWherePeriodsAreSkipped) {
  ScheduleEvaluator evaluator;
  for (uint64_t seed = 1; seed <= 90; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ExpectAgreement(Draw(seed, 1500), evaluator);
  }
}

TEST(SimulateStep, OfTwoStagesByHand) {
  SimulatedPipeline gpipe;
  gpipe.schedule = Schedule::kGpipe;
  gpipe.stages = {{Seconds::Of(1), Seconds::Of(1), Seconds::Of(1), {}},
                  {Seconds::Of(1), Seconds::Of(1), {}, {}}};
  SimulatedPipeline alternating = gpipe;
  alternating.schedule = Schedule::kOneForwardOneBackward;
  EXPECT_EQ(SimulateStep(gpipe, 4).value(), 12.0);
  // Two micro-batches in flight take 2 (1 + 1) of work and 2 of sending a round.
  EXPECT_EQ(SimulateStep(alternating, 4).value(), 14.0);
  EXPECT_EQ(SimulateStep(gpipe, 6).value(), 16.0);
  EXPECT_EQ(SimulateStep(alternating, 6).value(), 20.0);
}

}  // namespace
}  // namespace parplan
