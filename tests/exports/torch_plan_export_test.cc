#include "exports/torch_plan_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "clients/import/torch_plan.h"
#include "exports/layer_strategies.h"
#include "exports/pass_table.h"
#include "exports/torch_plan.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/clients/import/layerwise_plans.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ExportFacts FsdpFacts() { return {*FindRuntime("fsdp"), "plan 1"}; }

absl::StatusOr<std::vector<ExportedFile>> ExportAs(TorchPlanFormat format, const Plan& plan,
                                                   const ModelSpec& model) {
  return format == TorchPlanFormat::kFsdp2 ? ExportFsdp2Plan(plan, model, FsdpFacts())
                                           : ExportTorchPipelining(plan, model, FsdpFacts());
}

// Two stages of two ranks: a sharded embedding and layer, then a layer split by tensor parallelism
// and a sharded head.
Plan MixedPlan(const ModelSpec& model) {
  const Strategy sharded{.data_parallel_degree = 2, .sharding_level = ShardingLevel::kParameters};
  Strategy recomputed = sharded;
  recomputed.recompute_level = RecomputeLevel::kFull;
  const Strategy split{.tensor_parallel_degree = 2};
  Plan plan;
  plan.device_count = 4;
  plan.global_batch_size = 6;
  plan.micro_batch_count = 3;
  plan.stages = StagesOf({{2, 2}, {sharded, recomputed, split, sharded}}, model, 2, 2);
  return plan;
}

ModelSpec SmallModel() { return DecoderModel({.dense_layer_count = 2, .tied_embedding = false}); }

// A reader would else leave experts whole, whose parts the prediction counts.
TEST(ExportFsdp2Plan, SaysHowExpertsAreSplit) {
  const ModelSpec model =
      DecoderModel({.dense_layer_count = 0, .expert_layer_count = 2, .tied_embedding = false});
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportFsdp2Plan(MixedPlan(model), model, FsdpFacts()));
  const nlohmann::json splits = nlohmann::json::parse(files[0].text)["tensor_parallel_plan"];
  nlohmann::json expected = splits["feed_forward"];
  expected["router"] = "whole";
  EXPECT_EQ(splits["experts"], expected);
}

TEST(ExportFsdp2Plan, WritesTheWorkedExample) {
  const ModelSpec model = SmallModel();
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportFsdp2Plan(MixedPlan(model), model, FsdpFacts()));
  ASSERT_EQ(files.size(), 4);
  EXPECT_EQ(files[0].name, "fsdp2.json");
  const nlohmann::json expected = nlohmann::json::parse(R"({
    "format": "parplan.fsdp2", "version": 1,
    "device_count": 4, "global_batch_size": 6, "micro_batch_count": 3,
    "pipeline": {"degree": 2, "virtual_stages": 1, "schedule": "1f1b", "passes": "schedule.csv"},
    "strategies": [
      {"mesh": {"axes": ["data", "context", "tensor"], "shape": [2, 1, 1]},
       "data_parallel": {"kind": "fully_shard", "reshard_after_forward": true,
                         "reduce_gradients": "micro_batch"},
       "sequence_parallel": false, "context_parallel": "ring", "expert_parallel_degree": 1,
       "recompute": "none"},
      {"mesh": {"axes": ["data", "context", "tensor"], "shape": [2, 1, 1]},
       "data_parallel": {"kind": "fully_shard", "reshard_after_forward": true,
                         "reduce_gradients": "micro_batch"},
       "sequence_parallel": false, "context_parallel": "ring", "expert_parallel_degree": 1,
       "recompute": "layer"},
      {"mesh": {"axes": ["data", "context", "tensor"], "shape": [1, 1, 2]},
       "data_parallel": {"kind": "replicate"},
       "sequence_parallel": false, "context_parallel": "ring", "expert_parallel_degree": 1,
       "recompute": "none"}],
    "stages": [
      {"first_rank": 0, "rank_count": 2,
       "layers": [{"modules": ["tok_embeddings"], "strategy": 0},
                  {"modules": ["layers.0"], "strategy": 1}]},
      {"first_rank": 2, "rank_count": 2,
       "layers": [{"modules": ["layers.1"], "strategy": 2},
                  {"modules": ["norm", "lm_head"], "strategy": 0}]}],
    "numbers": {"parameters": "bfloat16", "gradient_messages": "bfloat16"},
    "transitions": [{"before": "layers.1", "gradient_scale": [2, 1]},
                    {"before": "norm", "gradient_scale": [1, 2]}],
    "tied_modules": [],
    "tensor_parallel_plan": {
      "embedding": {"table": "rowwise"},
      "attention": {"input": "once", "query": "colwise", "key": "colwise", "value": "colwise",
                    "output": "rowwise"},
      "feed_forward": {"input": "once", "up": "colwise", "down": "rowwise"},
      "head": {"input": "once", "projection": "colwise"}}})");
  EXPECT_EQ(nlohmann::json::parse(files[0].text), expected) << files[0].text;
  EXPECT_EQ(files[1],
            (ExportedFile{"schedule.csv", "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"}));
  EXPECT_EQ(files[2], (ExportedFile{"fsdp2.env", R"(PARPLAN_DEVICE_COUNT=4
PARPLAN_GLOBAL_BATCH_SIZE=6
PARPLAN_MICRO_BATCH_SIZE_PER_RANK=1
PARPLAN_GRADIENT_ACCUMULATION_STEPS=3
)"}));
  EXPECT_EQ(files[3].name, "README.txt");
  EXPECT_THAT(files[3].text, AllOf(HasSubstr("4 devices"), HasSubstr("Plan plan 1")));
}

TEST(ExportFsdp2Plan, RefusesToSplitLatentAttention) {
  const ModelSpec model =
      DecoderModel({.dense_layer_count = 1, .tied_embedding = false, .latent_attention = true});
  Plan plan;
  plan.device_count = 2;
  plan.global_batch_size = 2;
  const auto export_with = [&](const Strategy& strategy) {
    plan.stages = StagesOf({{3}, {strategy, strategy, strategy}}, model, 1, 2);
    return ExportFsdp2Plan(plan, model, FsdpFacts()).status();
  };
  EXPECT_OK(export_with({.data_parallel_degree = 2}));
  EXPECT_THAT(export_with({.tensor_parallel_degree = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("tensor_parallel_degree: is 2 in layer 1"),
                             HasSubstr("latent attention"))));
}

// Context-parallel ranks are innermost then, which one replica leaves a meaning.
TEST(ExportFsdp2Plan, TakesAnOrderOfRanksOfContextParallelismAlone) {
  const ModelSpec model = SmallModel();
  Strategy strategy{.tensor_parallel_degree = 2, .context_parallel_degree = 2};
  strategy.rank_order = RankOrder::kDataInnermost;
  Plan plan;
  plan.device_count = 4;
  plan.global_batch_size = 1;
  plan.stages = StagesOf({{4}, {strategy, strategy, strategy, strategy}}, model, 1, 4);
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportFsdp2Plan(plan, model, FsdpFacts()));
  ASSERT_OK_AND_ASSIGN(const TorchPlanImport import,
                       ImportTorchPlan({files[0].name, files[0].text}, std::nullopt, model));
  EXPECT_EQ(import.plan, plan);
}

