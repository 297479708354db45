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

// A case of an invented model on four devices.
json Case() {
  return json::parse(R"({
    "id": "made-up",
    "input": {
      "model": {"name": "nobodys-1b", "layers": [{"hidden_size": 256, "seq_len": 128,
                                                  "layer_num": 4}]},
      "profiles": {"time": "time", "memory": "memory", "time_profile_mode": "static",
                   "memory_profile_mode": "static"},
      "hardware": {"num_nodes": 1, "gpus_per_node": 4, "allreduce": "allreduce", "p2p": "p2p",
                   "overlap": "overlap"},
      "memory_gb": 1.5,
      "batch": {"min_bsz": 4, "max_bsz": 21, "bsz_scale": 8},
      "search_space": {"disable_tp": 1, "max_pp_deg": 2},
      "flags": {"pipeline_type": "gpipe", "sequence_parallel": false}
    },
    "plan": null,
    "error": "No valid configuration found."})");
}

absl::StatusOr<std::string> FileOfCase(const std::string& path) {
  if (path == "time") {
    return R"({"layertype_0_bsz8_seq128": 0.5, "layertype_other_bsz8_seq128": 0.25})";
  }
  if (path == "memory") {
    const std::string other =
        R"({"128": {"model_states": {"1": 16.0, "2": 8.0}, "activation": {"1": 2.0, "2": 1.0}}})";
    return R"({"layertype_0": {"128": {"parameter_size": 2.5, "tp_activation_per_bsz_dict":
               {"1": 4.0, "2": 2.0, "checkpoint": 0.0625}}}, "other_memory_pp_off": )" +
           other + R"(, "other_memory_pp_on_first": )" + other +
           R"(, "other_memory_pp_on_last": )" + other + "}";
  }
  if (path == "allreduce") {
    return R"({"allreduce_size_4_consec_1": 100, "allreduce_size_2_consec_1": 90,
               "allreduce_size_2_consec_0": 80})";
  }
  if (path == "p2p") return R"({"pp_size_2": 100, "pp_size_4": 90})";
  if (path == "overlap") return R"({"overlap_coe": 1.125})";
  return absl::NotFoundError(path);
}

TEST(OracleCase, AnUnknownModelHasTheParametersThatWereMeasured) {
  ASSERT_OK_AND_ASSIGN(const OracleCase oracle,
                       ReadOracleCase({"case.json", Case().dump()}, FileOfCase));
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
                       ReadOracleCase({"case.json", Case().dump()}, FileOfCase));
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, OracleProblem(oracle, OracleSpace::kEngine));
  EXPECT_THAT(problem.GlobalBatchSizes(), testing::ElementsAre(8, 16));
  EXPECT_FALSE(problem.dimensions().has(SearchDimension::kTensor));
  EXPECT_TRUE(problem.dimensions().has(SearchDimension::kUlysses));
  EXPECT_EQ(problem.max_pipeline_parallel_degree(), 2);
  EXPECT_EQ(problem.rules().schedule, Schedule::kGpipe);
  EXPECT_EQ(problem.usable_memory(), Bytes::Of(int64_t{3} << 29));
  ASSERT_OK_AND_ASSIGN(const PlanningProblem whole, OracleProblem(oracle, OracleSpace::kWhole));
  EXPECT_EQ(whole.dimensions(), DimensionSet::All());
  EXPECT_FALSE(whole.rules().schedule.has_value());
}

TEST(OracleCase, ErrorsNameFileAndField) {
  const auto refuse = [](const json& patch, const std::string& part) {
    json object = Case();
    object.merge_patch(patch);
    EXPECT_THAT(ReadOracleCase({"case.json", object.dump()}, FileOfCase).status(),
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
  json missing = Case();
  missing["input"]["profiles"]["time"] = "elsewhere";
  EXPECT_THAT(ReadOracleCase({"case.json", missing.dump()}, FileOfCase).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("elsewhere")));
}

}  // namespace
}  // namespace parplan
