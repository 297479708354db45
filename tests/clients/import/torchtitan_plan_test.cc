#include "clients/import/torchtitan_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "exports/torchtitan_plan_export.h"
#include "exports/uniform_plan.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/search_space.h"
#include "tests/clients/import/torchtitan_files.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A configuration as people have it, of 2025.
constexpr char kToml[] = R"(
[job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "8B"
[optimizer]
lr = 3e-4
[training]
local_batch_size = 4
global_batch_size = 64
seq_len = 1024
steps = 1000
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
enable_async_tensor_parallel = false
pipeline_parallel_degree = 1
context_parallel_degree = 1
[activation_checkpoint]
mode = "full"
[my_section]
x = 1
)";

UniformPlan ExpectedPlan() {
  UniformPlan facts;
  facts.device_count = 8;
  facts.global_batch_size = 64;
  facts.micro_batch_count = 4;
  facts.stage_layer_counts = {12};
  facts.strategy = {.tensor_parallel_degree = 2,
                    .data_parallel_degree = 4,
                    .sharding_level = ShardingLevel::kParameters,
                    .recompute_level = RecomputeLevel::kFull,
                    .sequence_parallel = true};
  return facts;
}

TEST(ImportTorchtitanPlan, ReadsTheTomlOfPeople) {
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport import, ReadTorchtitan("run.toml", kToml));
  EXPECT_EQ(import.plan, PlanOf(ExpectedPlan(), TorchtitanModel()));
  EXPECT_THAT(import.notes, ElementsAre("Not known, and ignored: my_section."));
}

// Two replicas of groups of four, and context-parallel ranks that share parameters beside replicas
// of which nothing else is sharded.
TEST(ImportTorchtitanPlan, ReadsReplicasOfGroupsThatShareParameters) {
  const auto strategy = [](const std::string& lines) {
    const absl::StatusOr<TorchtitanPlanImport> import =
        ReadTorchtitan("run.toml", "[parallelism]\n" + lines + "[training]\nseq_len = 1024\n");
    EXPECT_OK(import.status());
    return import.ok() ? import->plan.stages[0].layer_runs[1].strategy : Strategy();
  };
  Strategy found = strategy("data_parallel_replicate_degree = 2\n");
  EXPECT_EQ(found.data_parallel_degree, 8);
  EXPECT_EQ(found.sharding(), Sharding(ShardingLevel::kParameters, 4));
  found = strategy(
      "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 1\n"
      "context_parallel_degree = 4\n");
  EXPECT_EQ(found.data_parallel_degree, 2);
  EXPECT_EQ(found.sharding(), Sharding(ShardingLevel::kParameters, 4));
  found = strategy("data_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n");
  EXPECT_EQ(found.sharding(), Sharding());
}

TEST(ImportTorchtitanPlan, ReadsThePythonOfPeople) {
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport import,
                       ReadTorchtitan("run.py", kTorchtitanPython));
  EXPECT_EQ(import.plan, PlanOf(ExpectedPlan(), TorchtitanModel()));
  EXPECT_THAT(import.notes, ElementsAre("Not known, and ignored: Surprise.Config."));
}

