// PostgreSQL is killed while several servers write: what was acknowledged is there, whole,
// and of what was not, all or nothing.

#include <atomic>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/store/postgres_store.h"
#include "tests/server/store/postgres_process.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

constexpr int kServerCount = 3;
constexpr int kKillCount = 3;
constexpr int kWritesBetweenKills = 60;

TEST(PostgresKill, NothingAcknowledgedIsLostAndNothingHalfIsSeen) {
  PostgresProcess& postgres = PostgresProcess::Shared();
  postgres.Execute("CREATE SCHEMA kill");
  const PostgresStoreOptions options = {.uri = postgres.uri("options=-csearch_path%3Dkill"),
                                        .patience = absl::Minutes(3)};
  std::mutex mutex;
  std::vector<std::string> acknowledged;
  std::atomic<int> count = 0;
  std::atomic<int> in_doubt = 0;
  std::atomic<bool> stop = false;
  std::vector<std::string> errors;
  std::vector<std::thread> servers;
  for (int server = 0; server < kServerCount; ++server) {
    servers.emplace_back([&, server] {
      const auto store = PostgresStore::Open(options);
      for (int i = 0; store.ok() && !stop; ++i) {
        const std::string id = absl::StrCat(server, "-", i);
        absl::Status status = (*store)->PutPlan(SamplePlan("c", id, 5000)).status();
        if (status.ok()) status = (*store)->PutProfile(SampleProfile("c", "n", id, 9000)).status();
        const std::lock_guard<std::mutex> lock(mutex);
        if (status.ok()) {
          acknowledged.push_back(id);
          ++count;
        } else if (status.code() == absl::StatusCode::kUnavailable) {
          ++in_doubt;
        } else {
          // No call needs to wait for this one any more.
          errors.push_back(status.ToString());
          count += kKillCount * kWritesBetweenKills;
          return;
        }
      }
      if (!store.ok()) {
        const std::lock_guard<std::mutex> lock(mutex);
        errors.push_back(store.status().ToString());
        count += kKillCount * kWritesBetweenKills;  // Nobody need wait for it.
      }
    });
  }
  for (int kill = 0; kill < kKillCount; ++kill) {
    const int before = count;
    while (count < before + kWritesBetweenKills) absl::SleepFor(absl::Milliseconds(2));
    postgres.KillAndStart();
  }
  stop = true;
  for (std::thread& server : servers) server.join();
  EXPECT_THAT(errors, testing::IsEmpty());

  {
    ASSERT_OK_AND_ASSIGN(const auto store, PostgresStore::Open(options));
    for (const std::string& id : acknowledged) {
      EXPECT_THAT(store->GetPlan(SamplePlan("c", id).name),
                  IsOkAndHolds(SamplePlan("c", id, 5000)));
      EXPECT_OK(store->GetProfile(SampleProfile("c", "n", id).name));
    }
    ASSERT_OK_AND_ASSIGN(const ProfileSet set, store->SnapshotProfiles("c"));
    EXPECT_EQ(set.revision, static_cast<int64_t>(set.profiles.size()));
    for (const ProfileRecord& profile : set.profiles) {
      EXPECT_TRUE(AreSampleBytes(profile.name, profile.bytes));
    }
  }
  std::cout << acknowledged.size() << " pairs of writes acknowledged, " << in_doubt
            << " in doubt, over " << kKillCount << " kills of PostgreSQL" << std::endl;
  postgres.Execute("DROP SCHEMA kill CASCADE");
}

}  // namespace
}  // namespace parplan
