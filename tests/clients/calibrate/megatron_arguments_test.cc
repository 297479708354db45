#include "clients/calibrate/megatron_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "clients/calibrate/run_problem.h"
#include "tests/clients/calibrate/accuracy_samples.h"
#include "tests/support/status_matchers.h"

namespace parplan::accuracy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A row whose model is arguments, with further members of the row.
std::string RowOfArguments(const std::string& arguments, const std::string& members = "") {
  return absl::StrCat(R"({"id": "run", "source": "megatron-ci-golden",
    "framework": "Megatron-LM main CI", "batch": {}, "measured": {"iter_time_s": 1.5},
    "hardware": {"gpu": "A100-SXM-80GB", "mem_gb": 80, "gpus_per_node": 8, "n_gpus": 8},)",
                      members, members.empty() ? "" : ",",
                      R"("model": {"arch": "megatron-args", "args": {"num-layers": 12,
      "hidden-size": 512, "num-attention-heads": 8, "seq-length": 1024, "bf16": true,
      "micro-batch-size": 4, "global-batch-size": 32)",
                      arguments.empty() ? "" : ",", arguments, "}}}");
}

// Returns the strategy of the first decoder layer.
Strategy StrategyOfRow(const std::string& row) {
  const absl::StatusOr<RunQuestion> question = QuestionOf(RunOf(row));
  EXPECT_OK(question.status()) << row;
  return question.ok() ? question->plan.stages[0].layer_runs[1].strategy : Strategy();
}

TEST(ReadMegatronArguments, ReadsHowContextParallelRanksShareTokens) {
  const auto row_of = [](const std::string& arguments) {
    return RowOfArguments(absl::StrCat(R"("context-parallel-size": 4)", arguments));
  };
  const auto kind_of = [&row_of](const std::string& arguments) {
    return StrategyOfRow(row_of(arguments)).context_kind;
  };
  EXPECT_EQ(kind_of(""), ContextKind::kRing);
  EXPECT_EQ(kind_of(R"(, "cp-comm-type": "allgather")"), ContextKind::kAllGather);
  EXPECT_EQ(kind_of(R"(, "cp-comm-type": ["a2a", "a2a"])"), ContextKind::kUlysses);
  const std::string levels =
      R"(, "cp-comm-type": "a2a+p2p", "hierarchical-context-parallel-sizes":)";
  EXPECT_EQ(kind_of(levels + "[4, 1]"), ContextKind::kUlysses);
  EXPECT_EQ(kind_of(levels + "\"1 4\""), ContextKind::kRing);
  EXPECT_THAT(SkipReasonOf(row_of(levels + "[2, 2]")),
              HasSubstr("rings of groups that exchange tokens for heads are not read"));
  EXPECT_THAT(SkipReasonOf(row_of(levels + "[2, 4]")),
              HasSubstr("--hierarchical-context-parallel-sizes: must be two whole numbers"));
}

TEST(ReadMegatronArguments, SkipsRunsOfFeaturesThatAreOn) {
  const struct {
    const char* argument;
    const char* off;
    const char* on;
  } cases[] = {
      {"mtp-num-layers", "0", "1"},
      {"window-size", "[-1, -1]", "[127, 0]"},
      {"multi-latent-attention", "false", "true"},
      {"fp8-format", "null", R"("hybrid")"},
      {"hybrid-override-pattern", R"("")", R"("M*")"},
      {"optimizer-cpu-offload", "false", "true"},
  };
  for (const auto& one : cases) {
    const auto row_of = [&one](const char* value) {
      return RowOfArguments(absl::StrCat("\"", one.argument, "\": ", value));
    };
    EXPECT_EQ(SkipReasonOf(row_of(one.off)), "") << one.argument;
    EXPECT_THAT(SkipReasonOf(row_of(one.on)), HasSubstr("not modelled")) << one.argument;
  }
}

