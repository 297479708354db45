#include "clients/planctl/import/oracle_case.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clients/planctl/import/galvatron_plan.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "proto/wire/model_wire.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(OracleCase, EveryCaseIsReadAndItsPlanPredicted) {
  const std::optional<std::string> data = SharedDataDir();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const std::string folder = *data + "/galvatron_oracle/";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "cases")) {
    const std::string path = entry.path().string();
    SCOPED_TRACE(entry.path().filename().string());
    ASSERT_OK_AND_ASSIGN(std::string text, ReadText(path));
    ASSERT_OK_AND_ASSIGN(
        const OracleCase oracle,
        ReadOracleCase({entry.path().filename().string(), std::move(text)},
                       [&folder](const std::string& name) { return ReadText(folder + name); }));
    ++count;
    ASSERT_TRUE(oracle.answer.has_value());
    ASSERT_OK_AND_ASSIGN(const PlanningProblem problem,
                         OracleProblem(oracle, OracleSpace::kEngine));
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport plan,
                         ImportGalvatronPlan(oracle.answer->strategy_file, problem.model(), {}));
    EXPECT_OK(CheckPlanStructure(problem, plan.plan));
    const Prediction prediction = PredictPlan(problem, costs, plan.plan);
    std::printf("%-32s engine %.4f ours %.4f (%+.1f %%) memory %.0f of %.0f MiB upper %.0f fits %d conf %d ulysses %d\n",
                oracle.id.c_str(), oracle.answer->step.value(), prediction.step.value(),
                100.0 * (prediction.step / oracle.answer->step - 1.0),
                prediction.peak_memory.as_double() / (1 << 20),
                prediction.usable_memory.as_double() / (1 << 20),
                prediction.peak_memory_upper.as_double() / (1 << 20), prediction.fits(),
                static_cast<int>(prediction.confidence), oracle.question.Space("disable_sp", 0) == 0);
    for (const std::string& note : costs.estimated_items()) std::printf("   %s\n", note.c_str());
  }
  EXPECT_GE(count, 13);
}

}  // namespace
}  // namespace parplan