// Releases behind 0.3.0 have the sizes of a step in tokens.
TEST(ImportTorchtitanPlan, ReadsSizesInTokens) {
  const auto read = [](const std::string& training, const std::string& parallelism) {
    return ReadTorchtitan(
        "run.py", absl::StrCat("def run():\n    return Trainer.Config(training=TrainingConfig(",
                               training, "), parallelism=ParallelismConfig(", parallelism,
                               "), activation_checkpoint=FullAC.Config())\n"));
  };
  const std::string micro = "num_tokens_per_microbatch_per_dp_rank=4096, max_context_length=1024";
  ASSERT_OK_AND_ASSIGN(
      const TorchtitanPlanImport import,
      read(micro + ", num_tokens_per_train_step=65536", "tensor_parallel_degree=2"));
  // Four samples a rank on four replicas, and four accumulation steps.
  EXPECT_EQ(import.plan, PlanOf(ExpectedPlan(), TorchtitanModel()));
  EXPECT_THAT(import.notes, IsEmpty());
  // 16384 tokens by default.
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport silent, read("max_context_length=1024", ""));
  EXPECT_EQ(silent.plan.global_batch_size, 8 * 16);
  EXPECT_EQ(silent.plan.micro_batch_count, 1);
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport stages,
                       read(micro, "pipeline_parallel_degree=2, num_pp_microbatches=6"));
  EXPECT_EQ(stages.plan.micro_batch_count, 6);
  EXPECT_EQ(stages.plan.global_batch_size, 4 * 6 * 4);
  const auto refuse = [&](const std::string& training, const std::string& parallelism,
                          const std::string& part) {
    EXPECT_THAT(read(training, parallelism),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << training;
  };
  refuse(micro + ", local_batch_size=4", "", "training.local_batch_size: is of release 0.3.0");
  refuse("num_tokens_per_microbatch_per_dp_rank=1000", "", "is no multiple of the 1024 tokens");
  refuse("num_tokens_per_microbatch_per_dp_rank=4 * n", "", "no literal value");
  refuse(micro + ", num_tokens_per_train_step=4096", "", "must be a multiple of the 32 x 1024");
  refuse(micro + ", num_tokens_per_train_step=65536", "pipeline_parallel_degree=2",
         "empties the pipeline 4 times");
  refuse("max_context_length=2048", "", "training.max_context_length: is 2048, and the model's is");
  refuse(micro, "context_parallel_degree=2", "context_parallel_degree: is above 1");
}

// Releases of 2024 had degrees in other sections, which would else count as 1.
TEST(ImportTorchtitanPlan, RefusesDegreesOutsideOfTheirSection) {
  const auto read = [](const std::string& lines) {
    return ReadTorchtitan("run.toml", absl::StrCat("[activation_checkpoint]\nmode = \"full\"\n"
                                                   "[training]\nseq_len = 1024\n",
                                                   lines));
  };
  EXPECT_OK(
      read("batch_size = 1\nwarmup_steps = 2\ndata_parallel_shard_degree = -1\n"
           "tensor_parallel_degree = 1\n[experimental]\npipeline_parallel_degree = 1\n"));
  for (const char* const lines : {"tensor_parallel_degree = 2\n", "data_parallel_degree = 8\n",
                                  "[experimental]\npipeline_parallel_degree = 2\n",
                                  "[experimental]\ncontext_parallel_degree = \"2\"\n"}) {
    EXPECT_THAT(read(lines), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("stands where releases before [parallelism]")))
        << lines;
  }
}

TEST(ImportTorchtitanPlan, RefusesOffloadingAndNamesUnknownSettingsOfTraining) {
  const auto read = [](const std::string& line) {
    return ReadTorchtitan("run.toml", absl::StrCat("[activation_checkpoint]\nmode = \"full\"\n"
                                                   "[training]\nseq_len = 1024\n",
                                                   line, "\n"));
  };
  EXPECT_THAT(read("enable_cpu_offload = true"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("training.enable_cpu_offload: keeps parameters")));
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport import, read("enable_fp8_linear = true"));
  EXPECT_THAT(import.notes, ElementsAre("Not known, and ignored: training.enable_fp8_linear."));
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport plain, read("enable_cpu_offload = false"));
  EXPECT_THAT(plain.notes, IsEmpty());
}