class TorchPlanExport : public ::testing::TestWithParam<TorchPlanFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, TorchPlanExport,
                         ::testing::Values(TorchPlanFormat::kFsdp2, TorchPlanFormat::kPipelining));

TEST_P(TorchPlanExport, ReadsBackToAnEqualPlanForRandomPlans) {
  std::set<ShardingLevel> levels;
  int interleaved = 0, mixed = 0, tied = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const ModelSpec model = DecoderModel(RandomDecoderModel(random));
    const Plan plan = RandomTorchPlan(random, model, GetParam());
    ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files, ExportAs(GetParam(), plan, model));
    std::optional<NamedText> passes;
    if (files[1].name == kPassTableName) passes = NamedText{files[1].name, files[1].text};
    EXPECT_EQ(passes.has_value(), plan.pipeline_parallel_degree() > 1);
    ASSERT_OK_AND_ASSIGN(const TorchPlanImport import,
                         ImportTorchPlan({files[0].name, files[0].text}, passes, model));
    ASSERT_EQ(import.plan, plan) << files[0].text;
    EXPECT_EQ(import.format, GetParam());
    ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> again,
                         ExportAs(GetParam(), import.plan, model));
    EXPECT_EQ(again, files);
    const LayerStrategies layers = LayerStrategiesOf(plan);
    for (const Strategy& strategy : layers.strategies) levels.insert(strategy.sharding_level);
    interleaved += plan.virtual_stage_count > 1;
    tied += model.layer(model.layer_count() - 1).tied_embedding;
    for (size_t i = 1; i < layers.strategies.size(); ++i) {
      if (HoldActivationsAlike(layers.strategies[i - 1], layers.strategies[i])) continue;
      ++mixed;
      break;
    }
  }
  EXPECT_EQ(levels.size(), 4);
  EXPECT_GE(interleaved, 50);
  EXPECT_GE(mixed, 50);
  EXPECT_GE(tied, 50);
}

