// A few plans give what one rank gives: one of each way to share work, small enough for the
// sanitizers. parity_test.cc has all of them.

#include <gtest/gtest.h>

#include <string>

#include "tests/executor/trainer/plan_cases.h"
#include "tests/executor/trainer/run_plan.h"

namespace parplan {
namespace {

class FewPlans : public testing::TestWithParam<const char*> {};

TEST_P(FewPlans, IsAsOneRankAlone) {
  const PlanCase c = PlanCaseNamed(GetParam());
  const ModelSpec model = c.Model();
  // Products in single precision are a library's, which sanitizers do not slow down.
  const RunOptions options{
      .type = ElementType::kFloat32, .optimizer = SgdSettings{}, .step_count = 2};
  const RunOutcome serial = RunSerially(c.plan, model, options);
  const RunOutcome parallel = RunPlan(c.plan, model, options);
  EXPECT_TRUE(parallel.ranks_agree);
  EXPECT_LE(DifferenceOf(parallel, serial, options.type), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Plans, FewPlans,
                         testing::Values("Dp2Zero1", "Dp2Zero3", "Tp2Sequence", "Ring2", "Ulysses2",
                                         "Pp2", "Pp2Interleaved", "TpToDpAndBack"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace parplan
