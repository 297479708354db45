#include "planner/worth/weigh_plans.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

WeighedPlan Weighed(double seconds, double money, double joules, int device_count = 8) {
  WeighedPlan plan;
  plan.cost.time = Seconds::Of(seconds);
  plan.cost.time_upper = Seconds::Of(seconds * 1.25);
  plan.cost.money = money;
  plan.cost.money_upper = money * 1.25;
  plan.cost.energy_joules = joules;
  plan.device_count = device_count;
  return plan;
}

// Few different values, so that ties are usual.
std::vector<WeighedPlan> RandomPlans(std::mt19937& random) {
  const int count = static_cast<int>(random() % 12);
  const auto draw = [&random] { return static_cast<double>(random() % 6); };
  std::vector<WeighedPlan> plans;
  for (int i = 0; i < count; ++i) {
    plans.push_back(Weighed(1.0 + draw(), draw(), draw(), 1 + static_cast<int>(random() % 3)));
    plans.back().name = absl::StrCat("plan ", i);
  }
  return plans;
}

// The definition, once more: enumeration of all pairs.
bool Dominates(const WeighedPlan& a, const WeighedPlan& b, bool with_energy) {
  const double ours[] = {a.cost.time.value(), a.cost.money,
                         with_energy ? *a.cost.energy_joules : 0.0};
  const double theirs[] = {b.cost.time.value(), b.cost.money,
                           with_energy ? *b.cost.energy_joules : 0.0};
  bool is_better = false;
  for (int i = 0; i < 3; ++i) {
    if (ours[i] > theirs[i]) return false;
    if (ours[i] < theirs[i]) is_better = true;
  }
  return is_better;
}

TEST(MoneyFront, HasEveryPlanThatNoOtherDominatesAndNoOther) {
  std::mt19937 random(1);
  int64_t dominated = 0;
  int64_t kept = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::vector<WeighedPlan> plans = RandomPlans(random);
    const bool with_energy = round % 2 == 0;
    std::vector<int> expected;
    for (size_t i = 0; i < plans.size(); ++i) {
      const bool is_dominated = std::any_of(plans.begin(), plans.end(), [&](const auto& other) {
        return Dominates(other, plans[i], with_energy);
      });
      if (!is_dominated) expected.push_back(static_cast<int>(i));
    }
    std::vector<int> front = MoneyFront(plans, with_energy);
    EXPECT_TRUE(std::is_sorted(front.begin(), front.end(), [&](int a, int b) {
      return plans[a].cost.time < plans[b].cost.time;
    }));
    std::sort(front.begin(), front.end());
    EXPECT_EQ(front, expected);
    kept += static_cast<int64_t>(front.size());
    dominated += static_cast<int64_t>(plans.size() - front.size());
  }
  // Neither side of the comparison is vacuous.
  EXPECT_GT(dominated, 1000);
  EXPECT_GT(kept, 1000);
}

TEST(MoneyFront, OfNoPlanIsEmptyAndKeepsEqualPlans) {
  EXPECT_THAT(MoneyFront({}, true), IsEmpty());
  EXPECT_THAT(MoneyFront({Weighed(1, 2, 3), Weighed(1, 2, 3), Weighed(1, 2, 4)}, true),
              ElementsAre(0, 1));
}

TEST(ChooseByMoney, IsTheCheapestInTimeAndTheFastestForABudget) {
  const std::vector<WeighedPlan> plans = {Weighed(10, 10, 0, 8), Weighed(6, 12, 0, 16),
                                          Weighed(4, 16, 0, 32)};
  MoneyLimits limits;
  limits.deadline = Seconds::Of(7);
  EXPECT_EQ(ChooseByMoney(plans, limits).chosen, 1);
  limits.uses_upper_end = true;
  EXPECT_EQ(ChooseByMoney(plans, limits).chosen, 2);
  limits = {};
  limits.budget = 12;
  EXPECT_EQ(ChooseByMoney(plans, limits).chosen, 1);
  limits.budget = 11.99;
  EXPECT_EQ(ChooseByMoney(plans, limits).chosen, 0);
  EXPECT_EQ(ChooseByMoney(plans, {}).chosen, 0);
  EXPECT_EQ(ChooseByMoney(plans, {}).fastest, 2);
}

