#include "clients/calibrate/run_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/clients/calibrate/accuracy_samples.h"

namespace parplan::accuracy {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunQuestion QuestionFor(const std::string& row) {
  absl::StatusOr<RunQuestion> question = QuestionOf(RunOf(row));
  if (!question.ok()) ADD_FAILURE() << question.status();
  PARPLAN_CHECK(question.ok());
  return *std::move(question);
}

// Layers once each, in order, on stages that go round the ranks.
void ExpectWholePlan(const RunQuestion& question) {
  const Plan& plan = question.plan;
  int next_layer = 0;
  int next_rank = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (i % plan.pipeline_parallel_degree() == 0) next_rank = 0;
    EXPECT_EQ(plan.stages[i].first_rank, next_rank);
    next_rank += plan.stages[i].rank_count;
    ASSERT_FALSE(plan.stages[i].layer_runs.empty());
    for (const StageLayerRun& run : plan.stages[i].layer_runs) {
      EXPECT_EQ(run.first_layer_index, next_layer);
      EXPECT_EQ(run.strategy.rank_count(), plan.stages[i].rank_count);
      next_layer += run.layer_count;
    }
  }
  EXPECT_EQ(next_layer, question.model->layer_count());
  EXPECT_EQ(next_rank, plan.device_count);
  EXPECT_EQ(plan.device_count, question.topology->device_count());
  EXPECT_EQ(plan.global_batch_size % plan.micro_batch_count, 0);
}

TEST(QuestionOf, ExpressesAPlainRun) {
  const RunQuestion question = QuestionFor(GptRow());
  ExpectWholePlan(question);
  EXPECT_EQ(question.plan.micro_batch_count, 8);  // 64 / (2 x 4)
  EXPECT_EQ(question.plan.micro_batch_size(), 8);
  EXPECT_EQ(question.plan.stages.front().layer_runs[1].strategy.recompute_level,
            RecomputeLevel::kFull);
  EXPECT_EQ(question.plan.stages.front().layer_runs[0].strategy.recompute_level,
            RecomputeLevel::kNone);
  EXPECT_EQ(question.runtime.runtime_id, "megatron-2021");
  EXPECT_EQ(question.runtime.gradient_bytes, 2);  // fp16 without a flag for fp32 sums
  EXPECT_EQ(question.model->precision(), Precision::kFp16);
  EXPECT_EQ(question.hardware->device.device_id, "a100-sxm-80gb");
  EXPECT_EQ(question.topology->node_groups().front().node_count, 1);
  // 50257 padded to a multiple of 2 x 128, and 2048 learned positions.
  EXPECT_EQ(question.model->layer(0).vocabulary_size, 50432);
  EXPECT_EQ(question.model->layer(0).parameter_count, 1024 * (50432 + 2048));
  EXPECT_THAT(question.assumptions, IsEmpty());
}

TEST(QuestionOf, InterleavesAndSplitsUnevenly) {
  std::string row = With(GptRow(), R"("layers": 2)", R"("layers": 8)");
  row = With(row, R"("tp": 2, "pp": 1, "dp": 4, "vpp": 1)", R"("tp": 2, "pp": 2, "vpp": 2)");
  const RunQuestion interleaved = QuestionFor(row);
  ExpectWholePlan(interleaved);
  EXPECT_EQ(interleaved.plan.schedule, Schedule::kInterleaved);
  EXPECT_EQ(interleaved.plan.stages.size(), 4u);
  EXPECT_EQ(interleaved.plan.pipeline_parallel_degree(), 2);

  PublishedRun grouped = RunOf(row);
  grouped.parallelism.micro_batch_group_size = 7;
  EXPECT_EQ(QuestionOf(grouped)->plan.micro_batch_count, 16);
  EXPECT_EQ(QuestionOf(grouped)->plan.micro_batch_group_size, 7);
  // The last group would have one micro-batch for two devices.
  grouped.parallelism.micro_batch_group_size = 5;
  EXPECT_EQ(QuestionOf(grouped)->plan.micro_batch_group_size, 0);
  EXPECT_THAT(QuestionOf(grouped)->assumptions,
              Contains(HasSubstr("groups of 5 of 16 micro-batches are taken as 2")));

  row = With(row, R"("vpp": 2)", R"("layers_per_stage": [3, 7])");
  const RunQuestion uneven = QuestionFor(row);
  ExpectWholePlan(uneven);
  EXPECT_EQ(uneven.plan.stages[0].layer_count(), 3);  // the embedding and two layers
  EXPECT_EQ(uneven.plan.stages[1].layer_count(), 7);
}

