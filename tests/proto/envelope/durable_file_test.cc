#include "proto/envelope/durable_file.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/envelope/key_store.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Root rotates keys in the folder of a service, which must be able to read them.
TEST(DurableFile, WhatRootMakesInTheFolderOfAnotherIsTheOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t kUser = 54321;
  constexpr gid_t kGroup = 54322;
  std::string name = testing::TempDir() + "/durable-XXXXXX";
  const std::string folder = mkdtemp(name.data());
  ASSERT_EQ(chown(folder.c_str(), kUser, kGroup), 0);
  {
    ASSERT_OK_AND_ASSIGN(KeyStore store, KeyStore::OpenOrCreate(folder, absl::FromUnixSeconds(1)));
    ASSERT_OK(store.Generate(absl::FromUnixSeconds(2)));
  }
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat facts;
    ASSERT_EQ(stat(entry.path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_uid, kUser) << entry.path();
    EXPECT_EQ(facts.st_gid, kGroup) << entry.path();
    ++count;
  }
  // The folder of keys, two keys, their list, the bundle.
  EXPECT_GE(count, 5);
  std::filesystem::remove_all(folder);
}

TEST(DurableFile, ALockThatIsALinkIsNotGivenAway) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  std::string name = testing::TempDir() + "/durable-XXXXXX";
  const std::string folder = mkdtemp(name.data());
  const std::string target = folder + "/of-root";
  ASSERT_OK(WriteDurably(target, "x", 0600));
  ASSERT_EQ(mkdir((folder + "/service").c_str(), 0755), 0);
  ASSERT_EQ(chown((folder + "/service").c_str(), 54321, 54322), 0);
  ASSERT_EQ(symlink(target.c_str(), (folder + "/service/lock").c_str()), 0);
  ASSERT_OK(FileLock::Acquire(folder + "/service/lock"));
  struct stat facts;
  ASSERT_EQ(stat(target.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 0U);
  std::filesystem::remove_all(folder);
}

TEST(DurableFile, ReplacesAFileWholeAndFollowsNoStagedLink) {
  std::string name = testing::TempDir() + "/durable-XXXXXX";
  const std::string folder = mkdtemp(name.data());
  const std::string path = folder + "/file";
  ASSERT_OK(WriteDurably(path, "one", 0644));
  // Someone put a link where the new contents are staged.
  ASSERT_EQ(symlink("/dev/null", (path + kStagedSuffix).c_str()), 0);
  ASSERT_OK(WriteDurably(path, "two", 0600));
  EXPECT_THAT(ReadSecretFile(path), IsOkAndHolds(std::string("two")));
  EXPECT_FALSE(std::filesystem::exists(path + kStagedSuffix));
  EXPECT_THAT(WriteDurably(folder + "/none/file", "x", 0600),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ReadWholeFile(folder), StatusIs(absl::StatusCode::kUnavailable));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace parplan
