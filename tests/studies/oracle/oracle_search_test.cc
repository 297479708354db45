// Our plans against the engine's, case by case, under our model.

#include <cmath>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "studies/oracle/oracle_comparison.h"
#include "tests/studies/oracle/oracle_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan::oracle {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

// Returns the invented case with a plan of the engine: all layers `degree`-way tensor-parallel.
absl::StatusOr<OracleCase> CaseOfDegree(int degree, const OracleFileReader& read) {
  const std::string degrees = absl::StrCat(degree, ",", degree, ",", degree, ",", degree);
  nlohmann::json made_up = MadeUpCase();
  made_up["plan"] = {{"galvatron_config",
                      {{"pp_deg", 1},
                       {"global_bsz", 16},
                       {"chunks", 2},
                       {"tp_sizes_enc", degrees},
                       {"use_sp", "0,0,0,0"},
                       {"dp_types_enc", "0,0,0,0"},
                       {"checkpoint", "0,0,0,0"},
                       {"pp_division", "4"},
                       {"vtp", 1}}},
                     {"predicted_iteration_time_s", 0.01},
                     {"predicted_throughput", 1600.0}};
  return ReadOracleCase({"case.json", made_up.dump()}, read);
}

TEST(CompareOracle, RefusesAPlanWhoseStrategiesTheFilesOfTheCaseDoNotCover) {
  OracleOptions options;
  options.wants_whole_space = false;
  ASSERT_OK_AND_ASSIGN(const OracleCase covered, CaseOfDegree(1, MadeUpFile));
  EXPECT_OK(CompareOracle(covered, options));

  // The case has no latencies of tensor parallelism.
  ASSERT_OK_AND_ASSIGN(const OracleCase split, CaseOfDegree(2, MadeUpFile));
  EXPECT_THAT(CompareOracle(split, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("tp_sizes_enc[0]"), HasSubstr("1-2*-2"))));

  // A bandwidth among ranks that are not neighbours is none among those that are.
  const auto read = [](const std::string& path) -> absl::StatusOr<std::string> {
    if (path != "allreduce") return MadeUpFile(path);
    return R"({"allreduce_size_4_consec_0": 100, "allreduce_size_2_consec_1": 90})";
  };
  ASSERT_OK_AND_ASSIGN(const OracleCase other, CaseOfDegree(1, read));
  EXPECT_THAT(
      CompareOracle(other, options).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("case.json: plan.galvatron_config")));
}

TEST(CompareOracle, NamesABetterPlanOnlyIfItIsFaster) {
  OracleOptions options;
  options.wants_whole_space = false;
  options.wants_own_tables = true;
  ASSERT_OK_AND_ASSIGN(const OracleCase one, CaseOfDegree(1, MadeUpFile));
  ASSERT_OK_AND_ASSIGN(const OracleComparison comparison, CompareOracle(one, options));
  ASSERT_TRUE(comparison.engine.has_value());
  const EngineVerdict& engine = *comparison.engine;
  if (engine.better_in_own_numbers.has_value()) {
    EXPECT_LT(*engine.better_in_own_numbers, engine.simulated);
  }
  EXPECT_EQ(engine.better_gist.empty(), !engine.better_in_own_numbers.has_value());
}

}  // namespace
}  // namespace parplan::oracle
