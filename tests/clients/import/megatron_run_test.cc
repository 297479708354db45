#include "clients/import/megatron_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "clients/import/argument_list.h"
#include "clients/import/hugging_face.h"
#include "clients/import/megatron_model.h"
#include "clients/import/megatron_rules.h"
#include "exports/megatron_plan_export.h"
#include "exports/uniform_plan.h"
#include "proto/wire/model_wire.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/clients/import/import_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Llama-3-8B, as its parameters are published: 8,030,261,248.
constexpr char kLlama[] =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--group-query-attention --num-query-groups 8 --seq-length 4096 "
    "--max-position-embeddings 8192 --vocab-size 128256 --swiglu --normalization RMSNorm "
    "--disable-bias-linear --position-embedding-type rope --untie-embeddings-and-output-weights "
    "--bf16 --micro-batch-size 1 --global-batch-size 128 ";

absl::StatusOr<MegatronRunImport> ReadRun(const std::string& text, int device_count = 8,
                                          const std::string& name = "run.args") {
  return ImportMegatronRun({name, text}, {.device_count = device_count});
}

// Returns the parameters of the model of `arguments`; the error's text goes to the test.
int64_t ParametersOfRun(const std::string& arguments) {
  const auto run = ReadRun(arguments);
  EXPECT_OK(run.status()) << arguments;
  if (!run.ok()) return 0;
  return ModelFromProto(run->model)->parameter_count();
}

std::vector<int> StageSizes(const absl::StatusOr<MegatronRunImport>& run) {
  std::vector<int> sizes;
  EXPECT_OK(run.status());
  if (!run.ok()) return sizes;
  for (const StagePlan& stage : run->plan.stages) sizes.push_back(stage.layer_count());
  return sizes;
}

TEST(ImportMegatronRun, HasTheParametersThatArePublished) {
  EXPECT_EQ(ParametersOfRun(kLlama), 8030261248);
  // GPT-2 XL: 48 layers of 1600 with learned positions, biases and LayerNorm, 1,557,611,200.
  EXPECT_EQ(ParametersOfRun("--num-layers 48 --hidden-size 1600 --num-attention-heads 25 "
                            "--seq-length 1024 --max-position-embeddings 1024 "
                            "--tokenizer-type GPT2BPETokenizer --fp16 --micro-batch-size 1"),
            1557611200);
  // Mixtral 8x7B: 46,702,792,704.
  EXPECT_EQ(ParametersOfRun("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
                            "--num-attention-heads 32 --group-query-attention --num-query-groups 8 "
                            "--seq-length 4096 --vocab-size 32000 --swiglu --normalization RMSNorm "
                            "--disable-bias-linear --position-embedding-type rope --num-experts 8 "
                            "--moe-router-topk 2 --untie-embeddings-and-output-weights --bf16 "
                            "--micro-batch-size 1"),
            46702792704);
}

// DeepSeek-V3 as NVIDIA's recipe of it gives its arguments, and as its config.json does. The
// router's bias is a parameter in the latter, and a buffer in Megatron-LM.
TEST(ImportMegatronRun, ReadsDeepSeekAsItsConfigDoes) {
  ASSERT_OK_AND_ASSIGN(
      const MegatronRunImport run,
      ReadRun(
          "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 "
          "--num-attention-heads 128 --multi-latent-attention --qk-layernorm --q-lora-rank 1536 "
          "--kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 "
          "--num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 "
          "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq ([0]*3+[1]*58) "
          "--mtp-num-layers 1 --seq-length 4096 --vocab-size 129280 --swiglu "
          "--normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
          "--moe-router-enable-expert-bias --rope-type yarn "
          "--untie-embeddings-and-output-weights --bf16 --micro-batch-size 1"));
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(run.model));
  ModelFlags flags;
  flags.sequence_lengths = {4096};
  ASSERT_OK_AND_ASSIGN(
      const HuggingFaceImport config,
      ImportHuggingFace(
          ReadNamedText(SourceDir() + "/tests/clients/import/data", "deepseek-v3.json"), flags));
  ASSERT_OK_AND_ASSIGN(const ModelSpec expected, ModelFromProto(config.model));
  ASSERT_EQ(model.layer_count(), expected.layer_count());
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    LayerDefinition of_config = expected.layer(layer);
    of_config.layer_definition_id = model.layer(layer).layer_definition_id;
    if (of_config.expert_count > 0) of_config.parameter_count -= 256;
    EXPECT_EQ(model.layer(layer), of_config) << layer;
  }
}

