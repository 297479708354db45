#include "exports/accelerate_plan_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/model/search_space.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ExportFacts AccelerateFacts() { return {*FindRuntime("accelerate"), "plan 1"}; }

// ZeRO-3 over two replicas of ring attention and tensor parallelism of two.
UniformPlan ThreeAxes() {
  UniformPlan facts;
  facts.device_count = 8;
  facts.global_batch_size = 16;
  facts.micro_batch_count = 4;
  facts.stage_layer_counts = {6};
  facts.strategy = {.tensor_parallel_degree = 2,
                    .data_parallel_degree = 2,
                    .sharding_level = ShardingLevel::kParameters,
                    .recompute_level = RecomputeLevel::kFull,
                    .context_parallel_degree = 2};
  return facts;
}

TEST(ExportAcceleratePlan, WritesTheWorkedExample) {
  const ModelSpec model = DecoderModel({});
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportAcceleratePlan(PlanOf(ThreeAxes(), model), model, AccelerateFacts()));
  ASSERT_EQ(files.size(), 2);
  EXPECT_EQ(files[0], (ExportedFile{"accelerate.env", R"(PARPLAN_DEVICE_COUNT=8
PARPLAN_GLOBAL_BATCH_SIZE=16
PARPLAN_MICRO_BATCH_SIZE_PER_RANK=2
PARPLAN_GRADIENT_ACCUMULATION_STEPS=4
ACCELERATE_MIXED_PRECISION=bf16
ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4
ACCELERATE_USE_FSDP=true
FSDP_VERSION=2
FSDP_RESHARD_AFTER_FORWARD=true
FSDP_AUTO_WRAP_POLICY=TRANSFORMER_BASED_WRAP
FSDP_OFFLOAD_PARAMS=false
FSDP_ACTIVATION_CHECKPOINTING=true
ACCELERATE_USE_PARALLELISM_CONFIG=true
PARALLELISM_CONFIG_DP_REPLICATE_SIZE=1
PARALLELISM_CONFIG_DP_SHARD_SIZE=2
PARALLELISM_CONFIG_TP_SIZE=2
PARALLELISM_CONFIG_CP_SIZE=2
PARALLELISM_CONFIG_CP_BACKEND=torch
PARALLELISM_CONFIG_CP_COMM_STRATEGY=alltoall
)"}));
  EXPECT_EQ(files[1].name, "README.txt");
  EXPECT_THAT(files[1].text, AllOf(HasSubstr("Plan plan 1 for Accelerate (1.15) on 8 devices"),
                                   HasSubstr("num_steps=4, sync_each_batch=True"),
                                   HasSubstr("tp_plan=\"auto\", tp_size=2"),
                                   Not(HasSubstr("gradient_checkpointing_enable")),
                                   Not(HasSubstr("Plan with --target"))));
}

// The runtime `fsdp` shares sums between projections, which nothing that Accelerate starts does.
TEST(ExportAcceleratePlan, SaysThatThePredictionIsOfAnotherRuntime) {
  EXPECT_EQ(FindTarget("accelerate")->runtime_id, "accelerate");
  const ModelSpec model = DecoderModel({});
  ASSERT_OK_AND_ASSIGN(
      const std::vector<ExportedFile> files,
      ExportAcceleratePlan(PlanOf(ThreeAxes(), model), model, {*FindRuntime("fsdp"), "plan 1"}));
  EXPECT_THAT(files[1].text,
              AllOf(HasSubstr("prediction is for runtime `fsdp`"),
                    HasSubstr("Plan with --target accelerate for one of this program")));
}

TEST(ExportAcceleratePlan, SaysWhatOnlyTheScriptCan) {
  const ModelSpec model = DecoderModel({});
  UniformPlan facts = ThreeAxes();
  facts.strategy.tensor_parallel_degree = facts.strategy.context_parallel_degree = 1;
  facts.strategy.data_parallel_degree = 8;
  facts.global_batch_size = 64;
  facts.strategy.sharding_level = ShardingLevel::kNone;
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportAcceleratePlan(PlanOf(facts, model), model, {}));
  EXPECT_THAT(files[0].text, AllOf(HasSubstr("PARALLELISM_CONFIG_DP_REPLICATE_SIZE=8\n"),
                                   HasSubstr("PARPLAN_RECOMPUTE=full\n"), Not(HasSubstr("FSDP_"))));
  EXPECT_THAT(files[1].text, AllOf(HasSubstr("comm_hook=DDPCommunicationHookType.BF16"),
                                   HasSubstr("gradient_checkpointing_enable"),
                                   HasSubstr("Plan with --target accelerate")));
}