// A loss that is the mean over the samples of a rank has a gradient that is larger by the number of
// ranks with other samples, whatever the way through the layers.
TEST(GradientScaleBetween, MultipliesToTheRatioOfReplicasOnAnyWay) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 300; ++i) {
    const ModelSpec model = DecoderModel(RandomDecoderModel(random));
    const LayerStrategies layers =
        LayerStrategiesOf(RandomTorchPlan(random, model, TorchPlanFormat::kFsdp2));
    const auto replicas = [](const Strategy& strategy) {
      return double(strategy.data_parallel_degree) * strategy.context_parallel_degree;
    };
    double product = 1;
    for (size_t layer = layers.strategies.size() - 1; layer > 0; --layer) {
      const GradientScale scale =
          GradientScaleBetween(layers.strategies[layer - 1], layers.strategies[layer]);
      product = product * double(scale.numerator) / double(scale.denominator);
      if (HoldActivationsAlike(layers.strategies[layer - 1], layers.strategies[layer])) {
        EXPECT_EQ(scale.numerator, 1);
        EXPECT_EQ(scale.denominator, 1);
      }
      EXPECT_NEAR(product,
                  replicas(layers.strategies[layer - 1]) / replicas(layers.strategies.back()),
                  1e-9 * product);
    }
  }
}

TEST(ExportFsdp2Plan, NamesTheNumbersOfTheRuntime) {
  const ModelSpec model = SmallModel();
  Plan plan = MixedPlan(model);
  plan.stages[1].layer_runs[0].strategy.recompute_level = RecomputeLevel::kSelective;
  ExportFacts facts = FsdpFacts();
  facts.runtime.gradient_message_bytes = 4;
  facts.runtime.selective_recompute = SelectiveRecompute::kOperators;
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files, ExportFsdp2Plan(plan, model, facts));
  EXPECT_THAT(files[0].text, AllOf(HasSubstr(R"("gradient_messages": "float32")"),
                                   HasSubstr(R"("recompute": "operators")")));
  ASSERT_OK_AND_ASSIGN(const TorchPlanImport import,
                       ImportTorchPlan({"f", files[0].text}, NamedText{"s", files[1].text}, model));
  EXPECT_EQ(import.plan, plan);
  EXPECT_EQ(import.traits.reduction_bytes, 4);
  EXPECT_EQ(import.traits.selective_recompute, SelectiveRecompute::kOperators);
}

TEST(ExportFsdp2Plan, RefusesWithLayerAndReason) {
  const ModelSpec model = SmallModel();
  const auto refuse = [&model](auto&& change, const std::string& part) {
    Plan plan = MixedPlan(model);
    change(plan);
    EXPECT_THAT(ExportFsdp2Plan(plan, model, FsdpFacts()).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(part), HasSubstr("plain PyTorch can't run that"))));
  };
  const auto strategy_of = [](Plan& plan, int stage, int run) -> Strategy& {
    return plan.stages[stage].layer_runs[run].strategy;
  };
  refuse([&](Plan& plan) { strategy_of(plan, 1, 0).tensor_parallel_degree = 4; },
         "stages[1].layer_runs[0].strategy: of layer 2 has degrees that do not multiply to the 2");
  refuse([&](Plan& plan) { strategy_of(plan, 1, 0).expert_parallel_degree = 2; },
         "of layer 2 spreads experts over 2 ranks");
  refuse([&](Plan& plan) { strategy_of(plan, 0, 0).recompute_level = RecomputeLevel::kFull; },
         "of layer 0 recomputes an embedding or a head");
  refuse(
      [&](Plan& plan) {
        strategy_of(plan, 0, 1)
            .set_recomputation(
                Recomputation(*RecomputeModules::Create({RecomputeModule::kFeedForward}, "")));
      },
      "of layer 1 recomputes modules by name");
  refuse([&](Plan& plan) { strategy_of(plan, 0, 1).expert_tensor_parallel_degree = 1; },
         "of layer 1 splits experts over other ranks");
  refuse([&](Plan& plan) { strategy_of(plan, 0, 1).sharding_degree = 2; },
         "of layer 1 shares its states in groups of 2 of 2 ranks");
  refuse([&](Plan& plan) { strategy_of(plan, 0, 1).sequence_parallel = true; },
         "of layer 1 has sequence parallelism without");
  refuse([&](Plan& plan) { strategy_of(plan, 0, 1).context_kind = ContextKind::kUlysses; },
         "of layer 1 has a kind of context parallelism without any");
  refuse([&](Plan& plan) { strategy_of(plan, 0, 1).rank_order = RankOrder::kDataInnermost; },
         "of layer 1 has an order of ranks");
  refuse([](Plan& plan) { plan.global_batch_size = 3; },
         "of layer 0 shares micro-batches of 1 samples between 2 replicas");
  refuse([](Plan& plan) { plan.micro_batch_count = 4; }, "micro_batch_count: does not divide");
  refuse([](Plan& plan) { plan.device_count = 6; }, "stages[0]: must be on 3 ranks");
  refuse([](Plan& plan) { plan.stages[1].first_rank = 0; }, "stages[1]: must be on 2 ranks from 2");
  refuse([](Plan& plan) { plan.schedule = Schedule::kInterleaved; }, "schedule: is interleaved");
  refuse([](Plan& plan) { plan.schedule = Schedule::kZeroBubble; },
         "of layer 0 is sharded beside split backward passes");
  refuse([](Plan& plan) { plan.virtual_stage_count = 2; }, "schedule: is 1f1b with 2 virtual");
  refuse([](Plan& plan) { plan.virtual_stage_count = 3; }, "virtual_stage_count: does not divide");
  refuse([](Plan& plan) { plan.micro_batch_group_size = 4; }, "micro_batch_group_size: is 4");
  refuse([](Plan& plan) { plan.stages[0].layer_runs[1].first_layer_index = 0; },
         "stages: are not in the order");
}