TEST(QuestionOf, ShardsOnlyOverSeveralRanks) {
  const std::string row = With(GptRow(), R"("zero": 0)", R"("zero": 2)");
  EXPECT_EQ(QuestionFor(row).plan.stages[0].layer_runs[0].strategy.sharding_level,
            ShardingLevel::kGradients);
  const std::string one = With(row, R"("tp": 2, "pp": 1, "dp": 4)", R"("tp": 8, "pp": 1, "dp": 1)");
  EXPECT_EQ(QuestionFor(one).plan.stages[0].layer_runs[0].strategy.sharding_level,
            ShardingLevel::kNone);
}

TEST(QuestionOf, TakesDegreesOfFsdpFromItsFramework) {
  const std::string row =
      With(With(GptRow(), "Megatron-LM", "llm-foundry"), R"("zero": 0)", R"("zero": null)");
  const RunQuestion question = QuestionFor(row);
  EXPECT_EQ(question.runtime.runtime_id, "llm-foundry");
  EXPECT_FALSE(question.runtime.attention_dropout);
  EXPECT_EQ(question.plan.stages[0].layer_runs[0].strategy.sharding_level,
            ShardingLevel::kParameters);
  EXPECT_EQ(question.model->layer(0).vocabulary_size, 50257);  // not padded
}

TEST(QuestionOf, ReadsFsdpAsSwitchOrDegree) {
  const auto level = [](const char* fsdp) {
    return QuestionFor(With(GptRow(), R"("dp": 4)", fsdp))
        .plan.stages[0]
        .layer_runs[0]
        .strategy.sharding_level;
  };
  EXPECT_EQ(level(R"("fsdp": 0)"), ShardingLevel::kNone);
  EXPECT_EQ(level(R"("fsdp": 1)"), ShardingLevel::kParameters);
  EXPECT_EQ(level(R"("fsdp": 4)"), ShardingLevel::kParameters);
}

TEST(QuestionOf, KnowsTheWaysOfTrainersOnFsdp) {
  const auto question = [](const char* framework, const char* recompute) {
    return QuestionFor(With(With(GptRow(), "Megatron-LM", framework), R"("recompute": "full")",
                            absl::StrCat(R"("recompute": ")", recompute, "\"")));
  };
  const RunQuestion foundry = question("llm-foundry", "full");
  EXPECT_EQ(foundry.runtime.flash_kernel, FlashKernel::kFirst);
  EXPECT_FALSE(foundry.runtime.fused_optimizer);
  EXPECT_FALSE(foundry.runtime.recompute_stops_early);
  const RunQuestion titan = question("torchtitan", "selective (op)");
  EXPECT_EQ(titan.runtime.flash_kernel, FlashKernel::kSecond);
  EXPECT_EQ(titan.runtime.selective_recompute, SelectiveRecompute::kOperators);
  EXPECT_EQ(question("torchtitan", "attention").runtime.selective_recompute,
            SelectiveRecompute::kAttention);
  EXPECT_EQ(titan.runtime.gradient_message_bytes, 4);
  EXPECT_FALSE(titan.runtime.fused_elementwise);
  EXPECT_TRUE(question("torchtitan + torch.compile", "none").runtime.fused_elementwise);
  EXPECT_FALSE(question("torchtitan, no torch.compile", "none").runtime.fused_elementwise);
  // A member of the section `model` counts more than the words of the framework.
  EXPECT_FALSE(QuestionFor(With(With(GptRow(), "Megatron-LM", "torchtitan + torch.compile"),
                                R"("heads": 16,)", R"("heads": 16, "compile": false,)"))
                   .runtime.fused_elementwise);
  EXPECT_EQ(question("NeMo AutoModel", "none").runtime.runtime_id, "nemo-automodel");
  EXPECT_EQ(question("nanotron", "none").runtime.runtime_id, "nanotron");
  // Megatron's selective recomputation is of attention.
  EXPECT_EQ(question("Megatron-LM", "selective").runtime.selective_recompute,
            SelectiveRecompute::kAttention);
}

