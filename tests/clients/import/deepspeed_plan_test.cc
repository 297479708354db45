#include "clients/import/deepspeed_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "exports/uniform_plan.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Eight replicas; 64 = 2 samples times 4 micro-batches times 8 ranks.
json PlainConfig() {
  return {{"train_batch_size", 64},
          {"train_micro_batch_size_per_gpu", 2},
          {"gradient_accumulation_steps", 4},
          {"zero_optimization", {{"stage", 3}}},
          {"bf16", {{"enabled", true}}}};
}

absl::StatusOr<DeepSpeedPlanImport> ImportConfig(
    const json& config, const DeepSpeedPlanOptions& options = {.device_count = 8},
    const DecoderModelOptions& model = {}) {
  return ImportDeepSpeedPlan({"ds.json", config.dump()}, DecoderModel(model), options);
}

UniformPlan FactsOfConfig(const absl::StatusOr<DeepSpeedPlanImport>& import,
                          const DecoderModelOptions& model = {}) {
  EXPECT_OK(import);
  if (!import.ok()) return {};
  const auto facts = UniformPlanOf(import->plan, DecoderModel(model), "DeepSpeed");
  EXPECT_OK(facts);
  return facts.ok() ? *facts : UniformPlan();
}

// A configuration as tutorials and transformers have it, with the numbers filled in.
TEST(ImportDeepSpeedPlan, ReadsTheConfigurationsOfTutorials) {
  const json config = json::parse(R"({
    "train_batch_size": 64,
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "gradient_clipping": 1.0,
    "steps_per_print": 2000,
    "wall_clock_breakdown": false,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.8, 0.999]}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 500}},
    "fp16": {"enabled": false, "loss_scale": 0, "initial_scale_power": 16},
    "bf16": {"enabled": true},
    "zero_optimization": {
      "stage": 3,
      "offload_optimizer": {"device": "none"},
      "overlap_comm": true,
      "sub_group_size": 1e9,
      "reduce_bucket_size": 1e6,
      "stage3_prefetch_bucket_size": 0.94e6,
      "stage3_param_persistence_threshold": 1e4,
      "stage3_gather_16bit_weights_on_model_save": true
    }
  })");
  ASSERT_OK_AND_ASSIGN(const DeepSpeedPlanImport import, ImportConfig(config));
  const UniformPlan facts = FactsOfConfig(import);
  EXPECT_EQ(facts.strategy.sharding_level, ShardingLevel::kParameters);
  EXPECT_EQ(facts.strategy.data_parallel_degree, 8);
  EXPECT_EQ(facts.micro_batch_count, 4);
  EXPECT_EQ(facts.global_batch_size, 64);
  EXPECT_THAT(import.notes,
              ElementsAre("No layer is recomputed: the script decides, and the file is silent.",
                          AllOf(HasSubstr("Ignored, since they change neither"),
                                HasSubstr("gradient_clipping, scheduler, steps_per_print"),
                                HasSubstr("zero_optimization.overlap_comm"),
                                HasSubstr("fp16.loss_scale"), HasSubstr("optimizer.params"))));
}

// A batch is the product of three numbers, of which two are enough; one alone has one micro-batch.
TEST(ImportDeepSpeedPlan, CompletesABatchAsDeepSpeedDoes) {
  const auto batch = [](const std::vector<const char*>& absent) {
    json config = PlainConfig();
    for (const char* const key : absent) config.erase(key);
    const UniformPlan facts = FactsOfConfig(ImportConfig(config));
    return std::vector<int64_t>{facts.global_batch_size, facts.micro_batch_size_per_rank(),
                                facts.micro_batch_count};
  };
  constexpr const char* kBatch = "train_batch_size";
  constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
  constexpr const char* kSteps = "gradient_accumulation_steps";
  EXPECT_THAT(batch({}), ElementsAre(64, 2, 4));
  EXPECT_THAT(batch({kBatch}), ElementsAre(64, 2, 4));
  EXPECT_THAT(batch({kMicro}), ElementsAre(64, 2, 4));
  EXPECT_THAT(batch({kSteps}), ElementsAre(64, 2, 4));
  EXPECT_THAT(batch({kMicro, kSteps}), ElementsAre(64, 8, 1));
  EXPECT_THAT(batch({kBatch, kSteps}), ElementsAre(16, 2, 1));
  json config = PlainConfig();
  config.erase(kBatch);
  config.erase(kMicro);
  EXPECT_THAT(
      ImportConfig(config).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("ds.json: train_micro_batch_size_per_gpu: is missing, and so is")));
  // AutoTP counts both ranks of a group, of which there are four: 64 is then 32 samples.
  config = PlainConfig();
  config["tensor_parallel"] = {{"autotp_size", 2}};
  EXPECT_EQ(FactsOfConfig(ImportConfig(config)).global_batch_size, 32);
}

