#include "clients/import/accelerate_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "clients/import/deepspeed_plan.h"
#include "exports/accelerate_plan_export.h"
#include "exports/uniform_plan.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// ZeRO-3 over eight ranks.
constexpr char kFsdp[] = R"(ACCELERATE_MIXED_PRECISION=bf16
ACCELERATE_USE_FSDP=true
FSDP_VERSION=2
FSDP_AUTO_WRAP_POLICY=TRANSFORMER_BASED_WRAP
)";

// The answers of `accelerate config` to questions about FSDP.
constexpr char kYaml[] = R"(compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: true
  fsdp_offload_params: false
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
  fsdp_version: 2
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 8
parallelism_config:
  parallelism_config_cp_backend: torch
  parallelism_config_cp_comm_strategy: alltoall
  parallelism_config_cp_size: 2
  parallelism_config_dp_replicate_size: 1
  parallelism_config_dp_shard_size: 2
  parallelism_config_sp_size: 1
  parallelism_config_tp_size: 2
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
)";

absl::StatusOr<AcceleratePlanImport> ImportText(const std::string& text,
                                                const DecoderModelOptions& model = {}) {
  return ImportAcceleratePlan(
      {"acc", text}, DecoderModel(model),
      {.device_count = 8, .micro_batch_size = 2, .accumulation_step_count = 4});
}

UniformPlan FactsOfText(const std::string& text, const DecoderModelOptions& model = {}) {
  const auto import = ImportText(text, model);
  EXPECT_OK(import) << text;
  if (!import.ok()) return {};
  const auto facts = UniformPlanOf(import->plan, DecoderModel(model), "Accelerate");
  EXPECT_OK(facts);
  return facts.ok() ? *facts : UniformPlan();
}

TEST(ImportAcceleratePlan, ReadsTheConfigurationsThatPeopleAnswerFor) {
  const UniformPlan facts = FactsOfText(kYaml);
  EXPECT_EQ(facts.strategy.sharding_level, ShardingLevel::kParameters);
  EXPECT_EQ(facts.strategy.data_parallel_degree, 2);
  EXPECT_EQ(facts.strategy.tensor_parallel_degree, 2);
  EXPECT_EQ(facts.strategy.context_parallel_degree, 2);
  EXPECT_EQ(facts.strategy.recompute_level, RecomputeLevel::kFull);
  EXPECT_EQ(facts.global_batch_size, 16);
  ASSERT_OK_AND_ASSIGN(const AcceleratePlanImport import, ImportText(kYaml));
  EXPECT_THAT(absl::StrJoin(import.notes, "\n"),
              AllOf(HasSubstr("sync_each_batch=True"),
                    HasSubstr("fsdp_config.fsdp_transformer_layer_cls_to_wrap")));
}

TEST(ImportAcceleratePlan, ShardsOverAllRanksWithoutSizes) {
  const UniformPlan facts = FactsOfText(kFsdp);
  EXPECT_EQ(facts.strategy.data_parallel_degree, 8);
  EXPECT_EQ(facts.strategy.sharding_level, ShardingLevel::kParameters);
  EXPECT_EQ(facts.micro_batch_count, 4);
  EXPECT_EQ(FactsOfText("ACCELERATE_MIXED_PRECISION=bf16\n").strategy.sharding_level,
            ShardingLevel::kNone);
  // The first version of FSDP is given by the names of its strategies.
  const std::string first = absl::StrReplaceAll(kFsdp, {{"FSDP_VERSION=2", "FSDP_VERSION=1"}});
  EXPECT_EQ(FactsOfText(first).strategy.sharding_level, ShardingLevel::kParameters);
  EXPECT_EQ(FactsOfText(first + "FSDP_SHARDING_STRATEGY=NO_SHARD\n").strategy.sharding_level,
            ShardingLevel::kNone);
  ASSERT_OK_AND_ASSIGN(const AcceleratePlanImport import, ImportText(first));
  EXPECT_THAT(import.notes, Contains(HasSubstr("predicted as version 2")));
}

