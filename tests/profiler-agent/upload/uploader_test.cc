#include "profiler-agent/upload/uploader.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::ElementsAre;

constexpr BackoffOptions kQuick = {absl::Microseconds(10), absl::Milliseconds(1)};
// Longer than any test sleeps.
constexpr BackoffOptions kSlow = {absl::Hours(1), absl::Hours(1)};

// Answers attempts with the given results, then with OK.
class ScriptedServer {
 public:
  void Answer(absl::Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_.push_back(std::move(status));
  }
  absl::Status Take(const PendingUpload& upload) {
    const std::lock_guard<std::mutex> lock(mutex_);
    attempts_.push_back(upload.request_id);
    absl::Status status;
    if (!answers_.empty()) {
      status = std::move(answers_.front());
      answers_.pop_front();
    }
    return status;
  }
  // Used as an observer: called after an attempt was counted.
  void SeeEnd() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++ended_;
    }
    changed_.notify_all();
  }
  // Waits for so many attempts since the beginning.
  std::vector<std::string> Attempts(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= count; });
    return attempts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<absl::Status> answers_;
  std::vector<std::string> attempts_;
  size_t ended_ = 0;
};

class UploaderTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(queue_, UploadQueue::Open(MakeTestFolder())); }
  void Push(const std::string& id) { ASSERT_OK(queue_->Push({id, "clusters/c/nodes/n", "p"})); }
  std::unique_ptr<Uploader> Start(BackoffOptions backoff) {
    return std::make_unique<Uploader>(
        *queue_, [this](const PendingUpload& upload) { return server_.Take(upload); }, backoff,
        [this](const PendingUpload&, const absl::Status&) { server_.SeeEnd(); });
  }

  std::unique_ptr<UploadQueue> queue_;
  ScriptedServer server_;
};

TEST_F(UploaderTest, BringsAllInOrderUnderTheSameIds) {
  Push("a");
  Push("b");
  server_.Answer(absl::UnavailableError("no server"));
  server_.Answer(absl::DeadlineExceededError("slow"));
  server_.Answer(absl::OkStatus());
  server_.Answer(absl::InternalError("its fault"));
  const auto uploader = Start(kQuick);
  EXPECT_THAT(server_.Attempts(5), ElementsAre("a", "a", "a", "b", "b"));
  EXPECT_EQ(queue_->length(), 0);
  EXPECT_EQ(uploader->counts().done, 2);
  EXPECT_EQ(uploader->counts().failed, 3);
  EXPECT_OK(uploader->counts().last_status);
}

TEST_F(UploaderTest, SleepsUntilThereIsSomethingNew) {
  const auto uploader = Start(kSlow);
  Push("a");
  uploader->Wake();
  EXPECT_THAT(server_.Attempts(1), ElementsAre("a"));
}

TEST_F(UploaderTest, TriesAtOnceWhenWokenDuringAPause) {
  Push("a");
  server_.Answer(absl::UnavailableError("no server"));
  const auto uploader = Start(kSlow);
  server_.Attempts(1);
  EXPECT_EQ(queue_->length(), 1);
  uploader->Wake();
  EXPECT_THAT(server_.Attempts(2), ElementsAre("a", "a"));
}

TEST_F(UploaderTest, SetsAsideWhatTheServerRefuses) {
  Push("bad");
  Push("good");
  server_.Answer(absl::InvalidArgumentError("PROFILE_INVALID"));
  const auto uploader = Start(kSlow);
  EXPECT_THAT(server_.Attempts(2), ElementsAre("bad", "good"));
  EXPECT_EQ(uploader->counts().refused, 1);
  EXPECT_EQ(uploader->counts().done, 1);
  EXPECT_EQ(queue_->length(), 0);
}

TEST_F(UploaderTest, KeepsWhatItCouldNotBringForTheNextOne) {
  Push("a");
  server_.Answer(absl::UnavailableError("no server"));
  {
    const auto uploader = Start(kSlow);
    server_.Attempts(1);
  }
  EXPECT_EQ(queue_->length(), 1);
  const auto uploader = Start(kSlow);
  EXPECT_THAT(server_.Attempts(2), ElementsAre("a", "a"));
}

TEST(MayRetryUpload, NotWhereTheProfileIsAtFault) {
  EXPECT_TRUE(MayRetryUpload(absl::UnavailableError("")));
  EXPECT_TRUE(MayRetryUpload(absl::PermissionDeniedError("")));
  EXPECT_FALSE(MayRetryUpload(absl::InvalidArgumentError("")));
  EXPECT_FALSE(MayRetryUpload(absl::ResourceExhaustedError("")));
  EXPECT_FALSE(
      MayRetryUpload(MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge, "")));
  EXPECT_TRUE(
      MayRetryUpload(MakeError(absl::StatusCode::kResourceExhausted, Reason::kQuotaExceeded, "")));
}

}  // namespace
}  // namespace parplan
