#include "clients/planctl/offline_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "clients/planctl/import/galvatron_plan.h"
#include "planner/base/error.h"
#include "planner/check/plan_check.h"
#include "planner/search/find_plan.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/plan_wire.h"
#include "proto/wire/published_calibration.h"
#include "tests/planctl/commands/planctl_test_files.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::PlanSpec SpecWith(const std::string& planner, int node_count = 1) {
  v1::PlanSpec spec = ExampleSpec(node_count);
  spec.mutable_options()->set_planner(planner);
  return spec;
}

TEST(PlanOffline, GivesWhatFindPlanGives) {
  for (int node_count : {1, 2}) {
    for (const std::string& planner : QuickPlannerNames()) {
      SCOPED_TRACE(planner);
      const v1::PlanSpec spec = SpecWith(planner, node_count);
      ASSERT_OK_AND_ASSIGN(const PlanningProblem problem,
                           OfflineProblem(spec, ExampleProfiles(node_count)));
      const absl::StatusOr<PlanningResult> expected = FindPlan(problem, planner);
      const absl::StatusOr<PlanView> view = PlanOffline(spec, ExampleProfiles(node_count));
      if (!expected.ok()) {
        EXPECT_EQ(view.status(), expected.status());
        continue;
      }
      if (const auto* found = std::get_if<PlanFound>(&*expected)) {
        ASSERT_OK(view);
        EXPECT_EQ(view->plan, found->plan);
        // A payload carries times in nanoseconds.
        EXPECT_NEAR(view->prediction.step.value(), found->prediction.step.value(), 1e-9);
        EXPECT_EQ(view->search.expanded_state_count, found->search.expanded_state_count);
        EXPECT_EQ(view->payload.planner(), planner);
        EXPECT_OK(CheckPlan(problem, view->plan, found->prediction));
      } else {
        EXPECT_EQ(GetErrorDetail(view.status())->reason, Reason::kNoFeasiblePlan);
      }
    }
  }
}

TEST(PlanOffline, SaysTheMemoryThatWouldFitAndItDoes) {
  v1::PlanSpec spec = ExampleSpec();
  v1::NodeGroup& group = *spec.mutable_topology()->mutable_node_groups(0);
  group.set_device_memory_bytes(int64_t{4} << 30);
  const absl::StatusOr<PlanView> refused = PlanOffline(spec, ExampleProfiles());
  ASSERT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition));
  const std::string smallest =
      GetErrorDetail(refused.status())->metadata.at("smallestDeviceMemoryBytes");
  EXPECT_THAT(refused.status().ToString(), HasSubstr(smallest + " bytes"));
  group.set_device_memory_bytes(std::stoll(smallest));
  EXPECT_OK(PlanOffline(spec, ExampleProfiles()));
  group.set_device_memory_bytes(std::stoll(smallest) - (int64_t{2} << 20));
  EXPECT_THAT(PlanOffline(spec, ExampleProfiles()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(PlanOffline, NamesAllMissingMeasurementsAtOnce) {
  v1::Profile profile = ExampleProfiles()[0];
  profile.clear_collective_timings();
  profile.clear_overlap_slowdown();
  auto* memories = profile.mutable_layer_memories();
  memories->erase(std::remove_if(memories->begin(), memories->end(),
                                 [](const v1::LayerMemory& memory) {
                                   return memory.layer_definition_id() == "head";
                                 }),
                  memories->end());
  const absl::StatusOr<PlanView> refused = PlanOffline(ExampleSpec(), {profile});
  EXPECT_EQ(GetErrorDetail(refused.status())->reason, Reason::kProfileMissing);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("head"), HasSubstr("send-receive"),
                                      HasSubstr("overlap_slowdown"), HasSubstr("all-reduce"))));
}