// Float8 and 16-bit reductions of files of people, whose predictions differ.
TEST(ImportTorchtitanPlan, SaysOrRefusesOtherTypesOfNumbers) {
  const auto read = [](const std::string& training, const std::string& model) {
    return ReadTorchtitan("run.toml",
                          absl::StrCat("[model]\n", model, "[training]\nseq_len = 1024\n", training,
                                       "[activation_checkpoint]\nmode = \"full\"\n"));
  };
  ASSERT_OK_AND_ASSIGN(
      const TorchtitanPlanImport plain,
      read("dtype = \"float32\"\nmixed_precision_param = \"bfloat16\"\n", "converters = []\n"));
  EXPECT_TRUE(plain.notes.empty());
  ASSERT_OK_AND_ASSIGN(
      const TorchtitanPlanImport other,
      read("mixed_precision_reduce = \"bfloat16\"\n", "converters = [\"float8\", \"mx\"]\n"));
  EXPECT_EQ(other.plan, plain.plan);
  EXPECT_THAT(other.notes,
              ElementsAre(HasSubstr("training.mixed_precision_reduce bfloat16: the runtime"),
                          HasSubstr("model.converters float8, mx: the precision is that")));
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport text, read("", "converters = \"float8\"\n"));
  EXPECT_THAT(text.notes, ElementsAre(HasSubstr("model.converters float8: ")));
  const std::pair<const char*, const char*> refused[] = {
      {"dtype = \"bfloat16\"\n", "training.dtype: keeps parameters and optimizer states in bf"},
      {"mixed_precision_param = \"float32\"\n",
       "training.mixed_precision_param: is float32, and the model's precision is bf16"},
      {"dtype = 16\n", "training.dtype: must be a text"}};
  for (const auto& [training, rule] : refused) {
    EXPECT_THAT(read(training, ""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(rule)));
  }
  EXPECT_THAT(read("", "converters = 8\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.converters: must be a text or a list of texts")));
}

// Releases before 0.3.0 recompute every second layer; the class of 0.3.0 repeats operators.
TEST(ImportTorchtitanPlan, TakesTheDefaultsOfTheProgram) {
  UniformPlan facts;
  facts.device_count = 8;
  facts.global_batch_size = 64;
  facts.stage_layer_counts = {12};
  facts.strategy = {.data_parallel_degree = 8,
                    .sharding_level = ShardingLevel::kParameters,
                    .recompute_level = RecomputeLevel::kSelective};
  ASSERT_OK_AND_ASSIGN(
      const TorchtitanPlanImport import,
      ReadTorchtitan("run.py", "config.training = TrainingConfig(seq_len=1024)\n"));
  EXPECT_EQ(import.plan, PlanOf(facts, TorchtitanModel()));
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr("default is selective")));
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport earlier,
                       ReadTorchtitan("run.toml", "[training]\nseq_len = 1024\n"));
  EXPECT_THAT(RecomputedLayers(earlier.plan), ElementsAre(2, 4, 6, 8, 10));
  EXPECT_THAT(earlier.notes, ElementsAre(HasSubstr("default is selective"),
                                         HasSubstr("recomputes one of 2 layers whole")));
  const std::string by_class =
      "config.training = TrainingConfig(seq_len=1024)\n"
      "config.activation_checkpoint = ActivationCheckpointConfig(";
  for (const char* const arguments : {")\n", "mode=\"selective\")\n"}) {
    ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport of_class,
                         ReadTorchtitan("run.py", by_class + arguments));
    EXPECT_EQ(of_class.plan, earlier.plan) << arguments;
  }
}