// Files for the trainer of transformers leave the numbers of a batch to its arguments.
TEST(ImportDeepSpeedPlan, TakesWhatATrainerFillsInFromTheScript) {
  json config = PlainConfig();
  const UniformPlan facts = FactsOfConfig(ImportConfig(config));
  for (const char* const key :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
    config[key] = "auto";
  }
  const DeepSpeedPlanOptions script = {
      .device_count = 8, .micro_batch_size = 2, .accumulation_step_count = 4};
  EXPECT_EQ(FactsOfConfig(ImportConfig(config, script)), facts);
  EXPECT_THAT(ImportConfig(config, {.device_count = 8, .micro_batch_size = 2}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("gradient_accumulation_steps: is `auto`")));
  EXPECT_THAT(ImportConfig(config, {.device_count = 8, .accumulation_step_count = 4}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("train_batch_size: is `auto`, which a trainer fills in")));
  // Files without the keys leave them to the script too; numbers may say the same, and nothing
  // else.
  for (const char* const key : {"train_batch_size", "train_micro_batch_size_per_gpu"}) {
    config.erase(key);
  }
  EXPECT_EQ(FactsOfConfig(ImportConfig(config, script)), facts);
  EXPECT_EQ(FactsOfConfig(ImportConfig(PlainConfig(), script)), facts);
  EXPECT_THAT(ImportConfig(PlainConfig(), {.device_count = 8, .micro_batch_size = 3}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("train_micro_batch_size_per_gpu: is 2, and the script's is 3")));
  EXPECT_THAT(
      ImportConfig(PlainConfig(), {.device_count = 8, .micro_batch_size = -1}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs counts from 1 to 16777216")));
}

// Comments, and what Accelerate and monitors of people write beside DeepSpeed's own keys.
TEST(ImportDeepSpeedPlan, IgnoresCommentsAndKeysOfOthers) {
  json config = PlainConfig();
  config["_comment"] = "for eight devices";
  config["zero_optimization"]["_comment"] = "all of it";
  config["monitor_config"] = {{"enabled", true}};
  config["comms_config"] = {{"verbose", false}};
  config["zero3_init_flag"] = false;
  ASSERT_OK_AND_ASSIGN(const DeepSpeedPlanImport import, ImportConfig(config));
  EXPECT_EQ(FactsOfConfig(import), FactsOfConfig(ImportConfig(PlainConfig())));
  EXPECT_THAT(absl::StrJoin(import.notes, "\n"),
              AllOf(HasSubstr("_comment, comms_config, monitor_config, zero3_init_flag"),
                    HasSubstr("zero_optimization._comment")));
}

TEST(ImportDeepSpeedPlan, TakesPipelinesAndRecomputationFromTheScript) {
  json config = PlainConfig();
  config["zero_optimization"]["stage"] = 1;
  config.erase("train_batch_size");
  const DeepSpeedPlanOptions script = {
      .device_count = 8, .pipeline_stage_count = 2, .recompute = true};
  UniformPlan facts = FactsOfConfig(ImportConfig(config, script));
  EXPECT_THAT(facts.stage_layer_counts, ElementsAre(3, 3));
  EXPECT_EQ(facts.strategy.recompute_level, RecomputeLevel::kFull);
  // The file may say the same, and nothing else.
  config["pipeline"] = {{"stages", 2}, {"activation_checkpoint_interval", 1}};
  EXPECT_EQ(FactsOfConfig(ImportConfig(config, script)), facts);
  EXPECT_EQ(FactsOfConfig(ImportConfig(config)), facts);
  config["pipeline"]["stages"] = "auto";
  EXPECT_EQ(FactsOfConfig(ImportConfig(config, script)), facts);
  config["pipeline"]["stages"] = 4;
  EXPECT_THAT(ImportConfig(config, script).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("pipeline.stages: is 4, and the script's are 2")));
  config["pipeline"] = {{"stages", 2}, {"activation_checkpoint_interval", 0}};
  EXPECT_THAT(ImportConfig(config, script).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("activation_checkpoint_interval: contradicts what the script")));
}

// In bf16 the engine of pipelines shards optimizer states whatever the file says.
TEST(ImportDeepSpeedPlan, KnowsWhatPipelinesShard) {
  json config = PlainConfig();
  config.erase("train_batch_size");
  config["zero_optimization"]["stage"] = 0;
  config["pipeline"] = {{"stages", 2}};
  ASSERT_OK_AND_ASSIGN(const DeepSpeedPlanImport import, ImportConfig(config));
  EXPECT_EQ(FactsOfConfig(import).strategy.sharding_level, ShardingLevel::kOptimizer);
  EXPECT_THAT(import.notes, ::testing::Contains(HasSubstr("ZeRO-1")));
  config["bf16"]["enabled"] = false;
  config["fp16"] = {{"enabled", true}};
  const DecoderModelOptions half = {.precision = Precision::kFp16};
  EXPECT_EQ(
      FactsOfConfig(ImportConfig(config, {.device_count = 8}, half), half).strategy.sharding_level,
      ShardingLevel::kNone);
  config["zero_optimization"]["stage"] = 2;
  EXPECT_THAT(ImportConfig(config, {.device_count = 8}, half).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("ds.json: "), HasSubstr("beside a pipeline"))));
}

