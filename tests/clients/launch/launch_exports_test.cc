#include "clients/launch/launch_exports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "exports/uniform_plan.h"
#include "planner/model/search_summary.h"
#include "proto/wire/digest.h"
#include "proto/wire/plan_wire.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ReadExportTargets, ReadsAListOfTheTable) {
  ASSERT_OK_AND_ASSIGN(const auto none, ReadExportTargets("", "--export"));
  EXPECT_TRUE(none.empty());
  ASSERT_OK_AND_ASSIGN(const auto all,
                       ReadExportTargets(absl::StrJoin(ExportTargets(), ","), "--export"));
  ASSERT_EQ(all.size(), AllExporters().size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], &AllExporters()[i]);
}

TEST(ReadExportTargets, RefusesOthersAndRepetitions) {
  for (const char* const text :
       {"nemo", "megatron,", ",megatron", " megatron", "megatron;rm", "../megatron"}) {
    EXPECT_THAT(ReadExportTargets(text, "--plan-export").status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("--plan-export"), HasSubstr("must be one of"))))
        << text;
  }
  EXPECT_THAT(ReadExportTargets("megatron,megatron", "--plan-export").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("names megatron twice")));
}

// Folders of different targets never share a file, and each variable names its folder.
TEST(ExportToFolders, GivesEachTargetItsFolder) {
  const ModelSpec model = DecoderModel({.dense_layer_count = 6, .key_value_head_count = 64});
  UniformPlan facts;
  facts.device_count = 2;
  facts.global_batch_size = 8;
  facts.micro_batch_count = 2;
  facts.stage_layer_counts = {8};
  facts.strategy.data_parallel_degree = 2;
  v1::PlanPayload payload = MakePayload();
  payload.clear_stages();
  FillPayload(PlanOf(facts, model), Prediction(), SearchSummary(), model, &payload);
  payload.set_model_digest(ModelDigest(model));
  const PrivateKey key = FirstKey();
  ASSERT_OK_AND_ASSIGN(
      const VerifiedPlan verified,
      PlanVerifier(Trusting({&key}))
          .Verify(Sign(payload, {&key}), ExpectedAudience(), IssueTime() + absl::Hours(1)));
  ASSERT_OK_AND_ASSIGN(const auto exporters, ReadExportTargets("galvatron,megatron", "f"));
  ASSERT_OK_AND_ASSIGN(const auto files, ExportToFolders(exporters, verified, model));
  std::set<std::string> names;
  for (const ExportedFile& file : files) {
    EXPECT_TRUE(names.insert(file.name).second) << file.name;
    EXPECT_TRUE(absl::StartsWith(file.name, "galvatron/") ||
                absl::StartsWith(file.name, "megatron/"))
        << file.name;
  }
  EXPECT_EQ(names.count("megatron/megatron.args"), 1);
  const LaunchVariables variables = ExportVariables(exporters, "/run/17");
  EXPECT_EQ(variables, (LaunchVariables{{"PARPLAN_EXPORT_GALVATRON", "/run/17/galvatron"},
                                        {"PARPLAN_EXPORT_MEGATRON", "/run/17/megatron"}}));
  EXPECT_THAT(ExportToFolders(exporters, verified, DecoderModel({.dense_layer_count = 5})).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("model")));
}

}  // namespace
}  // namespace parplan
