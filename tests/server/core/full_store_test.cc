// A store whose disk is full: what is stored is answered, changes are refused, and the core knows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/store/store_errors.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;

class FullStore : public CoreTest {
 protected:
  // A measured core with one plan, whose disk has filled up since. A server that begins anew has
  // nothing in memory.
  void StartFull(bool begins_anew) {
    StartMeasured();
    const absl::StatusOr<SharedPlan> plan = Ask(Question());
    ASSERT_OK(plan);
    plan_ = **plan;
    if (begins_anew) Start(store().OpenAgain());
    store().SetFull(true);
  }

  const v1::Plan& plan() const { return plan_; }

 private:
  v1::Plan plan_;
};

TEST_F(FullStore, WhatIsStoredIsAnswered) {
  for (const bool begins_anew : {false, true}) {
    StartFull(begins_anew);
    ASSERT_OK_AND_ASSIGN(const SharedPlan again, Ask(Question()));
    EXPECT_EQ(again->name(), plan().name());
    EXPECT_TRUE(again->from_cache());
    v1::GetPlanRequest get;
    get.set_name(plan().name());
    EXPECT_OK(core().plans().GetPlan(get));
    v1::ListProfilesRequest list;
    list.set_parent("clusters/synthetic");
    EXPECT_OK(core().profiles().List(list));
  }
}

TEST_F(FullStore, ChangesAreRefusedWithATimeToRetry) {
  StartFull(/*begins_anew=*/false);
  v1::CreatePlanRequest other = Question();
  other.set_job_id("another");
  const absl::Status refused = Ask(other).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(IsDiskFullError(refused)) << refused;
  EXPECT_TRUE(GetRetryDelay(refused).has_value());
  const absl::Status upload = Upload(SyntheticProfile({}), "second-upload").status();
  EXPECT_TRUE(IsDiskFullError(upload)) << upload;
  EXPECT_TRUE(GetRetryDelay(upload).has_value());
}

TEST_F(FullStore, ANewQuestionIsRefusedBeforeItIsSearched) {
  StartFull(/*begins_anew=*/false);
  v1::CreatePlanRequest first = Question();
  first.mutable_spec()->set_global_batch_size(2 * first.spec().global_batch_size());
  // The first change finds out that the disk is full.
  EXPECT_TRUE(IsDiskFullError(Ask(first).status()));
  const size_t searches = observer.searches().size();
  v1::CreatePlanRequest second = Question();
  second.mutable_spec()->set_global_batch_size(4 * second.spec().global_batch_size());
  EXPECT_TRUE(IsDiskFullError(Ask(second).status()));
  EXPECT_EQ(observer.searches().size(), searches);
  store().SetFull(false);
  EXPECT_OK(core().CheckWriting());
  EXPECT_OK(Ask(second));
  EXPECT_EQ(observer.searches().size(), searches + 1);
}

TEST_F(FullStore, ThatNothingCanBeWrittenIsKnownFromTheFirstFailureToTheFirstSuccess) {
  StartFull(/*begins_anew=*/false);
  // Nobody wrote yet, and nothing was tried.
  EXPECT_OK(core().CheckWriting());
  EXPECT_THAT(observer.store_tries(), ElementsAre());
  EXPECT_FALSE(Upload(SyntheticProfile({}), "second-upload").ok());
  EXPECT_TRUE(IsDiskFullError(core().CheckWriting()));
  EXPECT_TRUE(IsDiskFullError(core().CheckWriting()));
  EXPECT_THAT(observer.store_tries(), ElementsAre(false, false));
  store().SetFull(false);
  EXPECT_OK(core().CheckWriting());
  EXPECT_OK(core().CheckWriting());
  EXPECT_THAT(observer.store_tries(), ElementsAre(false, false, true));
}

TEST_F(FullStore, MaintenanceTriesItWithoutACause) {
  StartFull(/*begins_anew=*/true);
  EXPECT_TRUE(IsDiskFullError(core().Maintain()));
  EXPECT_THAT(observer.store_tries(), ElementsAre(false));
  store().SetFull(false);
  EXPECT_OK(core().Maintain());
  EXPECT_THAT(observer.store_tries(), ElementsAre(false, true));
}

TEST_F(FullStore, AReadThatFailsSaysNothingAboutWriting) {
  StartFull(/*begins_anew=*/false);
  v1::GetPlanRequest get;
  get.set_name("clusters/synthetic/plans/none");
  EXPECT_THAT(core().plans().GetPlan(get), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(core().CheckWriting());
}

}  // namespace
}  // namespace parplan
