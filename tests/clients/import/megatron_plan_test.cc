#include "clients/import/megatron_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Eight layers, which `kShape` describes.
ModelSpec EightLayers() { return DecoderModel({.dense_layer_count = 8}); }
constexpr char kShape[] =
    "--num-layers 8 --hidden-size 512 --bf16 --micro-batch-size 2 "
    "--group-query-attention --num-query-groups 8 --global-batch-size 64 ";

absl::StatusOr<MegatronPlanImport> ReadEight(const std::string& arguments, int device_count = 16) {
  return ImportMegatronPlan({"run.args", absl::StrCat(kShape, arguments)}, EightLayers(),
                            device_count);
}

TEST(ImportMegatronPlan, ReadsALaunchScript) {
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport import, ReadEight(R"(
      # degrees
      --tensor-model-parallel-size 2 --sequence-parallel \
      --pipeline-model-parallel-size=2
      --num-layers-per-virtual-pipeline-stage 2
      --use-distributed-optimizer --recompute-activations
      --lr 1.5e-4 --tokenizer-model 'a b/c' --data-path 0.3 one 0.7 "two"
  )"));
  UniformPlan facts;
  facts.device_count = 16;
  facts.global_batch_size = 64;
  facts.micro_batch_count = 8;
  facts.virtual_stage_count = 2;
  facts.stage_layer_counts = {3, 2, 2, 3};
  facts.strategy = {.tensor_parallel_degree = 2,
                    .data_parallel_degree = 4,
                    .sharding_level = ShardingLevel::kOptimizer,
                    .recompute_level = RecomputeLevel::kSelective,
                    .sequence_parallel = true};
  EXPECT_EQ(import.plan, PlanOf(facts, EightLayers()));
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr("--data-path, --lr, --tokenizer-model")));
}

// The program reads its arguments by `argparse`, which does so too.
TEST(ImportMegatronPlan, TakesTheLastOfSeveralValues) {
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport once, ReadEight("--tensor-model-parallel-size 4"));
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport last,
                       ReadEight("--tensor-model-parallel-size 2 --bf16 "
                                 "--tensor-model-parallel-size 4"));
  EXPECT_EQ(last.plan, once.plan);
  EXPECT_THAT(once.notes, Not(Contains(HasSubstr("several times"))));
  EXPECT_THAT(last.notes, ElementsAre("Given several times, of which the last counts, as in the "
                                      "program: --tensor-model-parallel-size."));
}

TEST(ImportMegatronPlan, ReadsGroupsOfMicroBatches) {
  const std::string group = "--microbatch-group-size-per-virtual-pipeline-stage ";
  const auto size_of = [](const std::string& arguments) -> int64_t {
    const absl::StatusOr<MegatronPlanImport> import =
        ReadEight(absl::StrCat("--pipeline-model-parallel-size 4 ", arguments));
    EXPECT_OK(import);
    return import.ok() ? import->plan.micro_batch_group_size : -1;
  };
  const std::string stages = "--num-virtual-stages-per-pipeline-rank 2 ";
  EXPECT_EQ(size_of(stages), 0);
  EXPECT_EQ(size_of(stages + group + "4"), 0);
  EXPECT_EQ(size_of(stages + group + "8"), 8);
  // Without virtual stages the program does not look at it.
  EXPECT_EQ(size_of(group + "3"), 0);
  // Ten micro-batches on four ranks: 4 + 6 of them, or 5 + 5.
  const absl::StatusOr<MegatronPlanImport> ten = ImportMegatronPlan(
      {"run.args",
       absl::StrCat("--num-layers 8 --hidden-size 512 --bf16 --micro-batch-size 1 "
                    "--group-query-attention --num-query-groups 8 --global-batch-size 10 "
                    "--pipeline-model-parallel-size 4 ",
                    stages, group, "6")},
      EightLayers(), 4);
  ASSERT_OK(ten);
  EXPECT_EQ(ten->plan.micro_batch_count, 10);
  EXPECT_EQ(ten->plan.micro_batch_group_size, 6);
}

