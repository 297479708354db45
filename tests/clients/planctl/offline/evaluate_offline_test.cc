// Plans that are given: what the cost model expects of them, and files of them.

#include "clients/planctl/offline/offline_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "clients/import/galvatron_plan.h"
#include "clients/planctl/view/plan_json.h"
#include "clients/planctl/view/plan_text.h"
#include "exports/galvatron_plan_export.h"
#include "planner/find_plan.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/plan_wire.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(EvaluateOffline, OfEveryPlannersPlanIsItsPrediction) {
  for (int node_count : {1, 2}) {
    for (const std::string& planner : QuickPlannerNames()) {
      SCOPED_TRACE(planner);
      const v1::PlanSpec spec = SpecWith(planner, node_count);
      const absl::StatusOr<PlanView> view = PlanOffline(spec, ExampleProfiles(node_count));
      if (!view.ok()) continue;
      ASSERT_OK_AND_ASSIGN(const PlanView evaluated,
                           EvaluateOffline(spec, ExampleProfiles(node_count), view->plan));
      EXPECT_EQ(evaluated.payload.prediction().SerializeAsString(),
                view->payload.prediction().SerializeAsString());
      EXPECT_EQ(evaluated.payload.planner(), kGivenPlanner);
    }
  }
}

TEST(EvaluateOffline, AnswersForAPlanThatDoesNotFit) {
  v1::PlanSpec spec = ExampleSpec();
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, ExampleProfiles()));
  spec.mutable_topology()->mutable_node_groups(0)->set_device_memory_bytes(int64_t{4} << 30);
  ASSERT_OK_AND_ASSIGN(const PlanView small, EvaluateOffline(spec, ExampleProfiles(), view.plan));
  EXPECT_FALSE(small.prediction.fits());
  EXPECT_EQ(small.prediction.step, view.prediction.step);
}

TEST(EvaluateOffline, NamesTheFlagThatContradictsThePlan) {
  v1::PlanSpec spec = ExampleSpec();
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, ExampleProfiles()));
  const auto refusal = [&view](const v1::PlanSpec& question) {
    return EvaluateOffline(question, ExampleProfiles(), view.plan).status();
  };
  for (const int64_t batch : {int64_t{128}, int64_t{-1}, int64_t{63}}) {
    spec.set_global_batch_size(batch);
    EXPECT_THAT(refusal(spec),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("--batch: "), HasSubstr("64"), Not(HasSubstr("report")))));
  }
  // Without a batch the plan's is meant.
  spec.set_global_batch_size(0);
  EXPECT_OK(refusal(spec));
  for (const int64_t count : {int64_t{7}, view.plan.micro_batch_count + 1}) {
    spec.mutable_options()->set_micro_batch_count(count);
    EXPECT_THAT(refusal(spec),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("--micro-batches: "), Not(HasSubstr("report")))));
  }
  spec.mutable_options()->set_micro_batch_count(view.plan.micro_batch_count);
  EXPECT_OK(refusal(spec));
}

TEST(EvaluateOffline, SaysWhyAPlanDoesNotAnswerTheQuestion) {
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(ExampleSpec(), ExampleProfiles()));
  EXPECT_THAT(
      EvaluateOffline(ExampleSpec(2), ExampleProfiles(2), view.plan),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("plan: is none for this model, cluster and flags: "),
                     HasSubstr("device_count is 8 and not 16"), Not(HasSubstr("report this")))));
}

