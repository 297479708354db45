#include "clients/kubernetes/journal_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/clients/kubernetes/journal_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan::sidecar {
namespace {

TEST(RecordNames, AreReadBack) {
  const std::optional<JournalRecordName> execution = ParseRecordName(ExecutionRecordName(12));
  ASSERT_TRUE(execution.has_value());
  EXPECT_FALSE(execution->is_windows);
  EXPECT_EQ(execution->execution_number, 12);
  const std::optional<JournalRecordName> windows = ParseRecordName(WindowsRecordName(3, 10'000));
  ASSERT_TRUE(windows.has_value());
  EXPECT_TRUE(windows->is_windows);
  EXPECT_EQ(windows->execution_number, 3);
  EXPECT_EQ(windows->order, 10'000);
}

// Loading a folder in the order of names relies on this.
TEST(RecordNames, AreInOrder) {
  const std::vector<std::string> names = {ExecutionRecordName(9), ExecutionRecordName(10),
                                          WindowsRecordName(9, 99), WindowsRecordName(9, 100),
                                          WindowsRecordName(10, 1)};
  for (size_t i = 1; i < names.size(); ++i) EXPECT_LT(names[i - 1], names[i]);
}

TEST(RecordNames, AreNotThoseOfOtherThings) {
  for (const char* const name :
       {"", "execution-", "execution-one", "windows-1", "windows-0000000000000001",
        "windows-0000000000000001-", "refused", "windows-000000000000000x-1"}) {
    EXPECT_FALSE(ParseRecordName(name).has_value()) << name;
  }
}

TEST(RecordContent, IsReadBack) {
  ExecutionContent content;
  content.request = Opening();
  content.execution.set_state(v1::Execution::FAILED);
  content.execution.set_failure_reason("why");
  ASSERT_OK_AND_ASSIGN(const ExecutionContent read, ParseExecution(WriteExecution(content)));
  EXPECT_EQ(read.request.request_id(), content.request.request_id());
  EXPECT_EQ(read.execution.state(), v1::Execution::FAILED);
  EXPECT_EQ(read.execution.failure_reason(), "why");

  ASSERT_OK_AND_ASSIGN(const std::vector<v1::MeasuredWindow> windows,
                       ParseWindows(WriteWindows(Windows({0, 10, 20}))));
  ASSERT_EQ(windows.size(), 3);
  EXPECT_EQ(windows[2].first_step(), 20);
}

TEST(RecordContent, IsRefusedWhereItEndsTooSoon) {
  std::string execution = WriteExecution({Opening(), v1::Execution()});
  execution.resize(execution.size() / 2);
  EXPECT_THAT(ParseExecution(execution), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(ParseExecution(""), StatusIs(absl::StatusCode::kDataLoss));
  std::string windows = WriteWindows(Windows({0, 10}));
  windows.pop_back();
  EXPECT_THAT(ParseWindows(windows), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace parplan::sidecar