TEST(PlanOffline, OfADeviceNobodyKnowsNeedsAProfile) {
  v1::PlanSpec spec = ExampleSpec();
  spec.mutable_topology()->mutable_node_groups(0)->set_device_kind("abacus");
  for (const bool allow_estimates : {false, true}) {
    spec.mutable_options()->set_allow_estimates(allow_estimates);
    EXPECT_THAT(PlanOffline(spec, {}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                AllOf(HasSubstr("--profile: "), HasSubstr("abacus"),
                                                      HasSubstr("planctl hardware list"))));
  }
}

TEST(PlanOffline, WithoutAProfileOfAKnownDeviceIsEstimated) {
  v1::PlanSpec spec = ExampleSpec();
  ASSERT_OK_AND_ASSIGN(const PlanView unasked, PlanOffline(spec, {}));
  spec.mutable_options()->set_allow_estimates(true);
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, {}));
  EXPECT_EQ(unasked.plan, view.plan);
  EXPECT_EQ(unasked.payload.prediction().SerializeAsString(),
            view.payload.prediction().SerializeAsString());
  EXPECT_EQ(view.prediction.confidence, Confidence::kEstimated);
  EXPECT_EQ(view.payload.profile_digest(), "");
  EXPECT_EQ(view.payload.hardware_digest().size(), 64u);
  // A profile of another kind of node is as good as none.
  v1::Profile other = ExampleProfiles()[0];
  other.set_device_kind("abacus");
  ASSERT_OK_AND_ASSIGN(const PlanView same, PlanOffline(spec, {other}));
  EXPECT_EQ(same.plan, view.plan);
  EXPECT_EQ(same.payload.prediction().SerializeAsString(),
            view.payload.prediction().SerializeAsString());
  // A profile that was named is meant: without leave to estimate it must serve.
  spec.mutable_options()->set_allow_estimates(false);
  EXPECT_EQ(GetErrorDetail(PlanOffline(spec, {other}).status())->reason, Reason::kProfileMissing);
}

// Everything takes `factor` times as long as data sheets say.
std::shared_ptr<const Calibration> TimesFactor(double factor) {
  Calibration::Content content = PublishedCalibration()->content();
  content.coefficient_values.push_back(
      {.coefficient = Coefficient::kTimeFactor, .scope = {}, .value = factor});
  content.digest = CalibrationDigest(content);
  absl::StatusOr<Calibration> calibration = Calibration::Create(std::move(content));
  EXPECT_OK(calibration);
  return std::make_shared<const Calibration>(*std::move(calibration));
}

TEST(PlanOffline, RestsOnTheCalibrationAndSaysOnWhich) {
  const std::shared_ptr<const Calibration> slow = TimesFactor(1.25);
  v1::PlanSpec spec = ExampleSpec();
  spec.mutable_options()->set_runtime_id("megatron-core");
  ASSERT_OK_AND_ASSIGN(const PlanView usual, PlanOffline(spec, {}));
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, {}, slow));
  EXPECT_GT(view.prediction.step, usual.prediction.step);
  EXPECT_EQ(usual.payload.calibration_digest(), PublishedCalibration()->content().digest);
  EXPECT_EQ(view.payload.calibration_digest(), slow->content().digest);
  EXPECT_NE(view.payload.calibration_digest(), usual.payload.calibration_digest());
  EXPECT_EQ(view.payload.runtime_id(), "megatron-core");
  EXPECT_EQ(view.payload.hardware_digest().size(), 64u);

  ASSERT_OK_AND_ASSIGN(const PlanView evaluated, EvaluateOffline(spec, {}, view.plan, slow));
  EXPECT_EQ(evaluated.payload.prediction().SerializeAsString(),
            view.payload.prediction().SerializeAsString());
  EXPECT_EQ(evaluated.payload.calibration_digest(), slow->content().digest);
  // Integer programs take their time.
  spec.mutable_options()->mutable_search_time_limit()->set_seconds(1);
  ASSERT_OK_AND_ASSIGN(const auto usual_rows, CompareOffline(spec, {}));
  ASSERT_OK_AND_ASSIGN(const auto rows, CompareOffline(spec, {}, slow));
  ASSERT_EQ(rows.size(), usual_rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool is_baseline = absl::c_linear_search(BaselineNames(), rows[i].planner());
    if (!is_baseline || !rows[i].feasible()) continue;
    EXPECT_LT(rows[i].samples_per_second(), usual_rows[i].samples_per_second())
        << rows[i].planner();
  }
}