TEST(ImportMegatronPlan, IgnoresSequenceParallelismOfOneRank) {
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport import, ReadEight("--sequence-parallel"));
  EXPECT_FALSE(import.plan.stages[0].layer_runs[0].strategy.sequence_parallel);
}

TEST(ImportMegatronPlan, RecomputesTheFirstLayersOfEachStage) {
  ASSERT_OK_AND_ASSIGN(
      const MegatronPlanImport import,
      ReadEight("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*3|t*5L "
                "--recompute-granularity full --recompute-method block --recompute-num-layers 4"));
  std::string levels;
  for (const StagePlan& stage : import.plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      levels += std::string(static_cast<size_t>(run.layer_count),
                            run.strategy.recompute_level == RecomputeLevel::kFull ? 'c' : '-');
    }
    levels += '|';
  }
  // Embedding and 3 layers, of which all are among the first 4; then 5 layers and the head.
  EXPECT_EQ(levels, "-ccc|cccc--|");
}

// `E||t|L` is the example of the program's guide. The first and the last stage have what the
// program makes in them, whatever the letters say.
TEST(ImportMegatronPlan, ReadsStagesWithoutLayers) {
  const auto sizes_of = [](const std::string& layout, int pipeline) {
    std::vector<int> sizes;
    const auto import = ReadEight(absl::StrCat("--pipeline-model-parallel-size ", pipeline,
                                               " --pipeline-model-parallel-layout ", layout));
    EXPECT_OK(import);
    if (!import.ok()) return sizes;
    for (const StagePlan& stage : import->plan.stages) sizes.push_back(stage.layer_count());
    EXPECT_EQ(import->plan.virtual_stage_count, static_cast<int>(sizes.size()) / pipeline);
    return sizes;
  };
  EXPECT_THAT(sizes_of("E||t*8|L", 2), ElementsAre(1, 0, 8, 1));
  EXPECT_THAT(sizes_of("E||t*8|L", 4), ElementsAre(1, 0, 8, 1));
  EXPECT_THAT(sizes_of("Et*4(|)*3t*4L", 2), ElementsAre(5, 0, 0, 5));
  const auto refuse = [](const std::string& layout, const std::string& part) {
    const std::string pipeline =
        "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout ";
    EXPECT_THAT(ReadEight(pipeline + layout).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  refuse("|Et*4|t*4|L", "leaves stage 0 empty, where the program has the embedding: begin with E");
  refuse("Et*4|t*4|L|", "leaves stage 3 empty, where the program has the loss: end with L");
}

TEST(ImportMegatronPlan, ReadsTheTensorDegreeOfExperts) {
  const ModelSpec model = DecoderModel({.dense_layer_count = 1, .expert_layer_count = 3});
  const auto read = [&model](const std::string& degrees) {
    const LayerDefinition& layer = model.layer(2);
    return ImportMegatronPlan(
        {"run.args",
         absl::StrCat("--num-layers 4 --hidden-size 512 --bf16 --micro-batch-size 1 "
                      "--global-batch-size 16 --group-query-attention --num-query-groups 8 "
                      "--num-experts ",
                      layer.expert_count,
                      " --moe-router-topk 2 --moe-ffn-hidden-size 256 "
                      "--moe-shared-expert-intermediate-size 128 --moe-layer-freq ([0]*1+[1]*3) ",
                      degrees)},
        model, 16);
  };
  const std::string four = "--tensor-model-parallel-size 4 --sequence-parallel ";
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport one, read(four + "--expert-tensor-parallel-size 1 "
                                                                 "--expert-model-parallel-size 2"));
  const StagePlan& stage = one.plan.stages[0];
  EXPECT_EQ(stage.layer_runs.back().strategy.expert_tensor_parallel_degree, 0);
  const Strategy& experts = stage.layer_runs[2].strategy;
  EXPECT_EQ(experts.expert_tensor_parallel_degree, 1);
  EXPECT_EQ(experts.expert_parallel_degree, 2);
  EXPECT_EQ(experts.expert_replica_count(), 8);
  // The degree of the rest of the layer is no degree of its own.
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport same,
                       read(four + "--expert-tensor-parallel-size 4"));
  EXPECT_EQ(same.plan.stages[0].layer_runs[2].strategy.expert_tensor_parallel_degree, 0);
  const auto refuse = [&](const std::string& degrees, const std::string& rule) {
    EXPECT_THAT(read(degrees).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(rule)));
  };
  refuse(four + "--expert-tensor-parallel-size 3", "is 3, which does not divide the 16 ranks");
  refuse(four + "--expert-tensor-parallel-size 2 --expert-model-parallel-size 16",
         "is 16 x 2, which does not divide the 16 ranks of a stage");
  refuse("--tensor-model-parallel-size 4 --expert-tensor-parallel-size 1",
         "needs --sequence-parallel");
}

