#include "exports/exporters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "exports/megatron_plan_export.h"
#include "exports/uniform_plan.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const PlanExporter& Megatron() { return **FindExporter("megatron", "target"); }

TEST(AllExporters, AreInTheOrderOfTheirTargetsAndFoundByThem) {
  const std::vector<std::string> targets = ExportTargets();
  EXPECT_THAT(targets, ::testing::IsSupersetOf({"galvatron", "megatron"}));
  EXPECT_TRUE(std::is_sorted(targets.begin(), targets.end()));
  EXPECT_EQ(std::set<std::string>(targets.begin(), targets.end()).size(), targets.size());
  for (const PlanExporter& exporter : AllExporters()) {
    EXPECT_THAT(FindExporter(exporter.target, "target"), IsOkAndHolds(&exporter));
    EXPECT_FALSE(exporter.program.empty());
  }
}

TEST(FindExporter, ListsTheTargetsIfThereIsNone) {
  for (const char* const target : {"", "Megatron", "megatron ", "../megatron"}) {
    EXPECT_THAT(FindExporter(target, "--to"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("--to"), HasSubstr("galvatron"), HasSubstr("megatron"))));
  }
}

// Whether a program runs some plan of a model is asked before a search, and its files are refused
// for the same reason behind one.
TEST(CheckModelOfTarget, IsWhatTheExportSaysOfEveryPlanOfTheModel) {
  const std::vector<DecoderModelOptions> models = {
      {},
      {.gated = true, .latent_attention = true},
      {.expert_layer_count = 2},
      {.window_interval = 2},
      {.prediction_count = 1},
      {.window_interval = 2, .prediction_count = 1},
      {.tied_embedding = false, .precision = Precision::kFp16}};
  std::vector<std::string> refused;
  for (size_t i = 0; i < models.size(); ++i) {
    const ModelSpec model = DecoderModel(models[i]);
    UniformPlan facts;
    facts.device_count = 1;
    facts.global_batch_size = 1;
    facts.micro_batch_count = 1;
    facts.stage_layer_counts = {model.layer_count()};
    const Plan plan = PlanOf(facts, model);
    for (const TargetLimits& target : KnownTargets()) {
      SCOPED_TRACE(std::string(target.name) + std::to_string(i));
      const absl::Status status = CheckModelOfTarget(target.target, model);
      if (target.target == Target::kParplan) {
        EXPECT_OK(status);
        continue;
      }
      const auto files = ExportPlan(**FindExporter(target.name, "target"), plan, model, {});
      EXPECT_EQ(files.status(), status);
      if (status.ok()) continue;
      EXPECT_TRUE(absl::StartsWith(GetErrorDetail(status)->metadata.at("field"), "model."));
      refused.push_back(absl::StrCat(target.name, " ", i));
    }
  }
  EXPECT_THAT(refused, ::testing::ElementsAre("galvatron 1", "galvatron 4", "torchtitan 4",
                                              "fsdp2 4", "megatron 5", "galvatron 5",
                                              "torchtitan 5", "fsdp2 5", "torchtitan 6"));
}

TEST(CheckModelOfTarget, NamesTheLayerAndWhatToDo) {
  const ModelSpec further = DecoderModel({.window_interval = 2, .prediction_count = 1});
  EXPECT_THAT(CheckModelOfTarget(Target::kMegatron, further),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("model.layer_runs: has in layer 5"),
                             HasSubstr("Megatron-LM can't run that, whatever the plan"),
                             HasSubstr("change the model, or plan for another target"))));
  EXPECT_THAT(CheckModelOfTarget(Target::kFsdp2, further),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--prediction-layers 0")));
  EXPECT_THAT(CheckModelOfTarget(Target::kGalvatron, further),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("model.layer_runs: has layer"),
                             HasSubstr("Galvatron's format can't hold that, whatever the plan"))));
}

TEST(ExportFactsOf, KnowsTheRuntimesOfThisReleaseAlone) {
  ASSERT_OK_AND_ASSIGN(const ExportFacts facts, ExportFactsOf("megatron-core", "plan 7"));
  EXPECT_EQ(facts.runtime.runtime_id, "megatron-core");
  EXPECT_EQ(facts.plan_name, "plan 7");
  ASSERT_OK_AND_ASSIGN(const ExportFacts unnamed, ExportFactsOf("", ""));
  EXPECT_EQ(unnamed.runtime.runtime_id, RuntimeTraits().runtime_id);
  EXPECT_THAT(ExportFactsOf("megatron-2031", ""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("runtime_id"), HasSubstr("megatron-2031"))));
}

// Every name can be joined to a folder, whatever the plan.
TEST(ExportPlan, NamesFilesWithoutPaths) {
  std::mt19937_64 random(7);
  int exported = 0;
  for (int i = 0; i < 100; ++i) {
    const ModelSpec model = DecoderModel(RandomDecoderModel(random));
    const Plan plan = PlanOf(RandomMegatronPlan(random, model), model);
    for (const PlanExporter& exporter : AllExporters()) {
      const auto files = ExportPlan(exporter, plan, model, ExportFacts());
      if (!files.ok()) continue;
      ++exported;
      ASSERT_GE(files->size(), 2u);
      EXPECT_EQ(files->back().name, "README.txt");
      EXPECT_THAT(files->back().text, HasSubstr(exporter.program));
      // Every program gets its sizes for one rank by the same names.
      EXPECT_TRUE(std::any_of(files->begin(), files->end(), [](const ExportedFile& file) {
        return absl::EndsWith(file.name, ".env") &&
               absl::StrContains(file.text, "PARPLAN_MICRO_BATCH_SIZE_PER_RANK=");
      })) << exporter.target;
      for (const ExportedFile& file : *files) {
        EXPECT_FALSE(file.name.empty());
        EXPECT_NE(file.name[0], '.');
        // The volume of a pod takes these letters alone.
        EXPECT_TRUE(std::all_of(file.name.begin(), file.name.end(), [](unsigned char letter) {
          return absl::ascii_isalnum(letter) || absl::StrContains("._-", letter);
        })) << file.name;
      }
    }
  }
  EXPECT_GE(exported, 100);
}