TEST(QuestionOf, RecomputesEveryNthLayerWhenTold) {
  const auto question_for = [](const char* recompute) {
    return QuestionFor(With(With(GptRow(), "Megatron-LM", "torchtitan"), R"("recompute": "full")",
                            absl::StrCat(R"("recompute": ")", recompute, "\"")));
  };
  for (const auto& [recompute, interval] :
       {std::pair("selective layer", 2), std::pair("selective 2", 2), std::pair("selective 3", 3),
        std::pair("selective (4)", 4), std::pair("every second layer", 2),
        std::pair("selective, every third layer", 3), std::pair("selective 1", 1),
        std::pair("full, every second layer", 2), std::pair("full, every 4 layers", 4),
        std::pair("full, every layer", 1)}) {
    SCOPED_TRACE(recompute);
    const RunQuestion question = question_for(recompute);
    ExpectWholePlan(question);
    for (const StageLayerRun& run : question.plan.stages[0].layer_runs) {
      for (int layer = run.first_layer_index; layer < run.first_layer_index + run.layer_count;
           ++layer) {
        const bool block = layer > 0 && layer + 1 < question.model->layer_count();
        EXPECT_EQ(run.strategy.recompute_level,
                  block && layer % interval == 0 ? RecomputeLevel::kFull : RecomputeLevel::kNone);
      }
    }
  }
  // A digit within a word is no interval, and neither is one beside attention.
  for (const char* recompute : {"selective (op, fp8)", "selective attention 2"}) {
    EXPECT_EQ(question_for(recompute).plan.stages[0].layer_runs[1].strategy.recompute_level,
              RecomputeLevel::kSelective)
        << recompute;
  }
}

// Megatron Core checkpoints a layer for a further token as a whole, but not if only the first
// layers of stages are to be.
TEST(QuestionOf, LayersForFurtherTokensRecomputeToo) {
  const auto levels = [](const char* recompute) {
    const RunQuestion question =
        QuestionFor(With(With(GptRow(), R"("heads": 16,)", R"("heads": 16, "mtp_layers": 1,)"),
                         R"("recompute": "full")", recompute));
    std::vector<RecomputeLevel> found;
    for (const StageLayerRun& run : question.plan.stages[0].layer_runs) {
      found.insert(found.end(), run.layer_count, run.strategy.recompute_level);
    }
    return found;
  };
  using enum RecomputeLevel;
  // The table, two layers, one for a further token, the head.
  EXPECT_EQ(levels(R"("recompute": "full")"), (std::vector{kNone, kFull, kFull, kFull, kNone}));
  EXPECT_EQ(levels(R"("recompute": "selective", "recompute_modules": ["mlp"])"),
            (std::vector{kNone, kModules, kModules, kModules, kNone}));
  EXPECT_EQ(levels(R"("recompute": "full",
                      "recompute_detail": {"method": "block", "num_layers": 1})"),
            (std::vector{kNone, kFull, kNone, kNone, kNone}));
}

TEST(QuestionOf, TakesMegatronOnLaterDevicesForMegatronCore) {
  EXPECT_EQ(QuestionFor(GptRow()).runtime.runtime_id, "megatron-2021");
  const RunQuestion question = QuestionFor(
      With(With(GptRow(), "A100-SXM-80GB", "H100-SXM-80GB"), R"("sp": false)", R"("sp": null)"));
  EXPECT_EQ(question.runtime.runtime_id, "megatron-core");
  EXPECT_TRUE(question.plan.stages[0].layer_runs[0].strategy.sequence_parallel);
  // By any name of the device.
  EXPECT_EQ(QuestionFor(With(GptRow(), "A100-SXM-80GB", "GH-96")).runtime.runtime_id,
            "megatron-core");
}