TEST(ImportAcceleratePlan, ListsEveryUnknownSettingOnce) {
  EXPECT_THAT(ImportText(absl::StrCat(kFsdp, "FSDP_RESHARD=1\nLR=0.1\n")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("acc: has settings that are not read here: FSDP_RESHARD, LR;")));
}

// Two copies of the states, each shared by the ranks of a group.
TEST(ImportAcceleratePlan, ReadsReplicasOfGroupsThatShard) {
  const std::string sizes = absl::StrCat(kFsdp, "ACCELERATE_USE_PARALLELISM_CONFIG=1\n");
  UniformPlan facts = FactsOfText(absl::StrCat(sizes,
                                               "PARALLELISM_CONFIG_DP_REPLICATE_SIZE=2\n"
                                               "PARALLELISM_CONFIG_DP_SHARD_SIZE=4\n"));
  EXPECT_EQ(facts.strategy.data_parallel_degree, 8);
  EXPECT_EQ(facts.strategy.sharding(), Sharding(ShardingLevel::kParameters, 4));
  facts = FactsOfText(absl::StrCat(sizes,
                                   "PARALLELISM_CONFIG_DP_REPLICATE_SIZE=2\n"
                                   "PARALLELISM_CONFIG_DP_SHARD_SIZE=2\n"
                                   "PARALLELISM_CONFIG_CP_SIZE=2\n"
                                   "PARALLELISM_CONFIG_CP_COMM_STRATEGY=alltoall\n"));
  EXPECT_EQ(facts.strategy.data_parallel_degree, 4);
  EXPECT_EQ(facts.strategy.sharding(), Sharding(ShardingLevel::kParameters, 4));
  // The export writes the sizes that were read.
  const ModelSpec model = DecoderModel({});
  ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files,
                       ExportAcceleratePlan(PlanOf(facts, model), model, {}));
  EXPECT_THAT(files[0].text, AllOf(HasSubstr("_DP_REPLICATE_SIZE=2\n"),
                                   HasSubstr("_DP_SHARD_SIZE=2\n"), HasSubstr("_CP_SIZE=2\n")));
  const std::string first = absl::StrReplaceAll(sizes, {{"FSDP_VERSION=2", "FSDP_VERSION=1"}});
  EXPECT_THAT(ImportText(absl::StrCat(first,
                                      "PARALLELISM_CONFIG_DP_REPLICATE_SIZE=2\n"
                                      "PARALLELISM_CONFIG_DP_SHARD_SIZE=4\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("FSDP_VERSION: must be 2")));
}

// The file of TRL's examples, accelerate_configs/deepspeed_zero3.yaml.
constexpr char kDeepSpeedYaml[] = R"(compute_environment: LOCAL_MACHINE
debug: false
deepspeed_config:
  deepspeed_multinode_launcher: standard
  offload_optimizer_device: none
  offload_param_device: none
  zero3_init_flag: true
  zero3_save_16bit_model: true
  zero_stage: 3
distributed_type: DEEPSPEED
downcast_bf16: 'no'
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 8
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
)";

TEST(ImportAcceleratePlan, ReadsWhatDeepSpeedTrains) {
  ASSERT_OK_AND_ASSIGN(const AcceleratePlanImport import, ImportText(kDeepSpeedYaml));
  EXPECT_TRUE(import.is_of_deepspeed);
  ASSERT_OK_AND_ASSIGN(const UniformPlan facts,
                       UniformPlanOf(import.plan, DecoderModel({}), "DeepSpeed"));
  EXPECT_EQ(facts.strategy.sharding_level, ShardingLevel::kParameters);
  EXPECT_EQ(facts.strategy.data_parallel_degree, 8);
  EXPECT_EQ(facts.micro_batch_count, 4);
  EXPECT_EQ(facts.global_batch_size, 64);
  // The plan of the same configuration of DeepSpeed.
  ASSERT_OK_AND_ASSIGN(
      const DeepSpeedPlanImport same,
      ImportDeepSpeedPlan({"ds_config.json", R"({"train_micro_batch_size_per_gpu": 2,
          "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3},
          "bf16": {"enabled": true}})"},
                          DecoderModel({}), {.device_count = 8}));
  EXPECT_EQ(import.plan, same.plan);
  const auto level = [](const std::string& from, const std::string& to) {
    const auto read = ImportText(absl::StrReplaceAll(kDeepSpeedYaml, {{from, to}}));
    EXPECT_OK(read) << to;
    return read.ok() ? read->plan.stages[0].layer_runs[0].strategy.sharding_level
                     : ShardingLevel::kNone;
  };
  EXPECT_EQ(level("zero_stage: 3", "zero_stage: 1"), ShardingLevel::kOptimizer);
  EXPECT_EQ(level("  zero_stage: 3\n", ""), ShardingLevel::kGradients);
  EXPECT_EQ(level("zero_stage: 3", "gradient_accumulation_steps: 4\n  zero_stage: 2"),
            ShardingLevel::kGradients);
  const std::string variables =
      "ACCELERATE_USE_DEEPSPEED=true\nACCELERATE_MIXED_PRECISION=bf16\n"
      "ACCELERATE_DEEPSPEED_ZERO_STAGE=3\nACCELERATE_DEEPSPEED_ZERO3_INIT=true\n";
  EXPECT_EQ(ImportText(variables)->plan, import.plan);
  ASSERT_OK_AND_ASSIGN(const AcceleratePlanImport ulysses,
                       ImportText(absl::StrCat(kDeepSpeedYaml,
                                               "parallelism_config:\n"
                                               "  parallelism_config_sp_backend: deepspeed\n"
                                               "  parallelism_config_sp_size: 2\n")));
  EXPECT_EQ(ulysses.plan.stages[0].layer_runs[0].strategy.context_kind, ContextKind::kUlysses);
}

