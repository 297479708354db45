#include "clients/calibrate/published_run.h"

#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "clients/calibrate/run_problem.h"
#include "tests/clients/calibrate/accuracy_samples.h"
#include "tests/support/shared_data.h"

namespace parplan::accuracy {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReadPublishedRuns, ReadsAPlainRow) {
  const PublishedRun run = RunOf(GptRow());
  EXPECT_EQ(run.model.layer_count, 2);
  EXPECT_EQ(run.model.feed_forward_kind, FeedForwardKind::kGelu);
  EXPECT_TRUE(run.model.tied_embedding);
  EXPECT_TRUE(run.model.learned_positions);
  EXPECT_EQ(run.parallelism.tensor_parallel_degree, 2);
  EXPECT_EQ(run.parallelism.zero_level, 0);
  EXPECT_EQ(run.global_batch_size, 64);
  EXPECT_EQ(run.recompute, "full");
  EXPECT_EQ(run.step, Seconds::Of(1.5));
  EXPECT_EQ(run.peak_memory, Bytes::Of(int64_t{20} << 30));
  EXPECT_EQ(run.out_of_memory, false);
}

// The architecture counts, whatever letters its name has within.
TEST(ReadPublishedRuns, TheArchitectureStandsFirst) {
  const auto row = [](const char* architecture, const char* name) {
    return With(GptRow(), R"("arch": "gpt", "name": "GPT tiny")",
                absl::StrCat(R"("arch": ")", architecture, R"(", "name": ")", name, R"(")"));
  };
  const PublishedRun llama = RunOf(row("llama", "Llama, optimized for prompts"));
  EXPECT_EQ(llama.model.feed_forward_kind, FeedForwardKind::kSwiglu);
  EXPECT_FALSE(llama.model.tied_embedding);
  EXPECT_FALSE(llama.model.learned_positions);
  EXPECT_EQ(RunOf(row("moe", "gpt-oss")).model.feed_forward_kind, FeedForwardKind::kSwiglu);
  EXPECT_EQ(RunOf(row("gpt", "OPT-moe")).model.feed_forward_kind, FeedForwardKind::kGelu);
  EXPECT_TRUE(RunOf(row("gpt", "GPT530B")).model.tied_embedding);
  EXPECT_THAT(SkipReasonOf(row("t5", "T5-11B")), HasSubstr("encoder-decoder"));
  EXPECT_THAT(SkipReasonOf(row("mt5", "mT5")), HasSubstr("encoder-decoder"));
}

TEST(ReadPublishedRuns, RefusesOtherFiles) {
  const auto message = [](const char* text) {
    return std::string(ReadPublishedRuns({"runs.json", text}).status().message());
  };
  EXPECT_THAT(message("[]"), HasSubstr("one JSON object"));
  EXPECT_THAT(message(R"({"schema": "published_runs/2", "runs": []})"), HasSubstr("schema"));
  EXPECT_THAT(message(R"({"schema": "published_runs/1"})"), HasSubstr("runs"));
  EXPECT_THAT(message(R"({"schema": "published_runs/1", "runs": [7]})"), HasSubstr("runs[0]"));
  EXPECT_THAT(message(R"({"schema": "published_runs/1", "runs": [{"id": "a"}]})"),
              HasSubstr("runs[0].source"));
  EXPECT_THAT(SkipReasonOf(GptRow() + "," + GptRow()), HasSubstr("`gpt-1` occurs twice"));
}

TEST(ReadPublishedRuns, IgnoresWhatItDoesNotKnowAndNulls) {
  EXPECT_EQ(SkipReasonOf(With(GptRow(), R"("sp": false)",
                              R"("sp": null, "colour": [1], "stage_gpus": null)")),
            "");
}

