#include "exports/megatron_plan_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "exports/exporters.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ExportFacts MegatronCoreFacts() { return {*FindRuntime("megatron-core"), "plan 1"}; }

// Four stages of 16, 16, 16 and 15 layers with the ends (docs/exports.md has it as the example).
UniformPlan UnevenPlan() {
  UniformPlan facts;
  facts.device_count = 64;
  facts.global_batch_size = 128;
  facts.micro_batch_count = 32;
  facts.stage_layer_counts = {16, 16, 16, 15};
  facts.strategy = {.tensor_parallel_degree = 4,
                    .data_parallel_degree = 4,
                    .sharding_level = ShardingLevel::kOptimizer,
                    .sequence_parallel = true};
  return facts;
}

ModelSpec DeepModel() { return DecoderModel({.dense_layer_count = 61, .tied_embedding = false}); }

TEST(ExportMegatronPlan, WritesTheWorkedExample) {
  const ModelSpec model = DeepModel();
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportMegatronPlan(PlanOf(UnevenPlan(), model), model, MegatronCoreFacts()));
  ASSERT_EQ(files.size(), 3);
  EXPECT_EQ(files[0], (ExportedFile{"megatron.args", R"(--num-layers=61
--hidden-size=512
--ffn-hidden-size=1536
--num-attention-heads=64
--group-query-attention
--num-query-groups=8
--kv-channels=8
--seq-length=1024
--max-position-embeddings=1024
--vocab-size=1000
--untie-embeddings-and-output-weights
--bf16
--optimizer=adam
--tensor-model-parallel-size=4
--pipeline-model-parallel-size=4
--pipeline-model-parallel-layout=Et*15|t*16|t*16|t*14L
--context-parallel-size=1
--sequence-parallel
--micro-batch-size=1
--global-batch-size=128
--use-distributed-optimizer
--overlap-grad-reduce
--overlap-param-gather
)"}));
  EXPECT_EQ(files[1], (ExportedFile{"megatron.env", R"(PARPLAN_DEVICE_COUNT=64
PARPLAN_GLOBAL_BATCH_SIZE=128
PARPLAN_MICRO_BATCH_SIZE_PER_RANK=1
PARPLAN_GRADIENT_ACCUMULATION_STEPS=32
CUDA_DEVICE_MAX_CONNECTIONS=1
)"}));
  EXPECT_EQ(files[2].name, "README.txt");
  EXPECT_THAT(files[2].text, AllOf(HasSubstr("core 0.14 to 0.20"), HasSubstr("64 devices")));
}

TEST(ExportMegatronPlan, WritesLatentAttentionWindowsAndFurtherTokens) {
  const ModelSpec model = DecoderModel(
      {.dense_layer_count = 6, .latent_attention = true, .query_rank = 32, .window_interval = 3});
  UniformPlan facts;
  facts.stage_layer_counts = {8};
  facts.device_count = facts.global_batch_size = 1;
  ASSERT_OK_AND_ASSIGN(std::vector<ExportedFile> files,
                       ExportMegatronPlan(PlanOf(facts, model), model, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text, HasSubstr(R"(--num-attention-heads=64
--multi-latent-attention
--qk-layernorm
--q-lora-rank=32
--kv-lora-rank=16
--qk-head-dim=8
--qk-pos-emb-head-dim=4
--v-head-dim=8
--window-size=127,0
--window-attn-skip-freq=([1]*2+[0]*1+[1]*2+[0]*1)
--seq-length=1024
)"));
  const ModelSpec further = DecoderModel({.window_interval = 1, .prediction_count = 2});
  facts.stage_layer_counts = {3, 2, 2, 1};
  facts.virtual_stage_count = 2;
  facts.device_count = 2;
  facts.micro_batch_count = facts.global_batch_size = 2;
  ASSERT_OK_AND_ASSIGN(files,
                       ExportMegatronPlan(PlanOf(facts, further), further, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text, AllOf(HasSubstr("--num-layers=4\n--mtp-num-layers=2\n"),
                                   HasSubstr("--window-size=127,0\n--seq"),
                                   HasSubstr("--pipeline-model-parallel-layout=Et*2|t*2|m*2|L\n")));
  // The layers for further tokens would be in two stages, or in a first virtual stage.
  facts.stage_layer_counts = {3, 2, 1, 2};
  EXPECT_THAT(ExportMegatronPlan(PlanOf(facts, further), further, MegatronCoreFacts()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stages[3]: holds a layer for a further token")));
  facts.stage_layer_counts = {3, 3, 1, 1};
  EXPECT_THAT(ExportMegatronPlan(PlanOf(facts, further), further, MegatronCoreFacts()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stages[1]: holds a layer for a further token")));
}

// Recomputation of the first layers of each stage leaves out those for further tokens, which the
// program warns of; recomputation of all takes them too.
TEST(ExportMegatronPlan, RecomputesFurtherTokensWithAllOthersOnly) {
  const ModelSpec model = DecoderModel({.prediction_count = 1});
  UniformPlan facts;
  facts.stage_layer_counts = {3, 4};
  facts.device_count = facts.micro_batch_count = facts.global_batch_size = 2;
  facts.strategy.recompute_level = RecomputeLevel::kFull;
  const auto level_of_prediction = [&model](const Plan& plan) {
    for (const StageLayerRun& run : plan.stages[1].layer_runs) {
      if (model.layer(run.first_layer_index).prediction_depth > 0) {
        return run.strategy.recompute_level;
      }
    }
    return RecomputeLevel::kSelective;
  };
  Plan plan = PlanOf(facts, model);
  EXPECT_EQ(level_of_prediction(plan), RecomputeLevel::kFull);
  facts.recomputed_layer_count = 2;
  plan = PlanOf(facts, model);
  EXPECT_EQ(level_of_prediction(plan), RecomputeLevel::kNone);
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportMegatronPlan(plan, model, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text, HasSubstr("--recompute-method=block\n--recompute-num-layers=2\n"));
  for (StageLayerRun& run : plan.stages[0].layer_runs) {
    run.strategy.recompute_level = RecomputeLevel::kNone;
  }
  for (StageLayerRun& run : plan.stages[1].layer_runs) {
    if (model.layer(run.first_layer_index).prediction_depth > 0) {
      run.strategy.recompute_level = RecomputeLevel::kFull;
    }
  }
  EXPECT_THAT(ExportMegatronPlan(plan, model, MegatronCoreFacts()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("which predicts a further token, and not all others")));
}

TEST(ExportMegatronPlan, OverlapsWhatThePredictionOverlaps) {
  const ModelSpec model = DeepModel();
  const auto arguments_of = [&model](const RuntimeTraits& runtime) {
    const auto files = ExportMegatronPlan(PlanOf(UnevenPlan(), model), model, {runtime, ""});
    EXPECT_OK(files);
    return (*files)[0].text;
  };
  RuntimeTraits runtime = *FindRuntime("megatron-core");
  runtime.overlap_parameter_gather = false;
  EXPECT_THAT(arguments_of(runtime),
              AllOf(HasSubstr("--overlap-grad-reduce"), Not(HasSubstr("--overlap-param-gather"))));
  runtime.overlap_gradient_sync = false;
  EXPECT_THAT(arguments_of(runtime), Not(HasSubstr("--overlap")));
  // parplan's own runtime has no dropout and 16-bit gradients.
  EXPECT_THAT(arguments_of(RuntimeTraits()),
              AllOf(HasSubstr("--attention-dropout=0.0"), HasSubstr("--grad-reduce-in-bf16")));
}

TEST(ExportMegatronPlan, ShardsGradientsAndParametersWithMegatronFsdp) {
  const ModelSpec model = DecoderModel({});
  UniformPlan facts = UnevenPlan();
  facts.stage_layer_counts = {6};
  facts.device_count = 16;
  facts.strategy.sharding_level = ShardingLevel::kParameters;
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportMegatronPlan(PlanOf(facts, model), model, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text,
              AllOf(HasSubstr("--use-megatron-fsdp\n"),
                    HasSubstr("--data-parallel-sharding-strategy=optim_grads_params\n"),
                    HasSubstr("--ckpt-format=fsdp_dtensor\n"), HasSubstr("--tp-comm-overlap\n")));
  EXPECT_THAT(files[1].text, Not(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS")));
  EXPECT_THAT(files[2].text, HasSubstr("unset it"));
}

TEST(ExportMegatronPlan, RefusesWithLayerAndReason) {
  const ModelSpec model = DeepModel();
  const auto refuse = [&model](auto&& change, const std::string& part) {
    Plan plan = PlanOf(UnevenPlan(), model);
    change(plan);
    EXPECT_THAT(ExportMegatronPlan(plan, model, MegatronCoreFacts()).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(part), HasSubstr("Megatron-LM can't run that"))));
  };
  const auto strategy_of = [](Plan& plan, int stage) -> Strategy& {
    return plan.stages[stage].layer_runs[0].strategy;
  };
  refuse([&](Plan& plan) { strategy_of(plan, 1).tensor_parallel_degree = 2; },
         "stages[1].layer_runs[0].strategy.tensor_parallel_degree: is 2 in layer 16 and 4 in layer "
         "1");
  refuse([&](Plan& plan) { strategy_of(plan, 3).sharding_level = ShardingLevel::kParameters; },
         "stages[3].layer_runs[0].strategy.sharding_level: is zero-3 in layer 48 and zero-1 in "
         "layer 1");
  refuse([&](Plan& plan) { strategy_of(plan, 0).sharding_level = ShardingLevel::kNone; },
         "sharding_level: is none in layer 0 and zero-1 in layer 1");
  refuse([&](Plan& plan) { strategy_of(plan, 2).sequence_parallel = false; },
         "sequence_parallel: is off in layer 32");
  refuse([&](Plan& plan) { strategy_of(plan, 2).rank_order = RankOrder::kDataInnermost; },
         "rank_order: has the data-parallel ranks of layer 32 innermost");
  refuse([&](Plan& plan) { strategy_of(plan, 0).recompute_level = RecomputeLevel::kFull; },
         "recomputes layer 0, an embedding or a head");
  // Stage 1 recomputes all 16 layers, so the others would have to as well.
  refuse([&](Plan& plan) { strategy_of(plan, 1).recompute_level = RecomputeLevel::kFull; },
         "does not recompute layer 1, one of the first 16 of its stage");
  refuse([&](Plan& plan) { strategy_of(plan, 1).recompute_level = RecomputeLevel::kSelective; },
         "recomputes attention alone in one of the layers 1 and 16");
  refuse([&](Plan& plan) { strategy_of(plan, 1).expert_parallel_degree = 2; },
         "is 2 in layer 16, which has no experts");
  refuse([](Plan& plan) { plan.schedule = Schedule::kGpipe; }, "schedule: is gpipe");
  refuse([](Plan& plan) { plan.schedule = Schedule::kInterleaved; }, "schedule: is interleaved");
  refuse([](Plan& plan) { plan.stages[2].rank_count = 8; }, "stages[2].rank_count: is 8 and");
  refuse([](Plan& plan) { plan.stages[2].first_rank = 0; }, "stages[2].first_rank: is out of");
  refuse([](Plan& plan) { plan.micro_batch_count = 64; }, "do not divide the batch of 128");
  refuse([](Plan& plan) { plan.stages.pop_back(); }, "hold 48 layers of the model's 63");
  refuse([](Plan& plan) { plan.device_count = 32; }, "other ranks than their degrees");
}

// Two devices of two stages each: the second stage of the first device only hands on.
TEST(ExportMegatronPlan, WritesStagesWithoutLayers) {
  const ModelSpec model = DeepModel();
  UniformPlan facts = UnevenPlan();
  facts.virtual_stage_count = 2;
  facts.device_count = 32;
  facts.stage_layer_counts = {31, 16, 0, 16};
  const Plan plan = PlanOf(facts, model);
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportMegatronPlan(plan, model, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text, HasSubstr("--pipeline-model-parallel-layout=Et*30|t*16||t*15L\n"));
  const auto refuse = [&](const std::vector<int>& counts, const std::string& part) {
    facts.stage_layer_counts = counts;
    EXPECT_THAT(ExportMegatronPlan(PlanOf(facts, model), model, MegatronCoreFacts()).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  refuse({0, 31, 16, 16}, "stages[0].layer_runs: has no layer; Megatron-LM can't run that");
  refuse({31, 16, 16, 0}, "stages[3].layer_runs: has no layer; Megatron-LM can't run that");
  // Every other program has a layer in each stage.
  for (const PlanExporter& exporter : AllExporters()) {
    if (exporter.target == "megatron") continue;
    for (const int virtual_stages : {1, 2}) {
      facts.virtual_stage_count = virtual_stages;
      facts.stage_layer_counts = {31, 16, 0, 16};
      facts.device_count = facts.strategy.rank_count() * facts.pipeline_parallel_degree();
      EXPECT_THAT(ExportPlan(exporter, PlanOf(facts, model), model, MegatronCoreFacts()).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument))
          << exporter.target;
    }
  }
}

TEST(ExportMegatronPlan, NamesModulesLineByLine) {
  const ModelSpec model = DeepModel();
  UniformPlan facts = UnevenPlan();
  facts.strategy.set_recomputation(Recomputation(*RecomputeModules::Create(
      {RecomputeModule::kFeedForward, RecomputeModule::kCoreAttention}, "recompute_modules")));
  Plan plan = PlanOf(facts, model);
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportMegatronPlan(plan, model, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text, HasSubstr("\n--recompute-granularity=selective\n"
                                       "--recompute-modules\ncore_attn\nmlp\n"));
  plan.stages[1].layer_runs[0].strategy.set_recomputation(RecomputeLevel::kNone);
  EXPECT_THAT(ExportMegatronPlan(plan, model, MegatronCoreFacts()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stages[1].layer_runs[0].strategy.recompute_modules: is `` in "
                                 "layer 16 and `core_attn mlp` in layer 1")));
}

// TransformerConfig of megatron-core 0.16.1 refuses `moe_act` without grouped products, and biases
// in experts that ranks split.
TEST(ExportMegatronPlan, WritesWhatItsExpertsNeed) {
  const ModelSpec model = DecoderModel({.dense_layer_count = 0, .expert_layer_count = 4});
  UniformPlan facts;
  facts.stage_layer_counts = {6};
  facts.device_count = 2;
  facts.global_batch_size = 1;
  facts.strategy = {.tensor_parallel_degree = 2, .sequence_parallel = true};
  facts.strategy.set_recomputation(Recomputation(*RecomputeModules::Create(
      {RecomputeModule::kExpertActivation, RecomputeModule::kNorms}, "recompute_modules")));
  ASSERT_OK_AND_ASSIGN(std::vector<ExportedFile> files,
                       ExportMegatronPlan(PlanOf(facts, model), model, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text,
              AllOf(HasSubstr("--expert-tensor-parallel-size=2\n--disable-bias-linear\n"),
                    HasSubstr("--recompute-modules\nmoe_act\nlayernorm\n--moe-grouped-gemm\n")));
  facts.strategy.expert_tensor_parallel_degree = 1;
  facts.strategy.set_recomputation(
      Recomputation(*RecomputeModules::Create({RecomputeModule::kNorms}, "recompute_modules")));
  ASSERT_OK_AND_ASSIGN(files, ExportMegatronPlan(PlanOf(facts, model), model, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text, AllOf(Not(HasSubstr("bias")), Not(HasSubstr("grouped"))));
}

// Eight ranks that share optimizer states by fours are two instances.
TEST(ExportMegatronPlan, WritesGroupsThatShareOptimizerStatesAsInstances) {
  const ModelSpec model = DeepModel();
  UniformPlan facts = UnevenPlan();
  facts.strategy = {.data_parallel_degree = 8};
  facts.strategy.set_sharding({ShardingLevel::kOptimizer, 4});
  facts.device_count = facts.strategy.rank_count() * facts.pipeline_parallel_degree();
  facts.global_batch_size = facts.micro_batch_count * 8;
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportMegatronPlan(PlanOf(facts, model), model, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text, HasSubstr("--use-distributed-optimizer\n"
                                       "--num-distributed-optimizer-instances=2\n"));
  facts.stage_layer_counts = {model.layer_count()};
  facts.device_count = 8;
  facts.strategy.sharding_level = ShardingLevel::kParameters;
  EXPECT_THAT(ExportMegatronPlan(PlanOf(facts, model), model, MegatronCoreFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sharding_degree: is 4 from layer 0 on")));
}

TEST(ExportMegatronPlan, WritesTheSizeOfGroups) {
  const ModelSpec model = DeepModel();
  UniformPlan facts = UnevenPlan();
  facts.virtual_stage_count = 2;
  facts.micro_batch_count = 31;
  facts.micro_batch_group_size = 7;
  facts.device_count = facts.strategy.rank_count() * facts.pipeline_parallel_degree();
  facts.global_batch_size = facts.micro_batch_count * facts.strategy.data_parallel_degree;
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportMegatronPlan(PlanOf(facts, model), model, MegatronCoreFacts()));
  EXPECT_THAT(files[0].text, HasSubstr("\n--microbatch-group-size-per-virtual-pipeline-stage=7\n"));
}

TEST(ExportMegatronPlan, RefusesLimitsOfTheProgram) {
  const ModelSpec model = DeepModel();
  const auto refuse = [](const ModelSpec& of, auto&& change, const std::string& part) {
    UniformPlan facts = UnevenPlan();
    change(facts);
    facts.device_count = facts.strategy.rank_count() * facts.pipeline_parallel_degree();
    facts.global_batch_size = facts.micro_batch_count * facts.strategy.data_parallel_degree;
    EXPECT_THAT(ExportMegatronPlan(PlanOf(facts, of), of, MegatronCoreFacts()).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  refuse(
      model, [](UniformPlan& facts) { facts.strategy.sharding_level = ShardingLevel::kParameters; },
      "beside a pipeline");
  refuse(
      model,
      [](UniformPlan& facts) {
        facts.stage_layer_counts = {63};
        facts.strategy.sharding_level = ShardingLevel::kGradients;
        facts.strategy.sequence_parallel = false;
      },
      "without sequence parallelism");
  refuse(
      model,
      [](UniformPlan& facts) {
        facts.virtual_stage_count = 2;
        facts.micro_batch_count = 31;
      },
      "is 31 with virtual stages on 2 pipeline ranks");
  refuse(
      model,
      [](UniformPlan& facts) {
        facts.virtual_stage_count = 2;
        facts.micro_batch_group_size = 31;
      },
      "micro_batch_group_size: is 31 with 2 virtual stages a device");
  refuse(
      model, [](UniformPlan& facts) { facts.micro_batch_group_size = 32; },
      "micro_batch_group_size: is 32 with 1 virtual stages a device");
  refuse(
      model, [](UniformPlan& facts) { facts.strategy.context_parallel_degree = 3; },
      "a sequence of 1024 tokens");
  const ModelSpec experts = DecoderModel({.dense_layer_count = 1, .expert_layer_count = 60});
  refuse(
      experts, [](UniformPlan& facts) { facts.strategy.sequence_parallel = false; },
      "in a model with experts");
}

}  // namespace
}  // namespace parplan