// Sections that no plan has leave parallelism to the defaults; text without any is no file of
// torchtitan. A module of people may have the names of an exported one.
TEST(ImportTorchtitanPlan, TakesTheDefaultsOfFilesWithoutParallelism) {
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport of_toml,
                       ReadTorchtitan("run.toml", "[training]\nseq_len = 1024\n"));
  ASSERT_OK_AND_ASSIGN(
      const TorchtitanPlanImport of_python,
      ReadTorchtitan("run.py", "config.training = TrainingConfig(seq_len=1024)\n"));
  const std::pair<const char*, const char*> files[] = {
      {"run.toml", "[job]\ndescription = \"a run\"\n[optimizer]\nlr = 1e-4\n"},
      {"run.py", "def run():\n    return Trainer.Config(optimizer=Optimizers.Config(lr=1e-4))\n"},
      {"run.py", "RELEASE = \"2.1\"\nMODEL = dict(dim=512)\n"}};
  for (const auto& [name, text] : files) {
    ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport import, ReadTorchtitan(name, text));
    EXPECT_EQ(import.plan, (name[4] == 't' ? of_toml : of_python).plan) << text;
  }
  for (const auto& [name, text] : std::vector<std::pair<const char*, const char*>>{
           {"run.toml", ""}, {"run.toml", "[my_section]\nx = 1\n"}, {"run.py", "x = 1\n"}}) {
    EXPECT_THAT(ReadTorchtitan(name, text), StatusIs(absl::StatusCode::kInvalidArgument,
                                                     HasSubstr("has no setting of torchtitan")))
        << text;
  }
}

// Worked by hand from `_generate_llm_fqn_per_model_part`: 10 layers and one for either end are 12,
// over 8 stages one each and one more for the first four.
TEST(ImportTorchtitanPlan, DividesLayersAsTheProgramDoes) {
  const std::string text = R"([training]
local_batch_size = 8
seq_len = 1024
[activation_checkpoint]
mode = "none"
[parallelism]
pipeline_parallel_degree = 4
)";
  ASSERT_OK_AND_ASSIGN(
      const TorchtitanPlanImport interleaved,
      ReadTorchtitan("run.toml",
                     absl::StrCat(text, "pipeline_parallel_schedule = \"Interleaved1F1B\"\n")));
  const auto counts = [](const Plan& plan) {
    std::vector<int> layers;
    for (const StagePlan& stage : plan.stages) layers.push_back(stage.layer_count());
    return layers;
  };
  EXPECT_THAT(counts(interleaved.plan), ElementsAre(2, 2, 2, 2, 1, 1, 1, 1));
  EXPECT_EQ(interleaved.plan.virtual_stage_count, 2);
  EXPECT_EQ(interleaved.plan.micro_batch_count, 8);
  ASSERT_OK_AND_ASSIGN(
      const TorchtitanPlanImport single,
      ReadTorchtitan("run.toml", absl::StrCat(text,
                                              "pipeline_parallel_schedule = \"GPipe\"\n"
                                              "pipeline_parallel_last_stage_less_layers = 0\n"
                                              "pipeline_parallel_microbatch_size = 2\n")));
  // 11 over 4 stages; the last has the head beside its two layers.
  EXPECT_THAT(counts(single.plan), ElementsAre(3, 3, 3, 3));
  EXPECT_EQ(single.plan.schedule, Schedule::kGpipe);
  EXPECT_EQ(single.plan.micro_batch_count, 4);
  EXPECT_EQ(single.plan.stages[0].layer_runs[0].strategy.sharding_level, ShardingLevel::kOptimizer);
}