// The older argument adds the experts to the modules, of which attention is the default.
TEST(ImportMegatronRun, RecomputesExpertsAsTheModuleDoes) {
  const std::string experts = absl::StrCat(kLlama, "--num-experts 8 ");
  const std::string selective = "--recompute-granularity selective --recompute-modules ";
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport modules,
                       ReadRun(absl::StrCat(experts, selective, "core_attn moe")));
  for (const char* const older : {"--moe-layer-recompute",
                                  "--recompute-activations "
                                  "--moe-layer-recompute"}) {
    ASSERT_OK_AND_ASSIGN(const MegatronRunImport run, ReadRun(absl::StrCat(experts, older)));
    EXPECT_EQ(run.plan, modules.plan) << older;
  }
}

// pretrain_gpt.py has this tokenizer without --tokenizer-type.
TEST(ImportMegatronRun, TakesTheVocabularyOfTheTokenizerThatReadsMerges) {
  const std::string shape =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
      "--micro-batch-size 1 ";
  for (const char* const tokenizer :
       {"--merge-file $5 --vocab-file v.json", "--tokenizer-type GPT2BPETokenizer"}) {
    ASSERT_OK_AND_ASSIGN(const MegatronRunImport run, ReadRun(absl::StrCat(shape, tokenizer)));
    EXPECT_EQ(run.model.layer_definitions(0).vocabulary_size(), 50257) << tokenizer;
    EXPECT_THAT(run.notes, Contains(HasSubstr("is that of GPT2BPETokenizer")));
  }
  EXPECT_THAT(
      ReadRun(absl::StrCat(shape, "--merge-file m --tokenizer-type HuggingFaceTokenizer")).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("vocabulary_size")));
}

// Exported arguments describe the model but for norms, positions and biases.
TEST(ImportMegatronRun, ReadsModelsAndPlansThatWereExported) {
  std::mt19937_64 random(15);
  int read = 0;
  for (int i = 0; i < 300; ++i) {
    const ModelSpec model = DecoderModel(RandomMegatronModel(random));
    const Plan plan = PlanOf(RandomMegatronPlan(random, model), model);
    ASSERT_OK_AND_ASSIGN(const auto files, ExportMegatronPlan(plan, model, ExportFacts()));
    // Experts that ranks split have it written.
    const char* const bias =
        absl::StrContains(files[0].text, "--disable-bias-linear") ? "" : "--disable-bias-linear ";
    ASSERT_OK_AND_ASSIGN(const MegatronRunImport run,
                         ReadRun(absl::StrCat(files[0].text, "--normalization RMSNorm ", bias,
                                              "--position-embedding-type rope"),
                                 plan.device_count));
    ASSERT_OK_AND_ASSIGN(const ModelSpec again, ModelFromProto(run.model));
    ASSERT_EQ(again.layer_count(), model.layer_count());
    for (int layer = 0; layer < model.layer_count(); ++layer) {
      LayerDefinition definition = again.layer(layer);
      definition.layer_definition_id = model.layer(layer).layer_definition_id;
      EXPECT_EQ(definition, model.layer(layer));
    }
    EXPECT_EQ(again.precision(), model.precision());
    EXPECT_EQ(again.optimizer(), model.optimizer());
    EXPECT_EQ(run.plan, plan);
    ++read;
  }
  EXPECT_EQ(read, 300);
}

