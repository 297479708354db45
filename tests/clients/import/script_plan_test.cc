#include "clients/import/script_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exports/accelerate_plan_export.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Every pair of what script and file may say.
TEST(AgreedRecomputation, ScriptAndFileMustAgreeAndSilenceIsNoted) {
  const std::optional<bool> values[] = {std::nullopt, false, true};
  for (const std::optional<bool> of_script : values) {
    for (const std::optional<bool> of_file : values) {
      std::vector<std::string> notes;
      int fault_count = 0;
      const RecomputeLevel level = AgreedRecomputation(
          of_script, of_file, [&fault_count](absl::string_view) { ++fault_count; }, &notes);
      const bool differ = of_script.has_value() && of_file.has_value() && of_script != of_file;
      EXPECT_EQ(fault_count, differ ? 1 : 0);
      EXPECT_EQ(notes.size(), of_script.has_value() || of_file.has_value() ? 0u : 1u);
      if (differ) continue;
      const bool recomputes = of_script == true || of_file == true;
      EXPECT_EQ(level, recomputes ? RecomputeLevel::kFull : RecomputeLevel::kNone);
    }
  }
}

TEST(RunnablePlanOf, PassesTheReasonOfTheProgramOnWithTheFile) {
  const ModelSpec model = DecoderModel({});
  UniformPlan facts;
  facts.device_count = 4;
  facts.global_batch_size = 4;
  facts.stage_layer_counts = {model.layer_count()};
  facts.strategy.data_parallel_degree = 4;
  const NamedText file = {.name = "run.env", .text = ""};
  ASSERT_OK_AND_ASSIGN(const Plan plan, RunnablePlanOf(file, facts, model, &ExportAcceleratePlan));
  EXPECT_EQ(plan, PlanOf(facts, model));
  facts.strategy.sharding_level = ShardingLevel::kOptimizer;
  EXPECT_THAT(RunnablePlanOf(file, facts, model, &ExportAcceleratePlan).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("run.env: "), HasSubstr("Accelerate can't run that"))));
}

}  // namespace
}  // namespace parplan