TEST(ImportMegatronPlan, ReadsTheModulesThatAreRecomputed) {
  const auto read = [](const std::string& modules) {
    return ReadEight(
        absl::StrCat("--recompute-granularity selective --recompute-modules ", modules));
  };
  const auto of_first_decoder = [](const Plan& plan) {
    return plan.stages[0].layer_runs[1].strategy.recomputation();
  };
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport both, read("mlp core_attn"));
  EXPECT_EQ(of_first_decoder(both.plan).modules.ToString(" "), "core_attn mlp");
  EXPECT_EQ(both.plan.stages[0].layer_runs[0].strategy.recomputation(), RecomputeLevel::kNone);
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport attention, read("core_attn"));
  EXPECT_EQ(of_first_decoder(attention.plan), RecomputeLevel::kSelective);
  // Norms of dense layers are parts of products, and there are no experts.
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport some, read("layernorm core_attn moe"));
  EXPECT_EQ(of_first_decoder(some.plan), RecomputeLevel::kSelective);
  EXPECT_THAT(some.notes, Contains(HasSubstr("layernorm, moe")));
  ASSERT_OK_AND_ASSIGN(const MegatronPlanImport none, read("moe_act"));
  EXPECT_EQ(of_first_decoder(none.plan), RecomputeLevel::kNone);
}

TEST(ImportMegatronPlan, ReadsTheWaysInWhichRanksShareTokens) {
  const auto read = [](const std::string& kind) {
    return ReadEight("--context-parallel-size 8 --cp-comm-type " + kind);
  };
  const auto of_first_decoder = [](const absl::StatusOr<MegatronPlanImport>& import) {
    EXPECT_OK(import.status());
    return StrategyNotation(1, import->plan.stages[0].layer_runs[1].strategy);
  };
  const std::string levels = " --hierarchical-context-parallel-sizes ";
  EXPECT_EQ(of_first_decoder(read("p2p")), "1-1-2-cp8");
  EXPECT_EQ(of_first_decoder(read("a2a")), "1-1-2-sp8");
  EXPECT_EQ(of_first_decoder(read("allgather")), "1-1-2-ag8");
  EXPECT_EQ(of_first_decoder(read("a2a a2a a2a a2a a2a a2a a2a a2a")), "1-1-2-sp8");
  EXPECT_EQ(of_first_decoder(read("a2a+p2p" + levels + "2 4")), "1-1-2-sp2-cp4");
  // One level alone.
  EXPECT_EQ(of_first_decoder(read("a2a+p2p" + levels + "1 8")), "1-1-2-cp8");
  EXPECT_EQ(of_first_decoder(read("a2a+p2p" + levels + "8 1")), "1-1-2-sp8");
  const auto refuse = [&](const std::string& kind, const std::string& part) {
    EXPECT_THAT(read(kind).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << kind;
  };
  refuse("ring", "must be p2p, a2a, a2a+p2p or allgather, and is `ring`");
  refuse("p2p a2a", "names `p2p` and `a2a`");
  refuse("a2a+p2p", "needs --hierarchical-context-parallel-sizes");
  refuse("a2a+p2p" + levels + "2 2", "whose product is the --context-parallel-size of 8");
  refuse("a2a+p2p" + levels + "2 2 2", "must be two whole numbers");
  // The program does not use the sizes of another kind, but their product must be right.
  EXPECT_EQ(of_first_decoder(read("p2p" + levels + "2 4")), "1-1-2-cp8");
  EXPECT_EQ(of_first_decoder(read("a2a" + levels + "2 2 2")), "1-1-2-sp8");
  for (const char* const kind : {"p2p", "a2a", "allgather"}) {
    for (const char* const sizes : {"2 2", "2", "16", "-2 -4", "2 4 x", "0 8", "4.0 2",
                                    "2147483647 2147483647 2147483647 2147483647"}) {
      refuse(kind + levels + sizes,
             "--hierarchical-context-parallel-sizes: must be whole numbers whose product is the "
             "--context-parallel-size of 8, and is `");
    }
  }
}

TEST(ImportMegatronPlan, NamesAllUnknownArgumentsOnce) {
  EXPECT_THAT(ReadEight("--frobnicate 1 --unheard-of --frobnicate=2 --lr 1").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("run.args: has arguments that are not read here: "
                                       "--frobnicate, --unheard-of; leave them out"),
                             Not(HasSubstr("--lr")))));
}

