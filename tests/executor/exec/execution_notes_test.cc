#include "executor/exec/execution_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ExecutionNotes, ListWhatWasOpenedAndNotClosed) {
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  NoteExecution(ends[1], ExecutionEvent::kOpened, "plans/a/executions/1");
  NoteExecution(ends[1], ExecutionEvent::kOpened, "plans/b/executions/2");
  NoteExecution(ends[1], ExecutionEvent::kClosed, "plans/a/executions/1");
  std::array<char, 4096> bytes;
  const ssize_t size = ::read(ends[0], bytes.data(), bytes.size());
  ASSERT_GT(size, 0);
  const absl::string_view notes(bytes.data(), size);
  EXPECT_THAT(LeftOpen(notes), ElementsAre("plans/b/executions/2"));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ExecutionNotes, OfNoExecutionsAndHalfALineAreNone) {
  EXPECT_THAT(LeftOpen(""), IsEmpty());
  EXPECT_THAT(LeftOpen("opened plans/a/exec"), IsEmpty());
  EXPECT_THAT(LeftOpen("what else a rank writes\n"), IsEmpty());
  NoteExecution(-1, ExecutionEvent::kOpened, "nobody reads this");
}

// Gives its answers in turn, the last again and again.
class ScriptedSink : public ExecutionSink {
 public:
  ScriptedSink(std::vector<absl::Status> answers, std::vector<std::string>& told)
      : answers_(std::move(answers)), told_(told) {}
  absl::StatusOr<std::string> Create(const v1::CreateExecutionRequest&, absl::Duration) override {
    return absl::InternalError("nobody opens");
  }
  absl::Status Report(const std::string&, absl::Span<const v1::MeasuredWindow>,
                      absl::Duration) override {
    return absl::InternalError("nobody reports");
  }
  absl::Status Complete(const std::string&, absl::Duration) override {
    return absl::InternalError("nobody completes");
  }
  absl::Status Fail(const std::string& execution, const std::string& reason,
                    absl::Duration) override {
    const size_t turn = std::min(told_.size(), answers_.size() - 1);
    told_.push_back(execution + ": " + reason);
    return answers_[turn];
  }
  absl::Status Abandon(const std::string&, const std::string&, absl::Duration) override {
    return absl::InternalError("nobody abandons");
  }

 private:
  const std::vector<absl::Status> answers_;
  std::vector<std::string>& told_;
};

absl::Status FailWith(std::vector<absl::Status> answers, std::vector<std::string>& told,
                      absl::Duration timeout = absl::Minutes(10)) {
  return FailExecution(
      [&]() -> absl::StatusOr<std::unique_ptr<ExecutionSink>> {
        return std::make_unique<ScriptedSink>(std::move(answers), told);
      },
      "e", "killed", timeout);
}

TEST(FailExecution, TriesAgainUntilTheServerIsThere) {
  std::vector<std::string> told;
  EXPECT_OK(
      FailWith({absl::UnavailableError("away"), absl::DeadlineExceededError("slow"), {}}, told));
  EXPECT_THAT(told, ElementsAre("e: killed", "e: killed", "e: killed"));
}

TEST(FailExecution, IsContentWithAnExecutionThatHasEnded) {
  std::vector<std::string> told;
  EXPECT_OK(FailWith({absl::FailedPreconditionError("it has succeeded")}, told));
  EXPECT_EQ(told.size(), 1u);
}

TEST(FailExecution, GivesUpWhatTheServerDoesNotKnow) {
  std::vector<std::string> told;
  EXPECT_THAT(FailWith({absl::NotFoundError("no such execution")}, told),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(told.size(), 1u);
}

TEST(FailExecution, EndsWhereTheServerStaysAway) {
  std::vector<std::string> told;
  EXPECT_THAT(FailWith({absl::UnavailableError("away")}, told, absl::Milliseconds(300)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("away")));
  EXPECT_GE(told.size(), 1u);
}

}  // namespace
}  // namespace parplan