TEST(ExportPlan, IsTheFunctionOfItsRow) {
  const ModelSpec model = DecoderModel({});
  std::mt19937_64 random(8);
  const Plan plan = PlanOf(RandomMegatronPlan(random, model), model);
  ASSERT_OK_AND_ASSIGN(const ExportFacts facts, ExportFactsOf("megatron-core", "p"));
  EXPECT_EQ(*ExportPlan(Megatron(), plan, model, facts), *ExportMegatronPlan(plan, model, facts));
}

TEST(ExportPlan, RefusesAPlanForAnotherModel) {
  const ModelSpec model = DecoderModel({.dense_layer_count = 4});
  std::mt19937_64 random(9);
  const Plan plan = PlanOf(RandomMegatronPlan(random, model), model);
  for (const int layers : {1, 3, 5, 40}) {
    const ModelSpec other = DecoderModel({.dense_layer_count = layers});
    for (const PlanExporter& exporter : AllExporters()) {
      EXPECT_THAT(ExportPlan(exporter, plan, other, ExportFacts()),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another model")))
          << exporter.target << " " << layers;
    }
  }
  Plan gap = plan;
  gap.stages.back().layer_runs.back().first_layer_index += 1;
  Plan negative = plan;
  negative.stages.back().layer_runs.back().layer_count = -1;
  Plan empty = plan;
  empty.stages.clear();
  for (const Plan& broken : {gap, negative, empty}) {
    EXPECT_THAT(ExportPlan(Megatron(), broken, model, ExportFacts()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stages")));
  }
}

// A payload may divide what could be one run; the plan is the same.
TEST(ExportPlan, TakesEqualNeighbouringRunsAsOne) {
  std::mt19937_64 random(11);
  int exported = 0;
  for (int i = 0; i < 100; ++i) {
    const ModelSpec model = DecoderModel(RandomDecoderModel(random));
    const Plan plan = PlanOf(RandomMegatronPlan(random, model), model);
    Plan divided = plan;
    int cuts = 0;
    for (StagePlan& stage : divided.stages) {
      std::vector<StageLayerRun> runs;
      for (StageLayerRun run : stage.layer_runs) {
        for (; run.layer_count > 1; ++run.first_layer_index, --run.layer_count, ++cuts) {
          runs.push_back(run);
          runs.back().layer_count = 1;
        }
        runs.push_back(run);
      }
      stage.layer_runs = runs;
    }
    if (cuts == 0) continue;
    for (const PlanExporter& exporter : AllExporters()) {
      const auto files = ExportPlan(exporter, plan, model, ExportFacts());
      const auto same = ExportPlan(exporter, divided, model, ExportFacts());
      ASSERT_EQ(files.status().code(), same.status().code()) << exporter.target;
      if (!files.ok()) continue;
      EXPECT_EQ(*files, *same) << exporter.target;
      ++exported;
    }
  }
  EXPECT_GE(exported, 50);
}

// The runs of an error are those of the payload, where each of its layers is a run.
TEST(ExportPlan, NamesRunsAsThePayloadDoes) {
  const ModelSpec model = DecoderModel({.dense_layer_count = 4});
  UniformPlan facts;
  facts.device_count = 8;
  facts.global_batch_size = 8;
  facts.stage_layer_counts = {model.layer_count()};
  facts.strategy = {.tensor_parallel_degree = 2, .data_parallel_degree = 4};
  Plan plan = PlanOf(facts, model);
  std::vector<StageLayerRun>& runs = plan.stages[0].layer_runs;
  const Strategy decoder = runs[1].strategy;
  ASSERT_EQ(runs.size(), 3u);
  runs[1].layer_count = 1;
  for (int layer = 2; layer <= 4; ++layer) {
    runs.insert(runs.end() - 1,
                {.first_layer_index = layer, .layer_count = 1, .strategy = decoder});
  }
  EXPECT_OK(ExportPlan(Megatron(), plan, model, ExportFacts()).status());
  runs[3].strategy.rank_order = RankOrder::kDataInnermost;
  for (const PlanExporter& exporter : AllExporters()) {
    // Their files have an order for each layer.
    if (exporter.target == "galvatron" || exporter.target == "fsdp2" ||
        exporter.target == "torch-pipelining") {
      continue;
    }
    EXPECT_THAT(
        ExportPlan(exporter, plan, model, ExportFacts()),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stages[0].layer_runs[3].strategy")))
        << exporter.target;
  }
}

TEST(ExportPlan, RefusesPrecisionsThatQuantise) {
  const ModelSpec model = DecoderModel({.precision = Precision::kMxfp8});
  std::mt19937_64 random(10);
  const Plan plan = PlanOf(RandomMegatronPlan(random, model), model);
  for (const PlanExporter& exporter : AllExporters()) {
    EXPECT_THAT(ExportPlan(exporter, plan, model, ExportFacts()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("model.precision"), HasSubstr("mxfp8"))))
        << exporter.target;
  }
}

}  // namespace
}  // namespace parplan
