#include "clients/planctl/commands/money_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "clients/planctl/files.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan::planctl {
namespace {

// The question of the flags for the example's cluster. FAILED_PRECONDITION if the command line
// refuses them.
absl::StatusOr<v1::MoneyQuestion> Ask(const std::vector<std::string>& arguments) {
  MoneyFlags flags;
  shell::CommandLine line("", "program");
  flags.AddTo(line.root());
  const std::string wrong = line.ParseWords(arguments);
  if (!wrong.empty()) return absl::FailedPreconditionError(wrong);
  return flags.Question(ExampleSpec());
}

TEST(MoneyFlags, EachReachesItsField) {
  ASSERT_OK_AND_ASSIGN(const v1::MoneyQuestion question,
                       Ask({"--money", "--price", "2.5", "--power", "400", "--idle-power", "60",
                            "--tokens", "1000000", "--deadline-hours", "1.5", "--budget", "0",
                            "--spare-nodes", "2", "--energy", "--worst-case"}));
  ASSERT_EQ(question.devices_size(), 1);
  EXPECT_EQ(question.devices(0).device_kind(),
            ExampleSpec().topology().node_groups(0).device_kind());
  EXPECT_EQ(question.devices(0).price_per_device_hour(), 2.5);
  EXPECT_EQ(question.devices(0).power_watts(), 400.0);
  EXPECT_EQ(question.devices(0).idle_power_watts(), 60.0);
  EXPECT_EQ(question.token_count(), 1'000'000);
  EXPECT_EQ(question.deadline_duration().seconds(), 5400);
  EXPECT_TRUE(question.has_budget());
  EXPECT_EQ(question.budget(), 0.0);
  EXPECT_EQ(question.spare_node_count(), 2);
  EXPECT_TRUE(question.wants_energy());
  EXPECT_TRUE(question.uses_upper_end());
}

TEST(MoneyFlags, AKindMayHaveItsOwnPriceUnderAnyOfItsNames) {
  ASSERT_OK_AND_ASSIGN(const v1::MoneyQuestion question,
                       Ask({"--money", "--price", "H100=5", "--price", "NVIDIA H100 80GB HBM3=6",
                            "--price", "a=b=1"}));
  ASSERT_EQ(question.devices_size(), 2);
  EXPECT_EQ(question.devices(0).price_per_device_hour(), 6.0);
  EXPECT_EQ(question.devices(1).device_kind(), "a=b");
  EXPECT_EQ(Rejection(Ask({"--money", "--price", "H100=dear"}).status()), "SPEC_INVALID --price");
}

TEST(MoneyFlags, NeedMoney) {
  EXPECT_THAT(Ask({"--price", "2"}), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Ask({"--deadline-hours", "2"}), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(MoneyFlags, ReplaceWhatAFileHas) {
  const std::string path = MakeTestFolder() + "/m.json";
  ASSERT_OK(WriteFile(path,
                      R"({"devices": [{"device_kind": "H100", "price_per_device_hour": 5}],
                          "step_count": "7", "deadline_duration": "60s"})"));
  ASSERT_OK_AND_ASSIGN(
      const v1::MoneyQuestion question,
      Ask({"--money", "--money-file", path, "--price", "H100=4", "--samples", "100"}));
  ASSERT_EQ(question.devices_size(), 1);
  EXPECT_EQ(question.devices(0).price_per_device_hour(), 4.0);
  EXPECT_EQ(question.step_count(), 0);
  EXPECT_EQ(question.sample_count(), 100);
  EXPECT_EQ(question.deadline_duration().seconds(), 60);
}

}  // namespace
}  // namespace parplan::planctl