TEST(ImportAcceleratePlan, ReadsTheFileOfDeepSpeedThatSettingsName) {
  const std::string text = absl::StrReplaceAll(
      kDeepSpeedYaml, {{"  offload_optimizer_device: none\n  offload_param_device: none\n", ""},
                       {"  zero_stage: 3\n", "  deepspeed_config_file: ds.json\n"},
                       {"mixed_precision: bf16\n", ""}});
  AcceleratePlanOptions options{.device_count = 8, .micro_batch_size = 2};
  const auto read = [&] { return ImportAcceleratePlan({"acc", text}, DecoderModel({}), options); };
  EXPECT_THAT(read(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("deepspeed_config_file: is `ds.json`, which is not given: "
                                         "add --deepspeed-config ds.json")));
  options.deepspeed_config = NamedText{"ds.json", R"({"train_micro_batch_size_per_gpu": "auto",
      "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 2},
      "bf16": {"enabled": "auto"}})"};
  ASSERT_OK_AND_ASSIGN(const AcceleratePlanImport import, read());
  EXPECT_EQ(import.plan.stages[0].layer_runs[0].strategy.sharding_level, ShardingLevel::kGradients);
  EXPECT_EQ(import.plan.global_batch_size, 16);
  EXPECT_THAT(
      ImportAcceleratePlan(
          {"acc", absl::StrCat(text, "parallelism_config:\n  parallelism_config_sp_size: 2\n")},
          DecoderModel({}), options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("parallelism_config_sp_size: is 2 beside deepspeed_config_file")));
  options.deepspeed_config->text =
      "{\"zero_optimization\": {\"offload_param\": {\"device\": \"cpu\"}}}";
  EXPECT_THAT(read(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("ds.json: zero_optimization.offload_param")));
  EXPECT_THAT(ImportAcceleratePlan({"acc", kFsdp}, DecoderModel({}), options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("distributed_type: is not DEEPSPEED")));
}

