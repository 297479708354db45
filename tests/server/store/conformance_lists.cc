// Conformance of every store: lists, pages, tokens and order.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

std::vector<std::string> Names(const std::vector<ProfileRecord>& profiles) {
  std::vector<std::string> names;
  for (const ProfileRecord& profile : profiles) names.push_back(profile.profile_id);
  return names;
}

TEST_P(StoreConformance, PagesOfAnySizeHoldTheListOnce) {
  std::vector<std::string> expected;
  for (int i = 0; i < 7; ++i) {
    ASSERT_OK(store().PutProfile(SampleProfile("c", i % 2 == 0 ? "even" : "odd", absl::StrCat(i))));
    expected.insert(expected.begin(), absl::StrCat(i));
  }
  for (int page_size = 1; page_size <= 8; ++page_size) {
    std::vector<std::string> seen;
    PageRequest request{.page_size = page_size};
    do {
      ASSERT_OK_AND_ASSIGN(const auto page, store().ListProfiles("c", std::nullopt, request));
      ASSERT_LE(static_cast<int>(page.records.size()), page_size);
      ASSERT_FALSE(page.records.empty());
      for (const std::string& name : Names(page.records)) seen.push_back(name);
      request.page_token = page.next_page_token;
    } while (!request.page_token.empty());
    EXPECT_EQ(seen, expected) << "page size " << page_size;
  }
}

TEST_P(StoreConformance, AListOfOneNodeHoldsNoOther) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(store().PutProfile(SampleProfile("c", i % 2 == 0 ? "even" : "odd", absl::StrCat(i))));
  }
  ASSERT_OK_AND_ASSIGN(const auto page, store().ListProfiles("c", "even", {.page_size = 2}));
  EXPECT_THAT(Names(page.records), testing::ElementsAre("4", "2"));
  ASSERT_OK_AND_ASSIGN(const auto rest,
                       store().ListProfiles("c", "even", {.page_token = page.next_page_token}));
  EXPECT_THAT(Names(rest.records), testing::ElementsAre("0"));
  EXPECT_EQ(rest.next_page_token, "");
}

TEST_P(StoreConformance, AnEmptyListIsOneEmptyPage) {
  ASSERT_OK_AND_ASSIGN(const auto page, store().ListProfiles("c", std::nullopt, {}));
  EXPECT_TRUE(page.records.empty());
  EXPECT_EQ(page.next_page_token, "");
}

TEST_P(StoreConformance, PagesStayRightWhileProfilesComeAndGo) {
  for (int i = 0; i < 6; ++i) {
    ASSERT_OK(store().PutProfile(SampleProfile("c", "n", absl::StrCat(i))));
  }
  ASSERT_OK_AND_ASSIGN(const auto first, store().ListProfiles("c", std::nullopt, {.page_size = 2}));
  EXPECT_THAT(Names(first.records), testing::ElementsAre("5", "4"));
  // The record the token points at goes, one not yet seen goes, new ones come.
  ASSERT_OK(store().DeleteProfile(SampleProfile("c", "n", "4").name));
  ASSERT_OK(store().DeleteProfile(SampleProfile("c", "n", "2").name));
  ASSERT_OK(store().DeleteProfile(SampleProfile("c", "n", "5").name));
  ASSERT_OK(store().PutProfile(SampleProfile("c", "n", "6")));
  ASSERT_OK(store().PutProfile(SampleProfile("c", "n", "7")));
  Reopen();
  ASSERT_OK_AND_ASSIGN(
      const auto rest,
      store().ListProfiles("c", std::nullopt, {.page_token = first.next_page_token}));
  EXPECT_THAT(Names(rest.records), testing::ElementsAre("3", "1", "0"));
}

TEST_P(StoreConformance, PageSizesHaveADefaultAndAMaximum) {
  ASSERT_OK(store().PutPlan(SamplePlan("c", "plan")));
  const std::string plan = SamplePlan("c", "plan").name;
  for (int i = 0; i <= kMaxPageSize; ++i) {
    ASSERT_OK(store().CreateExecution(SampleExecution(plan, absl::StrCat(i))));
  }
  EXPECT_EQ(store().ListExecutions(plan, {})->records.size(), kDefaultPageSize);
  ASSERT_OK_AND_ASSIGN(const auto page, store().ListExecutions(plan, {.page_size = 100000}));
  EXPECT_EQ(page.records.size(), kMaxPageSize);
  EXPECT_NE(page.next_page_token, "");
}

TEST_P(StoreConformance, APageEndsEarlyWhenItsBytesAreMany) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(store().PutPlan(SamplePlan("c", absl::StrCat(i), kMaxPageBytes / 2 + 1)));
  }
  ASSERT_OK_AND_ASSIGN(const auto page, store().ListPlans("c", {}));
  EXPECT_EQ(page.records.size(), 2);
  ASSERT_OK_AND_ASSIGN(const auto rest,
                       store().ListPlans("c", {.page_token = page.next_page_token}));
  EXPECT_EQ(rest.records.size(), 1);
  EXPECT_EQ(rest.next_page_token, "");
}

TEST_P(StoreConformance, ANegativePageSizeIsRefused) {
  const auto page = store().ListPlans("c", {.page_size = -1});
  EXPECT_THAT(page, StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("page_size")));
  EXPECT_EQ(ReasonOf(page), Reason::kSpecInvalid);
}

TEST_P(StoreConformance, ATokenOfAnotherListIsRefused) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(store().PutProfile(SampleProfile("c", "n", absl::StrCat(i))));
  }
  const std::string token = store().ListProfiles("c", "n", {.page_size = 1})->next_page_token;
  ASSERT_NE(token, "");
  for (const std::string& wrong : {token + "!", std::string("nonsense"), std::string("\xff")}) {
    EXPECT_THAT(store().ListProfiles("c", "n", {.page_token = wrong}),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("page_token")));
  }
  EXPECT_THAT(store().ListProfiles("c", std::nullopt, {.page_token = token}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(store().ListProfiles("c2", "n", {.page_token = token}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(store().ListPlans("c", {.page_token = token}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan
