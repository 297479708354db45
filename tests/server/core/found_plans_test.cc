// Plans that are found in the store instead of being searched for: under the id of a request, and
// under a key that is not that of their question.

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

// Measurements that differ from the first ones, so that plans get other keys.
v1::Profile NewerProfile() {
  v1::Profile profile = SyntheticProfile({});
  profile.set_overlap_slowdown(1.5);
  return profile;
}

class FoundPlans : public CoreTest {
 protected:
  v1::CreatePlanRequest NamedQuestion() const {
    v1::CreatePlanRequest request = Question();
    request.set_request_id("4c1b1f5e-0000-4000-8000-000000000003");
    return request;
  }
};

TEST_F(FoundPlans, ARetryWhileTheFirstCallSearchesGetsItsPlanEvenOverNewProfiles) {
  StartMeasured();
  planner.is_open = false;
  auto first = AskLater(NamedQuestion(), Call());
  ASSERT_OK(Upload(NewerProfile(), "second-upload").status());
  auto retry = AskLater(NamedQuestion(), Call());
  planner.is_open = true;
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, first.get());
  ASSERT_OK_AND_ASSIGN(const SharedPlan again, retry.get());
  EXPECT_EQ(again->name(), plan->name());
  EXPECT_EQ(planner.search_count, 2);
  EXPECT_EQ(*store().CountPlans("synthetic"), 1);
}

TEST_F(FoundPlans, ARetryWhileTheFirstCallSearchesGetsItsPlanWhateverItsTimeToLive) {
  StartMeasured();
  planner.is_open = false;
  auto first = AskLater(NamedQuestion(), Call());
  v1::CreatePlanRequest shorter = NamedQuestion();
  shorter.mutable_time_to_live()->set_seconds(3600);
  auto retry = AskLater(shorter, Call());
  planner.is_open = true;
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, first.get());
  ASSERT_OK_AND_ASSIGN(const SharedPlan again, retry.get());
  EXPECT_EQ(again->name(), plan->name());
  EXPECT_EQ((*Ask(shorter))->name(), plan->name()) << "as a retry after the first call gets";
}

// The plan of the first call uses up the quota, and no quota is asked for it again.
TEST_F(FoundPlans, ARetryWhileTheFirstCallSearchesNeedsNoQuotaOfItsOwn) {
  limits.identity_quota.plan_count = 1;
  StartMeasured();
  planner.is_open = false;
  auto first = AskLater(NamedQuestion(), Call());
  v1::CreatePlanRequest shorter = NamedQuestion();
  shorter.mutable_time_to_live()->set_seconds(3600);
  auto retry = AskLater(shorter, Call());
  planner.is_open = true;
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, first.get());
  ASSERT_OK_AND_ASSIGN(const SharedPlan again, retry.get());
  EXPECT_EQ(again->name(), plan->name());
}

TEST_F(FoundPlans, AnotherQuestionWhileTheFirstCallSearchesIsRefused) {
  StartMeasured();
  planner.is_open = false;
  auto first = AskLater(NamedQuestion(), Call());
  v1::CreatePlanRequest other = NamedQuestion();
  other.mutable_spec()->set_global_batch_size(32);
  auto refused = AskLater(other, Call());
  planner.is_open = true;
  const bool first_is_first = first.get().ok();
  const absl::StatusOr<SharedPlan> second = refused.get();
  // Either search may end first.
  EXPECT_NE(first_is_first, second.ok());
  if (first_is_first) {
    EXPECT_EQ(ReasonOf(second.status()), Reason::kRequestIdReused);
  }
}

// As an index of a damaged database finds it.
TEST_F(FoundPlans, APlanUnderTheKeyOfAnotherQuestionIsDamaged) {
  StartMeasured();
  v1::CreatePlanRequest other = Question();
  other.mutable_spec()->set_global_batch_size(32);
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
  ASSERT_OK_AND_ASSIGN(const SharedPlan wrong, Ask(other));
  ASSERT_OK_AND_ASSIGN(const PlanRecord right_record, store().GetPlan(plan->name()));
  ASSERT_OK_AND_ASSIGN(PlanRecord record, store().GetPlan(wrong->name()));
  record.plan_key = right_record.plan_key;
  StartMeasured();
  ASSERT_OK(store().PutPlan(record).status());
  EXPECT_THAT(Ask(Question()), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(wrong->name())));
  EXPECT_OK(Ask(other).status()) << "no other question is refused";
}

}  // namespace
}  // namespace parplan