TEST(ImportTorchtitanPlan, RefusesWithFileSettingAndRule) {
  const auto refuse = [](const std::string& line, const std::string& part, int devices = 8) {
    const std::string text = absl::StrCat(
        "[training]\nseq_len = 1024\nlocal_batch_size = 8\n[activation_checkpoint]\n"
        "mode = \"none\"\n[parallelism]\n",
        line, "\n");
    EXPECT_THAT(
        ReadTorchtitan("run.toml", text, devices),
        StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("run.toml"), HasSubstr(part))))
        << line;
  };
  refuse("tensor_parallel_degree = 3", "is 3 x 1 x 1 x 1, which does not divide 8 devices");
  refuse("tensor_parallel_degree = 16777216\ncontext_parallel_degree = 16777216",
         "does not divide 8 devices");
  refuse("tensor_parallel_degree = 0", "tensor_parallel_degree");
  refuse("tensor_parallel_degree = \"2\"", "tensor_parallel_degree");
  refuse("tensor_parallel_degree = 2.5", "tensor_parallel_degree");
  refuse("data_parallel_shard_degree = 4", "must be 8 on 8 devices");
  refuse("data_parallel_replicate_degree = 3", "1 x 1 x 1 x 3, which does not divide 8 devices");
  refuse("fsdp_reshard_after_forward = \"maybe\"", "must be default, always or never");
  refuse("pipeline_parallel_degree = 2\npipeline_parallel_schedule = \"ZBVZeroBubble\"",
         "is `ZBVZeroBubble`");
  refuse("pipeline_parallel_degree = 2\npipeline_parallel_schedule_csv = \"a.csv\"",
         "names a table of passes");
  refuse("pipeline_parallel_degree = 2\nfsdp_reshard_after_forward = \"always\"",
         "is always beside a pipeline");
  refuse("pipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 3", "does not divide");
  refuse("pipeline_parallel_degree = 2\npipeline_parallel_layers_per_stage = 1",
         "makes 12 stages on 2 ranks");
  refuse("pipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [[\"norm\"], []]",
         "must have `tok_embeddings` of layer 0 in stage 0, and has `norm`");
  refuse("pipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [[\"tok_embeddings\"], []]",
         "leaves a stage empty");
  refuse("pipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [[\"tok_embeddings\"]]",
         "ends before layer 1 of the model's 12");
  refuse("module_fqns = 3\nspeed = 4", "settings that are not known: module_fqns, speed");
  refuse("[model]\ndim = 5", "model.dim: is 5, and the model's is 512");
  refuse("", "needs the number of devices", 0);
  EXPECT_THAT(
      ReadTorchtitan("run.toml", std::string(kToml) + "[activation_checkpoint]\nmode = \"x\""),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("once more")));
  EXPECT_THAT(
      ReadTorchtitan("run.toml", absl::StrReplaceAll(kToml, {{"\"full\"", "\"memory_budget\""}})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("must name the mode none, full or selective")));
  EXPECT_THAT(ReadTorchtitan("run.py", absl::StrReplaceAll(kTorchtitanPython,
                                                           {{"degree=2", "degree=count()"}})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("gives `parallelism.tensor_parallel_degree` no literal value")));
}

// Release 0.3.0 gathers keys and values, as earlier ones did by default; those could pass them on.
TEST(ImportTorchtitanPlan, ReadsHowRanksShareTokens) {
  const auto read = [](const std::string& lines) {
    return ReadTorchtitan("run.toml",
                          absl::StrCat("[training]\nseq_len = 1024\n[activation_checkpoint]\n"
                                       "mode = \"none\"\n[parallelism]\n",
                                       "fsdp_reshard_after_forward = \"always\"\n", lines));
  };
  const auto kind_of = [](const TorchtitanPlanImport& import) {
    return import.plan.stages[0].layer_runs[0].strategy.context_kind;
  };
  const std::string four = "context_parallel_degree = 4\ncontext_parallel_rotate_method = ";
  ASSERT_OK_AND_ASSIGN(const auto silent, read("context_parallel_degree = 4\n"));
  EXPECT_EQ(kind_of(silent), ContextKind::kAllGather);
  ASSERT_OK_AND_ASSIGN(const auto gathered, read(four + "\"allgather\"\n"));
  EXPECT_EQ(kind_of(gathered), ContextKind::kAllGather);
  ASSERT_OK_AND_ASSIGN(const auto ring, read(four + "\"alltoall\"\n"));
  EXPECT_EQ(kind_of(ring), ContextKind::kRing);
  ASSERT_OK_AND_ASSIGN(const auto none, read("context_parallel_rotate_method = \"alltoall\"\n"));
  EXPECT_EQ(kind_of(none), ContextKind::kRing);
  EXPECT_THAT(read(four + "\"ring\"\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is `ring`, and is allgather or alltoall")));
}

