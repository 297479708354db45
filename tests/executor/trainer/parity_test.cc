// Plans run by several ranks give the losses and parameters of one rank alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/executor/trainer/plan_cases.h"
#include "tests/executor/trainer/run_plan.h"
#include "tests/planner/program/program_cases.h"

namespace parplan {
namespace {

class ParityTest : public testing::TestWithParam<PlanCase> {
 protected:
  static void ExpectParity(const RunOptions& options, double tolerance) {
    const Plan& plan = GetParam().plan;
    const ModelSpec model = GetParam().Model();
    const RunOutcome serial = RunSerially(plan, model, options);
    const RunOutcome parallel = RunPlan(plan, model, options);
    EXPECT_TRUE(parallel.ranks_agree);
    EXPECT_LE(DifferenceOf(parallel, serial, options.type), tolerance);
    // It has learned something.
    EXPECT_LT(serial.losses.back(), serial.losses.front());
  }
};

TEST_P(ParityTest, DoublePrecisionAdam) {
  ExpectParity({.type = ElementType::kFloat64, .optimizer = AdamSettings{}}, 1e-10);
}

// Large enough for a few steps to show in the losses, which are of other tokens in each step.
constexpr SgdSettings kFastSgd{.learning_rate = 0.1};

TEST_P(ParityTest, SinglePrecisionSgd) {
  ExpectParity({.type = ElementType::kFloat32, .optimizer = kFastSgd}, 1e-6);
}

TEST_P(ParityTest, SinglePrecisionAdam) {
  // Encoders see the token that they predict, and a tied table gets from the head a gradient for
  // every token, nearly 0 where the token is improbable: Adam takes full steps on what rounding
  // leaves of such gradients, and rounding differs from processor to processor.
  const bool has_vanishing_gradients = GetParam().other_model == SmallBert || GetParam().is_tied;
  ExpectParity({.type = ElementType::kFloat32, .optimizer = AdamSettings{}},
               has_vanishing_gradients ? 1e-4 : 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Plans, ParityTest, testing::ValuesIn(PlanCases()),
                         [](const auto& info) { return info.param.name; });

// Any strategy beside any other.
class RandomParity : public ParityTest {};

TEST_P(RandomParity, DoublePrecisionAdam) {
  ExpectParity({.type = ElementType::kFloat64, .optimizer = AdamSettings{}}, 1e-10);
}

TEST_P(RandomParity, SinglePrecisionSgd) {
  ExpectParity({.type = ElementType::kFloat32, .optimizer = kFastSgd}, 1e-6);
}

TEST_P(RandomParity, SinglePrecisionAdam) {
  ExpectParity({.type = ElementType::kFloat32, .optimizer = AdamSettings{}}, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Plans, RandomParity, testing::ValuesIn(RandomPlanCases(48)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace parplan
