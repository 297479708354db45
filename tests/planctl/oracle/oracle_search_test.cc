// Our plans against the engine's, case by case, under our model.

#include <cmath>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clients/planctl/oracle/oracle_comparison.h"
#include "tests/planctl/oracle/oracle_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan::oracle {
namespace {

// Plans whose times differ by less are equal, for a proof.
constexpr double kEqual = 1.0 + 1e-9;

TEST(OracleSearch, IsNeverWorseThanTheEngineUnderOurModel) {
  const std::optional<std::string> folder = OracleFolder();
  if (!folder) GTEST_SKIP() << kNoSharedData;
  int compared = 0;
  for (const OracleCase& oracle : AllOracleCases(*folder)) {
    SCOPED_TRACE(oracle.id);
    ASSERT_OK_AND_ASSIGN(const OracleComparison comparison, CompareOracle(oracle, {}));
    if (!comparison.engine.has_value() || !comparison.engine->prediction.has_value()) continue;
    const Prediction& engine = *comparison.engine->prediction;
    ++compared;
    // With as much memory as the engine's plan takes, it is one of those searched.
    const OurVerdict& same = engine.fits() ? comparison.same_space : comparison.same_memory.value();
    ASSERT_TRUE(same.found.has_value()) << same.error;
    EXPECT_EQ(same.error, "");
    EXPECT_GE(same.found->prediction.samples_per_second * kEqual, engine.samples_per_second);
    EXPECT_LE(same.found->prediction.peak_memory_upper, same.usable_memory);
    if (engine.fits()) {
      ASSERT_TRUE(comparison.whole_space.found.has_value()) << comparison.whole_space.error;
      EXPECT_GE(comparison.whole_space.found->prediction.samples_per_second * kEqual,
                engine.samples_per_second);
    }
    // A larger space is never worse, where both are searched to their end.
    if (comparison.same_space.found.has_value() && comparison.whole_space.found.has_value() &&
        comparison.whole_space.found->search.termination == Termination::kOptimal) {
      EXPECT_GE(comparison.whole_space.found->prediction.samples_per_second * kEqual,
                comparison.same_space.found->prediction.samples_per_second);
    }
    std::printf("%s", ComparisonsText({comparison}).c_str());
  }
  EXPECT_GE(compared, 13);
}

TEST(OracleSearch, DifferencesOfTheModelsAddUp) {
  const std::optional<std::string> folder = OracleFolder();
  if (!folder) GTEST_SKIP() << kNoSharedData;
  OracleOptions options;
  // Quick: the differences are of the engine's plan.
  options.planner = "dp";
  for (const OracleCase& oracle : AllOracleCases(*folder)) {
    SCOPED_TRACE(oracle.id);
    ASSERT_OK_AND_ASSIGN(const OracleComparison comparison, CompareOracle(oracle, options));
    ASSERT_TRUE(comparison.engine.has_value());
    const EngineVerdict& engine = *comparison.engine;
    ASSERT_TRUE(engine.prediction.has_value()) << engine.invalid;
    double sum = engine.said.value();
    for (const Difference& difference : engine.differences) sum += difference.time.value();
    EXPECT_NEAR(sum, engine.prediction->step.value(), 1e-9 * sum);
    // What is left once everything itemised is ours: host time alone, none for measured
    // devices; blocking messages and the shared table's sum are not in these cases.
    const double rest = engine.differences.back().time.value();
    EXPECT_LE(std::abs(rest), 0.01 * sum);
  }
}

}  // namespace
}  // namespace parplan::oracle
