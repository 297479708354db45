#include "clients/planctl/view/execution_view.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace parplan::planctl {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::Execution Sample() {
  v1::Execution execution;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "clusters/lab/plans/p/executions/e"
        state: SUCCEEDED
        predicted_step_duration { nanos: 200000000 }
        measured_step_duration { nanos: 210000000 }
        predicted_peak_memory_bytes: 1000000000
        window_count: 12
        calibration_digest: "0123456789abcdef"
        stages {
          first_rank: 0
          rank_count: 2
          predicted_phase_durations {
            phase: PHASE_FORWARD
            duration { nanos: 80000000 }
          }
          predicted_phase_durations {
            phase: PHASE_OPTIMIZER
            duration { nanos: 4000000 }
          }
          measured_phase_durations {
            phase: PHASE_FORWARD
            duration { nanos: 88000000 }
          }
          predicted_memory_items { kind: MEMORY_ITEM_KIND_PARAMETERS size_bytes: 600000000 }
          predicted_peak_memory_bytes: 1000000000
        }
      )pb",
      &execution));
  return execution;
}

TEST(ExecutionText, SetsMeasuredBesidePredicted) {
  const std::string text = ExecutionText(Sample());
  EXPECT_THAT(text, HasSubstr("clusters/lab/plans/p/executions/e\n  succeeded, 12 windows"));
  EXPECT_THAT(text, HasSubstr("predicted under calibration 0123456789ab\n"));
  EXPECT_THAT(text,
              HasSubstr("  step                               200 ms         210 ms    1.050\n"));
  EXPECT_THAT(text, HasSubstr("stage 0, ranks 0 to 1\n"));
  EXPECT_THAT(text,
              HasSubstr("  forward                             80 ms          88 ms    1.100\n"));
  // A phase that was predicted and took no time, and an item that was not measured.
  EXPECT_THAT(text,
              HasSubstr("  optimizer                            4 ms           0 ms    0.000\n"));
  EXPECT_THAT(text,
              HasSubstr("  parameters                         600 MB              -        -\n"));
}

TEST(ExecutionText, WhatFailedSaysWhy) {
  v1::Execution execution = Sample();
  execution.set_state(v1::Execution::FAILED);
  execution.set_failure_reason("rank 1 ran out of memory");
  execution.clear_calibration_digest();
  const std::string text = ExecutionText(execution);
  EXPECT_THAT(text, HasSubstr("failed, 12 windows\n  rank 1 ran out of memory\n"));
  EXPECT_THAT(text, HasSubstr("predicted under calibration unknown\n"));
}

TEST(ExecutionListText, HasALineForEach) {
  v1::ListExecutionsResponse executions;
  *executions.add_executions() = Sample();
  *executions.add_executions() = Sample();
  executions.mutable_executions(1)->clear_measured_step_duration();
  const std::string text = ExecutionListText(executions);
  EXPECT_THAT(text, HasSubstr("succeeded  step 210 ms, predicted 200 ms (1.050)  memory -, "
                              "predicted 1000 MB (-)\n"));
  EXPECT_THAT(text, HasSubstr("step -, predicted 200 ms (-)"));
  EXPECT_THAT(text, Not(HasSubstr("stage")));
}

}  // namespace
}  // namespace parplan::planctl