// No code is run, so a choice that only some runs make is not known.
TEST(ImportTorchtitanPlan, RefusesChoicesThatOnlySomeRunsMake) {
  const auto read = [](const std::string& choice) {
    return ReadTorchtitan("run.py",
                          absl::StrCat("def make():\n"
                                       "    config = Trainer.Config(training=TrainingConfig(\n"
                                       "        local_batch_size=4, seq_len=1024))\n    ",
                                       choice, "\n    return config\n"));
  };
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport full,
                       read("config.activation_checkpoint = FullAC.Config()"));
  EXPECT_EQ(full.plan.stages[0].layer_runs[1].strategy.recompute_level, RecomputeLevel::kFull);
  for (const char* const choice :
       {"if wide:\n        config.activation_checkpoint = FullAC.Config()",
        "if wide:\n        config.activation_checkpoint = SelectiveAC.Config()",
        "if wide:\n        config.activation_checkpoint = None",
        "for i in steps:\n        config.activation_checkpoint = FullAC.Config(x=1)",
        "config.activation_checkpoint = FullAC.Config() if wide else None",
        "config.activation_checkpoint = None if wide else FullAC.Config()"}) {
    EXPECT_THAT(read(choice),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("run.py"), HasSubstr("chooses activation checkpointing on "
                                                              "a line that not every run"))))
        << choice;
  }
  EXPECT_THAT(read("config.parallelism = ParallelismConfig(tensor_parallel_degree=2) if wide else "
                   "ParallelismConfig()"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("gives `parallelism.tensor_parallel_degree` no literal value")));
}

// A section or a choice that is not read would count as torchtitan's default.
TEST(ImportTorchtitanPlan, RefusesWhatItCannotRead) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    EXPECT_THAT(
        ReadTorchtitan("run.py", "TRAINING = dict(local_batch_size=4, seq_len=1024)\n" + text),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("run.py: line "), HasSubstr(part))))
        << text;
  };
  const std::string degree = "gives `parallelism.tensor_parallel_degree` no literal value";
  refuse("PARALLELISM = {\"tensor_parallel_degree\": n}", degree);
  refuse("if wide:\n    PARALLELISM = {\"tensor_parallel_degree\": 2}", degree);
  refuse("RUN = {\"parallelism\": {\"tensor_parallel_degree\": n}}", degree);
  refuse("if wide:\n    RUN = {\"parallelism\": {\"tensor_parallel_degree\": 2}}", degree);
  refuse("def f():\n    c.parallelism.tensor_parallel_degree *= 2", degree);
  refuse("PARALLELISM[\"tensor_parallel_degree\"] = n", degree);
  for (const char* const section :
       {"PARALLELISM = {**base}", "PARALLELISM = {key: 2}", "PARALLELISM = {} | base",
        "PARALLELISM = make()", "PARALLELISM = wide", "PARALLELISM = dict(base)",
        "PARALLELISM |= base", "ParallelismConfig(**base)",
        "f(parallelism=ParallelismConfig() if wide else None)",
        "if wide:\n    PARALLELISM = ParallelismConfig()",
        "f(parallelism=ParallelismConfig().grow())"}) {
    refuse(section, "gives `parallelism` no literal value");
  }
  refuse("f(training=make())", "gives `training` no literal value");
  refuse("TRAINING.local_batch_size = n", "gives `training.local_batch_size` no literal value");
  for (const char* const choice :
       {"f(activation_checkpoint=make())", "f(activation_checkpoint=wide)",
        "f(activation_checkpoint=\"full\")", "ACTIVATION_CHECKPOINT = FullAC.Config() or None",
        "config.activation_checkpoint = [x for x in y]"}) {
    refuse(choice, "chooses activation checkpointing by an expression");
  }
  refuse("f(activation_checkpoint={\"mode\": mode})", "must name the mode");
  refuse("f(activation_checkpoint=MemoryBudgetAC.Config(**x))", "no recomputation of a plan");
}

