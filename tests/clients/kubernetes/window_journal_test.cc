#include "clients/kubernetes/window_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "tests/clients/kubernetes/journal_cases.h"
#include "tests/support/descriptor_limit.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan::sidecar {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = JournalTask::Kind;

// Nothing here waits for anybody.
constexpr absl::Duration kNow = absl::ZeroDuration();

int FileCount(const std::string& folder, const std::string& ending) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += entry.path().extension() == ending ? 1 : 0;
  }
  return count;
}

TEST(WindowJournal, ListsTheTasksOfAnExecutionInOrder) {
  const auto journal = OpenIn(MakeTestFolder());
  EXPECT_FALSE(journal->Next(kNow).has_value());
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  EXPECT_EQ(name, "clusters/lab/plans/p1/executions/id-1");
  EXPECT_THAT(journal->Begin(Opening()), IsOkAndHolds(name));
  ASSERT_OK(journal->Append(name, Windows({0, 10})));
  ASSERT_OK(journal->Append(name, Windows({20})));
  ASSERT_OK(journal->Close(name, v1::Execution::SUCCEEDED, ""));

  std::optional<JournalTask> task = journal->Next(kNow);
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->kind, Kind::kOpen);
  EXPECT_EQ(task->request.request_id(), "id-1");
  journal->Done("clusters/lab/plans/p1/executions/e9");
  task = journal->Next(kNow);
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->kind, Kind::kSend);
  EXPECT_EQ(task->execution, "clusters/lab/plans/p1/executions/e9");
  EXPECT_THAT(FirstSteps(task->windows), ElementsAre(0, 10));
  // Until it is done it is the same again.
  EXPECT_THAT(FirstSteps(journal->Next(kNow)->windows), ElementsAre(0, 10));
  journal->Done();
  EXPECT_THAT(FirstSteps(journal->Next(kNow)->windows), ElementsAre(20));
  journal->Done();
  task = journal->Next(kNow);
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->kind, Kind::kClose);
  EXPECT_EQ(task->outcome, v1::Execution::SUCCEEDED);
  EXPECT_FALSE(journal->is_empty());
  journal->Done();
  EXPECT_TRUE(journal->is_empty());
  EXPECT_FALSE(journal->Next(kNow).has_value());
  EXPECT_EQ(journal->counts().forwarded_window_count, 3);
  EXPECT_EQ(journal->counts().waiting_byte_count, 0);
}

TEST(WindowJournal, WhatWasAcknowledgedOutlivesTheProcess) {
  const std::string folder = MakeTestFolder();
  std::string name;
  {
    const auto journal = OpenIn(folder);
    ASSERT_OK_AND_ASSIGN(name, journal->Begin(Opening()));
    ASSERT_OK(journal->Append(name, Windows({0})));
    ASSERT_TRUE(journal->Next(kNow).has_value());
    journal->Done("clusters/lab/plans/p1/executions/e9");
    ASSERT_OK(journal->Append(name, Windows({10, 20})));
    ASSERT_OK(journal->Close(name, v1::Execution::FAILED, "rank 3 ended"));
  }
  const auto journal = OpenIn(folder);
  EXPECT_EQ(journal->counts().waiting_window_count, 3);
  std::optional<JournalTask> task = journal->Next(kNow);
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->kind, Kind::kSend);
  EXPECT_EQ(task->execution, "clusters/lab/plans/p1/executions/e9");
  EXPECT_THAT(FirstSteps(task->windows), ElementsAre(0));
  journal->Done();
  EXPECT_THAT(FirstSteps(journal->Next(kNow)->windows), ElementsAre(10, 20));
  journal->Done();
  task = journal->Next(kNow);
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->outcome, v1::Execution::FAILED);
  EXPECT_EQ(task->reason, "rank 3 ended");
  journal->Done();
  EXPECT_EQ(FileCount(folder, ".record"), 0);
}

