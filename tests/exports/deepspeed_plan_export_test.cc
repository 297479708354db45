#include "exports/deepspeed_plan_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ExportFacts DeepSpeedFacts() { return {*FindRuntime("deepspeed"), "plan 1"}; }

// Eight replicas of one stage with ZeRO-1, four micro-batches of two samples each.
UniformPlan EightReplicas() {
  UniformPlan facts;
  facts.device_count = 8;
  facts.global_batch_size = 64;
  facts.micro_batch_count = 4;
  facts.stage_layer_counts = {6};
  facts.strategy = {.data_parallel_degree = 8, .sharding_level = ShardingLevel::kOptimizer};
  return facts;
}

std::string ConfigOf(const UniformPlan& facts, const ModelSpec& model) {
  const auto files = ExportDeepSpeedPlan(PlanOf(facts, model), model, DeepSpeedFacts());
  EXPECT_OK(files);
  return files.ok() ? (*files)[0].text : "";
}

TEST(ExportDeepSpeedPlan, WritesTheWorkedExample) {
  const ModelSpec model = DecoderModel({});
  ASSERT_OK_AND_ASSIGN(
      const std::vector<ExportedFile> files,
      ExportDeepSpeedPlan(PlanOf(EightReplicas(), model), model, DeepSpeedFacts()));
  ASSERT_EQ(files.size(), 4);
  // Buckets of 160 MiB are 83,886,080 elements of two bytes.
  EXPECT_EQ(files[0], (ExportedFile{"ds_config.json", R"({
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "zero_optimization": {
    "stage": 1,
    "overlap_comm": true,
    "contiguous_gradients": true,
    "reduce_scatter": true,
    "use_multi_rank_bucket_allreduce": false,
    "reduce_bucket_size": 83886080,
    "allgather_bucket_size": 83886080
  },
  "bf16": {
    "enabled": true
  },
  "data_types": {
    "grad_accum_dtype": "bf16"
  },
  "communication_data_type": "bf16"
}
)"}));
  EXPECT_EQ(files[1],
            (ExportedFile{"deepspeed.args", "--deepspeed\n--deepspeed_config=ds_config.json\n"}));
  EXPECT_EQ(files[2], (ExportedFile{"deepspeed.env", R"(PARPLAN_DEVICE_COUNT=8
PARPLAN_GLOBAL_BATCH_SIZE=64
PARPLAN_MICRO_BATCH_SIZE_PER_RANK=2
PARPLAN_GRADIENT_ACCUMULATION_STEPS=4
)"}));
  EXPECT_EQ(files[3].name, "README.txt");
  EXPECT_THAT(files[3].text, AllOf(HasSubstr("Plan plan 1 for DeepSpeed (0.19) on 8 devices"),
                                   Not(HasSubstr("PipelineModule")), Not(HasSubstr("AutoTP")),
                                   Not(HasSubstr("gradient_checkpointing"))));
}

TEST(ExportDeepSpeedPlan, HoldsAsManyParametersAsPredicted) {
  const ModelSpec model = DecoderModel({});
  UniformPlan facts = EightReplicas();
  facts.strategy.sharding_level = ShardingLevel::kParameters;
  const int64_t layer = model.layer(1).parameter_count;
  const int64_t tables = model.layer(0).parameter_count + model.layer(5).parameter_count;
  EXPECT_THAT(ConfigOf(facts, model),
              AllOf(HasSubstr("\"stage\": 3,"), HasSubstr("\"overlap_comm\": true,"),
                    HasSubstr(absl::StrCat("\"stage3_prefetch_bucket_size\": ", layer, ",")),
                    HasSubstr(absl::StrCat("\"stage3_max_live_parameters\": ", 2 * layer + tables)),
                    HasSubstr("\"stage3_max_reuse_distance\": 0,"),
                    Not(HasSubstr("use_multi_rank_bucket_allreduce"))));
  facts.strategy.sharding_level = ShardingLevel::kNone;
  EXPECT_THAT(ConfigOf(facts, model),
              AllOf(HasSubstr("\"stage\": 0\n"), Not(HasSubstr("overlap_comm"))));
}

TEST(ExportDeepSpeedPlan, CountsABatchAsDeepSpeedDoes) {
  const ModelSpec model = DecoderModel({});
  UniformPlan facts = EightReplicas();
  facts.strategy.data_parallel_degree = 2;
  facts.strategy.tensor_parallel_degree = 4;
  facts.global_batch_size = 16;
  // AutoTP counts the four ranks that share samples.
  EXPECT_THAT(ConfigOf(facts, model),
              AllOf(Not(HasSubstr("train_batch_size\"")),
                    HasSubstr("\"train_micro_batch_size_per_gpu\": 2,"),
                    HasSubstr("\"tensor_parallel\": {\n    \"autotp_size\": 4,\n    "
                              "\"vocab_parallel_lm_head\": true\n  }")));
  facts.strategy.tensor_parallel_degree = 1;
  facts.strategy.context_parallel_degree = 4;
  facts.strategy.context_kind = ContextKind::kUlysses;
  EXPECT_THAT(ConfigOf(facts, model),
              AllOf(HasSubstr("\"train_batch_size\": 16,"),
                    HasSubstr("\"seq_parallel_communication_data_type\": \"bf16\""),
                    HasSubstr("\"sequence_parallel_size\": 4,\n  \"data_parallel_size\": 2")));
}

TEST(ExportDeepSpeedPlan, SaysWhatOnlyTheScriptCan) {
  const ModelSpec model = DecoderModel({.tied_embedding = false, .optimizer = Optimizer::kSgd});
  UniformPlan facts = EightReplicas();
  facts.strategy.recompute_level = RecomputeLevel::kFull;
  ASSERT_OK_AND_ASSIGN(std::vector<ExportedFile> files,
                       ExportDeepSpeedPlan(PlanOf(facts, model), model, {}));
  EXPECT_THAT(files[0].text, AllOf(HasSubstr("\"number_checkpoints\": 4"),
                                   HasSubstr("\"zero_allow_untested_optimizer\": true")));
  EXPECT_THAT(files[3].text, AllOf(HasSubstr("gradient_checkpointing_enable"), HasSubstr("SGD"),
                                   HasSubstr("runtime `parplan`. Plan with --target deepspeed")));
  facts.stage_layer_counts = {3, 3};
  facts.strategy.data_parallel_degree = 4;
  facts.global_batch_size = 32;
  ASSERT_OK_AND_ASSIGN(files, ExportDeepSpeedPlan(PlanOf(facts, model), model, DeepSpeedFacts()));
  EXPECT_THAT(files[0].text, AllOf(HasSubstr("\"overlap_comm\": false"),
                                   HasSubstr("\"pipeline\": {\n    \"stages\": 2,\n    "
                                             "\"activation_checkpoint_interval\": 1\n")));
  EXPECT_THAT(
      files[3].text,
      AllOf(HasSubstr("PipelineModule(layers, num_stages=2, partition_method=\"type:Layer\""),
            HasSubstr("checkpointable_layers=[\"Layer\"]"),
            HasSubstr("torch.utils.checkpoint.checkpoint, use_reentrant=False)"),
            Not(HasSubstr("Plan with --target"))));
}

TEST(ExportDeepSpeedPlan, RefusesWithLayerAndReason) {
  const ModelSpec plain = DecoderModel({});
  const ModelSpec experts = DecoderModel({.dense_layer_count = 2, .expert_layer_count = 2});
  const auto refuse = [](const ModelSpec& model, auto&& change, const std::string& part) {
    UniformPlan facts = EightReplicas();
    change(facts);
    facts.device_count = facts.strategy.rank_count() * facts.pipeline_parallel_degree();
    facts.global_batch_size = facts.micro_batch_count * facts.strategy.data_parallel_degree;
    EXPECT_THAT(ExportDeepSpeedPlan(PlanOf(facts, model), model, DeepSpeedFacts()).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(part), HasSubstr("DeepSpeed can't run that"))));
  };
  using Facts = UniformPlan;
  refuse(
      plain,
      [](Facts& facts) {
        facts.stage_layer_counts = {2, 1, 1, 2};
        facts.virtual_stage_count = 2;
      },
      "virtual_stage_count: is 2");
  refuse(
      plain,
      [](Facts& facts) {
        facts.stage_layer_counts = {2, 4};
      },
      "stages[0]: has 1 of 4 decoder layers in 2 stages");
  const auto two_stages = [](Facts& facts) { facts.stage_layer_counts = {3, 3}; };
  refuse(
      plain,
      [&](Facts& facts) {
        two_stages(facts);
        facts.strategy.tensor_parallel_degree = 2;
      },
      "tensor_parallel_degree: is 2 from layer 0 on beside a pipeline of 2");
  refuse(
      plain,
      [&](Facts& facts) {
        two_stages(facts);
        facts.strategy.context_parallel_degree = 2;
        facts.strategy.context_kind = ContextKind::kUlysses;
      },
      "context_parallel_degree: is 2 from layer 0 on beside a pipeline");
  refuse(
      experts,
      [&](Facts& facts) {
        two_stages(facts);
        facts.strategy.expert_parallel_degree = 4;
      },
      "expert_parallel_degree: is 4 from layer 0 on beside a pipeline");
  refuse(
      plain,
      [&](Facts& facts) {
        two_stages(facts);
        facts.strategy.sharding_level = ShardingLevel::kGradients;
      },
      "sharding_level: shards gradients or parameters");
  refuse(
      plain,
      [&](Facts& facts) {
        two_stages(facts);
        facts.strategy.sharding_level = ShardingLevel::kNone;
      },
      "sharding_level: shards nothing of layer 0");
  refuse(
      plain, [](Facts& facts) { facts.strategy.context_parallel_degree = 2; },
      "context_kind: is not Ulysses");
  const auto ulysses = [](int degree) {
    return [degree](Facts& facts) {
      facts.strategy.context_parallel_degree = degree;
      facts.strategy.context_kind = ContextKind::kUlysses;
    };
  };
  refuse(plain, ulysses(3), "context_parallel_degree: is 3, and layer 1 has 64 heads");
  refuse(
      plain,
      [&](Facts& facts) {
        ulysses(2)(facts);
        facts.strategy.tensor_parallel_degree = 2;
      },
      "context_parallel_degree: is 2 from layer 0 on beside tensor parallelism");
  refuse(
      plain,
      [](Facts& facts) {
        facts.strategy.tensor_parallel_degree = 2;
        facts.strategy.sequence_parallel = true;
      },
      "sequence_parallel: is on");
  refuse(experts, ulysses(2), "context_parallel_degree: splits layers with experts");
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
      plain,
      [](Facts& facts) {
        facts.strategy.recompute_level = RecomputeLevel::kFull;
        facts.recomputed_layer_count = 2;
      },
      "recompute_level: recomputes the first 2 decoder layers");
  // The layers of a plan may differ in nothing else.
  Plan plan = PlanOf(EightReplicas(), plain);
  plan.stages[0].layer_runs[1].strategy.sharding_level = ShardingLevel::kNone;
  EXPECT_THAT(ExportDeepSpeedPlan(plan, plain, DeepSpeedFacts()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sharding_level: is zero-1 in layer 0 and none in layer 1")));
}

}  // namespace
}  // namespace parplan
