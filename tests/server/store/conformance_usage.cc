// Conformance of every store: what owners and clusters use, and specs that plans share.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

// The usage of a scope, counted from the records, oldest first. Each spec counts for the plan that
// had it first.
StoredUsage CountedUsage(const std::vector<PlanRecord>& plans,
                         const std::vector<ProfileRecord>& profiles, const RecordScope& scope) {
  const auto is_in = [&scope](const auto& record) {
    return (scope.owner.empty() || record.owner == scope.owner) &&
           (scope.cluster.empty() || record.cluster == scope.cluster);
  };
  StoredUsage usage;
  std::set<std::string> specs;
  for (const PlanRecord& plan : plans) {
    const bool is_first = !plan.spec.empty() && specs.insert(plan.spec).second;
    if (!is_in(plan)) continue;
    if (is_first) usage.byte_count += static_cast<int64_t>(plan.spec.size());
    ++usage.plan_count;
    usage.byte_count += static_cast<int64_t>(plan.bytes.size());
  }
  for (const ProfileRecord& profile : profiles) {
    if (is_in(profile)) usage.byte_count += static_cast<int64_t>(profile.bytes.size());
  }
  return usage;
}

TEST_P(StoreConformance, UsageIsThatOfTheRecordsThatAreThere) {
  const std::vector<RecordScope> scopes = {{},
                                           {.owner = "cn:a"},
                                           {.owner = "cn:b"},
                                           {.cluster = "c"},
                                           {.cluster = "d"},
                                           {.owner = "cn:a", .cluster = "c"},
                                           {.owner = "cn:nobody"},
                                           {.cluster = "none"}};
  std::vector<PlanRecord> plans;
  std::vector<ProfileRecord> profiles;
  const auto check = [&] {
    for (const RecordScope& scope : scopes) {
      EXPECT_THAT(store().Usage(scope), IsOkAndHolds(CountedUsage(plans, profiles, scope)))
          << scope.owner << " " << scope.cluster;
    }
  };
  check();
  for (int i = 0; i < 8; ++i) {
    PlanRecord plan = SamplePlan(i % 2 == 0 ? "c" : "d", absl::StrCat(i), 100 + 11 * i);
    plan.owner = i % 3 == 0 ? "" : i % 3 == 1 ? "cn:a" : "cn:b";
    plan.expire_time = SampleTime(100 + i);
    ASSERT_OK(store().PutPlan(plan));
    plans.push_back(plan);
    ProfileRecord profile = SampleProfile(i % 2 == 0 ? "c" : "d", "n", absl::StrCat(i), 70 + 7 * i);
    profile.owner = plan.owner;
    ASSERT_OK(store().PutProfile(profile));
    profiles.push_back(profile);
  }
  check();
  // Neither counts twice.
  PlanRecord again = SamplePlan("c", "again");
  again.owner = plans[2].owner;
  again.request_id = plans[2].request_id;
  again.plan_key = plans[2].plan_key;
  EXPECT_THAT(store().PutPlan(again), IsOkAndHolds(plans[2]));
  ProfileRecord repeated = profiles[2];
  repeated.name += "-again";
  EXPECT_THAT(store().PutProfile(repeated), IsOkAndHolds(profiles[2]));
  check();
  ASSERT_OK(store().DeleteProfile(profiles[1].name));
  profiles.erase(profiles.begin() + 1);
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(103), 10), IsOkAndHolds(4));
  plans.erase(plans.begin(), plans.begin() + 4);
  check();
  Reopen();
  check();
  EXPECT_THAT(store().DeleteExpiredPlans(absl::InfiniteFuture(), 10), IsOkAndHolds(4));
  plans.clear();
  for (const ProfileRecord& profile : profiles) ASSERT_OK(store().DeleteProfile(profile.name));
  profiles.clear();
  check();
}