TEST(ImportMegatronRun, ReadsScriptsAndYamlAsArguments) {
  const std::string degrees =
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel";
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport arguments, ReadRun(absl::StrCat(kLlama, degrees)));
  ASSERT_OK_AND_ASSIGN(
      const MegatronRunImport script,
      ReadRun(absl::StrCat("ARGS='", kLlama,
                           "'\nTP=2\ntorchrun --nproc-per-node 8 --nnodes 1 "
                           "pretrain_gpt.py $ARGS --tensor-model-parallel-size $TP "
                           "--pipeline-model-parallel-size $((TP)) --sequence-parallel --lr $LR"),
              0, "run.sh"));
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport test, ReadRun(R"(
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
MODEL_ARGS:
  --num-layers: 32
  --hidden-size: 4096
  --ffn-hidden-size: 14336
  --num-attention-heads: 32
  --group-query-attention: true
  --num-query-groups: 8
  --seq-length: 4096
  --vocab-size: 128256
  --swiglu: true
  --normalization: RMSNorm
  --disable-bias-linear: true
  --position-embedding-type: rope
  --untie-embeddings-and-output-weights: true
  --bf16: true
  --fp16: false
  --micro-batch-size: 1
  --global-batch-size: 128
  --tensor-model-parallel-size: 2
  --pipeline-model-parallel-size: 2
  --sequence-parallel: true
  --data-path: [1, 2]
)",
                                                             8, "test.yaml"));
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport bridge, ReadRun(R"(
model:
  _target_: megatron.bridge.models.Llama3ModelProvider8B
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 14336
  num_attention_heads: 32
  num_query_groups: 8
  seq_length: 4096
  vocab_size: 128256
  gated_linear_unit: true
  activation_func:
    _target_: torch.nn.functional.silu
    _call_: false
  normalization: RMSNorm
  add_bias_linear: false
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  layernorm_epsilon: 1.0e-05
  bf16: true
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: null
  sequence_parallel: true
  multi_latent_attention: false
train:
  micro_batch_size: 1
  global_batch_size: 128
  train_iters: 100
ddp:
  use_distributed_optimizer: false
logger:
  log_interval: 1
)",
                                                               8, "bridge.yml"));
  for (const MegatronRunImport* const other : {&script, &test, &bridge}) {
    EXPECT_EQ(other->plan, arguments.plan);
    EXPECT_EQ(ModelFromProto(other->model)->parameter_count(), 8030261248);
  }
  EXPECT_EQ(script.model.model_id(), "run");
  EXPECT_THAT(script.notes, ElementsAre(HasSubstr("--lr $LR"), HasSubstr("--lr")));
  EXPECT_THAT(test.notes, ElementsAre(HasSubstr("ENV_VARS"), HasSubstr("--data-path")));
  EXPECT_THAT(bridge.notes, ElementsAre(AllOf(HasSubstr("logger"), HasSubstr("train"))));
}

TEST(ImportMegatronRun, ReadsModulesInOneLineAndInSeveral) {
  const auto read = [](const char* modules) {
    return ReadRun(
        absl::StrCat("model:\n  num_layers: 4\n  hidden_size: 64\n"
                     "  num_attention_heads: 4\n  seq_length: 64\n  vocab_size: 100\n"
                     "  recompute_granularity: selective\n  recompute_modules:",
                     modules, "\ntrain:\n  micro_batch_size: 1\n  global_batch_size: 8\n"),
        8, "bridge.yml");
  };
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport several, read("\n    - core_attn\n    - mlp"));
  EXPECT_EQ(several.plan.stages[0].layer_runs[1].strategy.recompute_modules.ToString(" "),
            "core_attn mlp");
  for (const char* const line : {" [core_attn, mlp]", " [\"core_attn\",'mlp']"}) {
    ASSERT_OK_AND_ASSIGN(const MegatronRunImport one, read(line));
    EXPECT_EQ(one.plan, several.plan) << line;
  }
}