TEST(ExportAcceleratePlan, RefusesWithLayerAndReason) {
  const ModelSpec plain = DecoderModel({});
  const ModelSpec experts = DecoderModel({.dense_layer_count = 2, .expert_layer_count = 2});
  const auto refuse = [](const ModelSpec& model, auto&& change, const std::string& part) {
    UniformPlan facts = ThreeAxes();
    facts.strategy.tensor_parallel_degree = facts.strategy.context_parallel_degree = 1;
    change(facts);
    facts.device_count = facts.strategy.rank_count() * facts.pipeline_parallel_degree();
    facts.global_batch_size = facts.micro_batch_count * facts.strategy.data_parallel_degree;
    EXPECT_THAT(ExportAcceleratePlan(PlanOf(facts, model), model, AccelerateFacts()).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(part), HasSubstr("Accelerate can't run that"))));
  };
  using Facts = UniformPlan;
  refuse(
      plain,
      [](Facts& facts) {
        facts.stage_layer_counts = {3, 3};
      },
      "stages: are 2");
  const auto level = [](ShardingLevel wanted) {
    return [wanted](Facts& facts) { facts.strategy.sharding_level = wanted; };
  };
  refuse(plain, level(ShardingLevel::kOptimizer), "sharding_level: shards optimizer states alone");
  refuse(plain, level(ShardingLevel::kGradients),
         "sharding_level: gathers the parameters of layer 0 and the others once for 4");
  // One replica shards nothing, whatever the number of micro-batches.
  for (const int micro_batch_count : {1, 4}) {
    refuse(
        plain,
        [&](Facts& facts) {
          level(ShardingLevel::kGradients)(facts);
          facts.strategy.data_parallel_degree = 1;
          facts.micro_batch_count = micro_batch_count;
        },
        "sharding_level: has no second replica");
  }
  refuse(
      plain, [](Facts& facts) { facts.strategy.data_parallel_degree = 1; },
      "sharding_level: has no second replica");
  refuse(
      plain,
      [&](Facts& facts) {
        level(ShardingLevel::kNone)(facts);
        facts.strategy.tensor_parallel_degree = 2;
      },
      "sharding_level: shards nothing of layer 0");
  refuse(
      plain,
      [](Facts& facts) {
        facts.strategy.tensor_parallel_degree = 2;
        facts.strategy.sequence_parallel = true;
      },
      "sequence_parallel: is on");
  refuse(
      plain,
      [](Facts& facts) {
        facts.strategy.context_parallel_degree = 2;
        facts.strategy.context_kind = ContextKind::kUlysses;
      },
      "context_kind: is Ulysses");
  refuse(
      plain, [](Facts& facts) { facts.strategy.context_parallel_degree = 3; },
      "context_parallel_degree: is 3, and the sequence of 1024 tokens of layer 1");
  refuse(
      experts, [](Facts& facts) { facts.strategy.expert_parallel_degree = 2; },
      "expert_parallel_degree: is 2");
  refuse(
      experts, [](Facts& facts) { facts.strategy.tensor_parallel_degree = 2; },
      "tensor_parallel_degree: splits layers with experts");
  refuse(
      plain, [](Facts& facts) { facts.strategy.recompute_level = RecomputeLevel::kSelective; },
      "recompute_level: is selective in layer 1");
  refuse(
      plain,
      [](Facts& facts) {
        facts.strategy.set_recomputation(
            Recomputation(*RecomputeModules::Create({RecomputeModule::kFeedForward}, "")));
      },
      "recompute_modules: names modules in layer 1");
  refuse(
      plain, [](Facts& facts) { facts.recomputed_layer_count = 2; },
      "recompute_level: recomputes the first 2 decoder layers");
}

}  // namespace
}  // namespace parplan
