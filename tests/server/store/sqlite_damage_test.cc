// The SQLite store after its files were damaged: the log torn or garbled at its
// end, as a power loss leaves it, or the database overwritten.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/store/sqlite_store.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteAll(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

fs::path LogOf(const fs::path& folder) { return folder / absl::StrCat(kSqliteFileName, "-wal"); }

// PARPLAN_SEED, else a new one; printed, so that a failure can be repeated.
uint32_t Seed() {
  const char* text = std::getenv("PARPLAN_SEED");
  return text != nullptr ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10))
                         : std::random_device()();
}

// A store that was never closed, and how long its log was after each profile.
struct Crashed {
  std::string database;
  std::string log;
  std::vector<size_t> log_sizes;
};

constexpr size_t kSmallProfileBytes = 9000;

Crashed MakeCrashed(int profile_count) {
  Crashed crashed;
  const fs::path folder = MakeTestFolder();
  const auto store = SqliteStore::Open({.directory = folder});
  EXPECT_OK(store);
  for (int i = 0; i < profile_count; ++i) {
    EXPECT_OK((*store)->PutProfile(SampleProfile("c", "n", absl::StrCat(i), kSmallProfileBytes)));
    crashed.log_sizes.push_back(fs::file_size(LogOf(folder)));
  }
  // Copied while the store is open: what a crash would leave.
  crashed.database = ReadAll(folder / kSqliteFileName);
  crashed.log = ReadAll(LogOf(folder));
  return crashed;
}

// Profiles 0 to n - 1 for some n in [at_least, at_most], whole and nothing else.
void ExpectPrefix(const fs::path& folder, size_t at_least, size_t at_most) {
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  ASSERT_OK_AND_ASSIGN(const ProfileSet set, store->SnapshotProfiles("c"));
  const size_t count = set.profiles.size();
  EXPECT_GE(count, at_least);
  EXPECT_LE(count, at_most);
  EXPECT_EQ(set.revision, count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(set.profiles[i],
              SampleProfile("c", "n", absl::StrCat(count - 1 - i), kSmallProfileBytes));
  }
  EXPECT_OK(store->PutProfile(SampleProfile("c", "n", "after", kSmallProfileBytes)));
}

class TornLog : public testing::Test {
 protected:
  // Opens the crashed store with another log, of which `intact_bytes` are right.
  void OpenWith(const std::string& log, size_t intact_bytes) {
    const fs::path folder = MakeTestFolder();
    WriteAll(folder / kSqliteFileName, crashed_.database);
    WriteAll(LogOf(folder), log);
    const auto intact =
        std::upper_bound(crashed_.log_sizes.begin(), crashed_.log_sizes.end(), intact_bytes) -
        crashed_.log_sizes.begin();
    SCOPED_TRACE(absl::StrCat("intact bytes ", intact_bytes, " of ", crashed_.log.size()));
    ExpectPrefix(folder, intact, intact);
    fs::remove_all(folder);
  }

  const Crashed crashed_ = MakeCrashed(12);
  const uint32_t seed_ = Seed();
  std::mt19937 random_{seed_};
};

TEST_F(TornLog, CutAnywhereKeepsEveryCommitBeforeTheCut) {
  SCOPED_TRACE(absl::StrCat("PARPLAN_SEED=", seed_));
  OpenWith(crashed_.log, crashed_.log.size());
  const size_t first = crashed_.log_sizes.front();
  for (int round = 0; round < 30; ++round) {
    const size_t cut = first + random_() % (crashed_.log.size() - first);
    OpenWith(crashed_.log.substr(0, cut), cut);
  }
}

TEST_F(TornLog, GarbledFromAnywhereKeepsEveryCommitBefore) {
  SCOPED_TRACE(absl::StrCat("PARPLAN_SEED=", seed_));
  const size_t first = crashed_.log_sizes.front();
  for (int round = 0; round < 30; ++round) {
    const size_t begin = first + random_() % (crashed_.log.size() - first);
    std::string log = crashed_.log;
    // Never the byte that was there.
    for (size_t i = begin; i < log.size(); ++i) {
      log[i] = static_cast<char>(log[i] ^ (1 + random_() % 255));
    }
    OpenWith(log, begin);
  }
}

TEST_F(TornLog, OneFlippedBitHidesItsCommitAndTheLaterOnesOnly) {
  SCOPED_TRACE(absl::StrCat("PARPLAN_SEED=", seed_));
  const size_t first = crashed_.log_sizes.front();
  for (int round = 0; round < 30; ++round) {
    const size_t position = first + random_() % (crashed_.log.size() - first);
    std::string log = crashed_.log;
    log[position] = static_cast<char>(log[position] ^ (1 << (random_() % 8)));
    OpenWith(log, position);
  }
}

TEST(DamagedDatabase, AForeignFileIsDataLossAndLeftAlone) {
  const fs::path folder = MakeTestFolder();
  const std::string text(5000, 'x');
  WriteAll(folder / kSqliteFileName, text);
  const auto store = SqliteStore::Open({.directory = folder});
  EXPECT_THAT(store, StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("restore a backup")));
  EXPECT_EQ(ReasonOf(store), Reason::kStoreUnavailable);
  EXPECT_EQ(ReadAll(folder / kSqliteFileName), text);
}

TEST(DamagedDatabase, OverwrittenPagesAreDataLossAndNeverAHalfProfile) {
  const uint32_t seed = Seed();
  SCOPED_TRACE(absl::StrCat("PARPLAN_SEED=", seed));
  std::mt19937 random(seed);
  const fs::path folder = MakeTestFolder();
  {
    ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
    for (int i = 0; i < 20; ++i) {
      ASSERT_OK(store->PutProfile(SampleProfile("c", "n", absl::StrCat(i), 300)));
    }
  }
  const std::string whole = ReadAll(folder / kSqliteFileName);
  int refused_count = 0;
  for (size_t page = 1; page < whole.size() / 4096; ++page) {
    std::string damaged = whole;
    for (size_t i = 0; i < 4096; ++i) damaged[page * 4096 + i] = static_cast<char>(random());
    WriteAll(folder / kSqliteFileName, damaged);
    const auto store = SqliteStore::Open({.directory = folder});
    const auto set = store.ok() ? (*store)->SnapshotProfiles("c") : store.status();
    if (set.ok()) continue;  // A page this answer does not need.
    EXPECT_THAT(set, StatusIs(absl::StatusCode::kDataLoss));
    ++refused_count;
  }
  EXPECT_GT(refused_count, 0);
}

}  // namespace
}  // namespace parplan