// The layers of the question as `stage_count` stages of equal length in
// micro-batches of one sample a data-parallel rank. What isn't for embedding and
// head is left out there.
Plan PlanOf(const v1::PlanSpec& spec, int stage_count, int virtual_stage_count,
            const Strategy& strategy) {
  const absl::StatusOr<ModelSpec> model = ModelFromProto(spec.model());
  EXPECT_OK(model);
  Plan plan;
  plan.virtual_stage_count = virtual_stage_count;
  if (virtual_stage_count > 1) plan.schedule = Schedule::kInterleaved;
  const int depth = stage_count / virtual_stage_count;
  plan.device_count = depth * strategy.rank_count();
  plan.global_batch_size = spec.global_batch_size();
  plan.micro_batch_count = plan.global_batch_size / strategy.data_parallel_degree;
  const std::vector<int>& definitions = model->definition_of_layer();
  for (int i = 0; i < stage_count; ++i) {
    StagePlan stage = {.first_rank = i % depth * strategy.rank_count(),
                       .rank_count = strategy.rank_count(),
                       .layer_runs = {}};
    const int end = model->layer_count() * (i + 1) / stage_count;
    for (int layer = model->layer_count() * i / stage_count; layer < end; ++layer) {
      if (!stage.layer_runs.empty() && definitions[layer] == definitions[layer - 1]) {
        ++stage.layer_runs.back().layer_count;
        continue;
      }
      Strategy own = strategy;
      if (!IsTransformer(model->layer(layer).kind)) {
        own.recompute_level = RecomputeLevel::kNone;
        own.expert_parallel_degree = 1;
      }
      stage.layer_runs.push_back({layer, 1, own});
    }
    plan.stages.push_back(stage);
  }
  return plan;
}

// The plan written, read and evaluated again is the same, with the same figures.
PlanView RoundTrip(const v1::PlanSpec& spec, const Plan& plan) {
  const absl::StatusOr<PlanView> first = EvaluateOffline(spec, {}, plan);
  EXPECT_OK(first);
  if (!first.ok()) return {};
  const absl::StatusOr<PlanView> read = ViewOfFile(ToReadableJson(first->payload), "plan.json");
  EXPECT_OK(read);
  if (!read.ok()) return {};
  EXPECT_EQ(read->plan, plan);
  const absl::StatusOr<PlanView> again = EvaluateOffline(spec, {}, read->plan);
  EXPECT_OK(again);
  if (!again.ok()) return {};
  EXPECT_EQ(again->payload.SerializeAsString(), first->payload.SerializeAsString());
  EXPECT_GT(first->prediction.step, Seconds());
  // Text, JSON and page exist for all of them.
  EXPECT_THAT(PlanText(*read), HasSubstr(PlanGist(plan).substr(0, 8)));
  EXPECT_FALSE(PlanJson(*read).empty());
  EXPECT_THAT(PlanHtml(*read), HasSubstr("</html>"));
  return *again;
}

TEST(EvaluateOffline, AnswersForInterleavedPlansWhichNotEveryPlannerMakes) {
  v1::PlanSpec spec = ExampleSpec();
  // Few micro-batches, so that the bubble is a third of the step.
  spec.set_global_batch_size(8);
  const Strategy strategy = {.tensor_parallel_degree = 2, .sequence_parallel = true};
  const PlanView plain = RoundTrip(spec, PlanOf(spec, 4, 1, strategy));
  const PlanView interleaved = RoundTrip(spec, PlanOf(spec, 8, 2, strategy));
  ASSERT_EQ(plain.prediction.stages.size(), 4u);
  ASSERT_EQ(interleaved.prediction.stages.size(), 4u);
  // The bubble is half as long.
  EXPECT_LT(interleaved.prediction.step, plain.prediction.step);
  EXPECT_THAT(PlanText(interleaved), HasSubstr("over 2 stages"));
  spec.mutable_options()->set_schedule(v1::SCHEDULE_INTERLEAVED);
  // One stage a device is all that this one makes.
  spec.mutable_options()->set_planner("pp");
  EXPECT_EQ(GetErrorDetail(PlanOffline(spec, {}).status())->reason, Reason::kNoFeasiblePlan);
}

TEST(EvaluateOffline, AnswersForContextParallelAndRecomputingPlans) {
  const v1::PlanSpec spec = ExampleSpec();
  for (const RecomputeLevel level :
       {RecomputeLevel::kNone, RecomputeLevel::kSelective, RecomputeLevel::kFull}) {
    SCOPED_TRACE(static_cast<int>(level));
    RoundTrip(spec, PlanOf(spec, 2, 1,
                           {.data_parallel_degree = 2,
                            .sharding_level = ShardingLevel::kOptimizer,
                            .recompute_level = level,
                            .context_parallel_degree = 2}));
  }
}