TEST(ImportDeepSpeedPlan, ReadsUlyssesAutoTpAndAutoEp) {
  json config = PlainConfig();
  config["train_batch_size"] = 16;
  config["sequence_parallel_size"] = 4;
  UniformPlan facts = FactsOfConfig(ImportConfig(config));
  EXPECT_EQ(facts.strategy.context_parallel_degree, 4);
  EXPECT_EQ(facts.strategy.context_kind, ContextKind::kUlysses);
  EXPECT_EQ(facts.strategy.data_parallel_degree, 2);
  const DecoderModelOptions experts = {.dense_layer_count = 0, .expert_layer_count = 4};
  config = PlainConfig();
  config["expert_parallel"] = {{"enabled", true}, {"autoep_size", 4}};
  facts = FactsOfConfig(ImportConfig(config, {.device_count = 8}, experts), experts);
  EXPECT_EQ(facts.strategy.expert_parallel_degree, 4);
  config["expert_parallel"]["enabled"] = false;
  EXPECT_EQ(FactsOfConfig(ImportConfig(config, {.device_count = 8}, experts), experts)
                .strategy.expert_parallel_degree,
            1);
}

TEST(ImportDeepSpeedPlan, SaysWhereThePredictionAssumesMore) {
  json config = PlainConfig();
  config["zero_optimization"]["stage"] = 2;
  ASSERT_OK_AND_ASSIGN(DeepSpeedPlanImport import, ImportConfig(config));
  EXPECT_THAT(
      absl::StrJoin(import.notes, "\n"),
      AllOf(HasSubstr("overlap_comm is off"), HasSubstr("use_multi_rank_bucket_allreduce is on")));
  config["zero_optimization"]["overlap_comm"] = true;
  config["zero_optimization"]["use_multi_rank_bucket_allreduce"] = false;
  ASSERT_OK_AND_ASSIGN(import, ImportConfig(config));
  EXPECT_THAT(absl::StrJoin(import.notes, "\n"), Not(HasSubstr("predicted")));
}

TEST(ImportDeepSpeedPlan, ListsEveryUnknownKeyOnce) {
  json config = PlainConfig();
  config["train_batchsize"] = 4;
  config["zero_optimization"]["stages"] = 2;
  config["tensor_parallel"] = {{"autotp", 2}};
  EXPECT_THAT(ImportConfig(config).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("ds.json: has keys that are not read here: train_batchsize, "
                                 "zero_optimization.stages, tensor_parallel.autotp; leave them")));
}

struct BrokenConfig {
  const char* name;
  // Merged into the plain configuration (RFC 7396).
  const char* patch;
  const char* message;
};

class ImportDeepSpeedPlanRules : public testing::TestWithParam<BrokenConfig> {};

