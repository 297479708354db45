#include "exports/torchtitan_plan_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/clients/import/decoder_models.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ExportFacts TorchtitanFacts() { return {*FindRuntime("fsdp"), "plan \"\"\" 1"}; }

ModelSpec UntiedModel(int layers) {
  return DecoderModel({.dense_layer_count = layers, .tied_embedding = false});
}

// Two devices with two stages each, of 4, 3, 3 and 2 layers with the ends, on two replicas.
UniformPlan InterleavedPlan() {
  UniformPlan facts;
  facts.device_count = 8;
  facts.global_batch_size = 16;
  facts.micro_batch_count = 4;
  facts.virtual_stage_count = 2;
  facts.stage_layer_counts = {4, 3, 3, 2};
  facts.strategy = {.tensor_parallel_degree = 2,
                    .data_parallel_degree = 2,
                    .sharding_level = ShardingLevel::kOptimizer,
                    .recompute_level = RecomputeLevel::kFull,
                    .sequence_parallel = true};
  return facts;
}

TEST(ExportTorchtitanPlan, WritesTheWorkedExample) {
  const ModelSpec model = UntiedModel(10);
  ASSERT_OK_AND_ASSIGN(
      const std::vector<ExportedFile> files,
      ExportTorchtitanPlan(PlanOf(InterleavedPlan(), model), model, TorchtitanFacts()));
  ASSERT_EQ(files.size(), 4);
  EXPECT_EQ(files[0].name, "parplan_config.py");
  EXPECT_THAT(files[0].text, HasSubstr(R"(
RELEASE = "0.3.0"
MODEL = dict(
    dim=512,
    n_layers=10,
    n_heads=64,
    n_kv_heads=8,
    vocab_size=1000,
    enable_weight_tying=False,
    head_dim=8,
    hidden_dim=1536,
)
PARALLELISM = dict(
    data_parallel_replicate_degree=1,
    data_parallel_shard_degree=2,
    fsdp_reshard_after_forward="never",
    tensor_parallel_degree=2,
    enable_sequence_parallel=True,
    context_parallel_degree=1,
    context_parallel_load_balancer="headtail",
    expert_parallel_degree=1,
    pipeline_parallel_degree=2,
    pipeline_parallel_schedule="Interleaved1F1B",
    pipeline_parallel_microbatch_size=2,
    module_fqns_per_model_part=[
        ["tok_embeddings", "layers.0", "layers.1", "layers.2"],
        ["layers.3", "layers.4", "layers.5"],
        ["layers.6", "layers.7", "layers.8"],
        ["layers.9", "norm", "lm_head"],
    ],
)
TRAINING = dict(
    local_batch_size=8,
    global_batch_size=16,
    seq_len=1024,
    dtype="float32",
    mixed_precision_param="bfloat16",
    disable_cuda_graphs=True,
)
ACTIVATION_CHECKPOINT = FullAC.Config()
COMPILE = False
SCHEDULE = "schedule.csv"
)"));
  EXPECT_EQ(files[1].name, "schedule.csv");
  EXPECT_EQ(files[2], (ExportedFile{"torchtitan.env", R"(PARPLAN_DEVICE_COUNT=8
PARPLAN_GLOBAL_BATCH_SIZE=16
PARPLAN_MICRO_BATCH_SIZE_PER_RANK=2
PARPLAN_GRADIENT_ACCUMULATION_STEPS=4
)"}));
  EXPECT_THAT(files[3].text, AllOf(HasSubstr("torchtitan 0.3.0"), HasSubstr("8 devices")));
  // The name of a plan is of others, and this file is code.
  EXPECT_THAT(files[0].text, Not(HasSubstr("plan \"\"\" 1")));
}

// `sizes_of` of the module reads the same names from torchtitan's configuration, with those of
// latent attention and of experts only where there are some.
TEST(ExportTorchtitanPlan, NamesTheSizesOfLatentAttentionAndExperts) {
  const ModelSpec model = DecoderModel({.dense_layer_count = 2,
                                        .expert_layer_count = 8,
                                        .tied_embedding = false,
                                        .latent_attention = true,
                                        .query_rank = 32});
  UniformPlan facts = InterleavedPlan();
  facts.strategy.tensor_parallel_degree = 1;
  facts.strategy.sequence_parallel = false;
  facts.device_count = 4;
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportTorchtitanPlan(PlanOf(facts, model), model, TorchtitanFacts()));
  EXPECT_THAT(files[0].text, HasSubstr(R"(
    n_kv_heads=64,
    vocab_size=1000,
    enable_weight_tying=False,
    head_dim=12,
    q_lora_rank=32,
    kv_lora_rank=16,
    v_head_dim=8,
    hidden_dim=1536,
    n_expert_layers=8,
    num_experts=16,
    top_k=2,
    expert_hidden_dim=256,
    shared_hidden_dim=128,
)
)"));
}

// Sixteen ranks with the same parameters, two of which share each sequence, in two groups:
// torchtitan counts context-parallel ranks apart.
TEST(ExportTorchtitanPlan, WritesGroupsThatShareParametersAsReplicas) {
  const ModelSpec model = UntiedModel(10);
  UniformPlan facts = InterleavedPlan();
  facts.virtual_stage_count = 1;
  facts.stage_layer_counts = {12};
  facts.device_count = 16;
  facts.global_batch_size = 32;
  facts.strategy = {.data_parallel_degree = 8, .context_parallel_degree = 2};
  facts.strategy.context_kind = ContextKind::kAllGather;
  facts.strategy.set_sharding({ShardingLevel::kParameters, 8});
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportTorchtitanPlan(PlanOf(facts, model), model, TorchtitanFacts()));
  EXPECT_THAT(files[0].text, HasSubstr("    data_parallel_replicate_degree=2,\n"
                                       "    data_parallel_shard_degree=4,\n"));
  facts.strategy = {.data_parallel_degree = 4, .context_parallel_degree = 4};
  facts.strategy.context_kind = ContextKind::kAllGather;
  facts.strategy.set_sharding({ShardingLevel::kParameters, 2});
  EXPECT_THAT(ExportTorchtitanPlan(PlanOf(facts, model), model, TorchtitanFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sharding_degree: is 2 from layer 0 on, which parts the 4 ranks "
                                 "that share a sequence")));
}