TEST(EvaluateOffline, AnswersForExpertParallelPlans) {
  v1::PlanSpec spec = ExampleSpec();
  for (v1::LayerDefinition& layer : *spec.mutable_model()->mutable_layer_definitions()) {
    if (layer.kind() != v1::LAYER_KIND_DECODER) continue;
    layer.set_expert_count(8);
    layer.set_experts_per_token(2);
    layer.set_expert_feed_forward_size(2816);
  }
  const Strategy strategy = {.data_parallel_degree = 4, .expert_parallel_degree = 4};
  const PlanView view = RoundTrip(spec, PlanOf(spec, 2, 1, strategy));
  ASSERT_FALSE(view.prediction.stages.empty());
  EXPECT_GT(view.prediction.stages[0].time[TimeItemKind::kExpertParallel], Seconds());
}

// Whether tensor-parallel layers split the sequence, which the format of others
// does not say.
bool SplitsSequence(const Plan& plan) {
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (run.strategy.sequence_parallel) return true;
    }
  }
  return false;
}

TEST(EvaluateOffline, OfAPlanThatWentThroughGalvatronsFormatIsUnchanged) {
  int exported_count = 0;
  for (int node_count : {1, 2}) {
    for (const std::string& planner : QuickPlannerNames()) {
      SCOPED_TRACE(planner);
      const v1::PlanSpec spec = SpecWith(planner, node_count);
      const absl::StatusOr<PlanView> view = PlanOffline(spec, ExampleProfiles(node_count));
      if (!view.ok()) continue;
      ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(spec.model()));
      const absl::StatusOr<std::string> text = ExportGalvatronPlan(view->plan, model);
      if (!text.ok()) {
        EXPECT_THAT(text, StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("Galvatron's format can't hold that")));
        continue;
      }
      ++exported_count;
      GalvatronPlanOptions options;
      options.sequence_parallel = SplitsSequence(view->plan);
      ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport again,
                           ImportGalvatronPlan({"plan.json", *text}, model, options));
      ASSERT_OK_AND_ASSIGN(const PlanView evaluated,
                           EvaluateOffline(spec, ExampleProfiles(node_count), again.plan));
      EXPECT_EQ(evaluated.prediction.step, view->prediction.step);
      EXPECT_EQ(evaluated.prediction.peak_memory, view->prediction.peak_memory);
    }
  }
  EXPECT_GE(exported_count, 4);
}

TEST(ViewOfFile, GivesTheUnsignedPlanThatWasWritten) {
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(ExampleSpec(), ExampleProfiles()));
  ASSERT_OK_AND_ASSIGN(const PlanView read, ViewOfFile(ToReadableJson(view.payload), "plan.json"));
  EXPECT_EQ(read.plan, view.plan);
  EXPECT_EQ(read.payload.SerializeAsString(), view.payload.SerializeAsString());
  EXPECT_THAT(read.signature, IsEmpty());
}

TEST(PayloadOfFile, NeedsNoPrediction) {
  const v1::PlanSpec spec = ExampleSpec();
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, ExampleProfiles()));
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(spec.model()));
  const std::string text = ToReadableJson(GivenPayload(view.plan, model, "megatron-core"));
  ASSERT_OK_AND_ASSIGN(const v1::PlanPayload payload, PayloadOfFile(text, "plan.json"));
  EXPECT_EQ(payload.runtime_id(), "megatron-core");
  ASSERT_OK_AND_ASSIGN(const Plan plan, PlanFromPayload(payload));
  EXPECT_EQ(plan, view.plan);
  // To be shown it must have one.
  EXPECT_THAT(ViewOfFile(text, "plan.json"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("prediction: is missing"), HasSubstr("evaluate"))));
  for (const char* const broken : {"", "{", "[]", R"({"payloadType": "x"})", R"({"stage": 1})"}) {
    EXPECT_FALSE(PayloadOfFile(broken, "plan.json").ok()) << broken;
  }
}

TEST(ViewOfFile, RefusesWhatIsNoPlan) {
  EXPECT_THAT(ViewOfFile("{}", "plan.json"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ViewOfFile("", "plan.json"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plan.json")));
  EXPECT_THAT(ViewOfFile(R"({"payloadType": "x"})", "plan.json"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan::planctl
