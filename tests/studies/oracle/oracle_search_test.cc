// Our plans against the engine's, case by case, under our model.

#include <cmath>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "studies/oracle/oracle_comparison.h"
#include "tests/studies/oracle/oracle_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan::oracle {
namespace {

// Plans whose times differ by less are equal, for a proof.
constexpr double kEqual = 1.0 + 1e-9;

// With as much memory as the engine's plan takes under our model, or as the devices have if
// that is more, its plan is one of those searched.
TEST(OracleSearch, IsNeverWorseThanTheEngineUnderOurModel) {
  const std::optional<std::string> folder = OracleFolder();
  if (!folder) GTEST_SKIP() << kNoSharedData;
  OracleOptions options;
  options.wants_whole_space = false;
  int compared = 0;
  for (const OracleCase& oracle : AllOracleCases(*folder)) {
    SCOPED_TRACE(oracle.id);
    ASSERT_OK_AND_ASSIGN(const OracleComparison comparison, CompareOracle(oracle, options));
    std::printf("%s", ComparisonsText({comparison}).c_str());
    if (!comparison.engine.has_value() || !comparison.engine->prediction.has_value()) continue;
    const Prediction& engine = *comparison.engine->prediction;
    ++compared;
    const OurVerdict& same = engine.fits() ? comparison.same_space : comparison.same_memory.value();
    EXPECT_EQ(same.error, "");
    ASSERT_TRUE(same.found.has_value());
    EXPECT_GE(same.found->prediction.samples_per_second * kEqual, engine.samples_per_second);
    EXPECT_LE(same.found->prediction.peak_memory_upper, same.usable_memory);
  }
  EXPECT_GE(compared, 13);
}

// A larger space is never worse, where it was searched to its end.
TEST(OracleSearch, TheWholeSpaceIsNeverWorseThanTheEngines) {
  const std::optional<std::string> folder = OracleFolder();
  if (!folder) GTEST_SKIP() << kNoSharedData;
  OracleOptions options;
  options.max_state_count = 500'000;
  int found_count = 0;
  for (const OracleCase& oracle : AllOracleCases(*folder)) {
    SCOPED_TRACE(oracle.id);
    ASSERT_OK_AND_ASSIGN(const OracleComparison comparison, CompareOracle(oracle, options));
    const OurVerdict& whole = comparison.whole_space.value();
    if (!whole.found.has_value()) continue;
    ++found_count;
    EXPECT_EQ(whole.error, "");
    if (whole.found->search.termination != Termination::kOptimal) continue;
    const double reached = whole.found->prediction.samples_per_second * kEqual;
    if (comparison.same_space.found.has_value()) {
      EXPECT_GE(reached, comparison.same_space.found->prediction.samples_per_second);
    }
    if (comparison.engine.has_value() && comparison.engine->prediction.has_value() &&
        comparison.engine->prediction->fits()) {
      EXPECT_GE(reached, comparison.engine->prediction->samples_per_second);
    }
  }
  EXPECT_GE(found_count, 1);
}

TEST(OracleSearch, DifferencesOfTheModelsAddUp) {
  const std::optional<std::string> folder = OracleFolder();
  if (!folder) GTEST_SKIP() << kNoSharedData;
  OracleOptions options;
  // Quick: the differences are of the engine's plan.
  options.planner = "dp";
  options.wants_whole_space = false;
  for (const OracleCase& oracle : AllOracleCases(*folder)) {
    SCOPED_TRACE(oracle.id);
    ASSERT_OK_AND_ASSIGN(const OracleComparison comparison, CompareOracle(oracle, options));
    ASSERT_TRUE(comparison.engine.has_value());
    const EngineVerdict& engine = *comparison.engine;
    ASSERT_TRUE(engine.prediction.has_value()) << engine.invalid;
    double sum = engine.said.value();
    for (const Difference& difference : engine.differences) sum += difference.time.value();
    EXPECT_NEAR(sum, engine.prediction->step.value(), 1e-9 * sum);
    // The rest once everything itemised is ours: host time alone, none for measured devices;
    // blocking messages and the shared table's sum are not in these cases.
    const double rest = engine.differences.back().time.value();
    EXPECT_LE(std::abs(rest), 0.01 * sum);
  }
}

}  // namespace
}  // namespace parplan::oracle