TEST(ImportMegatronRun, TakesThePrecisionOfARecipe) {
  const auto precision_of = [](const char* recipe) -> v1::Precision {
    const absl::StatusOr<MegatronRunImport> run = ReadRun(absl::StrCat(kLlama, recipe));
    EXPECT_OK(run.status()) << recipe;
    return run.ok() ? run->model.precision() : v1::PRECISION_UNSPECIFIED;
  };
  EXPECT_EQ(precision_of(""), v1::PRECISION_BF16);
  EXPECT_EQ(precision_of("--fp8-format hybrid"), v1::PRECISION_FP8_DELAYED);
  EXPECT_EQ(precision_of("--fp8-format hybrid --fp8-recipe tensorwise"), v1::PRECISION_FP8_CURRENT);
  EXPECT_EQ(precision_of("--fp8-format e4m3 --fp8-recipe blockwise"), v1::PRECISION_FP8_BLOCKWISE);
  EXPECT_EQ(precision_of("--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-margin 0"),
            v1::PRECISION_MXFP8);
  EXPECT_EQ(precision_of("--fp4-format e2m1"), v1::PRECISION_NVFP4);
  // A recipe without a format is one that the program does not use.
  EXPECT_EQ(precision_of("--fp8-recipe mxfp8"), v1::PRECISION_BF16);
}

TEST(ImportMegatronRun, DividesLayersAsTheEndsSay) {
  const std::string two = absl::StrCat(kLlama, "--pipeline-model-parallel-size 2 ");
  const std::string four = absl::StrCat(kLlama, "--pipeline-model-parallel-size 4 ");
  EXPECT_THAT(StageSizes(ReadRun(two)), ElementsAre(17, 17));
  EXPECT_THAT(StageSizes(ReadRun(two + "--account-for-embedding-in-pipeline-split "
                                       "--account-for-loss-in-pipeline-split")),
              ElementsAre(17, 17));
  EXPECT_THAT(StageSizes(ReadRun(four + "--decoder-first-pipeline-num-layers 7 "
                                        "--decoder-last-pipeline-num-layers 5")),
              ElementsAre(8, 10, 10, 6));
  EXPECT_THAT(StageSizes(ReadRun(four + "--decoder-last-pipeline-num-layers 2")),
              ElementsAre(11, 10, 10, 3));
  EXPECT_THAT(StageSizes(ReadRun(four + "--decoder-first-pipeline-num-layers 6 "
                                        "--decoder-last-pipeline-num-layers 6 "
                                        "--num-virtual-stages-per-pipeline-rank 2")),
              ElementsAre(4, 5, 5, 3, 3, 5, 5, 4));
  const std::string thirty = absl::StrCat(
      "--num-layers 30 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 100 "
      "--micro-batch-size 1 --pipeline-model-parallel-size 4 "
      "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split ");
  EXPECT_THAT(StageSizes(ReadRun(thirty)), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(StageSizes(ReadRun(thirty + "--num-layers-per-virtual-pipeline-stage 4 "
                                          "--global-batch-size 8")),
              Each(4));
}

TEST(ImportMegatronRun, TakesOneMicroBatchWithoutAGlobalBatch) {
  ASSERT_OK_AND_ASSIGN(
      const MegatronRunImport run,
      ReadRun("--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
              "--vocab-size 100 --micro-batch-size 3 --tensor-model-parallel-size 2"));
  EXPECT_EQ(run.plan.global_batch_size, 12);
  EXPECT_EQ(run.plan.micro_batch_count, 1);
}

TEST(ImportMegatronRun, ReadsParametersInEightBitsAsARuntime) {
  const std::string fp8 = absl::StrCat(kLlama, "--fp8-format hybrid ");
  EXPECT_EQ(ReadRun(fp8)->runtime_id, "megatron-core");
  EXPECT_EQ(ReadRun(fp8 + "--fp8-param-gather")->runtime_id, "megatron-core-fp8");
}

TEST(ImportMegatronRun, ReadsTheLayersThatStayInSixteenBits) {
  const std::string few =
      absl::StrCat(kLlama,
                   "--fp8-format e4m3 --fp8-recipe blockwise --first-last-layers-bf16 "
                   "--num-layers-at-start-in-bf16 2 --num-layers-at-end-in-bf16 0");
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport run, ReadRun(few));
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(run.model));
  for (int layer = 1; layer <= 32; ++layer) {
    EXPECT_EQ(model.layer(layer).wide_products, layer <= 2) << layer;
  }
  // The model that is made is that of the arguments, and of no others.
  const auto compare = [&](const std::string& arguments) {
    return ImportMegatronRun({"run.args", arguments}, {.device_count = 8, .model = run.model})
        .status();
  };
  EXPECT_OK(compare(few));
  EXPECT_THAT(compare(absl::StrCat(kLlama, "--fp8-format e4m3 --fp8-recipe blockwise")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--first-last-layers-bf16: lacks layer 1")));
  // One at either end by default; nothing without a recipe.
  const std::string usual = absl::StrCat(kLlama, "--fp4-format e2m1 --first-last-layers-bf16");
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport ends, ReadRun(usual));
  EXPECT_EQ(ends.model.layer_runs_size(), 5);
  EXPECT_EQ(ReadRun(absl::StrCat(kLlama, "--first-last-layers-bf16"))->model.layer_runs_size(), 3);
}

