#include "clients/calibrate/megatron_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace parplan::accuracy
