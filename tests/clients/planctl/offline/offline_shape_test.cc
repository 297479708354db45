#include "clients/planctl/offline/offline_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "clients/planctl/commands/shape_request.h"
#include "clients/planctl/offline/offline_planner.h"
#include "clients/planctl/view/shape_view.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::HasSubstr;

// Llama-2-7B on 4 to 16 devices, measured, for a run of 100,000 steps at 2 a device-hour.
v1::ShapePlanRequest ExampleRequest() {
  v1::ShapePlanRequest request = ShapeRequestOf(ExampleSpec(2), [](const v1::NodeGroup&) {
    return DeviceRange{4, 16};
  });
  v1::DeviceTerms& terms = *request.mutable_money()->add_devices();
  terms.set_device_kind(request.offers(0).device_kind());
  terms.set_price_per_device_hour(2.0);
  request.mutable_money()->set_step_count(100'000);
  return request;
}

TEST(ShapeOffline, AnOptionIsWhatThePlanOfThatCountPromises) {
  ASSERT_OK_AND_ASSIGN(const v1::ShapePlanResponse shape,
                       ShapeOffline(ExampleRequest(), ExampleProfiles(2)));
  ASSERT_EQ(shape.options_size(), 3);
  EXPECT_EQ(shape.options(0).device_count(), 4);
  ASSERT_TRUE(shape.options(1).feasible());
  ASSERT_OK_AND_ASSIGN(const PlanView plan, PlanOffline(ExampleSpec(1), ExampleProfiles(2)));
  EXPECT_EQ(shape.options(1).gist(), PlanGist(plan.plan));
  for (const v1::PlanCost& cost : shape.money().plans()) {
    if (cost.device_count() != 8) continue;
    EXPECT_NEAR(cost.step_seconds(), plan.prediction.step.value(), 1e-9);
  }
}

TEST(ShapeOffline, RefusesAModelThatTheTargetDoesNotRun) {
  v1::ShapePlanRequest request = ExampleRequest();
  request.mutable_model()->mutable_layer_definitions(1)->set_kind(v1::LAYER_KIND_ENCODER);
  request.mutable_options()->set_target("megatron");
  EXPECT_THAT(ShapeOffline(request, ExampleProfiles(2)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("Megatron-LM can't run that, whatever the plan")));
}

TEST(ShapeOffline, ALongerDeadlineNeverCostsMoreAndALargerBudgetIsNeverSlower) {
  v1::ShapePlanRequest request = ExampleRequest();
  ASSERT_OK_AND_ASSIGN(const v1::ShapePlanResponse all, ShapeOffline(request, ExampleProfiles(2)));
  std::vector<int64_t> deadlines = {1};
  for (const v1::PlanCost& cost : all.money().plans()) {
    deadlines.push_back(static_cast<int64_t>(cost.run_seconds()) + 1);
  }
  std::sort(deadlines.begin(), deadlines.end());
  double least = -1.0;
  int met = 0;
  for (const int64_t deadline : deadlines) {
    request.mutable_money()->mutable_deadline_duration()->set_seconds(deadline);
    ASSERT_OK_AND_ASSIGN(const v1::ShapePlanResponse shape,
                         ShapeOffline(request, ExampleProfiles(2)));
    const v1::MoneyAnswer& money = shape.money();
    if (!money.has_chosen_index()) {
      EXPECT_THAT(money.unmet_reason(), HasSubstr("no plan meets the deadline"));
      EXPECT_LT(met, 1);
      continue;
    }
    ++met;
    const double cost = money.plans(money.chosen_index()).money();
    if (least >= 0.0) {
      EXPECT_LE(cost, least);
    }
    least = cost;
  }
  EXPECT_EQ(met, static_cast<int>(deadlines.size()) - 1);
}

TEST(ShapeOffline, DoesNotDependOnTheOrderOfOffers) {
  v1::ShapePlanRequest request = ExampleRequest();
  *request.add_offers() = request.offers(0);
  request.mutable_offers(0)->set_max_device_count(8);
  request.mutable_offers(1)->set_min_device_count(16);
  v1::ShapePlanRequest turned = request;
  turned.mutable_offers()->SwapElements(0, 1);
  ASSERT_OK_AND_ASSIGN(const v1::ShapePlanResponse one, ShapeOffline(request, ExampleProfiles(2)));
  ASSERT_OK_AND_ASSIGN(const v1::ShapePlanResponse other, ShapeOffline(turned, ExampleProfiles(2)));
  const auto chosen = [](const v1::ShapePlanResponse& shape) {
    const v1::PlanCost& plan = shape.money().plans(shape.money().chosen_index());
    return plan.gist() + " on " + std::to_string(plan.device_count());
  };
  EXPECT_EQ(chosen(one), chosen(other));
  EXPECT_EQ(one.money().front_indices_size(), other.money().front_indices_size());
}

TEST(ShapeOffline, RefusesWhatAServerRefuses) {
  v1::ShapePlanRequest request = ExampleRequest();
  request.mutable_money()->mutable_devices(0)->set_device_kind("abacus");
  EXPECT_EQ(Rejection(ShapeOffline(request, ExampleProfiles(2)).status()),
            "SPEC_INVALID money.devices[0].device_kind");
  request = ExampleRequest();
  request.mutable_offers(0)->set_min_device_count(0);
  EXPECT_EQ(Rejection(ShapeOffline(request, ExampleProfiles(2)).status()),
            "SPEC_INVALID offers[0].min_device_count");
  request.clear_offers();
  EXPECT_EQ(Rejection(ShapeOffline(request, ExampleProfiles(2)).status()), "SPEC_INVALID offers");
}

TEST(MoneyText, MarksTheFrontAndThePlanToTake) {
  v1::ShapePlanRequest request = ExampleRequest();
  ASSERT_OK_AND_ASSIGN(const v1::ShapePlanResponse shape,
                       ShapeOffline(request, ExampleProfiles(2)));
  const std::string text = ShapeText(shape);
  EXPECT_THAT(text, HasSubstr("*+"));
  EXPECT_THAT(text, HasSubstr("cheapest"));
  // The data sheet of the A100 has no power limit here.
  EXPECT_THAT(text, HasSubstr("its power is not known"));
  const nlohmann::ordered_json object = nlohmann::ordered_json::parse(ShapeJson(shape));
  EXPECT_EQ(object["money"]["plans"].size(), static_cast<size_t>(shape.money().plans_size()));
  EXPECT_EQ(object["money"]["chosen_index"], shape.money().chosen_index());
  EXPECT_FALSE(object["money"]["plans"][0].contains("energy_joules"));
}

TEST(PlanOffline, ARobustPlanIsAtMostOnePercentSlowerAndEndsNoLater) {
  v1::PlanSpec spec = ExampleSpec(2);
  ASSERT_OK_AND_ASSIGN(const PlanView fastest, PlanOffline(spec, ExampleProfiles(2)));
  spec.mutable_options()->set_wants_robust_plan(true);
  ASSERT_OK_AND_ASSIGN(const PlanView robust, PlanOffline(spec, ExampleProfiles(2)));
  EXPECT_LE(robust.prediction.step, fastest.prediction.step * 1.01);
  EXPECT_LE(robust.prediction.step_upper, fastest.prediction.step_upper);
  EXPECT_EQ(robust.alternatives.size(), 1u);
  EXPECT_THAT(robust.notes, testing::Contains(HasSubstr("robust: of ")));
}

}  // namespace
}  // namespace parplan::planctl