TEST(ImportMegatronRun, ComparesWithAModelThatIsGiven) {
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport run, ReadRun(kLlama));
  EXPECT_OK(
      ImportMegatronRun({"run.args", kLlama}, {.device_count = 8, .model = run.model}).status());
  // The other gate.
  const std::string geglu = absl::StrReplaceAll(kLlama, {{"--swiglu", "--quick-geglu"}});
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport gated, ReadRun(geglu));
  EXPECT_OK(
      ImportMegatronRun({"run.args", geglu}, {.device_count = 8, .model = gated.model}).status());
  const std::string other = absl::StrCat("--num-layers 31 ", std::string(kLlama).substr(16));
  EXPECT_THAT(
      ImportMegatronRun({"run.args", other}, {.device_count = 8, .model = run.model}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--num-layers: is 31")));
  // Flags are not contradictions.
  MegatronRunOptions options{.device_count = 8};
  options.flags.sequence_lengths = {1024};
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport shorter,
                       ImportMegatronRun({"run.args", kLlama}, options));
  EXPECT_EQ(shorter.model.layer_definitions(1).sequence_length(), 1024);
  // Beside a model file they would do nothing.
  options.model = run.model;
  EXPECT_THAT(ImportMegatronRun({"run.args", kLlama}, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--sequence-length: changes the model that arguments describe")));
}

// transformer_config.py of megatron-core 0.14.0 and 0.15.3 demands that the degree divides the
// groups; that of 0.16.0 and 0.16.1 that one of both divides the other.
TEST(ImportMegatronRun, RefusesTensorDegreesThatPartGroupsOfQueries) {
  const auto read = [](int heads, int groups, int degree) {
    return ReadRun(absl::StrCat("--num-layers 2 --hidden-size 96 --num-attention-heads ", heads,
                                " --group-query-attention --num-query-groups ", groups,
                                " --seq-length 64 --max-position-embeddings 64 --vocab-size 100 "
                                "--micro-batch-size 1 --tensor-model-parallel-size ",
                                degree),
                   24)
        .status();
  };
  EXPECT_OK(read(24, 4, 4));
  EXPECT_OK(read(24, 4, 2));
  EXPECT_OK(read(24, 24, 8));
  EXPECT_THAT(read(24, 4, 8), StatusIs(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("--tensor-model-parallel-size: is 8"),
                                             HasSubstr("the 4 groups of --num-query-groups"),
                                             HasSubstr("core 0.14 and 0.15 refuse that"))));
  EXPECT_THAT(read(24, 4, 3), StatusIs(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("the 4 groups of --num-query-groups"),
                                             HasSubstr("no release takes"))));
  EXPECT_THAT(read(12, 12, 8), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("the 12 heads of --num-attention-heads")));
}