// Whatever a statement calls a section, it is read as one or refused with its line.
TEST(ImportTorchtitanPlan, ReadsOrRefusesEveryNameOfASection) {
  const std::string begin =
      "from torchtitan.config import ParallelismConfig as P\n"
      "Q = torchtitan.config.ParallelismConfig\n"
      "def make(config):\n"
      "    config.training = TrainingConfig(local_batch_size=4, global_batch_size=64, "
      "seq_len=1024)\n"
      "    config.activation_checkpoint = FullAC.Config()\n"
      "    p = config.parallelism\n"
      "    r = p\n    ";
  for (const char* const line :
       {"config.parallelism = P(tensor_parallel_degree=2)",
        "config.parallelism = Q(tensor_parallel_degree=2)", "p.tensor_parallel_degree = 2",
        "r.tensor_parallel_degree = 2", "setattr(p, \"tensor_parallel_degree\", 2)",
        "setattr(config.parallelism, 'tensor_parallel_degree', 2)",
        "vars(p).update(tensor_parallel_degree=2)", "p.__dict__[\"tensor_parallel_degree\"] = 2",
        "p.tensor_parallel_degree, p.context_parallel_degree = 2, 1",
        "p.tensor_parallel_degree = size = 2", "x = 3; p.tensor_parallel_degree = 2",
        "config.parallelism = dataclasses.replace(p, tensor_parallel_degree=2)",
        "s = P()\n    s.tensor_parallel_degree = 2\n    config.parallelism = s",
        "s = replace(p)\n    config.parallelism = replace(s, tensor_parallel_degree=2)",
        "s = {}\n    s[\"parallelism\"] = P(tensor_parallel_degree=2)"}) {
    ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport import,
                         ReadTorchtitan("run.py", absl::StrCat(begin, line, "\n")));
    EXPECT_EQ(import.plan, PlanOf(ExpectedPlan(), TorchtitanModel())) << line;
  }
  // Line 8 is the first that is not in `begin`.
  for (const char* const line : {"p.tensor_parallel_degree, x = make()",
                                 "p.tensor_parallel_degree, x = 2, 3, 4",
                                 "p[name] = 2",
                                 "vars(p)[name] = 2",
                                 "setattr(p, name, 2)",
                                 "setattr(config, f\"x\", 2)",
                                 "find(config).tensor_parallel_degree = 2",
                                 "config.sections[0].tensor_parallel_degree = 2",
                                 "p.update(more)",
                                 "p.update(**more)",
                                 "p.pop(\"tensor_parallel_degree\")",
                                 "del p.tensor_parallel_degree",
                                 "tune(tensor_parallel_degree=2)",
                                 "partial(Q, tensor_parallel_degree=2)",
                                 "if wide: p.tensor_parallel_degree = 2",
                                 "for x in y: p.tensor_parallel_degree = 2",
                                 "p = find(config); p.tensor_parallel_degree = 2",
                                 "config = other or P(tensor_parallel_degree=2)",
                                 "return base().tuned(tensor_parallel_degree=2)",
                                 "yield P(tensor_parallel_degree=n)",
                                 "s = dict(tensor_parallel_degree=2)",
                                 "config.parallelism = s",
                                 "config.parallelism = P(**s)",
                                 "config.parallelism = PARALLELISM",
                                 "config.parallelism = P(**PARALLELISM)",
                                 "t.local_batch_size = 8",
                                 "p.tensor_parallel_degree = 2, 3",
                                 "match x: p.tensor_parallel_degree = 2",
                                 "(q := find(config)).tensor_parallel_degree = 2"}) {
    EXPECT_THAT(ReadTorchtitan("run.py", absl::StrCat(begin, line, "\n")),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run.py: line 8: ")))
        << line;
  }
  EXPECT_THAT(ReadTorchtitan("run.py", absl::StrCat("class Wide(ParallelismConfig):\n"
                                                    "    tensor_parallel_degree: int = 2\n",
                                                    begin, "config.parallelism = Wide()\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run.py: line 2: ")));
  // Settings of other sections do not matter.
  const std::string read = absl::StrCat(begin, "p.tensor_parallel_degree = 2\n    ");
  for (const char* const line :
       {"config.validator = Validator.Config(local_batch_size=1)", "a, b = make()", "a[name] = 3",
        "a.update(make())", "config.metrics.update(x=3)", "setattr(config.metrics, name, 2)"}) {
    EXPECT_OK(ReadTorchtitan("run.py", absl::StrCat(read, line, "\n")).status()) << line;
  }
}