TEST(ReadMegatronArguments, ReadsTheModulesThatAreRecomputed) {
  const auto row_of = [](const std::string& modules, const std::string& members = "") {
    return RowOfArguments(
        absl::StrCat(R"("recompute-granularity": "selective", "recompute-modules": )", modules),
        members);
  };
  for (const char* const modules : {R"(["mlp", "core_attn"])", R"("core_attn mlp")"}) {
    const PublishedRun run = RunOf(row_of(modules));
    EXPECT_EQ(run.recompute, "selective");
    EXPECT_THAT(run.recompute_modules, ElementsAre("core_attn", "mlp"));
    EXPECT_EQ(StrategyOfRow(row_of(modules)).recompute_modules.ToString(" "), "core_attn mlp");
  }
  EXPECT_EQ(StrategyOfRow(row_of(R"(["core_attn"])")).recomputation(),
            Recomputation(RecomputeLevel::kSelective));
  EXPECT_EQ(StrategyOfRow(row_of("[]")).recomputation(), Recomputation(RecomputeLevel::kSelective));
  EXPECT_THAT(SkipReasonOf(row_of(R"(["mlps"])")), HasSubstr("names `mlps`"));
  // Members of the row take precedence.
  EXPECT_THAT(
      RunOf(row_of(R"(["mlp"])", R"("recompute_modules": ["core_attn", "mlp"])")).recompute_modules,
      ElementsAre("core_attn", "mlp"));
  EXPECT_EQ(StrategyOfRow(row_of(R"(["mlp"])", R"("recompute": "full")")).recomputation(),
            Recomputation(RecomputeLevel::kFull));
}

TEST(ReadMegatronArguments, ReadsWhetherTheHostWaitsForExpertCounts) {
  const auto runtime_of = [](const std::string& arguments) {
    const std::string row = RowOfArguments(absl::StrCat(R"("num-experts": 4)", arguments));
    const absl::StatusOr<RunQuestion> question = QuestionOf(RunOf(row));
    EXPECT_OK(question.status()) << row;
    return question.ok() ? question->runtime : RuntimeTraits();
  };
  EXPECT_TRUE(runtime_of("").reads_expert_counts);
  EXPECT_TRUE(runtime_of("").eager);
  EXPECT_TRUE(runtime_of(R"(, "moe-pad-expert-input-to-capacity": false)").reads_expert_counts);
  EXPECT_FALSE(runtime_of(R"(, "moe-pad-expert-input-to-capacity": true)").reads_expert_counts);
  EXPECT_FALSE(runtime_of(R"(, "cuda-graph-impl": "local")").eager);
  EXPECT_FALSE(runtime_of(R"(, "external-cuda-graph": true, "cuda-graph-scope": "full")").eager);
  EXPECT_TRUE(runtime_of(R"(, "cuda-graph-impl": "transformer_engine",
                             "cuda-graph-scope": ["attn", "moe_router"])")
                  .eager);
  EXPECT_EQ(RunOf(RowOfArguments("")).runtime.cuda_graphs, std::nullopt);
  EXPECT_EQ(RunOf(RowOfArguments("")).runtime.fixed_expert_counts, std::nullopt);
}