// The first two take values from a checkpoint, and the third has no effect by itself.
TEST(ImportMegatronRun, SaysWhatArgumentsDoNot) {
  const std::string llama = kLlama;
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport plain, ReadRun(llama));
  EXPECT_THAT(plain.notes, Not(Contains(HasSubstr("--use-checkpoint-args"))));
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport loaded, ReadRun(llama + "--use-checkpoint-args"));
  EXPECT_EQ(loaded.plan, plain.plan);
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("--use-checkpoint-args takes the sizes")));
  EXPECT_THAT(ReadRun(llama + "--use-mp-args-from-checkpoint-args").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--use-mp-args-from-checkpoint-args: takes the degrees from")));
  ASSERT_OK_AND_ASSIGN(const MegatronRunImport whole,
                       ReadRun(absl::StrReplaceAll(llama, {{"--group-query-attention ", ""}})));
  // 0 means as many heads of keys and values as of queries.
  EXPECT_EQ(whole.model.layer_definitions(1).key_value_head_count(), 0);
  EXPECT_THAT(whole.notes, Contains(HasSubstr("--num-query-groups does nothing without")));
}

TEST(ImportMegatronRun, RefusesBadInput) {
  const auto refuse = [](const std::string& text, const std::string& part, int device_count = 8,
                         const std::string& name = "run.args") {
    EXPECT_THAT(ReadRun(text, device_count, name).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << text.substr(0, 200);
  };
  const std::string llama = kLlama;
  refuse(kLlama, "--devices: is needed: run.args does not give torchrun", 0);
  refuse(llama + "--multi-latent-attention",
         "--group-query-attention: contradicts --multi-latent-attention");
  refuse(llama + "--moe-latent-size 64", "--moe-latent-size: is the width of experts, and needs");
  refuse(llama + "--fp8-format e5m2", "--fp8-format: must be e4m3 or hybrid, and is `e5m2`");
  refuse(llama + "--fp8-format e4m3 --fp8-recipe custom", "--fp8-recipe: must be delayed, ");
  refuse(llama + "--fp8-format e4m3 --fp4-format e2m1", "--fp4-format: contradicts --fp8-format");
  refuse(llama + "--fp8-param-gather", "--fp8-param-gather: needs --fp8-format");
  refuse(llama + "--fp4-format e2m1 --fp4-param-gather", "--fp4-param-gather: keeps parameters");
  refuse(llama + "--fp8-format e4m3 --first-last-layers-bf16", "excludes --fp8-recipe delayed");
  refuse(llama +
             "--fp8-format e4m3 --fp8-recipe tensorwise --first-last-layers-bf16 "
             "--num-layers-at-end-in-bf16 33",
         "--num-layers-at-end-in-bf16: must be a whole number from 0 to the 32 layers");
  refuse(llama + "--use-tp-pp-dp-mapping", "orders ranks tp-pp-dp");
  refuse(llama + "--frobnicate --brew 2", "--brew, --frobnicate; leave them out");
  refuse(llama + "--fp32-residual-connection", "keeps what layers hand on in 32 bits");
  refuse(llama + "--deepspeed --zero-stage 1", "--deepspeed: is of Megatron-DeepSpeed");
  refuse(llama + "--fp16", "--fp16: contradicts --bf16");
  refuse(llama + "--optimizer muon", "must be adam or sgd, and is `muon`");
  refuse(llama + "--tensor-model-parallel-size 3", "does not divide 8 devices");
  refuse(llama + "--num-experts 8 --moe-router-topk 9", "is 9 of 8 experts");
  refuse(llama + "--num-experts 8 --moe-layer-freq [1]*7", "for 32 layers");
  refuse("--micro-batch-size 1", "layer_count (--num-layers, or the flag --layers)");
  refuse("--micro-batch-size 1",
         "vocabulary_size (--vocab-size, or the flag --vocabulary-size); add them, or "
         "give a model file");
  refuse("--num-layers 4 --hidden-size 65 --num-attention-heads 4 --micro-batch-size 1",
         "must divide the hidden size 65");
  refuse("--num-layers 99999 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1",
         "--num-layers: must be at most");
  refuse(llama + "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 32",
         "leaves 0 of 32 layers for 1");
  // One rank that is both ends has all layers.
  refuse(llama + "--decoder-last-pipeline-num-layers 32 --num-layers-per-virtual-pipeline-stage 16",
         "virtual");
  refuse(llama + "--decoder-last-pipeline-num-layers 32 --num-layers-per-virtual-pipeline-stage 64",
         "does not divide the 32 layers of a pipeline rank");
  refuse(llama + "--pipeline-model-parallel-size 4 --account-for-loss-in-pipeline-split",
         "makes 33 layers, which 4 pipeline ranks do not divide");
  refuse(llama +
             "--pipeline-model-parallel-size 4 --account-for-loss-in-pipeline-split "
             "--decoder-last-pipeline-num-layers 2",
         "contradicts --account-for-loss-in-pipeline-split");
  refuse(llama +
             "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 15 "
             "--num-virtual-stages-per-pipeline-rank 2",
         "which 2 virtual stages do not divide");
  // Scripts.
  refuse("torchrun pretrain_bert.py --micro-batch-size 1", "trains another model", 8, "run.sh");
  refuse(absl::StrCat("torchrun pretrain_gpt.py ", kLlama, "--tensor-model-parallel-size $TP"),
         "from 1 to 16777216, and is `$TP`, which the file does not set", 8, "run.sh");
  refuse(absl::StrCat("torchrun pretrain_gpt.py ", kLlama,
                      "--pipeline-model-parallel-layout $LAYOUT --pipeline-model-parallel-size 2"),
         "is `$LAYOUT`, which the file does not set", 8, "run.sh");
  // Recipes of Megatron-Bridge and what starts them.
  refuse(
      "from megatron.bridge.recipes.llama import llama3_8b_pretrain_config\n"
      "cfg = llama3_8b_pretrain_config()\ncfg.model.tensor_model_parallel_size = 2\n",
      "recipe.py: megatron.bridge: is a recipe of Megatron-Bridge, whose Python is not run here; "
      "let the script call to_yaml(",
      8, "recipe.py");
  refuse(
      "torchrun --nproc_per_node=8 scripts/training/run_recipe.py "
      "--recipe llama3_8b_pretrain_config model.tensor_model_parallel_size=2",
      "run.sh: run_recipe.py: is a recipe of Megatron-Bridge", 8, "run.sh");
  // YAML.
  refuse("a: 1", "must have a map MODEL_ARGS", 8, "a.yaml");
  refuse("MODEL_ARGS:\n  size: 1", "MODEL_ARGS.size: must be an argument", 8, "a.yaml");
  refuse("MODEL_ARGS:\n  --size:\n    a: 1", "must be one value", 8, "a.yaml");
  refuse("model:\n  num_layers: 4\n  new_field: 3\n  other: x",
         "not read here: model.new_field, model.other;", 8, "a.yaml");
  refuse("model:\n  bf16: yes", "model.bf16: must be true or false", 8, "a.yaml");
  refuse("model:\n  num_layers: four", "--num-layers: must be a whole number", 8, "a.yaml");
  refuse("model:\n  window_size: [8, 1]", "--window-size: is `[8, 1]`", 8, "a.yaml");
  refuse("mixed_precision: bf16_with_fp6_mixed\nmodel:\n  num_layers: 4",
         "must be one of bf16_mixed, ", 8, "a.yaml");
}

TEST(ImportMegatronRun, TakesEveryTruncation) {
  const std::string script = absl::StrCat("A=(", kLlama, ")\ntorchrun --nnodes 1 ",
                                          "--nproc_per_node 8 pretrain_gpt.py ${A[@]} --lr \"$1\"");
  for (size_t size = 0; size <= script.size(); size += 3) {
    (void)ReadRun(script.substr(0, size), 0, "run.sh");
    (void)ReadRun(script.substr(0, size), 8, "run.yaml");
  }
  EXPECT_OK(ReadRun(script, 0, "run.sh").status());
}

// A rule that another one hides would never be applied.
TEST(MegatronRules, NamesEachArgumentOnce) {
  std::vector<std::string> names;
  for (const ArgumentRule& rule : MegatronRules()) {
    names.emplace_back(rule.name);
    EXPECT_EQ(rule.kind == ArgumentKind::kRefused, !rule.reason.empty()) << rule.name;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace parplan