TEST(ImportMegatronPlan, RefusesBadInputByArgument) {
  const auto refuse = [](const std::string& arguments, const std::string& part,
                         int device_count = 16) {
    EXPECT_THAT(ReadEight(arguments, device_count).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << arguments;
  };
  // Texts.
  refuse("--data-path 'open", "run.args: ends inside a quotation");
  refuse("--", "has `--` where an argument");
  refuse("--tensor-model-parallel-size",
         "--tensor-model-parallel-size: takes one value, and has 0");
  refuse("--tensor-model-parallel-size 2 4", "takes one value, and has 2");
  refuse("--tensor-model-parallel-size two", "must be a whole number from 1");
  refuse("--tensor-model-parallel-size 0", "must be a whole number from 1");
  refuse("--tensor-model-parallel-size -2", "must be a whole number from 1");
  refuse("--tensor-model-parallel-size 2.0", "must be a whole number from 1");
  refuse("--tensor-model-parallel-size 99999999999999999999", "must be a whole number from 1");
  refuse("--sequence-parallel true", "--sequence-parallel: takes no value, and has `true`");
  refuse("--sequence-parallel $MORE", "and has `$MORE`, which the file does not set");
  refuse("--tensor-model-parallel-size 2 --tensor-model-parallel-size x", "and is `x`");
  // Degrees.
  refuse("--tensor-model-parallel-size 3", "which does not divide 16 devices");
  refuse(
      "--tensor-model-parallel-size 16777216 --context-parallel-size 16777216 "
      "--pipeline-model-parallel-size 16777216",
      "is 16777216 x 16777216 x 16777216, which does not divide 16 devices");
  refuse(
      "--tensor-model-parallel-size 2 --context-parallel-size 2 "
      "--pipeline-model-parallel-size 8",
      "is 2 x 2 x 8, which does not divide 16 devices");
  refuse("", "needs the number of devices", 0);
  refuse("", "is for 16777217 devices, which is too large a number", kMaxImportCount + 1);
  refuse("--expert-model-parallel-size 2", "--expert-model-parallel-size: needs --num-experts");
  refuse("--expert-model-parallel-size 3", "does not divide the 16 data- and context-parallel");
  refuse("--expert-tensor-parallel-size 2", "--expert-tensor-parallel-size: needs --num-experts");
  refuse("--num-distributed-optimizer-instances 2", "needs --use-distributed-optimizer");
  refuse("--use-distributed-optimizer --num-distributed-optimizer-instances 3",
         "is 3, which is no divisor of the 16 data- and context-parallel ranks");
  refuse("--use-distributed-optimizer --num-distributed-optimizer-instances 16",
         "is 16, which is no divisor of the 16 data- and context-parallel ranks");
  // Stages.
  const std::string pipeline = "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout ";
  refuse("--pipeline-model-parallel-size 16", "does not divide 8 layers");
  refuse(pipeline + "Et*4|t*4L --num-virtual-stages-per-pipeline-rank 2",
         "--num-virtual-stages-per-pipeline-rank: contradicts");
  refuse(pipeline + "Et*4|t*2|t*2L", "has 3 stages, which 2 pipeline ranks do not divide");
  refuse(pipeline + "Et*4|t*3L", "must hold the embedding E, then the model's 8 layers t");
  refuse(pipeline + "t*4E|t*4L", "must hold the embedding E");
  refuse(pipeline + "Et*4|t*4mL", "its 0 layers m for further tokens, then the loss L");
  refuse(pipeline + "Ex|L", "run.args: --pipeline-model-parallel-layout: has `x`");
  refuse("--pipeline-model-parallel-layout Et*4|t*4L", "virtual stages need a pipeline");
  refuse("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3",
         "does not divide the 4 layers of a pipeline rank");
  refuse("--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 3",
         "does not divide the 4 layers of a pipeline rank");
  refuse("--num-virtual-stages-per-pipeline-rank 3 --num-layers-per-virtual-pipeline-stage 1",
         "contradicts");
  // Groups of micro-batches: of 8 with 2 samples a replica.
  const std::string virtual_stages =
      "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 ";
  const std::string group = "--microbatch-group-size-per-virtual-pipeline-stage ";
  refuse(virtual_stages + group + "3", "makes groups of 3, and 4 pipeline ranks");
  refuse(virtual_stages + group + "9", "take 4 to all 8 micro-batches");
  refuse(virtual_stages + group + "5", "in groups of 5, the last of which has 3");
  // Batches: 64 samples, 2 a replica.
  refuse("", "times 48 replicas is 96, which does not divide --global-batch-size 64", 48);
  refuse("--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2",
         "makes 1 micro-batches, and 4 pipeline ranks", 128);
  // Sharding.
  refuse("--data-parallel-sharding-strategy optim", "needs --use-megatron-fsdp");
  refuse("--use-megatron-fsdp --data-parallel-sharding-strategy all", "and is `all`");
  refuse("--overlap-param-gather", "needs --overlap-grad-reduce");
  refuse("--overlap-param-gather --overlap-grad-reduce", "needs --use-distributed-optimizer");
  // Recomputation.
  refuse("--recompute-granularity half", "must be full or selective, and is `half`");
  refuse("--recompute-granularity full", "--recompute-method: is missing");
  refuse("--recompute-granularity full --recompute-method uniform",
         "--recompute-num-layers: is missing");
  refuse("--recompute-granularity full --recompute-method uniform --recompute-num-layers 2",
         "is 2, and a plan keeps the input of each layer");
  refuse("--recompute-granularity full --recompute-method some --recompute-num-layers 1",
         "must be uniform or block");
  refuse("--recompute-granularity selective --recompute-method uniform",
         "--recompute-method: needs --recompute-granularity full");
  refuse("--recompute-granularity selective --recompute-num-layers 1", "needs");
  const std::string modules = "--recompute-granularity selective --recompute-modules ";
  refuse(modules + "attn", "names `attn`, which is none of core_attn, moe_act");
  refuse(modules + "mlp core_attn mlp", "names `mlp` twice");
  refuse(modules + "mlp mla_up_proj", "needs --multi-latent-attention");
  refuse("--recompute-modules core_attn", "needs --recompute-granularity selective");
  refuse("--recompute-activations --recompute-granularity full", "contradicts");
  refuse("--moe-layer-recompute --recompute-granularity full",
         "--moe-layer-recompute: contradicts --recompute-granularity");
}

TEST(ImportMegatronPlan, RefusesAnotherModel) {
  const auto refuse = [](const std::string& arguments, const ModelSpec& model,
                         const std::string& part) {
    EXPECT_THAT(ImportMegatronPlan({"run.args", arguments}, model, 8).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << arguments;
  };
  const ModelSpec model = DecoderModel({.key_value_head_count = 64});
  const std::string batch = "--micro-batch-size 1 --global-batch-size 8 ";
  refuse(batch, model, "--num-layers: is missing");
  refuse(batch + "--num-layers 5", model, "--num-layers: is 5, and the model's is 4");
  refuse(batch + "--num-layers 4 --hidden-size 256", model, "is 256, and the model's is 512");
  refuse(batch + "--num-layers 4", model, "--bf16: is missing, and the model needs it");
  refuse(batch + "--num-layers 4 --bf16 --swiglu", model, "--swiglu: is given, and the model");
  refuse(batch + "--num-layers 4 --bf16 --group-query-attention --num-query-groups 4", model,
         "leaves 4 key-value heads, and the model has 64");
  refuse(batch + "--num-layers 4 --bf16 --optimizer muon", model, "is `muon`, and the model's");
  refuse(batch + "--num-layers 4 --bf16 --num-experts 8", model, "gives layer 1 experts");
  refuse("--num-layers 4 --bf16", model, "--micro-batch-size: is missing");
  const ModelSpec experts =
      DecoderModel({.dense_layer_count = 1, .expert_layer_count = 3, .key_value_head_count = 64});
  const std::string shape = batch +
                            "--num-layers 4 --bf16 --moe-ffn-hidden-size 256 "
                            "--moe-shared-expert-intermediate-size 128 --moe-router-topk 2 ";
  refuse(shape, experts, "--num-experts: is missing");
  refuse(shape + "--num-experts 8 --moe-layer-freq [0,1,1,1]", experts,
         "--num-experts: is 8, and the model's is 16");
  refuse(shape + "--num-experts 16", experts, "gives layer 1 experts");
  refuse(shape + "--num-experts 16 --moe-layer-freq ([0]*2+[1]*2)", experts,
         "gives layer 2 no experts");
  for (const char* const broken : {"([0]*1+[1]*3", "[0]*1+[1]", "[2]*4", "[]*4", "0", "-1",
                                   "[0]+[1]*999999999", "[1]*-4", ""}) {
    refuse(absl::StrCat(shape, "--num-experts 16 --moe-layer-freq='", broken, "'"), experts,
           "--moe-layer-freq: must be a number or lists of 0 and 1 for 4 layers");
  }
  const std::string mixture = shape + "--num-experts 16 --moe-layer-freq=([0]+[1,1]+[1]*1)";
  EXPECT_OK(ImportMegatronPlan({"run.args", mixture}, experts, 8));
  refuse(mixture + " --moe-latent-size 64", experts, "--moe-latent-size: must be 0");
  const ModelSpec latent = DecoderModel({.dense_layer_count = 1,
                                         .expert_layer_count = 3,
                                         .expert_latent_size = 64,
                                         .key_value_head_count = 64});
  refuse(mixture, latent, "--moe-latent-size: must be 64");
  EXPECT_OK(ImportMegatronPlan({"run.args", mixture + " --moe-latent-size 64"}, latent, 8));
}

// Layers for further tokens are beside the head unless a layout says otherwise.
TEST(ImportMegatronPlan, PlacesLayersForFurtherTokens) {
  const ModelSpec model = DecoderModel({.prediction_count = 2});
  const std::string shape =
      "--num-layers 4 --mtp-num-layers 2 --bf16 --group-query-attention --num-query-groups 8 "
      "--micro-batch-size 1 --global-batch-size 8 --pipeline-model-parallel-size 2 ";
  const auto sizes_of = [&](const std::string& arguments) {
    std::vector<int> sizes;
    const auto import = ImportMegatronPlan({"run.args", shape + arguments}, model, 2);
    EXPECT_OK(import.status());
    if (!import.ok()) return sizes;
    for (const StagePlan& stage : import->plan.stages) sizes.push_back(stage.layer_count());
    return sizes;
  };
  EXPECT_THAT(sizes_of(""), ElementsAre(3, 5));
  EXPECT_THAT(sizes_of("--num-virtual-stages-per-pipeline-rank 2"), ElementsAre(2, 1, 1, 4));
  EXPECT_THAT(sizes_of("--decoder-last-pipeline-num-layers 1"), ElementsAre(4, 4));
  // The program's own class takes the same layouts (tests/frameworks/megatron_core_test.py).
  EXPECT_THAT(sizes_of("--pipeline-model-parallel-layout Et*2|t*2|m*2|L"), ElementsAre(3, 2, 2, 1));
  EXPECT_THAT(sizes_of("--pipeline-model-parallel-layout Et*2|t*2m*2L"), ElementsAre(3, 5));
  EXPECT_THAT(sizes_of("--pipeline-model-parallel-layout Et*4|m*2L"), ElementsAre(5, 3));
  EXPECT_THAT(sizes_of("--pipeline-model-parallel-layout Et*4||m*2|L"), ElementsAre(5, 0, 2, 1));
  EXPECT_THAT(sizes_of("--pipeline-model-parallel-layout Et*2||t*2m*2|L"), ElementsAre(3, 0, 4, 1));
  const auto refuse = [&](const std::string& arguments, const std::string& part) {
    EXPECT_THAT(ImportMegatronPlan({"run.args", shape + arguments}, model, 2).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << arguments;
  };
  const std::string layout = "--pipeline-model-parallel-layout ";
  refuse(layout + "Et*2|t*2m|m|L", "must have all layers m in one stage");
  refuse(layout + "Et*2|t*2m*2|L|", "leaves stage 3 empty");
  refuse(layout + "Et*4|m*2|L|", "leaves stage 3 empty");
  refuse(layout + "Et*2m*2|t*2|L|", "leaves stage 3 empty");
  refuse(layout + "Et*2|t*2mL", "its 2 layers m");
  refuse(layout + "Et*2|mt*2mL", "must hold the embedding E, then the model's 4 layers t");
}

TEST(ImportMegatronPlan, ComparesLatentAttentionWindowsAndFurtherTokens) {
  const auto refuse = [](const std::string& arguments, const DecoderModelOptions& options,
                         const std::string& part) {
    const std::string batch = "--num-layers 4 --bf16 --micro-batch-size 1 --global-batch-size 8 ";
    EXPECT_THAT(
        ImportMegatronPlan({"run.args", batch + arguments}, DecoderModel(options), 8).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << arguments;
  };
  const DecoderModelOptions latent = {.latent_attention = true, .query_rank = 32};
  const std::string mla = "--multi-latent-attention ";
  refuse("", latent, "--multi-latent-attention: is missing");
  refuse(mla, {.key_value_head_count = 64}, "--multi-latent-attention: is given");
  refuse(mla, latent, "--q-lora-rank: must be 32");
  refuse(mla + "--q-lora-rank 32 --kv-lora-rank 8", latent, "--kv-lora-rank: is 8, and the");
  refuse(mla + "--q-lora-rank 32 --qk-head-dim 12", latent, "--qk-head-dim: is 12, and the");
  refuse("", {.key_value_head_count = 64, .window_interval = 2}, "model's has 128 (0: none)");
  refuse("--window-size 127,0", {.key_value_head_count = 64, .window_interval = 2},
         "gives layer 2 a window of 128 tokens, and the model's has 0");
  refuse("--window-size 63,0 --window-attn-skip-freq 2",
         {.key_value_head_count = 64, .window_interval = 2}, "gives layer 1 a window of 64 tokens");
  refuse("", {.key_value_head_count = 64, .prediction_count = 1}, "--mtp-num-layers: must be 1");
  refuse("--mtp-num-layers 1", {.key_value_head_count = 64}, "--mtp-num-layers: must be 0");
}

TEST(ImportMegatronPlan, TakesEveryTruncationOfAFileWithoutACrash) {
  const std::string text = absl::StrCat(
      kShape, "--pipeline-model-parallel-size=2\n--pipeline-model-parallel-layout=Et*4|(t*2|)*2L\n",
      "--recompute-granularity=full --recompute-method=block --recompute-num-layers=1");
  for (size_t size = 0; size <= text.size(); ++size) {
    const auto import = ImportMegatronPlan({"run.args", text.substr(0, size)}, EightLayers(), 16);
    if (!import.ok()) continue;
    EXPECT_EQ(import->plan.device_count, 16);
  }
}

}  // namespace
}  // namespace parplan