TEST(ImportAcceleratePlan, RefusesWhatItCannotTakeOfDeepSpeedByName) {
  const auto refuse = [](const std::string& from, const std::string& to, const std::string& part) {
    EXPECT_THAT(ImportText(absl::StrReplaceAll(kDeepSpeedYaml, {{from, to}})).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  refuse("offload_param_device: none", "offload_param_device: cpu",
         "deepspeed_config.offload_param_device: is cpu, which keeps states outside the devices");
  refuse("offload_optimizer_device: none", "offload_optimizer_device: nvme",
         "deepspeed_config.offload_optimizer_device: is nvme");
  refuse("zero_stage: 3", "zero_stage: 4", "deepspeed_config.zero_stage: must be 0, 1, 2 or 3");
  refuse("zero_stage: 3", "zero_stages: 3", "not read here: deepspeed_config.zero_stages");
  refuse("mixed_precision: bf16", "mixed_precision: fp8", "mixed_precision: must be no, bf16");
  refuse("mixed_precision: bf16", "mixed_precision: fp16", "makes the precision fp16");
  refuse("num_processes: 8", "num_processes: 4", "num_processes: is 4");
  refuse("use_cpu: false", "parallelism_config:\n  parallelism_config_cp_size: 2",
         "parallelism_config_cp_size: must be 1 where DeepSpeed trains");
  AcceleratePlanOptions options{.device_count = 8};
  EXPECT_THAT(
      ImportAcceleratePlan({"acc", kDeepSpeedYaml}, DecoderModel({}), options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--micro-batch-size: is needed")));
  options.deepspeed_config = NamedText{"ds.json", "{}"};
  EXPECT_THAT(ImportAcceleratePlan({"acc", kDeepSpeedYaml}, DecoderModel({}), options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("CONFIG_FILE: is absent, and a configuration")));
}

struct BrokenSettings {
  const char* name;
  // Lines behind those of ZeRO-3 over eight ranks.
  const char* lines;
  const char* message;
};

class ImportAcceleratePlanRules : public testing::TestWithParam<BrokenSettings> {};

TEST_P(ImportAcceleratePlanRules, AreEnforcedAndNamed) {
  EXPECT_THAT(ImportText(absl::StrCat(kFsdp, GetParam().lines)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("acc: "), HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, ImportAcceleratePlanRules,
    testing::ValuesIn(std::vector<BrokenSettings>{
        {"Unused", "PARALLELISM_CONFIG_TP_SIZE=2\n",
         "PARALLELISM_CONFIG_TP_SIZE: is not read without ACCELERATE_USE_PARALLELISM_CONFIG"},
        {"Product", "ACCELERATE_USE_PARALLELISM_CONFIG=1\nPARALLELISM_CONFIG_TP_SIZE=2\n",
         "times the other sizes (1, 2, 1) is not 8 devices"},
        {"LargeProduct",
         "ACCELERATE_USE_PARALLELISM_CONFIG=1\nPARALLELISM_CONFIG_TP_SIZE=16777216\n"
         "PARALLELISM_CONFIG_CP_SIZE=16777216\nPARALLELISM_CONFIG_DP_SHARD_SIZE=16777216\n",
         "is not 8 devices"},
        {"ReplicatedTensors",
         "ACCELERATE_USE_PARALLELISM_CONFIG=1\nPARALLELISM_CONFIG_DP_REPLICATE_SIZE=4\n"
         "PARALLELISM_CONFIG_TP_SIZE=2\n",
         "DP_REPLICATE_SIZE: must be 1 beside tensor"},
        {"NothingToShard",
         "ACCELERATE_USE_PARALLELISM_CONFIG=1\nPARALLELISM_CONFIG_DP_REPLICATE_SIZE=8\n",
         "leaves FSDP no ranks"},
        {"TensorsAlone", "ACCELERATE_USE_PARALLELISM_CONFIG=1\nPARALLELISM_CONFIG_TP_SIZE=8\n",
         "no second replica"},
        {"Ulysses",
         "ACCELERATE_USE_PARALLELISM_CONFIG=1\nPARALLELISM_CONFIG_SP_SIZE=2\n"
         "PARALLELISM_CONFIG_DP_SHARD_SIZE=8\n",
         "SP_SIZE: needs DeepSpeed"},
        {"AllGather", "ACCELERATE_USE_PARALLELISM_CONFIG=1\nPARALLELISM_CONFIG_CP_SIZE=8\n",
         "CP_COMM_STRATEGY: must be alltoall: with `allgather`, the default, ranks gather keys"},
        {"Backend",
         "ACCELERATE_USE_PARALLELISM_CONFIG=1\nPARALLELISM_CONFIG_CP_SIZE=8\n"
         "PARALLELISM_CONFIG_CP_BACKEND=other\n",
         "CP_BACKEND: must be torch"},
        {"SizeText", "PARALLELISM_CONFIG_TP_SIZE=two\n", "must be a whole number"},
        {"SizeZero", "PARALLELISM_CONFIG_TP_SIZE=0\n", "must be a whole number"},
        {"Gathered", "FSDP_RESHARD_AFTER_FORWARD=false\n",
         "gathers the parameters of layer 0 and the others once for 4 micro-batches"},
        {"ReshardText", "FSDP_RESHARD_AFTER_FORWARD=FULL_SHARD\n", "must be true or false"},
        {"Offload", "FSDP_OFFLOAD_PARAMS=true\n", "FSDP_OFFLOAD_PARAMS: keeps parameters"},
        {"OffloadCheckpoints", "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD=true\n",
         "keeps checkpoints outside"},
        {"Recompute", "FSDP_ACTIVATION_CHECKPOINTING=false\nPARPLAN_RECOMPUTE=full\n",
         "PARPLAN_RECOMPUTE: contradicts FSDP_ACTIVATION_CHECKPOINTING"},
        {"RecomputeText", "PARPLAN_RECOMPUTE=selective\n", "must be full or none"},
        {"Steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS=8\n", "is 8, and elsewhere it is 4"},
        {"Micro", "PARPLAN_MICRO_BATCH_SIZE_PER_RANK=1\n", "is 1, and elsewhere it is 2"},
        {"Batch", "PARPLAN_GLOBAL_BATCH_SIZE=63\n", "is 63, and the other settings make 64"},
        {"Devices", "PARPLAN_DEVICE_COUNT=16\n", "is 16, and there are 8 devices"},
        {"Megatron", "ACCELERATE_USE_MEGATRON_LM=true\n", "hands training over"},
        {"Processors", "ACCELERATE_USE_CPU=true\n", "trains on processors"},
        {"Twice", "FSDP_VERSION=1\n", "FSDP_VERSION: is given twice"},
    }),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ImportAcceleratePlan, RefusesOtherModelsAndPrograms) {
  const auto refuse = [](const std::string& from, const std::string& to, const std::string& part) {
    EXPECT_THAT(ImportText(absl::StrReplaceAll(kYaml, {{from, to}})).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  refuse("type: FSDP", "type: XLA", "distributed_type: is XLA, and must be FSDP, DEEPSPEED");
  refuse("type: FSDP", "type: MULTI_GPU", "fsdp_config: is not read without");
  refuse("fsdp_version: 2", "fsdp_version: 1", "fsdp_version: must be 2 beside replicas");
  refuse("fsdp_version: 2", "fsdp_version: 3", "fsdp_version: must be 1 or 2");
  refuse("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "fsdp_auto_wrap_policy: is SIZE_BASED_WRAP");
  refuse("mixed_precision: bf16", "mixed_precision: fp8", "mixed_precision: is fp8");
  refuse("mixed_precision: bf16", "mixed_precision: fp16", "mixed_precision: is fp16");
  refuse("num_processes: 8", "num_processes: 4", "num_processes: is 4, and there are 8 devices");
  refuse("use_cpu: false", "use_cpu: true", "use_cpu: trains on processors");
  refuse("_tp_size: 2", "_tp_size: 4", "is not 8 devices");
  const ModelSpec model = DecoderModel({});
  for (const AcceleratePlanOptions& options : {AcceleratePlanOptions{},
                                               {.device_count = -8},
                                               {.device_count = 8, .micro_batch_size = -1}}) {
    EXPECT_FALSE(ImportAcceleratePlan({"acc", kFsdp}, model, options).ok());
  }
  EXPECT_THAT(ImportAcceleratePlan({"acc", kFsdp}, model, {.device_count = 8}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("PARPLAN_MICRO_BATCH_SIZE_PER_RANK: is missing"),
                             HasSubstr("Give --micro-batch-size"))));
}

}  // namespace
}  // namespace parplan