TEST(ImportTorchtitanPlan, ReadsVariablesAndDictionaries) {
  const std::string text = R"(
PARALLELISM = {"tensor_parallel_degree": 2}
TRAINING = {"local_batch_size": 4, "global_batch_size": 64, "seq_len": 1024, "steps": count}
def make(config):
    parallelism = dict(PARALLELISM)
    parallelism["context_parallel_degree"] = 1
    return dataclasses.replace(
        config,
        parallelism=dataclasses.replace(config.parallelism, **parallelism),
        training=TrainingConfig(**TRAINING),
        activation_checkpoint=)";
  for (const char* const full : {"FullAC.Config()", "FullAC.Config(**options)",
                                 "{\"mode\": \"full\"}", "dict(mode=\"full\")"}) {
    ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport import,
                         ReadTorchtitan("run.py", absl::StrCat(text, full, ")\n")));
    EXPECT_EQ(import.plan, PlanOf(ExpectedPlan(), TorchtitanModel())) << full;
  }
}

TEST(ImportTorchtitanPlan, NeedsTheFunctionIfSeveralDiffer) {
  const std::string two = absl::StrCat(
      kTorchtitanPython, absl::StrReplaceAll(kTorchtitanPython, {{"def llama", "def other"},
                                                                 {"degree=2", "degree=4"}}));
  EXPECT_THAT(ReadTorchtitan("run.py", two),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("another value than before; name the function")));
  ASSERT_OK_AND_ASSIGN(
      const TorchtitanPlanImport import,
      ImportTorchtitanPlan({"run.py", two}, std::nullopt, "llama", TorchtitanModel(), 8));
  EXPECT_EQ(import.plan, PlanOf(ExpectedPlan(), TorchtitanModel()));
  EXPECT_THAT(
      ImportTorchtitanPlan({"run.toml", kToml}, std::nullopt, "llama", TorchtitanModel(), 8),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no functions")));
}

// Each prefix of whole lines is Python without a fault of syntax, or is refused for one.
TEST(ImportTorchtitanPlan, RefusesAnExportedModuleThatIsCut) {
  const ModelSpec model = TorchtitanModel();
  ASSERT_OK_AND_ASSIGN(
      const std::vector<ExportedFile> files,
      ExportTorchtitanPlan(PlanOf(ExpectedPlan(), model), model, {*FindRuntime("torchtitan"), ""}));
  const std::string& text = files[0].text;
  const size_t whole = text.find("SCHEDULE = ");
  ASSERT_NE(whole, std::string::npos);
  int cuts = 0;
  for (size_t end = text.find('\n'); end < whole; end = text.find('\n', end + 1)) {
    EXPECT_FALSE(ReadTorchtitan("run.py", text.substr(0, end + 1)).ok()) << text.substr(0, end + 1);
    ++cuts;
  }
  EXPECT_GE(cuts, 20);
  EXPECT_THAT(ReadTorchtitan("run.py", text.substr(0, text.find("TRAINING = "))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("TRAINING: is missing: the module that parplan exported")));
  EXPECT_THAT(ReadTorchtitan("run.py", ""), StatusIs(absl::StatusCode::kInvalidArgument,
                                                     HasSubstr("has no setting of torchtitan")));
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport import, ReadTorchtitan("run.py", text));
  EXPECT_EQ(import.plan, PlanOf(ExpectedPlan(), model));
}

}  // namespace
}  // namespace parplan
