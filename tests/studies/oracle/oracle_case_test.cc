#include "studies/oracle/oracle_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "clients/import/galvatron_plan.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "tests/studies/oracle/oracle_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::nlohmann::json;
using oracle::MadeUpCase;
using oracle::MadeUpFile;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(OracleCase, EveryPlanOfTheEngineIsOneOfTheSpaceItIsComparedIn) {
  const std::optional<std::string> folder = oracle::OracleFolder();
  if (!folder) GTEST_SKIP() << kNoSharedData;
  int count = 0;
  for (const OracleCase& oracle : oracle::AllOracleCases(*folder)) {
    SCOPED_TRACE(oracle.id);
    ++count;
    for (const OracleSpace space : {OracleSpace::kEngine, OracleSpace::kWhole}) {
      ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, OracleProblem(oracle, space));
      EXPECT_EQ(problem.device_count(), oracle.question.device_count());
      ASSERT_OK(CostModel::Create(problem));
      if (!oracle.answer.has_value()) continue;
      ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport plan,
                           ImportGalvatronPlan(oracle.answer->strategy_file, problem.model(), {}));
      EXPECT_OK(CheckPlanStructure(problem, plan.plan));
    }
  }
  EXPECT_GE(count, 13);
}

TEST(OracleCase, AnUnknownModelHasTheParametersThatWereMeasured) {
  ASSERT_OK_AND_ASSIGN(const OracleCase oracle,
                       ReadOracleCase({"case.json", MadeUpCase().dump()}, MadeUpFile));
  EXPECT_FALSE(oracle.answer.has_value());
  EXPECT_EQ(oracle.error, "No valid configuration found.");
  EXPECT_THAT(oracle.notes, Contains(HasSubstr("no sizes are known of `nobodys-1b`")));
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, OracleProblem(oracle, OracleSpace::kEngine));
  // 2.5 MB of fp32: 655,360 parameters, of which attention has 4 * 256 * 256.
  const LayerDefinition& layer = problem.model().layer(1);
  EXPECT_EQ(layer.feed_forward_size, 512);
  EXPECT_EQ(layer.attention_head_count, 2);
  // 16 MB of states are 2^20 parameters.
  EXPECT_EQ(problem.model().layer(0).vocabulary_size, (1 << 20) / 256);
}

TEST(OracleCase, SwitchesAndBatchesAreThoseOfTheEngine) {
  ASSERT_OK_AND_ASSIGN(const OracleCase oracle,
                       ReadOracleCase({"case.json", MadeUpCase().dump()}, MadeUpFile));
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, OracleProblem(oracle, OracleSpace::kEngine));
  EXPECT_THAT(problem.GlobalBatchSizes(), testing::ElementsAre(8, 16));
  EXPECT_FALSE(problem.dimensions().has(SearchDimension::kTensor));
  EXPECT_TRUE(problem.dimensions().has(SearchDimension::kUlysses));
  EXPECT_EQ(problem.max_pipeline_parallel_degree(), 2);
  EXPECT_EQ(problem.rules().schedule, Schedule::kGpipe);
  EXPECT_EQ(problem.usable_memory(), Bytes::Of(int64_t{3} << 29));
  ASSERT_OK_AND_ASSIGN(const PlanningProblem whole, OracleProblem(oracle, OracleSpace::kWhole));
  EXPECT_EQ(whole.dimensions(), LimitsOf(Target::kParplan).dimensions);
  EXPECT_FALSE(whole.rules().schedule.has_value());
}

TEST(OracleCase, ErrorsNameFileAndField) {
  const auto refuse = [](const json& patch, const std::string& part) {
    json object = MadeUpCase();
    object.merge_patch(patch);
    EXPECT_THAT(ReadOracleCase({"case.json", object.dump()}, MadeUpFile).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << patch;
  };
  refuse(json::parse(R"({"id": null})"), "case.json: id");
  refuse(json::parse(R"({"input": {"memory_gb": -1}})"), "input.memory_gb: must be above 0");
  refuse(json::parse(R"({"input": {"batch": {"max_bsz": 2}}})"), "input.batch.max_bsz");
  refuse(json::parse(R"({"input": {"hardware": {"num_nodes": 0}}})"), "input.hardware.num_nodes");
  refuse(json::parse(R"({"input": {"profiles": {"time_profile_mode": "x"}}})"),
         "time_profile_mode: must be");
  refuse(json::parse(R"({"input": {"model": {"layers": []}}})"), "input.model.layers");
  refuse(json::parse(R"({"input": {"model": {"layers": [3]}}})"),
         "case.json: input.model.layers[0]: must be an object");
  refuse(json::parse(R"({"input": {"model": {"layers": [{"hidden_size": 0}]}}})"),
         "case.json: input.model.layers[0].hidden_size: must be");
  refuse(json::parse(R"({"input": {"model": {"layers": [{"hidden_size": 256}]}}})"),
         "case.json: input.model.layers[0].seq_len: is missing");
  json missing = MadeUpCase();
  missing["input"]["profiles"]["time"] = "elsewhere";
  EXPECT_THAT(ReadOracleCase({"case.json", missing.dump()}, MadeUpFile).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("elsewhere")));
}

}  // namespace
}  // namespace parplan
