// Memory by item: what a plan was predicted to need is what it needs.
//
// With --gtest_output=json:FILE each test has a property `peak_error`, the predicted peak over the
// measured one, less 1, on the device where it is the furthest from 0. `parplan-study papers
// --memory-runs FILE` puts them on its page.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_format.h"
#include "tests/executor/trainer/plan_cases.h"
#include "tests/executor/trainer/predicted_memory.h"
#include "tests/executor/trainer/run_plan.h"

namespace parplan {
namespace {

constexpr double kTolerance = 0.03;
// Share of the peak by which any item may differ. If layouts change between layers, rows exist in
// two layouts for a moment, which is not predicted.
constexpr double kNegligible = 0.01;
constexpr double kNegligibleWithChanges = 0.05;

bool ChangesLayouts(const Plan& plan) {
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      Strategy strategy = run.strategy;
      strategy.recompute_level = stage.layer_runs.front().strategy.recompute_level;
      if (strategy != stage.layer_runs.front().strategy) return true;
    }
  }
  return false;
}

constexpr MemoryItemKind kItems[] = {
    MemoryItemKind::kParameters,  MemoryItemKind::kGradients,   MemoryItemKind::kOptimizerStates,
    MemoryItemKind::kActivations, MemoryItemKind::kCheckpoints, MemoryItemKind::kGatheredParameters,
    MemoryItemKind::kLogits,      MemoryItemKind::kTransient};
constexpr const char* kNames[] = {"parameters",  "gradients",   "optimizer states",
                                  "activations", "checkpoints", "gathered parameters",
                                  "logits",      "transient"};

class MemoryPrediction : public testing::TestWithParam<PlanCase> {
 protected:
  // [device of the pipeline] the fullest of its ranks.
  static std::vector<MemoryItems> Measure() {
    const Plan& plan = GetParam().plan;
    const RunOutcome outcome =
        RunPlan(plan, GetParam().Model(), {.type = ElementType::kFloat32, .step_count = 2});
    std::vector<MemoryItems> devices(plan.pipeline_parallel_degree());
    const int ranks = plan.device_count / plan.pipeline_parallel_degree();
    for (int rank = 0; rank < plan.device_count; ++rank) {
      MemoryItems& most = devices[rank / ranks];
      const MemoryItems items = ItemsOf(outcome.peaks[rank]);
      if (items.Total() > most.Total()) most = items;
    }
    return devices;
  }

  void ExpectAlike(MemoryKnowledge knowledge) {
    const std::vector<MemoryItems> predicted =
        PredictMemory(GetParam().Model(), GetParam().plan, knowledge);
    const std::vector<MemoryItems> measured = Measure();
    ASSERT_EQ(predicted.size(), measured.size());
    const double negligible =
        ChangesLayouts(GetParam().plan) ? kNegligibleWithChanges : kNegligible;
    double peak_error = 0.0;
    for (size_t device = 0; device < measured.size(); ++device) {
      const double peak = measured[device].Total().as_double();
      double sum = 0.0;
      for (size_t k = 0; k < std::size(kItems); ++k) {
        const double expected = predicted[device][kItems[k]].as_double();
        const double actual = measured[device][kItems[k]].as_double();
        sum += expected;
        // Negligible amounts may differ by negligible amounts.
        EXPECT_LE(std::abs(expected - actual), std::max(kTolerance * actual, negligible * peak))
            << kNames[k] << " of device " << device << ": " << expected << " predicted, " << actual
            << " measured, of " << peak;
      }
      EXPECT_NEAR(sum / peak, 1.0, kTolerance) << "device " << device;
      if (std::abs(sum / peak - 1.0) >= std::abs(peak_error)) peak_error = sum / peak - 1.0;
    }
    RecordProperty("peak_error", absl::StrFormat("%.8f", peak_error));
  }
};

TEST_P(MemoryPrediction, FromAProfile) { ExpectAlike(MemoryKnowledge::kProfile); }

TEST_P(MemoryPrediction, FromTheory) { ExpectAlike(MemoryKnowledge::kTheory); }

// `OPTIMIZER_SGD` says: no state per parameter.
TEST(SgdMemory, HasNoOptimizerStates) {
  const PlanCase first = PlanCases().front();
  const ModelSpec adam = first.Model();
  const absl::StatusOr<ModelSpec> model = ModelSpec::Create(
      "sgd", adam.layer_definitions(), adam.layer_runs(), Precision::kFp32, Optimizer::kSgd);
  ASSERT_TRUE(model.ok()) << model.status();
  const Plan& plan = first.plan;
  const MemoryItems predicted = PredictMemory(*model, plan, MemoryKnowledge::kTheory).front();
  const RunOutcome outcome = RunPlan(plan, *model,
                                     {.type = ElementType::kFloat32,
                                      .optimizer = SettingsOf(model->optimizer()),
                                      .step_count = 2});
  const MemoryItems measured = ItemsOf(outcome.peaks.front());
  EXPECT_EQ(predicted[MemoryItemKind::kOptimizerStates], Bytes());
  EXPECT_EQ(measured[MemoryItemKind::kOptimizerStates], Bytes());
  EXPECT_EQ(predicted[MemoryItemKind::kParameters], measured[MemoryItemKind::kParameters]);
}

INSTANTIATE_TEST_SUITE_P(Plans, MemoryPrediction, testing::ValuesIn(PlanCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace parplan
