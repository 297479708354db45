#include "clients/delivery/record_folder.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/descriptor_limit.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(RecordFolder, KeepsWhatWasWrittenForTheNextProcess) {
  const std::string path = MakeTestFolder() + "/a/b";
  const std::string bytes("zero \0 and newline\n", 19);
  {
    ASSERT_OK_AND_ASSIGN(const auto folder, RecordFolder::Open(path));
    EXPECT_THAT(folder->Names(), IsOkAndHolds(IsEmpty()));
    ASSERT_OK(folder->Write("2", "first"));
    ASSERT_OK(folder->Write("2", bytes));
    ASSERT_OK(folder->Write("1", ""));
  }
  ASSERT_OK_AND_ASSIGN(const auto folder, RecordFolder::Open(path));
  EXPECT_THAT(folder->Names(), IsOkAndHolds(ElementsAre("1", "2")));
  EXPECT_THAT(folder->Read("2"), IsOkAndHolds(bytes));
  EXPECT_THAT(folder->Read("1"), IsOkAndHolds(""));
  ASSERT_OK(folder->Remove("1"));
  EXPECT_OK(folder->Remove("1"));
  EXPECT_THAT(folder->Names(), IsOkAndHolds(ElementsAre("2")));
  EXPECT_THAT(folder->Read("1"), StatusIs(absl::StatusCode::kNotFound));
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700);
}

TEST(RecordFolder, ClearsWhatACrashLeftHalfWritten) {
  const std::string path = MakeTestFolder();
  std::ofstream(path + "/1.record.new") << "half";
  ASSERT_OK_AND_ASSIGN(const auto folder, RecordFolder::Open(path));
  EXPECT_THAT(folder->Names(), IsOkAndHolds(IsEmpty()));
  EXPECT_TRUE(std::filesystem::is_empty(path));
}

TEST(RecordFolder, ReportsDamage) {
  const std::string path = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(const auto folder, RecordFolder::Open(path));
  const std::string file = path + "/1.record";
  const auto expect_damaged = [&] {
    EXPECT_THAT(folder->Read("1"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file)));
  };
  ASSERT_OK(folder->Write("1", "0123456789"));
  const auto whole = std::filesystem::file_size(file);
  for (const auto size : {whole - 1, whole - 10, whole - 11, uintmax_t{5}, uintmax_t{0}}) {
    std::filesystem::resize_file(file, size);
    expect_damaged();
  }
  ASSERT_OK(folder->Write("1", "0123456789"));
  {
    std::fstream bits(file, std::ios::in | std::ios::out | std::ios::binary);
    bits.seekp(-3, std::ios::end);
    bits.put('x');
  }
  expect_damaged();
  ASSERT_OK(folder->SetAside("1", "damaged"));
  EXPECT_THAT(folder->Names(), IsOkAndHolds(IsEmpty()));
  EXPECT_TRUE(std::filesystem::exists(path + "/1.damaged"));
}

TEST(RecordFolder, KeepsTheOldRecordWhenTheDiskIsFull) {
  const std::string path = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(const auto folder, RecordFolder::Open(path));
  ASSERT_OK(folder->Write("1", "old"));
  {
    const FileSizeLimit limit(200);
    const absl::Status status = folder->Write("1", std::string(1000, 'x'));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("1.record")));
    ASSERT_TRUE(GetErrorDetail(status).has_value());
    EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kStoreUnavailable);
    // A small one still fits.
    EXPECT_OK(folder->Write("2", "small"));
  }
  EXPECT_THAT(folder->Read("1"), IsOkAndHolds("old"));
  EXPECT_THAT(folder->Names(), IsOkAndHolds(ElementsAre("1", "2")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path), {}), 2);
}

// Whoever took no names for no records would write over those that are there.
TEST(RecordFolder, SaysThatItCannotBeRead) {
  const std::string path = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(const auto folder, RecordFolder::Open(path));
  ASSERT_OK(folder->Write("1", "kept"));
  {
    const DescriptorLimit limit;
    EXPECT_THAT(folder->Names(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(path)));
    EXPECT_THAT(folder->Read("1"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("1.record")));
    EXPECT_THAT(folder->Write("2", ""), StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_THAT(folder->Names(), IsOkAndHolds(ElementsAre("1")));
  EXPECT_THAT(folder->Read("1"), IsOkAndHolds("kept"));
}

TEST(RecordFolder, RefusesAFolderItCannotMake) {
  const std::string file = MakeTestFolder() + "/file";
  std::ofstream(file) << "not a folder";
  EXPECT_THAT(RecordFolder::Open(file + "/below"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(file)));
}

}  // namespace
}  // namespace parplan
