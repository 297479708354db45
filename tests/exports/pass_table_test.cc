#include "exports/pass_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// 1F1B by hand: device 0 goes forward twice before its first backward pass.
TEST(FormatPassTable, WritesTheWorkedExample) {
  EXPECT_EQ(FormatPassTable({.schedule = Schedule::kOneForwardOneBackward,
                             .pipeline_parallel_degree = 2,
                             .micro_batch_count = 3}),
            "0F0,0F1,0B0,0F2,0B1,0B2\n"
            "1F0,1B0,1F1,1B1,1F2,1B2\n");
}

// ZB-H1 by hand: the last of two devices lets one input pass go before each weight pass. PyTorch
// runs this table (tests/clients/python/parplan/torch/zero_bubble_test.py).
TEST(FormatPassTable, HasBothPartsOfSplitBackwardPasses) {
  EXPECT_EQ(FormatPassTable({.schedule = Schedule::kZeroBubble,
                             .pipeline_parallel_degree = 2,
                             .micro_batch_count = 3}),
            "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n"
            "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n");
}

// Device 0 has stages 0 and 2. Its warm-up of 4 passes takes two micro-batches through both.
TEST(FormatPassTable, CountsStagesOverTheWholeModel) {
  EXPECT_EQ(FormatPassTable({.schedule = Schedule::kInterleaved,
                             .pipeline_parallel_degree = 2,
                             .virtual_stage_count = 2,
                             .micro_batch_count = 2}),
            "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n"
            "1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n");
}

TEST(CheckPassTable, TakesWhatIsWrittenAndBlanks) {
  for (const int devices : {1, 2, 3, 4}) {
    for (const int micro_batches : {1, 3, 8}) {
      const PipelineShape shape{.schedule = Schedule::kGpipe,
                                .pipeline_parallel_degree = devices,
                                .micro_batch_count = micro_batches};
      const std::string text = FormatPassTable(shape);
      EXPECT_OK(CheckPassTable(text, "s.csv", shape));
      // PyTorch's own tables have empty cells where a device waits.
      EXPECT_OK(CheckPassTable(absl::StrReplaceAll(text, {{",", ",, "}, {"\n", "\r\n"}}), "s.csv",
                               shape));
    }
  }
}

TEST(CheckPassTable, NamesLineAndCell) {
  const PipelineShape shape{.pipeline_parallel_degree = 2, .micro_batch_count = 3};
  const std::string good = FormatPassTable(shape);
  const auto refuse = [&](const std::string& text, const std::string& part) {
    EXPECT_THAT(
        CheckPassTable(text, "s.csv", shape),
        StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("s.csv"), HasSubstr(part))));
  };
  refuse("", "has 0 lines, and the pipeline 2");
  refuse(good.substr(0, good.find('\n')), "has 1 lines");
  refuse(good + "2F0\n", "line 3: is beyond the 2 devices");
  refuse(absl::StrReplaceAll(good, {{"0F2", "0F1"}}), "line 1, cell 4: must be 0F2");
  refuse(absl::StrReplaceAll(good, {{"1B2", "1W2"}}), "line 2, cell 6: must be 1B2");
  refuse(absl::StrReplaceAll(good, {{",1B2", ""}}), "line 2: has 5 passes and must have 6");
  refuse(absl::StrReplaceAll(good, {{"0B2", "0B2,0B2"}}), "line 1, cell 7: is beyond");
  refuse(std::string(1000, 'x'), "is `" + std::string(32, 'x') + "`");
}

}  // namespace
}  // namespace parplan
