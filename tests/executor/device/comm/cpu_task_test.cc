#include "executor/device/comm/cpu_task.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/link.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

// A link of a test: what is written is dropped, and what is read was put there.
class TestLink : public Link {
 public:
  explicit TestLink(bool is_broken = false, std::string bytes = "")
      : is_broken_(is_broken), bytes_(std::move(bytes)) {}

  absl::StatusOr<int64_t> Write(absl::Span<const char> data) override {
    if (is_broken_) return absl::UnavailableError("the connection is broken");
    return static_cast<int64_t>(data.size());
  }
  absl::StatusOr<absl::Span<const char>> Read() override { return absl::MakeConstSpan(bytes_); }
  void Consume(int64_t size) override { bytes_.erase(0, size); }

 private:
  bool is_broken_;
  std::string bytes_;
};

// An all-gather of three ranks, in which each rank sends to one other and receives from another.
class TaskOfARing : public testing::Test {
 protected:
  static constexpr int kRank = 1;
  static constexpr int kGroup = 3;

  CpuTask MakeTask() {
    CollectiveCall call;
    call.operation = Operation::kAllGather;
    call.count = 1;
    call.send = &share_;
    call.receive = all_.data();
    return CpuTask(call, kRank, kGroup);
  }

  float share_ = 1.0F;
  std::array<float, kGroup> all_ = {};
};

// Runs the task with one link for the rank to which it sends and one for that from which it
// receives, and returns the rank that it names, after an error or while it waits.
int NamedRank(CpuTask& task, Link& to, Link& from, absl::Status* failure) {
  const std::function<Link&(int)> links = [&](int rank) -> Link& {
    return task.directions().to[rank] != 0 ? to : from;
  };
  absl::StatusOr<bool> moved = true;
  while (moved.ok() && *moved && !task.IsDone()) moved = task.Progress(links);
  *failure = moved.status();
  return task.AwaitedRank();
}

TEST_F(TaskOfARing, NamesTheRankItReceivesFromWhileItWaits) {
  CpuTask task = MakeTask();
  TestLink to;
  TestLink from;
  absl::Status failure;
  const int named = NamedRank(task, to, from, &failure);
  EXPECT_OK(failure);
  EXPECT_EQ(task.directions().from[named], 1);
  EXPECT_EQ(task.directions().to[named], 0);
}

TEST_F(TaskOfARing, NamesTheRankWhoseLinkBroke) {
  CpuTask task = MakeTask();
  TestLink to(/*is_broken=*/true);
  TestLink from;
  absl::Status failure;
  const int named = NamedRank(task, to, from, &failure);
  EXPECT_TRUE(absl::IsUnavailable(failure)) << failure;
  EXPECT_EQ(task.directions().to[named], 1);
}

TEST_F(TaskOfARing, NamesTheRankThatSentSomethingElse) {
  CpuTask task = MakeTask();
  TestLink to;
  TestLink from(/*is_broken=*/false, std::string(16, '\x7f'));
  absl::Status failure;
  const int named = NamedRank(task, to, from, &failure);
  EXPECT_TRUE(absl::IsInternal(failure)) << failure;
  EXPECT_THAT(std::string(failure.message()), HasSubstr("was due"));
  EXPECT_EQ(task.directions().from[named], 1);
}

// An empty message has nothing to wait for but its header.
TEST_F(TaskOfARing, NamesTheRankThatSentSomethingElseWhereNothingWasDue) {
  CollectiveCall call;
  call.operation = Operation::kAllGather;
  call.send = &share_;
  call.receive = all_.data();
  CpuTask task(call, kRank, kGroup);
  TestLink to;
  TestLink from(/*is_broken=*/false, std::string(16, '\x7f'));
  absl::Status failure;
  const int named = NamedRank(task, to, from, &failure);
  EXPECT_TRUE(absl::IsInternal(failure)) << failure;
  EXPECT_EQ(task.directions().from[named], 1);
}

}  // namespace
}  // namespace parplan