TEST(QuestionOf, KnowsHowGradientsAreSummed) {
  const auto runtime = [](const char* framework, const char* precision) {
    return QuestionFor(With(With(GptRow(), "Megatron-LM", framework), "fp16", precision)).runtime;
  };
  EXPECT_EQ(runtime("Megatron-LM", "fp16").gradient_bytes, 2);
  EXPECT_EQ(runtime("Megatron-LM", "bf16").gradient_bytes, 4);
  EXPECT_FALSE(runtime("Megatron-DeepSpeed", "fp16").separate_gradient_buffer);
  // 16-bit gradients of the layers beside fp32 sums.
  EXPECT_EQ(runtime("Megatron-DeepSpeed", "bf16+fp32 grad accumulation").gradient_bytes, 4);
  EXPECT_TRUE(
      runtime("Megatron-DeepSpeed", "bf16+fp32 grad accumulation").separate_gradient_buffer);
}

TEST(QuestionOf, CountsContextParallelRanksOnce) {
  const std::string row = With(GptRow(), R"("dp": 4)", R"("dp": 2, "cp": 2)");
  const RunQuestion question = QuestionFor(row);
  ExpectWholePlan(question);
  EXPECT_EQ(question.plan.stages[0].layer_runs[0].strategy.context_parallel_degree, 2);
  // Some count them as data-parallel ranks too.
  EXPECT_EQ(QuestionFor(With(row, R"("dp": 2)", R"("dp": 4)")).plan, question.plan);
}

TEST(QuestionOf, SpreadsExpertsOnLayersThatHaveThem) {
  std::string row = With(GptRow(), R"("arch": "gpt")",
                         R"("arch": "moe", "experts": 8, "top_k": 2, "dense_layers": 1)");
  row = With(row, R"("dp": 4)", R"("dp": 4, "ep": 4)");
  const RunQuestion question = QuestionFor(row);
  ExpectWholePlan(question);
  const std::vector<StageLayerRun>& runs = question.plan.stages[0].layer_runs;
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[1].strategy.expert_parallel_degree, 1);
  EXPECT_EQ(runs[2].strategy.expert_parallel_degree, 4);
  EXPECT_EQ(question.model->layer(2).expert_count, 8);
  EXPECT_EQ(question.model->layer(1).feed_forward_size, 4096);
  // The same parameters a rank as experts over 8 ranks without tensor parallelism.
  row = With(row, R"("ep": 4)", R"("ep": 8, "etp": 1)");
  const RunQuestion whole = QuestionFor(row);
  EXPECT_EQ(whole.plan, question.plan);
  EXPECT_THAT(whole.assumptions,
              Contains(HasSubstr("experts over 8 x 1 ranks are taken as 4 x 2")));
}

TEST(QuestionOf, RecomputesTheFirstLayersOfAStageWhenTold) {
  PublishedRun run = RunOf(GptRow());
  run.recompute_layer_count = 1;
  const RunQuestion question = *QuestionOf(run);
  EXPECT_EQ(question.plan.stages[0].layer_runs[1].strategy.recompute_level, RecomputeLevel::kFull);
  EXPECT_EQ(question.plan.stages[0].layer_runs[2].strategy.recompute_level, RecomputeLevel::kNone);
}

TEST(QuestionOf, RecomputesModulesByName) {
  const auto row = [](const std::string& modules) {
    return With(GptRow(), R"("recompute": "full")",
                absl::StrCat(R"("recompute": "selective", "recompute_modules": )", modules));
  };
  const auto recomputation = [&row](const std::string& modules) {
    return QuestionFor(row(modules)).plan.stages[0].layer_runs[1].strategy.recomputation();
  };
  EXPECT_EQ(recomputation(R"(["mlp"])").modules.ToString(" "), "mlp");
  EXPECT_EQ(recomputation(R"(["core_attn", "layernorm"])").level, RecomputeLevel::kModules);
  EXPECT_EQ(recomputation(R"(["core_attn"])"), Recomputation(RecomputeLevel::kSelective));
  EXPECT_EQ(recomputation("[]"), Recomputation(RecomputeLevel::kSelective));
  EXPECT_THAT(SkipReasonOf(row(R"(["mlps"])")), HasSubstr("`mlps` is no module"));
  EXPECT_THAT(SkipReasonOf(row(R"(["mlp", "mlp"])")), HasSubstr("twice"));
}

