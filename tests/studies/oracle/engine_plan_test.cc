#include "studies/oracle/engine_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "tests/studies/oracle/oracle_files.h"
#include "tests/support/status_matchers.h"

namespace parplan::oracle {
namespace {

using ::nlohmann::json;
using ::testing::HasSubstr;

// Reads a strategy of four layers in two stages on four devices, with the members of `patch` over
// its own.
absl::StatusOr<EnginePlan> ReadPatched(const char* patch) {
  json file = json::parse(R"({"pp_deg": 2, "global_bsz": 8, "chunks": 4, "pp_division": "1,3",
      "tp_sizes_enc": "1,2,1,1", "use_sp": "0,0,0,0", "dp_types_enc": "1,0,0,0",
      "checkpoint": "0,0,0,1"})");
  file.merge_patch(json::parse(patch));
  PARPLAN_ASSIGN_OR_RETURN(OracleCase oracle,
                           ReadOracleCase({"case.json", MadeUpCase().dump()}, MadeUpFile));
  oracle.answer.emplace().strategy_file = {"plan.json", file.dump()};
  return ReadEnginePlan(oracle);
}

TEST(ReadEnginePlan, HasTheLayersOfEachStage) {
  ASSERT_OK_AND_ASSIGN(const EnginePlan plan, ReadPatched("{}"));
  EXPECT_EQ(plan.shape.pipeline_degree, 2);
  EXPECT_EQ(plan.shape.global_batch, 8);
  EXPECT_EQ(plan.shape.chunks, 4);
  ASSERT_EQ(plan.stages.size(), 2u);
  ASSERT_EQ(plan.stages[0].size(), 1u);
  ASSERT_EQ(plan.stages[1].size(), 3u);
  EXPECT_TRUE(plan.stages[0][0].is_sharded);
  EXPECT_EQ(plan.stages[1][0].tensor, 2);
  EXPECT_TRUE(plan.stages[1][2].recomputes);
}

TEST(ReadEnginePlan, ErrorsNameFileAndField) {
  const struct {
    const char* patch;
    const char* error;
  } cases[] = {
      {R"({"pp_deg": 3, "pp_division": "1,1,2"})", "pp_deg: must divide the 4 devices"},
      {R"({"pp_deg": 0})", "pp_deg: must be a whole number from 1"},
      {R"({"chunks": 0})", "chunks: must be a whole number from 1"},
      {R"({"global_bsz": 0})", "global_bsz: must be a whole number from 1"},
      {R"({"pp_division": "1,2"})", "pp_division: must have numbers of at least 1 that add up"},
      {R"({"pp_division": "1,4"})", "pp_division: must have numbers of at least 1 that add up"},
      {R"({"pp_division": "4,1"})", "pp_division: must have numbers of at least 1 that add up"},
      {R"({"pp_division": "5,-1"})", "pp_division: must have numbers of at least 1 that add up"},
      {R"({"pp_division": "0,4"})", "pp_division: must have numbers of at least 1 that add up"},
      {R"({"pp_division": "2147483647,2147483647"})", "pp_division: must have numbers of"},
      {R"({"pp_division": "4"})", "pp_division: must have 2 entries"},
      {R"({"tp_sizes_enc": "1,2,1,3"})", "tp_sizes_enc: must divide the 2 devices"},
      {R"({"vtp": 4})", "vtp: must divide the 2 devices"},
      {R"({"chunks": null})", "chunks: is missing"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ReadPatched(test.patch).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(std::string("plan.json: ") + test.error)))
        << test.patch;
  }
}

}  // namespace
}  // namespace parplan::oracle