TEST_P(ImportDeepSpeedPlanRules, AreEnforcedAndNamed) {
  json config = PlainConfig();
  config.merge_patch(json::parse(GetParam().patch));
  EXPECT_THAT(ImportConfig(config).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("ds.json: "), HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, ImportDeepSpeedPlanRules,
    testing::ValuesIn(std::vector<BrokenConfig>{
        {"AutoBatch", R"({"train_batch_size": "auto"})",
         "train_batch_size: is `auto`, which a trainer fills in; write the number, or give "
         "--micro-batch-size and --accumulation-steps"},
        {"AutoTensor", R"({"tensor_parallel": {"autotp_size": "auto"}})",
         "tensor_parallel.autotp_size: is `auto`"},
        {"NoProduct", R"({"train_batch_size": 63})", "train_batch_size: makes 2 samples, 4"},
        {"TooManySamples", R"({"train_batch_size": null, "gradient_accumulation_steps": 16777216})",
         "exceeds 16777216"},
        {"SmallBatch",
         R"({"train_batch_size": 4, "train_micro_batch_size_per_gpu": null,
             "gradient_accumulation_steps": null})",
         "train_batch_size: makes 0 samples"},
        {"NegativeBatch", R"({"train_batch_size": -64})", "train_batch_size: must be a whole"},
        {"TextBatch", R"({"train_batch_size": "64"})", "train_batch_size: must be a whole"},
        {"Stage4", R"({"zero_optimization": {"stage": 4}})", "stage: must be 0, 1, 2 or 3"},
        {"StageText", R"({"zero_optimization": {"stage": "3"}})", "zero_optimization.stage: must"},
        {"OldZero", R"({"zero_optimization": true})", "zero_optimization: must be an object"},
        {"Offload", R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})",
         "zero_optimization.offload_optimizer: moves states away"},
        {"OffloadOld", R"({"zero_optimization": {"cpu_offload": true}})", "cpu_offload: moves"},
        {"Quantized", R"({"zero_optimization": {"zero_quantized_weights": true}})",
         "zero_quantized_weights: quantizes messages"},
        {"Hierarchy", R"({"zero_optimization": {"zero_hpz_partition_size": 8}})",
         "zero_hpz_partition_size: shards over some replicas"},
        {"BothPrecisions", R"({"fp16": {"enabled": true}})", "bf16: is on, and so is fp16"},
        {"NoPrecision", R"({"bf16": {"enabled": false}})", "makes the precision fp32"},
        {"OtherPrecision", R"({"bf16": null, "fp16": {"enabled": true}})",
         "fp16: makes the precision fp16, and the model's is bf16"},
        {"PrecisionText", R"({"bf16": {"enabled": "yes"}})", "bf16.enabled: must be true or false"},
        {"States16", R"({"bf16": {"bf16_optimizer_states": true}})",
         "bf16_optimizer_states: keeps optimizer states in 16 bits"},
        {"Lamb", R"({"optimizer": {"type": "Lamb"}})", "optimizer.type: is `lamb`"},
        {"Compressed", R"({"optimizer": {"type": "OneBitAdam"}})",
         "optimizer.type: is `onebitadam`"},
        {"Degrees", R"({"tensor_parallel": {"autotp_size": 3}})",
         "divides 8 devices by tensor degree 3"},
        {"Product", R"({"tensor_parallel": {"autotp_size": 4}, "sequence_parallel_size": 4})",
         "leaves a rest"},
        {"LargeDegrees",
         R"({"tensor_parallel": {"autotp_size": 16777216}, "sequence_parallel_size": 16777216})",
         "leaves a rest"},
        {"DataDegree", R"({"sequence_parallel_size": 2, "data_parallel_size": 2})",
         "data_parallel_size: is 2, and the devices leave 4"},
        {"TwoAxes",
         R"({"train_batch_size": 32, "tensor_parallel": {"autotp_size": 2},
             "sequence_parallel_size": 2})",
         "beside tensor parallelism"},
        {"Stages", R"({"pipeline": {"stages": 8}})",
         "pipeline.stages: is 8, which does not divide"},
        {"Interval", R"({"pipeline": {"activation_checkpoint_interval": 2}})",
         "activation_checkpoint_interval: must be 0 or 1"},
        {"Checkpoints", R"({"activation_checkpointing": {"number_checkpoints": 3}})",
         "number_checkpoints: is 3, and plans recompute all 4"},
        {"Partitioned", R"({"activation_checkpointing": {"partition_activations": true}})",
         "partition_activations: moves or divides"},
        {"Experts", R"({"expert_parallel": {"enabled": true, "autoep_size": 2}})",
         "expert_parallel.enabled: needs a model with experts"},
        {"ExpertTensors", R"({"expert_parallel": {"expert_tensor_parallel_size": 2}})",
         "expert_tensor_parallel_size: must be 1"},
        {"Curriculum", R"({"curriculum_learning": {"enabled": true}})",
         "curriculum_learning: changes what a step computes"},
        {"Elastic", R"({"elasticity": {"enabled": true}})", "elasticity: changes what"},
        {"List", R"({"zero_optimization": [3]})", "zero_optimization: must be an object"},
    }),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ImportDeepSpeedPlan, RefusesTextsThatAreNoConfiguration) {
  const ModelSpec model = DecoderModel({});
  const std::string whole = PlainConfig().dump();
  const DeepSpeedPlanOptions eight = {.device_count = 8};
  ASSERT_OK(ImportDeepSpeedPlan({"ds.json", whole}, model, eight));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(ImportDeepSpeedPlan({"ds.json", whole.substr(0, size)}, model, eight).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ds.json: must be JSON")));
  }
  for (const char* const text : {"[]", "3", "null", "\"text\"", "{} {}"}) {
    EXPECT_FALSE(ImportDeepSpeedPlan({"ds.json", text}, model, eight).ok()) << text;
  }
  for (const int devices : {0, -1, kMaxImportCount + 1}) {
    EXPECT_THAT(ImportDeepSpeedPlan({"ds.json", whole}, model, {.device_count = devices}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("number of devices")));
  }
  EXPECT_FALSE(ImportDeepSpeedPlan({"ds.json", whole}, model,
                                   {.device_count = 8, .pipeline_stage_count = -1})
                   .ok());
}

}  // namespace
}  // namespace parplan