TEST(QuestionOf, KnowsWhetherTheHostReadsHowManyTokensExpertsGet) {
  const auto reads = [](const std::string& notes) {
    const std::string row = With(With(GptRow(), "Megatron-LM", "Megatron-Bridge"),
                                 R"("recompute": "full")", R"("recompute": "full", )" + notes);
    return QuestionFor(row).runtime.reads_expert_counts;
  };
  EXPECT_TRUE(reads(R"("notes": ["dropless; router forced to balance"])"));
  EXPECT_FALSE(reads(R"("notes": ["tokens dropped at capacity"])"));
  EXPECT_FALSE(reads(R"("notes": ["tokens padded to a capacity factor of 1"])"));
}

TEST(QuestionOf, KnowsWhatTensorParallelCollectivesRunBeside) {
  const auto overlap = [](const std::string& note) {
    const std::string row =
        With(With(GptRow(), "Megatron-LM", "Megatron-Bridge"), R"("recompute": "full")",
             absl::StrCat(R"("recompute": "full", "notes": [")", note, "\"]"));
    return QuestionFor(row).runtime.tensor_parallel_overlap;
  };
  EXPECT_EQ(overlap("tp comm overlap"), TensorParallelOverlap::kProducts);
  EXPECT_EQ(overlap("nothing of it"), TensorParallelOverlap::kWeightGradients);
  EXPECT_EQ(overlap("no overlap of tensor-parallel or pipeline transfers"),
            TensorParallelOverlap::kNone);
}

TEST(QuestionOf, KnowsWhichGraphsAreOfWholeLayers) {
  const auto eager = [](const std::string& note) {
    const std::string row =
        With(With(GptRow(), "Megatron-LM", "Megatron-Bridge"), R"("recompute": "full")",
             absl::StrCat(R"("recompute": "full", "notes": [")", note, "\"]"));
    return QuestionFor(row).runtime.eager;
  };
  EXPECT_FALSE(eager("cuda graphs: local"));
  EXPECT_FALSE(eager("cuda graphs: full_iteration"));
  EXPECT_TRUE(eager("cuda graphs: transformer_engine ['attn', 'moe_router']"));
}

TEST(QuestionOf, RaisesAssumedDeviceCountsToWholeReplicas) {
  const std::string row =
      With(With(GptRow(), R"("n_gpus": 8)", R"("n_gpus": 8, "n_gpus_assumed": true)"),
           R"("tp": 2, "pp": 1, "dp": 4)", R"("tp": 8, "pp": 2, "dp": null)");
  const RunQuestion question = QuestionFor(row);
  EXPECT_EQ(question.plan.device_count, 16);
  EXPECT_THAT(question.assumptions, Contains(HasSubstr("do not hold 16 ranks; taken as 16")));
}

TEST(QuestionOf, SaysWhatItAssumed) {
  std::string row = With(GptRow(), R"("recompute": "full", "precision": "fp16",)", "");
  row = With(row, "Megatron-LM", "a program");
  EXPECT_THAT(QuestionFor(row).assumptions, Contains(HasSubstr("recompute is not said")));
  EXPECT_THAT(QuestionFor(row).assumptions, Contains(HasSubstr("precision is not said")));
  EXPECT_THAT(QuestionFor(row).assumptions, Contains(HasSubstr("framework is not known")));
}

TEST(QuestionOf, NeedsABatchOnlyForTime) {
  const std::string row = With(GptRow(), R"("gbs": 64)", R"("gbs": null)");
  EXPECT_THAT(SkipReasonOf(row), HasSubstr("batch.gbs: is missing"));
  EXPECT_THAT(QuestionFor(With(row, R"("validation")", R"("memory-validation")")).assumptions,
              Contains(HasSubstr("the batch is not said")));
}

TEST(QuestionOf, RefusesRunsThatContradictThemselves) {
  struct Case {
    const char* from;
    const char* to;
    const char* reason;
  };
  for (const Case& example :
       {Case{R"("dp": 4)", R"("dp": 8)", "parallel.dp: is 8"},
        Case{R"("n_gpus": 8)", R"("n_gpus": 9)", "hardware.n_gpus: 9"},
        Case{R"("tp": 2, "pp": 1)", R"("tp": 65536, "pp": 65536)", "parallel: tp x cp"},
        Case{R"("tp": 2)", R"("tp": 262145)", "parallel: tp x cp"},
        Case{R"("gbs": 64)", R"("gbs": 63)", "batch.gbs: 63"},
        Case{R"("heads": 16)", R"("heads": 16, "kv_heads": 1)", "parallel.tp: 2 does not divide"},
        Case{R"("gpu": "A100-SXM-80GB")", R"("gpu": "Abacus")", "hardware.gpu: `Abacus`"},
        Case{R"("full")", R"("sometimes")", "recompute: `sometimes`"},
        Case{R"("fp16")", R"("fp17")", "precision: `fp17`"}}) {
    EXPECT_THAT(SkipReasonOf(With(GptRow(), example.from, example.to)), HasSubstr(example.reason));
  }
}