TEST(PlanOffline, TakesTheFirstProfileWhereTwoMeasuredTheSame) {
  v1::Profile slow = ExampleProfiles()[0];
  for (v1::LayerTiming& timing : *slow.mutable_layer_timings()) {
    timing.mutable_forward_duration()->set_seconds(1);
  }
  const v1::Profile fast = ExampleProfiles()[0];
  ASSERT_OK_AND_ASSIGN(const PlanView alone, PlanOffline(ExampleSpec(), {fast}));
  ASSERT_OK_AND_ASSIGN(const PlanView first, PlanOffline(ExampleSpec(), {fast, slow}));
  ASSERT_OK_AND_ASSIGN(const PlanView second, PlanOffline(ExampleSpec(), {slow, fast}));
  EXPECT_EQ(first.prediction.step, alone.prediction.step);
  EXPECT_GT(second.prediction.step, alone.prediction.step);
}

TEST(PlanOffline, ReportsProgressOverAllCandidates) {
  std::vector<v1::SearchProgress> seen;
  SearchWatch watch;
  watch.on_progress = [&seen](const v1::SearchProgress& progress) { seen.push_back(progress); };
  ASSERT_OK(PlanOffline(ExampleSpec(), ExampleProfiles(), nullptr, watch));
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(seen.back().has_incumbent_step_duration());
  for (const v1::SearchProgress& progress : seen) {
    EXPECT_LE(progress.done_candidate_count(), progress.total_candidate_count());
    EXPECT_GE(progress.gap_ratio(), 0.0);
    EXPECT_LE(progress.gap_ratio(), 1.0);
  }
}

TEST(PlanOffline, ComparesWithEveryBaselineInTheOrderOfTheirNames) {
  v1::PlanSpec spec = SpecWith("tp");
  spec.mutable_options()->set_compare_baselines(true);
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, ExampleProfiles()));
  std::vector<std::string> names;
  for (const v1::PlannerComparison& row : view.comparisons) names.push_back(row.planner());
  EXPECT_THAT(names, ElementsAreArray(BaselineNames()));
}

TEST(CompareOffline, KeepsARowForAPlannerWithoutAPlanOfItsKind) {
  // 16 devices are more than the heads can be divided by on one node. Integer programs
  // take their time.
  v1::PlanSpec spec = ExampleSpec(2);
  spec.mutable_options()->mutable_search_time_limit()->set_seconds(1);
  ASSERT_OK_AND_ASSIGN(const std::vector<v1::PlannerComparison> rows,
                       CompareOffline(spec, ExampleProfiles(2)));
  ASSERT_EQ(rows.size(), PlannerNames().size());
  bool found = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].planner(), PlannerNames()[i]);
    if (rows[i].planner() != "tp") continue;
    found = true;
    EXPECT_FALSE(rows[i].feasible());
    EXPECT_EQ(rows[i].smallest_device_memory_bytes(), 0);
  }
  EXPECT_TRUE(found);
}

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

TEST(EvaluateOffline, TellsWhyAPlanIsNoneForTheQuestion) {
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

TEST(ViewOfFile, RefusesWhatIsNoPlan) {
  EXPECT_THAT(ViewOfFile("{}", "plan.json"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ViewOfFile("", "plan.json"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plan.json")));
  EXPECT_THAT(ViewOfFile(R"({"payloadType": "x"})", "plan.json"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan::planctl