TEST(ExportTorchtitanPlan, WritesTheSelectivePolicyOnlyWhereItWasPredicted) {
  const ModelSpec model = UntiedModel(10);
  UniformPlan facts = InterleavedPlan();
  facts.strategy.recompute_level = RecomputeLevel::kSelective;
  EXPECT_THAT(ExportTorchtitanPlan(PlanOf(facts, model), model, TorchtitanFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("recompute_level"), HasSubstr("layer 1"))));
  UniformPlan modules = InterleavedPlan();
  modules.strategy.set_recomputation(
      Recomputation(*RecomputeModules::Create({RecomputeModule::kFeedForward}, "")));
  EXPECT_THAT(ExportTorchtitanPlan(PlanOf(modules, model), model, TorchtitanFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("recompute_modules")));
  ExportFacts operators = TorchtitanFacts();
  operators.runtime.selective_recompute = SelectiveRecompute::kOperators;
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportTorchtitanPlan(PlanOf(facts, model), model, operators));
  EXPECT_THAT(files[0].text, HasSubstr("ACTIVATION_CHECKPOINT = SelectiveAC.Config()\n"));
}

TEST(ExportTorchtitanPlan, RefusesWithLayerAndReason) {
  const ModelSpec model = UntiedModel(10);
  const auto refuse = [](const ModelSpec& of, auto&& change, const std::string& part) {
    UniformPlan facts = InterleavedPlan();
    change(facts);
    facts.device_count = facts.strategy.rank_count() * facts.pipeline_parallel_degree();
    facts.global_batch_size = facts.micro_batch_count * facts.strategy.data_parallel_degree;
    EXPECT_THAT(ExportTorchtitanPlan(PlanOf(facts, of), of, TorchtitanFacts()).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(part), HasSubstr("torchtitan can't run that"))));
  };
  const auto one_stage = [](UniformPlan& facts, ShardingLevel level) {
    facts.virtual_stage_count = 1;
    facts.stage_layer_counts = {12};
    facts.strategy.sharding_level = level;
  };
  refuse(
      model, [](UniformPlan& f) { f.recomputed_layer_count = 1; }, "only the first 1 layers");
  refuse(
      model, [&](UniformPlan& f) { one_stage(f, ShardingLevel::kNone); },
      "is none with 4 accumulation steps, from layer 0 on");
  refuse(
      model, [&](UniformPlan& f) { one_stage(f, ShardingLevel::kOptimizer); },
      "is zero-1 from layer 0 on: without a pipeline");
  refuse(
      model, [&](UniformPlan& f) { one_stage(f, ShardingLevel::kGradients); },
      "is zero-2 with 4 accumulation steps");
  refuse(
      model, [](UniformPlan& f) { f.strategy.sharding_level = ShardingLevel::kParameters; },
      "beside a pipeline");
  refuse(
      model,
      [](UniformPlan& f) {
        f.virtual_stage_count = 4;
        f.stage_layer_counts = {2, 2, 2, 2, 1, 1, 1, 1};
      },
      "with 4 stages a device");
  refuse(
      model, [](UniformPlan& f) { f.micro_batch_group_size = f.micro_batch_count; },
      "micro_batch_group_size: is 4");
  refuse(
      model, [](UniformPlan& f) { f.strategy.data_parallel_degree = 1; },
      "shards layer 0 over one rank");
  refuse(
      model,
      [](UniformPlan& f) {
        f.strategy.context_parallel_degree = 2;
        f.strategy.context_kind = ContextKind::kAllGather;
        f.strategy.sharding_level = ShardingLevel::kNone;
      },
      "is none beside context parallelism");
  refuse(
      model,
      [](UniformPlan& f) {
        f.strategy.context_parallel_degree = 2;
        f.strategy.context_kind = ContextKind::kUlysses;
      },
      "exchanges tokens for heads from layer 0 on");
  refuse(
      model, [](UniformPlan& f) { f.strategy.context_parallel_degree = 2; },
      "is a ring from layer 0 on: its ranks gather keys and values");
  refuse(
      model, [](UniformPlan& f) { f.strategy.tensor_parallel_degree = 16; },
      "does not divide the heads of layer 1");
  refuse(
      model,
      [](UniformPlan& f) {
        f.strategy.context_parallel_degree = 3;
        f.strategy.context_kind = ContextKind::kAllGather;
      },
      "cuts the 1024 tokens of layer 1 into 12");
  const ModelSpec experts =
      DecoderModel({.dense_layer_count = 0, .expert_layer_count = 10, .tied_embedding = false});
  refuse(
      experts, [](UniformPlan& f) { f.strategy.expert_parallel_degree = 2; },
      "is 2 beside tensor parallelism");
  const ModelSpec tied = DecoderModel({.dense_layer_count = 10});
  refuse(
      tied, [](UniformPlan&) {}, "hold layer 0 and layer 11, which share a table");
  const ModelSpec fp16 = DecoderModel(
      {.dense_layer_count = 10, .tied_embedding = false, .precision = Precision::kFp16});
  refuse(
      fp16, [](UniformPlan&) {}, "is fp16");
  // Its models hold them apart from their layers.
  const ModelSpec further =
      DecoderModel({.dense_layer_count = 9, .tied_embedding = false, .prediction_count = 1});
  EXPECT_THAT(ExportTorchtitanPlan(PlanOf(InterleavedPlan(), further), further, TorchtitanFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.layer_runs: has in layer 10 one for a further token")));
  Plan gpipe = PlanOf(InterleavedPlan(), model);
  gpipe.schedule = Schedule::kGpipe;
  EXPECT_THAT(ExportTorchtitanPlan(gpipe, model, TorchtitanFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("schedule: is gpipe")));
}

}  // namespace
}  // namespace parplan