TEST_P(StoreConformance, ExecutionsCountForTheirOwnersAndTheClustersOfTheirPlans) {
  PlanRecord plan = SamplePlan("c", "plan", 10);
  plan.owner = "cn:slurm";
  ASSERT_OK(store().PutPlan(plan));
  ExecutionRecord execution = SampleExecution(plan.name, "e");
  execution.owner = "cn:job";
  ASSERT_OK(store().CreateExecution(execution));
  EXPECT_THAT(store().GetExecution(execution.name), IsOkAndHolds(execution));
  // A second one of another owner, which counts once, however often it is asked for.
  ExecutionRecord other = SampleExecution(plan.name, "o");
  other.owner = plan.owner;
  ASSERT_OK(store().CreateExecution(other));
  ASSERT_OK(store().CreateExecution(other));
  int64_t byte_count = ExecutionByteCount(execution);
  EXPECT_THAT(store().Usage({.owner = "cn:job"}), IsOkAndHolds(StoredUsage{0, 0, byte_count}));
  WindowRecord window = SampleWindow(0, 0, 300);
  window.items = "items";
  for (const std::vector<WindowRecord>& windows :
       {std::vector{window, SampleWindow(1, 0)}, std::vector{window, SampleWindow(2, 0, 7)},
        std::vector{window}}) {
    ASSERT_OK(store().AppendWindows(execution.name, windows, {}, SampleTime(30)));
  }
  // None of these windows is stored.
  ASSERT_FALSE(
      store().AppendWindows(execution.name, {SampleWindow(3, 0)}, {3}, SampleTime(30)).ok());
  for (const WindowRecord& stored : {window, SampleWindow(1, 0), SampleWindow(2, 0, 7)}) {
    byte_count += WindowByteCount(stored);
  }
  const int64_t others = ExecutionByteCount(other);
  const StoredUsage all{1, 10, byte_count + others};
  const auto check = [&] {
    EXPECT_THAT(store().Usage({.owner = "cn:job"}), IsOkAndHolds(StoredUsage{0, 0, byte_count}));
    EXPECT_THAT(store().Usage({.owner = "cn:slurm"}), IsOkAndHolds(StoredUsage{1, 10, others}));
    EXPECT_THAT(store().Usage({.owner = "cn:job", .cluster = "d"}), IsOkAndHolds(StoredUsage{}));
    EXPECT_THAT(store().Usage({.cluster = "c"}), IsOkAndHolds(all));
    EXPECT_THAT(store().Usage({}), IsOkAndHolds(all));
  };
  check();
  ASSERT_OK(store().SetExecutionState(execution.name, ExecutionState::kRunning,
                                      ExecutionState::kSucceeded, SampleTime(40), ""));
  check();
  Reopen();
  check();
  // Profiles that come and go leave the executions of their owner counted.
  ProfileRecord profile = SampleProfile("c", "n", "p", 70);
  profile.owner = "cn:job";
  ASSERT_OK(store().PutProfile(profile));
  EXPECT_THAT(store().Usage({.owner = "cn:job"}), IsOkAndHolds(StoredUsage{0, 70, byte_count}));
  ASSERT_OK(store().DeleteProfile(profile.name));
  check();
}

TEST_P(StoreConformance, ExpiredPlansAreDeletedOfAScopeAlone) {
  for (int i = 0; i < 8; ++i) {
    PlanRecord plan = SamplePlan(i < 4 ? "c" : "d", absl::StrCat(i));
    plan.owner = i % 2 == 0 ? "cn:a" : "cn:b";
    plan.expire_time = SampleTime(i);
    ASSERT_OK(store().PutPlan(plan));
  }
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(5), 10, {.owner = "cn:a"}), IsOkAndHolds(3));
  EXPECT_OK(store().GetPlan("clusters/d/plans/6"));
  EXPECT_OK(store().GetPlan("clusters/c/plans/1"));
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(9), 1, {.cluster = "c"}), IsOkAndHolds(1));
  EXPECT_FALSE(store().GetPlan("clusters/c/plans/1").ok());
  EXPECT_OK(store().GetPlan("clusters/c/plans/3"));
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(9), 10, {.owner = "cn:b", .cluster = "d"}),
              IsOkAndHolds(2));
  EXPECT_OK(store().GetPlan("clusters/c/plans/3"));
  EXPECT_OK(store().GetPlan("clusters/d/plans/6"));
}

