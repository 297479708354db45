#include "solve/money_answer.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<v1::DeviceOffer> OffersOf(const std::vector<std::string>& kinds) {
  std::vector<v1::DeviceOffer> offers;
  for (const std::string& kind : kinds) {
    v1::DeviceOffer offer;
    offer.set_device_kind(kind);
    offer.set_devices_per_node(8);
    offers.push_back(offer);
  }
  return offers;
}

v1::DeviceTerms& AddTerms(const std::string& kind, double price, v1::MoneyQuestion& question) {
  v1::DeviceTerms& terms = *question.add_devices();
  terms.set_device_kind(kind);
  terms.set_price_per_device_hour(price);
  return terms;
}

v1::MoneyQuestion TwoKinds() {
  v1::MoneyQuestion question;
  AddTerms("A100-SXM-80GB", 2.0, question);
  AddTerms("H100", 5.0, question);
  question.set_step_count(3600);
  return question;
}

// Returns the field that a question is refused for; the driver's names of the devices are offered.
std::string RefusedField(const v1::MoneyQuestion& question, bool searches_batch = false) {
  return Rejection(MoneyTable::Create(question,
                                      OffersOf({"NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"}),
                                      *SyntheticModel({}), searches_batch)
                       .status());
}

TEST(MoneyTable, RefusesPricesThatFitNoOfferAndOffersWithoutAPrice) {
  v1::MoneyQuestion question = TwoKinds();
  question.mutable_devices(1)->set_device_kind("abacus");
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.devices[1].device_kind");
  question = TwoKinds();
  question.mutable_devices()->RemoveLast();
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.devices");
  question = TwoKinds();
  AddTerms("h100-sxm", 4.0, question);
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.devices[2].device_kind");
  question = TwoKinds();
  question.mutable_devices(0)->clear_price_per_device_hour();
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.devices[0].price_per_device_hour");
  question = TwoKinds();
  question.mutable_devices(0)->set_price_per_device_hour(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.devices[0].price_per_device_hour");
}

TEST(MoneyTable, RefusesEnergyOfDevicesWhosePowerIsUnknown) {
  v1::MoneyQuestion question = TwoKinds();
  question.set_wants_energy(true);
  // The data sheet of the A100 here has no power limit, that of the H100 has.
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.wants_energy");
  question.mutable_devices(0)->set_power_watts(400.0);
  EXPECT_OK(MoneyTable::Create(question,
                               OffersOf({"NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"}),
                               *SyntheticModel({}), false)
                .status());
}

TEST(MoneyTable, RefusesBadLimitsAndLengths) {
  v1::MoneyQuestion question = TwoKinds();
  question.set_token_count(1);
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.step_count");
  question = TwoKinds();
  EXPECT_EQ(RefusedField(question, /*searches_batch=*/true), "SPEC_INVALID money.step_count");
  question.mutable_deadline_duration();
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.deadline_duration");
  question = TwoKinds();
  question.set_budget(std::numeric_limits<double>::infinity());
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.budget");
  question = TwoKinds();
  question.set_spare_node_count(-1);
  EXPECT_EQ(RefusedField(question), "SPEC_INVALID money.spare_node_count");
}

PlanFound FoundOn(int device_count, double step) {
  PlanFound found;
  found.plan.device_count = device_count;
  found.plan.global_batch_size = 16;
  found.plan.stages.resize(1);
  found.plan.stages[0].rank_count = device_count;
  found.prediction.step = Seconds::Of(step);
  found.prediction.step_upper = Seconds::Of(step * 1.2);
  found.prediction.stages.resize(1);
  return found;
}

// 8 A100 take 4 s a step, 16 take 2.2 s, and 8 H100 1.8 s: 3600 steps cost 64, 70.4 and 72.
absl::StatusOr<v1::MoneyAnswer> AnswerOf(const v1::MoneyQuestion& question) {
  absl::StatusOr<MoneyTable> table =
      MoneyTable::Create(question, OffersOf({"NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"}),
                         *SyntheticModel({}), false);
  if (!table.ok()) return table.status();
  EXPECT_OK(table->Add(0, 0, FoundOn(8, 4.0)));
  EXPECT_OK(table->Add(1, 0, FoundOn(16, 2.2)));
  EXPECT_OK(table->Add(3, 1, FoundOn(8, 1.8)));
  return table->Answer();
}

TEST(MoneyTable, WeighsKindsOfDevicesAgainstEachOther) {
  v1::MoneyQuestion question = TwoKinds();
  ASSERT_OK_AND_ASSIGN(const v1::MoneyAnswer answer, AnswerOf(question));
  ASSERT_EQ(answer.plans_size(), 3);
  EXPECT_NEAR(answer.plans(0).money(), 64.0, 1e-9);
  EXPECT_NEAR(answer.plans(1).money(), 70.4, 1e-9);
  EXPECT_NEAR(answer.plans(2).money(), 72.0, 1e-9);
  EXPECT_EQ(answer.plans(2).option_index(), 3);
  EXPECT_THAT(answer.front_indices(), ElementsAre(2, 1, 0));
  EXPECT_EQ(answer.chosen_index(), 0);
  // 700 W of the H100's data sheet; the A100 here has none.
  EXPECT_NEAR(answer.plans(2).energy_joules(), 8 * 700.0 * 1.8 * 3600, 1e-3);
  EXPECT_FALSE(answer.plans(0).has_energy_joules());
  ASSERT_EQ(answer.notes_size(), 2);
  EXPECT_THAT(answer.notes(0), HasSubstr("not known"));
  EXPECT_THAT(answer.notes(1), HasSubstr("700 W"));

  question.set_budget(71.0);
  ASSERT_OK_AND_ASSIGN(const v1::MoneyAnswer for_budget, AnswerOf(question));
  EXPECT_EQ(for_budget.chosen_index(), 1);
  EXPECT_FALSE(for_budget.plans(2).meets_limits());
}

TEST(MoneyTable, SpareNodesCostWithoutBeingFaster) {
  v1::MoneyQuestion question = TwoKinds();
  question.set_spare_node_count(1);
  ASSERT_OK_AND_ASSIGN(const v1::MoneyAnswer answer, AnswerOf(question));
  EXPECT_NEAR(answer.plans(0).money(), 128.0, 1e-9);
  EXPECT_NEAR(answer.plans(1).money(), 105.6, 1e-9);
  EXPECT_DOUBLE_EQ(answer.plans(0).run_seconds(), 4.0 * 3600);
  // With a spare node the larger job is the cheaper one.
  EXPECT_EQ(answer.chosen_index(), 1);
}

TEST(MoneyTable, AtNoPriceTheFastestIsTheCheapest) {
  v1::MoneyQuestion question = TwoKinds();
  question.mutable_devices(0)->set_price_per_device_hour(0.0);
  question.mutable_devices(1)->set_price_per_device_hour(-0.0);
  question.set_budget(0.0);
  ASSERT_OK_AND_ASSIGN(const v1::MoneyAnswer answer, AnswerOf(question));
  EXPECT_EQ(answer.cheapest_index(), 2);
  EXPECT_THAT(answer.front_indices(), ElementsAre(2));
}

TEST(MoneyTable, SaysWhichLimitIsNotMetAndWhatComesNearest) {
  v1::MoneyQuestion question = TwoKinds();
  question.mutable_deadline_duration()->set_seconds(6000);
  ASSERT_OK_AND_ASSIGN(const v1::MoneyAnswer late, AnswerOf(question));
  EXPECT_FALSE(late.has_chosen_index());
  EXPECT_EQ(late.nearest_deadline_index(), 2);
  EXPECT_FALSE(late.has_nearest_budget_index());
  EXPECT_THAT(late.unmet_reason(), HasSubstr("no plan meets the deadline; the fastest: 8 devices"));
  question.mutable_deadline_duration()->set_seconds(7000);
  question.set_budget(65.0);
  ASSERT_OK_AND_ASSIGN(const v1::MoneyAnswer both, AnswerOf(question));
  EXPECT_THAT(both.unmet_reason(), HasSubstr("no plan meets both the deadline and the budget"));
  question.mutable_deadline_duration()->set_seconds(1);
  question.set_budget(1.0);
  ASSERT_OK_AND_ASSIGN(const v1::MoneyAnswer neither, AnswerOf(question));
  EXPECT_THAT(neither.unmet_reason(), HasSubstr("the deadline, and none the budget"));
}

}  // namespace
}  // namespace parplan