// A fault is named with its place, and the row is skipped, not the file.
TEST(ReadPublishedRuns, NamesTheMemberAtFault) {
  struct Case {
    const char* from;
    const char* to;
    const char* reason;
  };
  for (const Case& example :
       {Case{R"("layers": 2)", R"("layers": null)", "model.layers is missing"},
        Case{R"("layers": 2)", R"("layers": "2")", "model.layers must be a whole number"},
        Case{R"("layers": 2)", R"("layers": 2.5)", "model.layers must be a whole number"},
        Case{R"("heads": 16,)", "", "model.heads is missing"},
        Case{R"("vocab": 50257)", R"("vocab": 0)", "model.vocab must be a whole number"},
        Case{R"("model": {)", R"("model": 3, "other": {)", "model must be an object"},
        Case{R"("gpu": "A100-SXM-80GB", )", "", "hardware.gpu is missing"},
        Case{R"("n_gpus": 8)", R"("n_gpus": -8)", "hardware.n_gpus must be"},
        Case{R"("mem_gb": 80)", R"("mem_gb": "80")", "hardware.mem_gb must be a number above 0"},
        Case{R"("tp": 2)", R"("tp": 0)", "parallel.tp must be"},
        Case{R"("zero": 0)", R"("zero": 4)", "parallel.zero must be 0 to 3"},
        Case{R"("sp": false)", R"("sp": 0)", "parallel.sp must be true or false"},
        Case{R"("sp": false)", R"("layers_per_stage": [])", "parallel.layers_per_stage must be"},
        Case{R"("sp": false)", R"("fsdp": "mystery")", "parallel.fsdp `mystery`"},
        Case{R"("mbs": 2, )", "", "batch.mbs is missing"},
        Case{R"("recompute": "full")", R"("recompute": 1)", "recompute must be"},
        Case{R"("precision": "fp16")", R"("precision": 16)", "precision must be a text"},
        Case{R"("iter_time_s": 1.5)", R"("iter_time_s": -1)", "measured.iter_time_s must be"},
        Case{R"("oom": false)", R"("oom": "no")", "measured.oom must be true or false"}}) {
    EXPECT_THAT(SkipReasonOf(With(GptRow(), example.from, example.to)), HasSubstr(example.reason))
        << example.to;
  }
}

TEST(ReadPublishedRuns, ReadsLlamaByOtherNames) {
  const PublishedRun run = RunOf(R"({
    "id": "llama", "source": "b", "framework": "torchtitan", "precision": "bf16-mixed",
    "model": {"arch": "llama", "hidden_size": 4096, "num_layers": 32, "n_heads": 32,
              "num_kv_heads": 8, "intermediate_size": 14336, "seq_len": 8192,
              "vocab_size": 128256},
    "hardware": {"gpu": "H100", "n_gpus": 64},
    "parallel": {"dp_shard": 32, "tp": 2}, "batch": {"mbs": 1, "gbs": 32},
    "activation_checkpointing": true,
    "measured": {"tokens_per_s_per_gpu": 4096, "max_reserved_gib": 10}})");
  EXPECT_EQ(run.model.feed_forward_kind, FeedForwardKind::kSwiglu);
  EXPECT_EQ(run.model.key_value_head_count, 8);
  EXPECT_FALSE(run.model.tied_embedding);
  EXPECT_FALSE(run.model.learned_positions);
  EXPECT_EQ(run.parallelism.zero_level, 3);
  EXPECT_EQ(run.parallelism.data_parallel_degree, 32);
  EXPECT_EQ(run.recompute, "full");
  // 32 samples of 8192 tokens at 64 x 4096 tokens a second.
  EXPECT_EQ(run.step, Seconds::Of(1.0));
  EXPECT_EQ(run.peak_memory, Bytes::Of(int64_t{10} << 30));
  EXPECT_EQ(run.memory_view, MemoryView::kReservedMax);
}