TEST(ChooseByMoney, NamesTheNearestPlanOfEachLimitThatNoneMeets) {
  const std::vector<WeighedPlan> plans = {Weighed(10, 10, 0), Weighed(4, 16, 0)};
  MoneyLimits limits;
  limits.deadline = Seconds::Of(3);
  MoneyChoice choice = ChooseByMoney(plans, limits);
  EXPECT_EQ(choice.chosen, std::nullopt);
  EXPECT_EQ(choice.nearest_deadline, 1);
  EXPECT_EQ(choice.nearest_budget, std::nullopt);
  limits = {};
  limits.budget = 9;
  choice = ChooseByMoney(plans, limits);
  EXPECT_EQ(choice.nearest_deadline, std::nullopt);
  EXPECT_EQ(choice.nearest_budget, 0);
  // Each limit is met by a plan, and no plan meets both.
  limits.deadline = Seconds::Of(5);
  limits.budget = 11;
  choice = ChooseByMoney(plans, limits);
  EXPECT_EQ(choice.chosen, std::nullopt);
  EXPECT_EQ(choice.nearest_deadline, 1);
  EXPECT_EQ(choice.nearest_budget, 0);
  EXPECT_EQ(ChooseByMoney({}, limits).nearest_deadline, std::nullopt);
}

TEST(ChooseByMoney, ALongerDeadlineNeverCostsMoreAndALargerBudgetIsNeverSlower) {
  std::mt19937 random(2);
  int compared = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::vector<WeighedPlan> plans = RandomPlans(random);
    MoneyLimits limits;
    limits.uses_upper_end = round % 2 == 0;
    if (random() % 2 == 0) limits.budget = static_cast<double>(random() % 6);
    limits.deadline = Seconds::Of(1.0 + static_cast<double>(random() % 6));
    MoneyLimits wider = limits;
    wider.deadline = *limits.deadline + Seconds::Of(static_cast<double>(random() % 3));
    if (wider.budget.has_value()) *wider.budget += static_cast<double>(random() % 3);
    const MoneyChoice narrow = ChooseByMoney(plans, limits);
    const MoneyChoice wide = ChooseByMoney(plans, wider);
    if (!narrow.cheapest.has_value()) continue;
    ++compared;
    ASSERT_TRUE(wide.cheapest.has_value());
    EXPECT_LE(plans[*wide.cheapest].cost.money, plans[*narrow.cheapest].cost.money);
    EXPECT_LE(plans[*wide.fastest].cost.time, plans[*narrow.fastest].cost.time);
    EXPECT_TRUE(MeetsLimits(plans[*narrow.cheapest].cost, limits));
  }
  EXPECT_GT(compared, 500);
}

TEST(ChooseByMoney, DoesNotDependOnTheOrderOfThePlans) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<WeighedPlan> plans = RandomPlans(random);
    std::vector<WeighedPlan> shuffled = plans;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    MoneyLimits limits;
    limits.deadline = Seconds::Of(1.0 + static_cast<double>(random() % 6));
    const auto name = [](const std::vector<WeighedPlan>& of, const std::optional<int>& index) {
      return index.has_value() ? of[*index].name : "none";
    };
    const MoneyChoice one = ChooseByMoney(plans, limits);
    const MoneyChoice other = ChooseByMoney(shuffled, limits);
    EXPECT_EQ(name(plans, one.chosen), name(shuffled, other.chosen));
    EXPECT_EQ(name(plans, one.fastest), name(shuffled, other.fastest));
    EXPECT_EQ(name(plans, one.nearest_deadline), name(shuffled, other.nearest_deadline));
    std::vector<std::string> front;
    for (const int index : MoneyFront(plans, true)) front.push_back(plans[index].name);
    std::vector<std::string> other_front;
    for (const int index : MoneyFront(shuffled, true)) other_front.push_back(shuffled[index].name);
    EXPECT_EQ(front, other_front);
  }
}

}  // namespace
}  // namespace parplan
