#include "clients/kubernetes/plan_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan::sidecar {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int GenerationCount(const std::string& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder + "/.generations")) {
    ++count;
  }
  return count;
}

TEST(PlanVolume, CountsGenerationsAndKeepsTheOneBefore) {
  const std::string folder = MakeTestFolder() + "/plan";
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PlanVolume> volume, PlanVolume::Open(folder));
  EXPECT_EQ(volume->generation(), 0);
  EXPECT_THAT(volume->Read("a.json"), StatusIs(StatusCode::kNotFound));
  for (int i = 1; i <= 4; ++i) {
    ASSERT_OK(volume->Write({{"a.json", absl::StrCat("a", i)}, {"b.env", absl::StrCat("b", i)}}));
    EXPECT_EQ(volume->generation(), i);
    EXPECT_THAT(volume->Read("a.json"), IsOkAndHolds(absl::StrCat("a", i)));
    EXPECT_EQ(ReadFile(folder + "/generation"), absl::StrCat(i, "\n"));
    EXPECT_EQ(GenerationCount(folder), i == 1 ? 1 : 2);
  }
  // Everybody in the pod may read.
  EXPECT_EQ(fs::status(folder + "/b.env").permissions(), static_cast<fs::perms>(0644));
}

TEST(PlanVolume, FoldersChangeWithTheirGeneration) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PlanVolume> volume, PlanVolume::Open(folder));
  ASSERT_OK(volume->Write({{"m/a.args", "1"}, {"m/README.txt", "r"}, {"g/README.txt", "s"}}));
  EXPECT_THAT(volume->Read("m/a.args"), IsOkAndHolds("1"));
  EXPECT_EQ(ReadFile(folder + "/.current/g/README.txt"), "s");
  EXPECT_EQ(fs::status(folder + "/m/a.args").permissions(), static_cast<fs::perms>(0644));
  ASSERT_OK(volume->Write({{"m/a.args", "2"}}));
  EXPECT_THAT(volume->Read("m/a.args"), IsOkAndHolds("2"));
  EXPECT_THAT(volume->Read("m/README.txt"), StatusIs(StatusCode::kNotFound));
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder + "/g")));
}

TEST(PlanVolumeDeathTest, NamesLeadNowhereElse) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PlanVolume> volume, PlanVolume::Open(folder));
  for (const char* const name : {"../x", "x/../y"}) {
    EXPECT_DEATH((void)volume->Write({{name, ""}}), "") << name;
  }
}

TEST(PlanVolume, FilesOfAnOlderGenerationGoWithIt) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PlanVolume> volume, PlanVolume::Open(folder));
  ASSERT_OK(volume->Write({{"rank-0.env", "x"}, {"rank-1.env", "y"}}));
  ASSERT_OK(volume->Write({{"rank-0.env", "z"}}));
  EXPECT_TRUE(fs::exists(folder + "/rank-0.env"));
  EXPECT_FALSE(fs::is_symlink(folder + "/rank-1.env"));
}

TEST(PlanVolume, GoesOnAfterAWriterThatWasKilled) {
  const std::string folder = MakeTestFolder();
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PlanVolume> volume, PlanVolume::Open(folder));
    ASSERT_OK(volume->Write({{"a.json", "good"}}));
  }
  // Half of the next generation, and a link that leads to it but does not count yet.
  fs::create_directory(folder + "/.generations/2");
  std::ofstream(folder + "/.generations/2/a.json") << "ha";
  fs::create_symlink(".generations/2", folder + "/.current.new");
  // Files of others are kept.
  std::ofstream(folder + "/other") << "other";
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PlanVolume> volume, PlanVolume::Open(folder));
  EXPECT_EQ(volume->generation(), 1);
  EXPECT_THAT(volume->Read("a.json"), IsOkAndHolds("good"));
  ASSERT_OK(volume->Write({{"a.json", "better"}}));
  EXPECT_EQ(volume->generation(), 2);
  EXPECT_THAT(volume->Read("a.json"), IsOkAndHolds("better"));
  EXPECT_EQ(ReadFile(folder + "/other"), "other");
}

TEST(PlanVolume, ReadersNeverSeeHalfOfAGeneration) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PlanVolume> volume, PlanVolume::Open(folder));
  ASSERT_OK(volume->Write({{"a", "1"}, {"b", "1"}}));
  std::atomic<bool> done = false;
  std::atomic<int> torn = 0;
  std::atomic<int> seen = 0;
  std::thread reader([&] {
    while (!done) {
      std::error_code error;
      const fs::path current = fs::read_symlink(folder + "/.current", error);
      const std::string a = ReadFile(folder / current / "a");
      const std::string b = ReadFile(folder / current / "b");
      // Two writes later the generation is gone; half of one is never seen.
      if (a.empty() || b.empty()) continue;
      torn += a == b ? 0 : 1;
      ++seen;
    }
  });
  absl::Status written;
  for (int i = 2; written.ok() && (i < 200 || seen < 10); ++i) {
    const std::string text = absl::StrCat(i);
    written = volume->Write({{"a", text}, {"b", text}});
  }
  done = true;
  reader.join();
  EXPECT_OK(written);
  EXPECT_EQ(torn, 0);
}

TEST(PlanVolume, AFolderThatCannotBeIsNamed) {
  const std::string file = MakeTestFolder() + "/file";
  std::ofstream(file) << "x";
  EXPECT_THAT(PlanVolume::Open(file + "/plan"),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("/plan")));
}

}  // namespace
}  // namespace parplan::sidecar