// A run of Megatron's tests: only arguments, and its defaults where they are absent.
std::string ArgumentsRow(const std::string& id, const std::string& arguments) {
  return R"({"id": ")" + id + R"(", "source": "megatron-ci-golden", "split": "memory-validation",
    "framework": "Megatron-LM main CI", "hardware": {"gpu": "A100", "n_gpus": 8,
    "n_gpus_assumed": true}, "batch": {}, "measured": {"peak_mem_bytes": 1000000000},
    "model": {"arch": "megatron-args", "args": {"num-layers": 12, "hidden-size": 512,
      "num-attention-heads": 8, "seq-length": 1024, "micro-batch-size": 4,
      "global-batch-size": 32)" +
         (arguments.empty() ? "" : ", " + arguments) + "}}}";
}

TEST(ReadMegatronArguments, FillsInItsDefaults) {
  const PublishedRun run = RunOf(ArgumentsRow("plain", ""));
  EXPECT_EQ(run.model.feed_forward_size, 2048);
  EXPECT_EQ(run.model.vocabulary_size, 50257);
  EXPECT_EQ(run.model.key_value_head_count, 0);
  EXPECT_TRUE(run.model.tied_embedding);
  EXPECT_TRUE(run.model.learned_positions);
  EXPECT_EQ(run.precision, "fp32");
  EXPECT_EQ(run.recompute, "none");
  EXPECT_EQ(run.runtime.attention_kernel, std::nullopt);
  EXPECT_EQ(run.runtime.overlap_gradient_sync, false);
  EXPECT_EQ(run.runtime.dropout, true);
  EXPECT_EQ(run.micro_batch_size, 4);
}

TEST(ReadMegatronArguments, ReadsFlags) {
  const PublishedRun run =
      RunOf(ArgumentsRow("flags", R"("bf16": true, "swiglu": true, "group-query-attention": true,
      "num-query-groups": 2, "untie-embeddings-and-output-weights": true,
      "position-embedding-type": "rope", "attention-backend": "flash",
      "use-distributed-optimizer": true, "overlap-grad-reduce": true,
      "pipeline-model-parallel-size": 2, "num-layers-per-virtual-pipeline-stage": 3,
      "microbatch-group-size-per-virtual-pipeline-stage": 5, "attention-dropout": 0.0, "hidden-dropout": 0.0,
      "recompute-granularity": "full", "recompute-method": "block", "recompute-num-layers": 1)"));
  // Two thirds of 2048, in steps of 64.
  EXPECT_EQ(run.model.feed_forward_size, 1344);
  EXPECT_EQ(run.model.key_value_head_count, 2);
  EXPECT_FALSE(run.model.tied_embedding);
  EXPECT_FALSE(run.model.learned_positions);
  EXPECT_EQ(run.precision, "bf16");
  EXPECT_EQ(run.runtime.attention_kernel, AttentionKernel::kFlash);
  EXPECT_EQ(run.runtime.overlap_gradient_sync, true);
  EXPECT_EQ(run.runtime.dropout, false);
  EXPECT_EQ(run.parallelism.zero_level, 1);
  EXPECT_EQ(run.parallelism.virtual_stage_count, 2);
  EXPECT_EQ(run.parallelism.micro_batch_group_size, 5);
  EXPECT_EQ(run.recompute, "full");
  EXPECT_EQ(run.recompute_layer_count, 1);
}

// Lists say it of each layer; a row has a first layer with experts, and an interval.
TEST(ReadMegatronArguments, ReadsExpertLayers) {
  const auto row_of = [](const std::string& layers) {
    return ArgumentsRow("a", R"("num-experts": 4, "moe-layer-freq": )" + layers);
  };
  const auto layers_of = [&row_of](const std::string& layers) {
    const PublishedModel model = RunOf(row_of(layers)).model;
    return std::pair(model.dense_layer_count, model.expert_layer_interval);
  };
  EXPECT_EQ(layers_of("2"), std::pair(0, 2));
  EXPECT_EQ(layers_of("\"([0]*3+[1]*9)\""), std::pair(3, 1));
  EXPECT_EQ(layers_of("\"([0]+[1])*6\""), std::pair(1, 2));
  EXPECT_THAT(SkipReasonOf(row_of("\"([1]*2+[0])*4\"")), HasSubstr("moe-layer-freq"));
  EXPECT_EQ(RunOf(ArgumentsRow("a", R"("num-experts": 0)")).model.expert_count, 0);
}

TEST(ReadMegatronArguments, SumsHalfPrecisionGradientsInHalfPrecision) {
  EXPECT_EQ(RunOf(ArgumentsRow("a", R"("fp16": true)")).runtime.fp32_gradients, false);
  EXPECT_EQ(RunOf(ArgumentsRow("a", R"("fp16": true, "accumulate-allreduce-grads-in-fp32": true)"))
                .runtime.fp32_gradients,
            true);
  EXPECT_EQ(RunOf(ArgumentsRow("a", R"("bf16": true)")).runtime.fp32_gradients, true);
}

TEST(ReadMegatronArguments, FindsWhatThePlannerHasNoWordsFor) {
  for (const auto& [arguments, reason] : std::map<std::string, std::string>{
           {R"("fp8-format": "hybrid")", "8-bit"},
           {R"("multi-latent-attention": true)", "latent"},
           {R"("hybrid-override-pattern": "M*")", "Mamba"},
           {R"("optimizer": "muon")", "muon"},
           {R"("moe-layer-freq": "[1,0]", "num-experts": 2)", "moe-layer-freq"}}) {
    EXPECT_THAT(SkipReasonOf(ArgumentsRow("a", arguments)), HasSubstr(reason));
  }
  EXPECT_THAT(SkipReasonOf(ArgumentsRow("a", R"("window-size": "128,0")")), HasSubstr("windows"));
  EXPECT_THAT(SkipReasonOf(ArgumentsRow("moe_dist_muon-x", "")), HasSubstr("Muon"));
  EXPECT_THAT(SkipReasonOf(ArgumentsRow("a", R"("num-experts": true)")),
              HasSubstr("model.args: --num-experts: takes one value"));
}

}  // namespace
}  // namespace parplan::accuracy