// What both exports write of ZB-H1 is read back as the same plan.
TEST(ImportTorchPlan, ReadsSplitBackwardPasses) {
  const ModelSpec model = SmallModel();
  const Strategy replicated{.data_parallel_degree = 2};
  const Strategy split{.tensor_parallel_degree = 2};
  Plan plan;
  plan.device_count = 4;
  plan.global_batch_size = 6;
  plan.micro_batch_count = 3;
  plan.schedule = Schedule::kZeroBubble;
  plan.stages = StagesOf({{2, 2}, {replicated, split, split, replicated}}, model, 2, 2);
  for (const TorchPlanFormat format : {TorchPlanFormat::kFsdp2, TorchPlanFormat::kPipelining}) {
    ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files, ExportAs(format, plan, model));
    EXPECT_THAT(files[0].text, HasSubstr("zb-h1"));
    ASSERT_EQ(files[1].name, "schedule.csv");
    ASSERT_OK_AND_ASSIGN(const TorchPlanImport import,
                         ImportTorchPlan({files[0].name, files[0].text},
                                         NamedText{files[1].name, files[1].text}, model));
    EXPECT_EQ(import.plan.schedule, Schedule::kZeroBubble);
    EXPECT_EQ(import.plan, WithJoinedRuns(plan, model));
  }
}

TEST(ExportFsdp2Plan, RefusesWhatPyTorchLacks) {
  const ModelSpec experts = DecoderModel({.dense_layer_count = 0, .expert_layer_count = 2});
  Plan plan;
  plan.device_count = 2;
  plan.global_batch_size = 2;
  const Strategy alone{.data_parallel_degree = 2};
  Strategy spread = alone;
  spread.expert_parallel_degree = 2;
  plan.stages = StagesOf({{4}, {alone, spread, spread, alone}}, experts, 1, 2);
  EXPECT_THAT(ExportFsdp2Plan(plan, experts, FsdpFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("spreads the experts of layer 1 over 2 ranks")));
  Strategy exchanged{.context_parallel_degree = 2, .context_kind = ContextKind::kUlysses};
  plan.stages = StagesOf({{4}, {alone, alone, exchanged, alone}}, experts, 1, 2);
  EXPECT_THAT(ExportFsdp2Plan(plan, experts, FsdpFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("exchanges tokens for heads in layer 2")));
}

TEST(ExportFsdp2Plan, RefusesATiedHeadThatIsNotSpreadAsTheEmbedding) {
  const ModelSpec model = DecoderModel({.dense_layer_count = 2});
  Plan plan = MixedPlan(model);
  EXPECT_THAT(
      ExportFsdp2Plan(plan, model, FsdpFacts()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shards layer 3, a tied head")));
  plan.stages[1].layer_runs[1].strategy.sharding_level = ShardingLevel::kNone;
  EXPECT_THAT(ExportFsdp2Plan(plan, model, FsdpFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("spreads layer 3, a tied head, otherwise than layer 0")));
  plan.stages[0].layer_runs[0].strategy.sharding_level = ShardingLevel::kNone;
  EXPECT_OK(ExportFsdp2Plan(plan, model, FsdpFacts()));
}

TEST(ExportTorchPipelining, RefusesOneStageAndMessagesThatWouldChange) {
  const ModelSpec model = SmallModel();
  Plan plan = MixedPlan(model);
  EXPECT_THAT(ExportTorchPipelining(plan, model, FsdpFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("splits the activations of layer 2 otherwise than layer 1")));
  plan.stages[1].layer_runs[0].strategy = {.data_parallel_degree = 2};
  EXPECT_OK(ExportTorchPipelining(plan, model, FsdpFacts()));
  plan.device_count = 2;
  plan.stages = StagesOf({{4}, std::vector<Strategy>(4, {.data_parallel_degree = 2})}, model, 1, 2);
  EXPECT_THAT(ExportTorchPipelining(plan, model, FsdpFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no pipeline")));
}

}  // namespace
}  // namespace parplan