TEST_P(StoreConformance, PlansComeBackWithTheirSpecsWhoeverSharesThem) {
  std::vector<PlanRecord> plans;
  for (int i = 0; i < 6; ++i) {
    PlanRecord plan = SamplePlan(i < 4 ? "c" : "d", absl::StrCat(i));
    plan.owner = absl::StrCat("cn:", i % 2);
    plan.answer_key = absl::StrCat("answer-", i);
    plan.job_id = absl::StrCat("job-", i);
    plan.expire_time = SampleTime(100 + i);
    // The first has none, as those of earlier releases.
    if (i > 0) plan.spec = SampleBytes(i == 5 ? "another" : "spec", 5000);
    EXPECT_THAT(store().PutPlan(plan), IsOkAndHolds(plan));
    plans.push_back(plan);
  }
  Reopen();
  for (const PlanRecord& plan : plans) {
    EXPECT_THAT(store().GetPlan(plan.name), IsOkAndHolds(plan));
    EXPECT_THAT(store().FindPlanByKey(plan.cluster, plan.plan_key, plan.job_id, SampleTime(0)),
                IsOkAndHolds(testing::Optional(plan)));
    EXPECT_THAT(store().FindPlanByRequestId(plan.cluster, plan.owner, plan.request_id),
                IsOkAndHolds(testing::Optional(plan)));
    EXPECT_THAT(store().FindPlanOfJob(plan.cluster, plan.job_id),
                IsOkAndHolds(testing::Optional(plan)));
    EXPECT_THAT(store().FindPlanByAnswer(plan.cluster, plan.answer_key),
                IsOkAndHolds(testing::Optional(plan)));
    // A retry gets the stored plan.
    PlanRecord again = plan;
    again.name += "-again";
    again.spec = "other";
    EXPECT_THAT(store().PutPlan(again), IsOkAndHolds(plan));
  }
  // Lists do without.
  PlanRecord listed = plans[5];
  listed.spec.clear();
  EXPECT_EQ(store().ListPlans("d", {})->records[0], listed);
  EXPECT_EQ(store().ListOwnPlans("d", {.owner = "cn:1"}, {})->records[0], listed);
}

TEST_P(StoreConformance, ASpecIsStoredOnceAndGoesWithItsLastPlan) {
  std::vector<PlanRecord> plans;
  const auto usage = [this] { return *store().Usage({}); };
  for (int i = 0; i < 9; ++i) {
    PlanRecord plan = SamplePlan(i % 2 == 0 ? "c" : "d", absl::StrCat(i), 10);
    plan.owner = i % 3 == 0 ? "cn:a" : "cn:b";
    plan.expire_time = SampleTime(i);
    plan.spec = SampleBytes(absl::StrCat("spec-", i % 2), 3000);
    ASSERT_OK(store().PutPlan(plan));
    plans.push_back(plan);
    EXPECT_EQ(usage(), CountedUsage(plans, {}, {}));
  }
  EXPECT_EQ(usage().byte_count, 2 * 3000 + 9 * 10);
  EXPECT_THAT(store().Usage({.owner = "cn:a"}),
              IsOkAndHolds(CountedUsage(plans, {}, {.owner = "cn:a"})));
  EXPECT_THAT(store().Usage({.cluster = "d"}),
              IsOkAndHolds(CountedUsage(plans, {}, {.cluster = "d"})));
  EXPECT_THAT(store().HasSpec(plans[0].spec), IsOkAndHolds(true));
  EXPECT_THAT(store().HasSpec("another"), IsOkAndHolds(false));
  // All but the last: each spec stays with the one that is left.
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(6), 100), IsOkAndHolds(7));
  EXPECT_EQ(usage().byte_count, 2 * 3000 + 2 * 10);
  EXPECT_THAT(store().GetPlan(plans[7].name), IsOkAndHolds(plans[7]));
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(7), 100), IsOkAndHolds(1));
  EXPECT_EQ(usage().byte_count, 3000 + 10);
  EXPECT_THAT(store().HasSpec(plans[7].spec), IsOkAndHolds(false));
  EXPECT_THAT(store().GetPlan(plans[8].name), IsOkAndHolds(plans[8]));
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(8), 100), IsOkAndHolds(1));
  EXPECT_EQ(usage(), StoredUsage{});
}

}  // namespace
}  // namespace parplan
