#include "executor/layer_probe/phase_recorder.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

TEST(PhaseRecorder, SeparatesPhasesAndKindsAndLeavesWaitingOut) {
  absl::Duration now;
  WaitMeter meter;
  PhaseRecorder recorder(nullptr, &meter, {0, 1, 1, 2}, [&now] { return now; });
  const auto spend = [&now](int seconds) { now += absl::Seconds(seconds); };
  spend(100);
  recorder.Enter(TrainerPhase::kForward, 0);
  spend(1);
  recorder.Enter(TrainerPhase::kForward, 1);
  spend(10);
  recorder.Enter(TrainerPhase::kForward, 2);
  spend(20);
  meter.waited += absl::Seconds(5);
  recorder.Enter(TrainerPhase::kForward, 3);
  spend(3);
  recorder.Enter(TrainerPhase::kBackward, 3);
  spend(4);
  recorder.Enter(TrainerPhase::kLoss, -1);
  spend(7);
  recorder.Enter(TrainerPhase::kOutside, -1);
  EXPECT_EQ(recorder.TimeOf(TrainerPhase::kForward, 0), absl::Seconds(1));
  EXPECT_EQ(recorder.TimeOf(TrainerPhase::kForward, 1), absl::Seconds(25));
  EXPECT_EQ(recorder.TimeOf(TrainerPhase::kForward, 2), absl::Seconds(3));
  EXPECT_EQ(recorder.TimeOf(TrainerPhase::kBackward, 2), absl::Seconds(4));
  EXPECT_EQ(recorder.TimeOf(TrainerPhase::kBackward, 1), absl::ZeroDuration());
  EXPECT_EQ(recorder.TimeOf(TrainerPhase::kLoss, -1), absl::Seconds(7));
  recorder.Clear();
  spend(1000);
  recorder.Enter(TrainerPhase::kForward, 0);
  EXPECT_EQ(recorder.TimeOf(TrainerPhase::kForward, 1), absl::ZeroDuration());
  EXPECT_EQ(recorder.TimeOf(TrainerPhase::kLoss, -1), absl::ZeroDuration());
}

}  // namespace
}  // namespace parplan