TEST(ReadPublishedRuns, KnowsModelsByNameAndTakesWhatTheRowSays) {
  const std::string row = R"({
    "id": "a", "source": "b", "framework": "NeMo", "precision": "bf16",
    "model": {"arch": "llama", "name": "LLAMA3_70B", "seq": 8192, "layers": 4},
    "hardware": {"gpu": "H100", "n_gpus": 8}, "parallel": {"tp": 4},
    "batch": {"mbs": 1, "gbs": 8}, "measured": {"iter_time_s": 1}})";
  const PublishedRun run = RunOf(row);
  EXPECT_EQ(run.model.layer_count, 4);
  EXPECT_EQ(run.model.hidden_size, 8192);
  EXPECT_EQ(run.model.key_value_head_count, 8);
  EXPECT_EQ(run.model.feed_forward_size, 28672);
  EXPECT_EQ(RunOf(With(row, "LLAMA3_70B", "Mixtral 8x7B")).model.experts_per_token, 2);
  EXPECT_THAT(SkipReasonOf(With(row, "LLAMA3_70B", "Llama 9 1B")),
              HasSubstr("model.hidden is missing"));
}

TEST(ReadPublishedRuns, ReadsExperts) {
  const std::string row =
      With(GptRow(), R"("arch": "gpt")",
           R"("arch": "mixtral", "experts": 8, "top_k": 2, "moe_ffn": 512, "swiglu": true)");
  const PublishedRun run = RunOf(row);
  EXPECT_EQ(run.model.expert_count, 8);
  EXPECT_EQ(run.model.experts_per_token, 2);
  EXPECT_EQ(run.model.expert_feed_forward_size, 512);
  EXPECT_THAT(SkipReasonOf(With(row, R"("top_k": 2, )", "")), HasSubstr("model.top_k is missing"));
}

TEST(ReadPublishedRuns, SkipsWhatThePlannerHasNoWordsFor) {
  EXPECT_THAT(
      SkipReasonOf(With(GptRow(), R"("n_gpus": 8)", R"("n_gpus": 8, "heterogeneous": true)")),
      HasSubstr("devices of one kind"));
  EXPECT_THAT(SkipReasonOf(With(GptRow(), R"("sp": false)", R"("stage_gpus": ["A", "B"])")),
              HasSubstr("devices of one kind"));
  EXPECT_THAT(SkipReasonOf(With(GptRow(), R"("arch": "gpt")", R"("arch": "t5")")),
              HasSubstr("encoder-decoder"));
  EXPECT_THAT(SkipReasonOf(With(GptRow(), R"("fp16")", R"("fp8 hybrid")")),
              HasSubstr("8 or 4 bits"));
  EXPECT_THAT(
      SkipReasonOf(With(GptRow(), R"("sp": false)", R"("sp": false, "asym_pp_loss": true)")),
      HasSubstr("only one end"));
  EXPECT_THAT(SkipReasonOf(With(GptRow(), R"("fp16")", R"("bf16", "peft": {"kind": "prompts"})")),
              HasSubstr("fine-tuning by `prompts`"));
}

// The names of recipes are precisions of their own.
TEST(ReadPublishedRuns, ReadsRecipesOfFewBits) {
  for (const PrecisionTraits& traits : KnownPrecisions()) {
    if (!traits.quantisation.has_value()) continue;
    std::string row = With(GptRow(), R"("fp16")", "\"" + std::string(traits.name) + "\"");
    row = With(row, R"("gpu": "A100-SXM-80GB", "mem_gb": 80)", R"("gpu": "B200")");
    EXPECT_EQ(QuestionOf(RunOf(row))->model->precision(), traits.precision);
  }
}