TEST(WindowJournal, WhatComesAfterARestartTakesNoPlaceOfWhatCameBefore) {
  const std::string folder = MakeTestFolder();
  std::vector<int64_t> told;
  for (int64_t step = 0; step < 50; step += 10) {
    const auto journal = OpenIn(folder);
    EXPECT_EQ(journal->counts().waiting_window_count, step / 10);
    ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
    ASSERT_OK(journal->Append(name, Windows({step})));
  }
  const auto journal = OpenIn(folder);
  ASSERT_TRUE(journal->Next(kNow).has_value());
  journal->Done("clusters/lab/plans/p1/executions/e9");
  while (const std::optional<JournalTask> task = journal->Next(kNow)) {
    told.push_back(task->windows[0].first_step());
    journal->Done();
  }
  EXPECT_THAT(told, ElementsAre(0, 10, 20, 30, 40));
}

TEST(WindowJournal, NamesAndOrderAreKept) {
  const auto journal = OpenIn(MakeTestFolder());
  EXPECT_THAT(journal->Append("clusters/lab/plans/p1/executions/x", Windows({0})),
              StatusIs(StatusCode::kNotFound, HasSubstr("open it again")));
  v1::CreateExecutionRequest wrong = Opening("Not An Id");
  EXPECT_THAT(journal->Begin(wrong), StatusIs(StatusCode::kInvalidArgument));
  wrong = Opening();
  wrong.set_parent("plans/p1");
  EXPECT_THAT(journal->Begin(wrong), StatusIs(StatusCode::kInvalidArgument, HasSubstr("parent")));

  ASSERT_OK_AND_ASSIGN(const std::string first, journal->Begin(Opening("id-1")));
  ASSERT_OK_AND_ASSIGN(const std::string second, journal->Begin(Opening("id-2")));
  ASSERT_OK(journal->Close(first, v1::Execution::SUCCEEDED, ""));
  EXPECT_OK(journal->Close(first, v1::Execution::SUCCEEDED, ""));
  EXPECT_THAT(journal->Close(first, v1::Execution::FAILED, "no"),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(journal->Append(first, Windows({0})), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_OK(journal->Append(second, Windows({0})));
  ASSERT_OK_AND_ASSIGN(const v1::Execution seen, journal->Get(second));
  EXPECT_EQ(seen.name(), second);
  EXPECT_EQ(seen.window_count(), 1);
  // The one that was opened first comes first.
  EXPECT_EQ(journal->Next(kNow)->request.request_id(), "id-1");
}

TEST(WindowJournal, AFullQueueTakesNothingAndLosesNothing) {
  const std::vector<v1::MeasuredWindow> windows = Windows({0, 10, 20, 30});
  const auto journal = OpenIn(MakeTestFolder(), /*max_bytes=*/2 * 4096);
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  int taken = 0;
  while (journal->Append(name, windows).ok()) ++taken;
  ASSERT_GT(taken, 0);
  EXPECT_THAT(journal->Append(name, windows), StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(journal->counts().waiting_window_count, 4 * taken);
  ASSERT_TRUE(journal->Next(kNow).has_value());
  journal->Done("clusters/lab/plans/p1/executions/e9");
  ASSERT_TRUE(journal->Next(kNow).has_value());
  journal->Done();
  EXPECT_OK(journal->Append(name, windows));
}

TEST(WindowJournal, WhatIsRefusedIsSetAside) {
  const std::string folder = MakeTestFolder();
  const auto journal = OpenIn(folder);
  ASSERT_OK_AND_ASSIGN(const std::string first, journal->Begin(Opening("id-1")));
  ASSERT_OK(journal->Append(first, Windows({0, 10})));
  ASSERT_OK(journal->Append(first, Windows({20})));
  ASSERT_TRUE(journal->Next(kNow).has_value());
  journal->Done("clusters/lab/plans/p1/executions/e9");
  // One of two windows, then the whole execution.
  std::optional<JournalTask> task = journal->Next(kNow);
  ASSERT_TRUE(task.has_value());
  journal->RefuseSome({task->windows[1]});
  EXPECT_EQ(journal->counts().forwarded_window_count, 1);
  EXPECT_EQ(journal->counts().refused_window_count, 1);
  EXPECT_THAT(FirstSteps(journal->Next(kNow)->windows), ElementsAre(20));
  journal->Refuse();
  EXPECT_EQ(journal->counts().refused_window_count, 2);
  EXPECT_EQ(FileCount(folder, ".refused"), 2);

  ASSERT_OK_AND_ASSIGN(const std::string second, journal->Begin(Opening("id-2")));
  ASSERT_OK(journal->Append(second, Windows({0})));
  task = journal->Next(kNow);
  ASSERT_TRUE(task.has_value());
  ASSERT_EQ(task->kind, Kind::kOpen);
  EXPECT_EQ(task->waiting_window_count, 1);
  journal->Refuse();
  EXPECT_EQ(journal->counts().refused_window_count, 3);
  EXPECT_EQ(journal->counts().waiting_window_count, 0);
  // The reporter gets an error.
  EXPECT_THAT(journal->Append(second, Windows({10})), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_FALSE(journal->Next(kNow).has_value());
}

TEST(WindowJournal, DamagedRecordsAreSetAsideAndTheOthersTold) {
  const std::string folder = MakeTestFolder();
  {
    const auto journal = OpenIn(folder);
    ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
    ASSERT_OK(journal->Append(name, Windows({0})));
    ASSERT_OK(journal->Append(name, Windows({10})));
  }
  // The first of the two.
  std::string first;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path();
    if (path.find("windows-") != std::string::npos && (first.empty() || path < first)) first = path;
  }
  std::ofstream(first, std::ios::app) << "x";
  const auto journal = OpenIn(folder);
  EXPECT_EQ(journal->counts().damaged_record_count, 1);
  EXPECT_EQ(FileCount(folder, ".damaged"), 1);
  EXPECT_EQ(journal->Next(kNow)->kind, Kind::kOpen);
  journal->Done("clusters/lab/plans/p1/executions/e9");
  EXPECT_THAT(FirstSteps(journal->Next(kNow)->windows), ElementsAre(10));
}

TEST(WindowJournal, WindowsThatCannotBeReadForAWhileAreSentLater) {
  const std::string folder = MakeTestFolder();
  const auto journal = OpenIn(folder);
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  ASSERT_OK(journal->Append(name, Windows({0, 10})));
  EXPECT_EQ(journal->Next(kNow)->kind, Kind::kOpen);
  journal->Done("clusters/lab/plans/p1/executions/e9");
  {
    const DescriptorLimit limit;
    EXPECT_FALSE(journal->Next(kNow).has_value());
    EXPECT_FALSE(WindowJournal::Open({.folder = folder}).ok());
  }
  EXPECT_FALSE(journal->is_empty());
  EXPECT_EQ(journal->counts().waiting_window_count, 2);
  const std::optional<JournalTask> task = journal->Next(absl::Minutes(5));
  ASSERT_TRUE(task.has_value());
  EXPECT_THAT(FirstSteps(task->windows), ElementsAre(0, 10));
  EXPECT_EQ(journal->counts().damaged_record_count, 0);
  EXPECT_EQ(journal->counts().refused_window_count, 0);
}

TEST(WindowJournal, AFolderThatCannotBeIsNamed) {
  const std::string file = MakeTestFolder() + "/file";
  std::ofstream(file) << "x";
  EXPECT_THAT(WindowJournal::Open({.folder = file + "/journal"}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("journal")));
}

TEST(WindowJournal, WhatTheServerHasClosedTakesNoMore) {
  const std::string folder = MakeTestFolder();
  const auto journal = OpenIn(folder);
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  ASSERT_TRUE(journal->Next(kNow).has_value());
  journal->Done("clusters/lab/plans/p1/executions/e9");
  ASSERT_OK(journal->Append(name, Windows({0, 10})));
  ASSERT_TRUE(journal->Next(kNow).has_value());
  journal->Refuse(/*is_closed=*/true);
  EXPECT_EQ(journal->counts().refused_window_count, 2);
  EXPECT_EQ(journal->Append(name, Windows({20})).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(OpenIn(folder)->Append(name, Windows({20})).code(), StatusCode::kFailedPrecondition);
}

TEST(WindowJournal, WhatTheJobLeftOpenIsAbandonedAndStaysOpenHere) {
  const std::string folder = MakeTestFolder();
  std::string name;
  {
    const auto journal = OpenIn(folder);
    ASSERT_OK_AND_ASSIGN(name, journal->Begin(Opening()));
    ASSERT_OK_AND_ASSIGN(const std::string closed, journal->Begin(Opening("id-2")));
    ASSERT_OK(journal->Append(name, Windows({0})));
    ASSERT_OK(journal->Close(closed, v1::Execution::SUCCEEDED, ""));
    journal->Abandon("the pod ended");
    EXPECT_FALSE(journal->is_empty());
    // After all that there was before.
    EXPECT_EQ(journal->Next(kNow)->kind, Kind::kOpen);
    journal->Done("clusters/lab/plans/p1/executions/e9");
    EXPECT_EQ(journal->Next(kNow)->kind, Kind::kSend);
    journal->Done();
    const std::optional<JournalTask> task = journal->Next(kNow);
    ASSERT_TRUE(task.has_value());
    EXPECT_EQ(task->kind, Kind::kAbandon);
    EXPECT_EQ(task->execution, "clusters/lab/plans/p1/executions/e9");
    EXPECT_EQ(task->reason, "the pod ended");
    journal->Done(task->execution);
    // The other has its end.
    EXPECT_EQ(journal->Next(kNow)->kind, Kind::kOpen);
    journal->Done("clusters/lab/plans/p1/executions/e10");
    EXPECT_EQ(journal->Next(kNow)->kind, Kind::kClose);
    journal->Done();
    EXPECT_FALSE(journal->Next(kNow).has_value());
    EXPECT_TRUE(journal->is_empty());
  }
  const auto journal = OpenIn(folder);
  EXPECT_TRUE(journal->is_empty());
  ASSERT_OK(journal->Append(name, Windows({10})));
  EXPECT_THAT(FirstSteps(journal->Next(kNow)->windows), ElementsAre(10));
  journal->Done();
  ASSERT_OK(journal->Close(name, v1::Execution::SUCCEEDED, ""));
  EXPECT_EQ(journal->Next(kNow)->outcome, v1::Execution::SUCCEEDED);
}

TEST(WindowJournal, TheQueueIsBoundedByWhatFilesTake) {
  // Windows of some bytes each are a block of a disk each.
  const auto journal = OpenIn(MakeTestFolder(), /*max_bytes=*/4 * 4096);
  ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening()));
  for (int i = 0; i < 4; ++i) ASSERT_OK(journal->Append(name, Windows({10 * i})));
  EXPECT_EQ(journal->counts().waiting_byte_count, 4 * 4096);
  EXPECT_EQ(journal->Append(name, Windows({40})).code(), StatusCode::kUnavailable);
}

TEST(WindowJournal, OnlyTheLatestThatWereRefusedAreKept) {
  const std::string folder = MakeTestFolder();
  const auto refuse = [&](const std::string& id, int count) {
    const auto journal = OpenIn(folder);
    ASSERT_OK_AND_ASSIGN(const std::string name, journal->Begin(Opening(id)));
    ASSERT_TRUE(journal->Next(kNow).has_value());
    journal->Done("clusters/lab/plans/p1/executions/e9");
    for (int i = 0; i < count; ++i) {
      ASSERT_OK(journal->Append(name, Windows({10 * i})));
      ASSERT_TRUE(journal->Next(kNow).has_value());
      journal->Refuse();
    }
    EXPECT_EQ(journal->counts().refused_window_count, count);
  };
  refuse("id-1", 60);
  EXPECT_EQ(FileCount(folder, ".refused"), 60);
  // Those of an earlier process count.
  refuse("id-2", 60);
  EXPECT_EQ(FileCount(folder, ".refused"), 100);
}

}  // namespace
}  // namespace parplan::sidecar