TEST(QuestionOf, GivesJobsTheirNamesWithoutTheirPlans) {
  const RunQuestion one = QuestionFor(GptRow());
  const RunQuestion other =
      QuestionFor(With(GptRow(), R"("tp": 2, "pp": 1, "dp": 4)", R"("tp": 4, "pp": 1, "dp": 2)"));
  EXPECT_EQ(one.job_key, other.job_key);
  EXPECT_NE(one.plan_key, other.plan_key);
  EXPECT_NE(one.job_key, QuestionFor(With(GptRow(), R"("gbs": 64)", R"("gbs": 128)")).job_key);
}

// Plans are ranked within a job, which plans of another model would spoil.
TEST(QuestionOf, GivesModelsThatDifferInOneSizeJobsOfTheirOwn) {
  const auto key_of = [](const std::string& members) {
    return QuestionFor(With(GptRow(), R"("heads": 16,)", R"("heads": 16, )" + members)).job_key;
  };
  const std::string experts = R"("experts": 4, "top_k": 2, )";
  const std::string latent =
      R"("mla": true, "q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
         "qk_rope_head_dim": 8, )";
  std::vector<std::string> keys = {
      key_of(""),
      key_of(R"("tied": false,)"),
      key_of(R"("swiglu": true,)"),
      key_of(R"("head_dim": 32,)"),
      key_of(R"("kv_heads": 4,)"),
      key_of(R"("mtp_layers": 1,)"),
      key_of(R"("window_size": 128,)"),
      key_of(R"("window_size": 128, "window_every": 2,)"),
      key_of(experts + R"("moe_ffn": 512,)"),
      key_of(experts + R"("moe_ffn": 1024,)"),
      key_of(experts + R"("moe_ffn": 512, "shared_expert_ffn": 512,)"),
      key_of(experts + R"("moe_ffn": 512, "moe_latent": 256,)"),
      key_of(experts + R"("moe_ffn": 512, "dense_layers": 1,)"),
      key_of(experts + R"("moe_ffn": 512, "moe_layer_freq": 2,)"),
      key_of(latent + R"("v_head_dim": 12,)"),
      key_of(latent + R"("v_head_dim": 16,)"),
      QuestionFor(With(GptRow(), R"("split")", R"("peft": {"kind": "lora"}, "split")")).job_key,
      QuestionFor(With(GptRow(), R"("split")", R"("peft": {"kind": "lora", "rank": 8}, "split")"))
          .job_key};
  const size_t count = keys.size();
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(keys.size(), count);
  // Layers for further tokens of a hybrid have parts of their own.
  const auto hybrid_of = [](const std::string& members) {
    return QuestionFor(With(GptRow(), R"("arch": "gpt", "name": "GPT tiny",)",
                            R"("arch": "hybrid", "name": "a mixture", "layer_pattern": "*E*-",
                               "experts": 4, "top_k": 2, "moe_ffn": 512, "swiglu": false, )" +
                                members))
        .job_key;
  };
  const std::string further = R"("mtp_layers": 2, "mtp_pattern": )";
  EXPECT_NE(hybrid_of(further + R"("*E",)"), hybrid_of(further + R"("*-",)"));
  EXPECT_NE(hybrid_of(further + R"("*E",)"), hybrid_of(further + R"("*E", "mtp_shared": true,)"));
  // Sizes that say what would count anyway are no difference, nor is the name.
  EXPECT_EQ(key_of(R"("kv_heads": 16, "head_dim": 64, "mtp_layers": 0,)"), key_of(""));
  EXPECT_EQ(QuestionFor(With(GptRow(), "GPT tiny", "GPT small")).job_key, key_of(""));
}

}  // namespace
}  // namespace parplan::accuracy