TEST(ReadPublishedRuns, ReadsShapesOfToday) {
  const PublishedRun latent =
      RunOf(With(GptRow(), R"("heads": 16,)",
                 R"("heads": 16, "head_dim": 128, "mla": true, "q_lora_rank": 48,
                    "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
                    "v_head_dim": 12, "mtp_layers": 1,)"));
  ASSERT_TRUE(latent.model.latent_attention.has_value());
  EXPECT_EQ(latent.model.latent_attention->query_rank, 48);
  EXPECT_EQ(latent.model.latent_attention->key_value_rank, 32);
  EXPECT_EQ(latent.model.latent_attention->value_head_size, 12);
  // The width of a query: with and without position.
  EXPECT_EQ(latent.model.head_size, 24);
  EXPECT_EQ(latent.model.prediction_layer_count, 1);
  EXPECT_THAT(SkipReasonOf(With(GptRow(), R"("heads": 16,)", R"("heads": 16, "mla": true,)")),
              HasSubstr("model.kv_lora_rank is missing"));

  const PublishedRun window =
      RunOf(With(GptRow(), R"("heads": 16,)", R"("heads": 16, "window_size": 128,
                                                   "window_every": 2,)"));
  EXPECT_EQ(window.model.attention_window, 128);
  EXPECT_EQ(window.model.window_interval, 2);
}

TEST(ReadPublishedRuns, ReadsHybridsByTheirPattern) {
  const std::string row =
      With(GptRow(), R"("arch": "gpt", "name": "GPT tiny", "hidden": 1024, "layers": 2,)",
           R"("arch": "hybrid", "name": "a mixture", "hidden": 1024, "layer_pattern": "M*E-",
              "mamba_heads": 32, "mamba_head_dim": 64, "mamba_groups": 8, "mamba_state_dim": 128,
              "experts": 4, "top_k": 2, "moe_ffn": 512, "swiglu": false,)");
  const PublishedRun run = RunOf(row);
  EXPECT_EQ(run.model.layer_count, 4);
  EXPECT_EQ(run.model.state_space->inner_size, 2048);
  const RunQuestion question = *QuestionOf(run);
  ASSERT_EQ(question.model->layer_count(), 6);
  EXPECT_EQ(question.model->layer(1).kind, LayerKind::kStateSpace);
  EXPECT_EQ(question.model->layer(2).kind, LayerKind::kDecoder);
  EXPECT_EQ(question.model->layer(2).feed_forward_kind, FeedForwardKind::kAbsent);
  EXPECT_TRUE(question.model->layer(3).has_experts());
  EXPECT_EQ(question.model->layer(4).feed_forward_size, 4096);
  EXPECT_THAT(SkipReasonOf(With(row, "M*E-", "M*Q-")), HasSubstr("layer_pattern must consist of"));
  const RunQuestion narrow =
      *QuestionOf(RunOf(With(row, R"("moe_ffn")", R"("moe_latent": 256, "moe_ffn")")));
  EXPECT_EQ(narrow.model->layer(3).expert_latent_size, 256);
  // Its pattern says nothing of such layers, which are no blocks of attention and experts.
  EXPECT_THAT(SkipReasonOf(With(row, R"("moe_ffn")", R"("mtp_layers": 1, "moe_ffn")")),
              HasSubstr("layers that predict further tokens are not said"));
  EXPECT_EQ(SkipReasonOf(With(row, R"("moe_ffn")", R"("mtp_layers": 0, "moe_ffn")")), "");
  for (const auto& [pattern, expert_count] : {std::pair{"*E", 4}, std::pair{"*-", 0}}) {
    const RunQuestion further = *QuestionOf(RunOf(
        With(row, R"("moe_ffn")",
             absl::StrCat(R"("mtp_layers": 1, "mtp_pattern": ")", pattern, R"(", "moe_ffn")"))));
    EXPECT_EQ(further.model->layer(5).prediction_depth, 1);
    EXPECT_EQ(further.model->layer(5).expert_count, expert_count);
    EXPECT_THAT(further.assumptions, Not(Contains(HasSubstr("weights of its own"))));
  }
  EXPECT_THAT(QuestionOf(RunOf(With(row, R"("moe_ffn")", R"("mtp_layers": 2, "mtp_pattern": "*E",
                                    "mtp_shared": true, "moe_ffn")")))
                  ->assumptions,
              Contains(HasSubstr("weights of its own")));
  EXPECT_THAT(
      SkipReasonOf(With(row, R"("moe_ffn")", R"("mtp_layers": 1, "mtp_pattern": "M", "moe_ffn")")),
      HasSubstr("of parts `M` are not modelled"));
}

// Megatron Core builds them by the specification of the last decoder layer.
TEST(ReadPublishedRuns, LayersOfFurtherTokensAreLikeTheLastOne) {
  const auto last_of = [](const char* interval) {
    const RunQuestion question = *QuestionOf(RunOf(
        With(GptRow(), R"("ffn": 4096,)",
             absl::StrCat(R"("ffn": 4096, "swiglu": false, "experts": 4, "top_k": 2, "moe_ffn": 512,
                        "mtp_layers": 1, "moe_layer_freq": )",
                          interval, ","))));
    return question.model->layer(3);
  };
  EXPECT_EQ(last_of("1").prediction_depth, 1);
  EXPECT_TRUE(last_of("1").has_experts());
  // The first of two layers has experts, the second none.
  EXPECT_FALSE(last_of("2").has_experts());
  EXPECT_EQ(last_of("2").feed_forward_size, 4096);
}

// Products of two counts have the limit of each: sanitizers would see them overflow.
TEST(ReadPublishedRuns, ProductsOfCountsStayInRange) {
  EXPECT_THAT(SkipReasonOf(With(GptRow(), R"("sp": false)",
                                R"("sp": false, "dp_shard": 16777216, "dp_replicate": 1024)")),
              HasSubstr("replicas of sharded groups"));
}

// A condition of the run stands in the row.
TEST(ReadPublishedRuns, ReadsConditionsOfTheRow) {
  const PublishedRun run = RunOf(With(GptRow(), R"("recompute": "full")",
                                      R"("recompute": "selective", "recompute_modules": ["moe_act"],
                    "cluster": "here", "memory_view": "device_total", "blocking_launches": true,
                    "dropout": 0.0, "failed": true, "moe_dispatcher": "deepep",
                    "offload_layers": 3, "notes": ["cuda graphs: full_iteration", "other",
                    "fp8 parameters gathered", "precision-aware optimizer"])"));
  EXPECT_EQ(run.cluster, "here");
  EXPECT_EQ(run.memory_view, MemoryView::kDeviceTotal);
  EXPECT_EQ(run.runtime.blocking_launches, true);
  EXPECT_EQ(run.runtime.dropout, false);
  EXPECT_EQ(run.runtime.cuda_graphs, true);
  EXPECT_EQ(run.runtime.narrow_parameters, true);
  EXPECT_EQ(run.runtime.narrow_optimizer_states, true);
  EXPECT_EQ(run.runtime.narrow_attention, std::nullopt);
  EXPECT_TRUE(run.failed);
  EXPECT_THAT(run.recompute_modules, ElementsAre("moe_act"));
  const RunQuestion question = *QuestionOf(run);
  EXPECT_EQ(question.topology->cluster(), "here");
  EXPECT_FALSE(question.runtime.eager);
  EXPECT_TRUE(question.runtime.blocking_launches);
  EXPECT_EQ(question.runtime.expert_exchange, ExpertExchange::kOnceARank);
  EXPECT_EQ(question.runtime.moment_bytes, 2);
  EXPECT_EQ(question.plan.stages[0].layer_runs[1].strategy.recompute_modules.ToString(" "),
            "moe_act");
  EXPECT_THAT(question.assumptions, Contains(HasSubstr("kept on the host")));
  for (const auto& [from, to, reason] :
       {std::tuple(R"("sp": false)", R"("layout": 3)", "parallel.layout must be a text"),
        std::tuple(R"("recompute": "full")", R"("memory_view": "all")", "memory_view `all`"),
        std::tuple(R"("recompute": "full")", R"("notes": "a note")", "notes must be a list"),
        std::tuple(R"("recompute": "full")", R"("dropout": "yes")", "dropout must be a rate"),
        std::tuple(R"("recompute": "full")", R"("recompute_modules": [1])",
                   "recompute_modules must be a list of names")}) {
    EXPECT_THAT(SkipReasonOf(With(GptRow(), from, to)), HasSubstr(reason));
  }
}

TEST(QuestionOf, SharesHeadsIfContextRanksExchangeAllToAll) {
  std::string row = With(GptRow(), R"("tp": 2, "pp": 1, "dp": 4)", R"("tp": 2, "cp": 4)");
  EXPECT_EQ(QuestionOf(RunOf(row))->plan.stages[0].layer_runs[1].strategy.context_kind,
            ContextKind::kRing);
  row = With(row, R"("recompute": "full")", R"("cp_comm": "a2a")");
  EXPECT_EQ(QuestionOf(RunOf(row))->plan.stages[0].layer_runs[1].strategy.context_kind,
            ContextKind::kUlysses);
  EXPECT_EQ(QuestionOf(RunOf(With(row, "a2a", "allgather")))
                ->plan.stages[0]
                .layer_runs[1]
                .strategy.context_kind,
            ContextKind::kAllGather);
  EXPECT_EQ(RunOf(With(row, "a2a", "p2p")).parallelism.context_kind, ContextKind::kRing);
  // Other words for the same.
  for (const char* word : {"all_gather", "all-gather", "AllGather"}) {
    EXPECT_EQ(RunOf(With(row, "a2a", word)).parallelism.context_kind, ContextKind::kAllGather);
  }
  EXPECT_EQ(RunOf(With(row, "a2a", "ring")).parallelism.context_kind, ContextKind::kRing);
  EXPECT_EQ(RunOf(With(row, "a2a", "Ulysses")).parallelism.context_kind, ContextKind::kUlysses);
  row = With(row, "a2a", "a2a+p2p");
  EXPECT_THAT(SkipReasonOf(row), HasSubstr("context parallelism by `a2a+p2p` is not read"));
  // A group of one rank has no exchange, so its kind does not matter.
  EXPECT_EQ(SkipReasonOf(With(row, R"("tp": 2, "cp": 4)", R"("tp": 2, "cp": 1)")), "");
}

// Takes some rows of every source of a real collection: which are skipped, and why.
TEST(ReadPublishedRuns, ReadsRowsOfEverySource) {
  std::ifstream file(SourceDir() + "/tests/studies/accuracy/data/published_runs.json");
  ASSERT_TRUE(file);
  std::stringstream text;
  text << file.rdbuf();
  const auto runs = ReadPublishedRuns({"published_runs.json", text.str()});
  ASSERT_TRUE(runs.ok()) << runs.status();
  std::map<std::string, std::string> reasons;
  std::map<std::string, int> counts;
  for (const SkippedRun& skip : runs->skipped) reasons[skip.id] = skip.reason;
  for (const PublishedRun& run : runs->runs) {
    const auto question = QuestionOf(run);
    if (question.ok()) {
      ++counts[run.source];
    } else {
      reasons[run.id] = std::string(question.status().message());
    }
  }
  EXPECT_THAT(counts,
              ElementsAre(std::pair("bigscience-176b-prequel", 4),
                          std::pair("korthikanti22-table5", 2), std::pair("megatron-ci-golden", 7),
                          std::pair("megatron-sc21-table1", 3), std::pair("sailor-clariden", 2),
                          std::pair("vtrain-multi", 2), std::pair("vtrain-single", 2)));
  EXPECT_THAT(reasons["bs176-479"], HasSubstr("model.layers is missing"));
  EXPECT_THAT(reasons["bs176-648"], HasSubstr("parallel.dp"));
  EXPECT_THAT(reasons["sailor-clariden-GPT-NEO-N4-plan_config_N4_D4"],
              HasSubstr("parallel.layers_per_stage"));
  EXPECT_THAT(reasons["mlmci-t5-t5_release-lts_dgx_a100"], HasSubstr("--num-layers: is missing"));
  EXPECT_EQ(reasons.size(), 5u);
}

}  // namespace
}  // namespace parplan::accuracy
