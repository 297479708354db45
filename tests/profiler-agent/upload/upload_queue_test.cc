#include "profiler-agent/upload/upload_queue.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/descriptor_limit.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

PendingUpload Upload(const std::string& id, size_t bytes = 10) {
  return {id, "clusters/c/nodes/n", std::string(bytes, '\n')};
}

std::string FrontId(UploadQueue& queue) {
  const auto front = queue.Front();
  EXPECT_OK(front);
  return front.ok() && front->has_value() ? (*front)->request_id : "none";
}

TEST(UploadQueue, GivesTheOldestAlsoAfterACrash) {
  const std::string folder = MakeTestFolder();
  for (int i = 0; i < 12; ++i) {
    // Another process each time.
    ASSERT_OK_AND_ASSIGN(const auto queue, UploadQueue::Open(folder));
    EXPECT_EQ(queue->length(), i);
    ASSERT_OK(queue->Push(Upload(absl::StrCat("id", i))));
  }
  for (int i = 0; i < 12; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto queue, UploadQueue::Open(folder));
    ASSERT_OK_AND_ASSIGN(const auto front, queue->Front());
    ASSERT_TRUE(front.has_value());
    EXPECT_EQ(front->request_id, absl::StrCat("id", i));
    EXPECT_EQ(front->parent, "clusters/c/nodes/n");
    EXPECT_EQ(front->profile, std::string(10, '\n'));
    ASSERT_OK(queue->PopFront());
  }
  ASSERT_OK_AND_ASSIGN(const auto queue, UploadQueue::Open(folder));
  EXPECT_EQ(FrontId(*queue), "none");
  EXPECT_OK(queue->PopFront());
}

TEST(UploadQueue, SetsDamagedOnesAside) {
  const std::string folder = MakeTestFolder();
  {
    ASSERT_OK_AND_ASSIGN(const auto queue, UploadQueue::Open(folder));
    for (const char* const id : {"a", "b", "c"}) ASSERT_OK(queue->Push(Upload(id)));
  }
  // A truncated record, and a file of another program.
  std::filesystem::resize_file(folder + "/00000000000000000001.record", 90);
  std::ofstream(folder + "/notes.record") << "?";
  ASSERT_OK_AND_ASSIGN(const auto queue, UploadQueue::Open(folder));
  EXPECT_EQ(queue->length(), 3);
  EXPECT_EQ(FrontId(*queue), "b");
  EXPECT_EQ(queue->length(), 2);
  EXPECT_EQ(queue->damaged_count(), 1);
  EXPECT_TRUE(std::filesystem::exists(folder + "/00000000000000000001.damaged"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/notes.record"));
  // Its number is not given again.
  ASSERT_OK(queue->Push(Upload("d")));
  ASSERT_OK(queue->PopFront());
  ASSERT_OK(queue->RefuseFront());
  EXPECT_TRUE(std::filesystem::exists(folder + "/00000000000000000003.refused"));
  EXPECT_EQ(FrontId(*queue), "d");
}

TEST(UploadQueue, SaysSoWhenTheDiskIsFullAndLosesNothing) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(const auto queue, UploadQueue::Open(folder));
  ASSERT_OK(queue->Push(Upload("a")));
  {
    const FileSizeLimit limit(500);
    EXPECT_THAT(queue->Push(Upload("b", 1000)),
                StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(folder)));
  }
  EXPECT_EQ(queue->length(), 1);
  ASSERT_OK(queue->Push(Upload("c", 1000)));
  EXPECT_EQ(FrontId(*queue), "a");
  ASSERT_OK(queue->PopFront());
  EXPECT_EQ(FrontId(*queue), "c");
}

// A queue that took the folder for empty would write over the first upload.
TEST(UploadQueue, IsNotOpenedWhileItsFolderCannotBeRead) {
  const std::string folder = MakeTestFolder();
  {
    ASSERT_OK_AND_ASSIGN(const auto queue, UploadQueue::Open(folder));
    ASSERT_OK(queue->Push(Upload("first")));
  }
  {
    const DescriptorLimit limit;
    EXPECT_FALSE(UploadQueue::Open(folder).ok());
  }
  ASSERT_OK_AND_ASSIGN(const auto queue, UploadQueue::Open(folder));
  EXPECT_EQ(FrontId(*queue), "first");
}

TEST(UploadQueue, HasALimit) {
  ASSERT_OK_AND_ASSIGN(const auto queue, UploadQueue::Open(MakeTestFolder()));
  for (int i = 0; i < UploadQueue::kMaxLength; ++i) ASSERT_OK(queue->Push(Upload("x", 1)));
  const absl::Status status = queue->Push(Upload("y"));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_TRUE(GetErrorDetail(status).has_value());
  EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kQueueFull);
  EXPECT_EQ(queue->length(), UploadQueue::kMaxLength);
}

}  // namespace
}  // namespace parplan
