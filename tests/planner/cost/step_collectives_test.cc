#include "planner/cost/step_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "planner/cost/predict_plan.h"
#include "planner/model/stage_layers.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int kDevices = 8;

// A runtime that hides nothing, on links whose times are latencies alone.
PlanningProblem PlainProblem(const std::string& runtime_id, int expert_count) {
  RuntimeTraits runtime = *FindRuntime(runtime_id);
  runtime.overlap_gradient_sync = false;
  runtime.overlap_parameter_gather = false;
  runtime.tensor_parallel_overlap = TensorParallelOverlap::kNone;
  return EstimatedProblem({.device_count = kDevices,
                           .decoder_count = 6,
                           .hidden_size = 1024,
                           .attention_head_count = 16,
                           .sequence_length = 1024,
                           .tied_embedding = false,
                           .expert_count = expert_count,
                           .global_batch_size = 64,
                           .link_speed = 1e12,
                           .rules = {.schedule = Schedule::kOneForwardOneBackward,
                                     .allow_estimates = true,
                                     .runtime = runtime}});
}

// `purpose collective ranks x calls`.
std::vector<std::string> TextOf(const std::vector<StepCollective>& rows) {
  std::vector<std::string> lines;
  for (const StepCollective& one : rows) {
    lines.push_back(absl::StrCat(CollectivePurposeName(one.purpose), " ",
                                 CollectiveName(one.collective), " ", one.ranks.front(), "-",
                                 one.ranks.back(), " of ", one.ranks.size(), " x", one.count));
  }
  return lines;
}

std::vector<std::string> Listed(const PlanningProblem& problem, const Plan& plan, int rank) {
  const CostModel costs = Valid(CostModel::Create(problem));
  return TextOf(CollectivesOfStep(problem, costs, plan, rank));
}

// Six decoders under tensor parallelism over ranks 4 to 7, two micro-batches. Embedding: one sum
// forward; decoders: two forward and two backward; head: one backward, and all logits are gathered.
TEST(CollectivesOfStep, CountsWhatTorchSums) {
  const PlanningProblem problem = PlainProblem("torch", 0);
  Strategy strategy{.tensor_parallel_degree = 4, .data_parallel_degree = 2};
  const Plan plan = PlanOf(problem, {.micro_batch_count = 2, .strategy = strategy});
  EXPECT_THAT(
      Listed(problem, plan, 5),
      UnorderedElementsAre("tensor all-reduce 4-7 of 4 x52", "tensor all-gather 4-7 of 4 x2",
                           "gradient all-reduce 1-5 of 2 x8", "loss all-reduce 0-7 of 8 x1"));
}

// With sequence parallelism a scatter and a gather each, no input is gathered again, and norms of
// six decoders and of the head are summed; full recomputation repeats all but the last scatter.
TEST(CollectivesOfStep, CountsWhatTorchGathers) {
  const PlanningProblem problem = PlainProblem("torch", 0);
  Strategy strategy{.tensor_parallel_degree = 8};
  strategy.sequence_parallel = true;
  strategy.recompute_level = RecomputeLevel::kFull;
  const Plan plan = PlanOf(problem, {.micro_batch_count = 1, .strategy = strategy});
  // Embedding 1 backward; decoders 2 + 2 again + 2; head 1 and the logits.
  EXPECT_THAT(Listed(problem, plan, 0),
              UnorderedElementsAre("tensor all-gather 0-7 of 8 x39",
                                   // Embedding 1; decoders 2 + 1 again + 2; head 1 backward.
                                   "tensor reduce-scatter 0-7 of 8 x32",
                                   "gradients of norms all-reduce 0-7 of 8 x7",
                                   "loss all-reduce 0-7 of 8 x1"));
}

TEST(CollectivesOfStep, HasOneMessageALayerOnARankAlone) {
  const PlanningProblem problem = PlainProblem("torch", 0);
  Strategy strategy{.data_parallel_degree = 8};
  strategy.sharding_level = ShardingLevel::kParameters;
  const Plan plan = PlanOf(problem, {.micro_batch_count = 2, .strategy = strategy});
  EXPECT_THAT(Listed(problem, plan, 3),
              ElementsAre("gradient reduce-scatter 0-7 of 8 x16",
                          "gradient all-gather 0-7 of 8 x32", "loss all-reduce 0-7 of 8 x1"));
}

// Six decoders of a ring of four, two micro-batches: keys and values make three hops in each pass,
// and so do their gradients; attention that is repeated reads them again.
TEST(CollectivesOfStep, CountsHopsOfRings) {
  const PlanningProblem problem = PlainProblem("torch", 0);
  Strategy strategy{.data_parallel_degree = 2};
  strategy.context_parallel_degree = 4;
  Plan plan = PlanOf(problem, {.micro_batch_count = 2, .strategy = strategy});
  EXPECT_THAT(Listed(problem, plan, 5), ::testing::Contains("context send-receive 4-7 of 4 x108"));
  for (StageLayerRun& run : plan.stages[0].layer_runs) {
    run.strategy.recompute_level = RecomputeLevel::kSelective;
  }
  EXPECT_THAT(Listed(problem, plan, 5), ::testing::Contains("context send-receive 4-7 of 4 x144"));
}

// Each pass of a layer in the list takes its time in the prediction, for every runtime and for
// strategies of every kind.
TEST(CollectivesOfStep, TakesTheTimeThatIsPredicted) {
  std::vector<Strategy> strategies;
  for (const ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kOptimizer,
                                    ShardingLevel::kGradients, ShardingLevel::kParameters}) {
    const Recomputation modules(*RecomputeModules::Create(
        {RecomputeModule::kCoreAttention, RecomputeModule::kNorms, RecomputeModule::kExperts}, ""));
    for (const Recomputation& recompute :
         {Recomputation(), Recomputation(RecomputeLevel::kSelective),
          Recomputation(RecomputeLevel::kFull), modules}) {
      for (const bool by_tokens : {false, true}) {
        Strategy split{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
        split.sharding_level = level;
        split.set_recomputation(recompute);
        split.sequence_parallel = by_tokens;
        split.expert_parallel_degree = 2;
        strategies.push_back(split);
        for (const ContextKind kind : {ContextKind::kRing, ContextKind::kUlysses}) {
          Strategy shared = split;
          shared.data_parallel_degree = 1;
          shared.context_parallel_degree = 2;
          shared.context_kind = kind;
          strategies.push_back(shared);
        }
      }
    }
  }
  for (const RuntimeTraits& runtime : KnownRuntimes()) {
    const PlanningProblem problem = PlainProblem(runtime.runtime_id, 8);
    const CostModel costs = Valid(CostModel::Create(problem));
    const CollectiveCosts& times = costs.group(kFirstGroup).traffic().collectives();
    for (const Strategy& strategy : strategies) {
      const Plan plan = PlanOf(
          problem, {.pipeline_parallel_degree = 2, .micro_batch_count = 4, .strategy = strategy});
      const Prediction prediction = PredictPlan(problem, costs, plan);
      for (int stage = 0; stage < 2; ++stage) {
        Seconds listed;
        for (const StepCollective& one :
             CollectivesOfStep(problem, costs, plan, plan.stages[stage].first_rank)) {
          if (one.purpose == CollectivePurpose::kPipeline ||
              one.purpose == CollectivePurpose::kLoss) {
            continue;
          }
          const GroupShape shape{static_cast<int>(one.ranks.size()), one.ranks[1] - one.ranks[0]};
          listed += times.Time(one.collective, shape, one.bytes / one.count) * one.count;
        }
        using enum TimeItemKind;
        const StagePrediction& predicted = prediction.stages[stage];
        Seconds exchanged;
        for (const TimeItemKind kind : {kTensorParallel, kContextParallel, kExpertParallel,
                                        kShardedDataParallel, kResharding}) {
          exchanged += predicted.time[kind];
        }
        const double expected =
            (exchanged * static_cast<double>(plan.micro_batch_count) + predicted.gradient_sync)
                .value();
        // Rings are hidden behind attention as far as they can be.
        const bool hides =
            strategy.context_parallel_degree > 1 && strategy.context_kind == ContextKind::kRing;
        if (hides) {
          EXPECT_GE(listed.value(), expected * (1.0 - 1e-6)) << runtime.runtime_id;
        } else {
          EXPECT_NEAR(listed.value(), expected, expected * 1e-6)
              << runtime.runtime_id << " " << StrategyNotation(2, strategy);
        }
      }
    }
  }
}

// `E` embeddings, `d` decoders and `H` a tied head, each stage behind a bar on as many devices as
// the others.
std::vector<std::string> TiedTables(absl::string_view stages, int device_count, int rank) {
  const PlanningProblem base = EstimatedProblem({.device_count = device_count,
                                                 .decoder_count = 1,
                                                 .hidden_size = 1024,
                                                 .attention_head_count = 16,
                                                 .sequence_length = 1024,
                                                 .global_batch_size = 64});
  const ModelSpec& known = base.model();
  std::vector<ModelLayerRun> runs;
  for (const char letter : stages) {
    if (letter == '|') continue;
    const int definition = letter == 'E' ? 0 : letter == 'd' ? 1 : 2;
    if (!runs.empty() && runs.back().definition_index == definition) {
      ++runs.back().layer_count;
    } else {
      runs.push_back({definition, 1});
    }
  }
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(EightA100Nodes());
  const PlanningProblem problem = Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(
          Valid(ModelSpec::Create("m", {known.layer(0), known.layer(1), known.layer(2)}, runs,
                                  Precision::kBf16, Optimizer::kAdam))),
      std::make_shared<const Topology>(base.topology()), std::move(knowledge), 64, base.rules()));
  const std::vector<std::string> parts = absl::StrSplit(stages, '|');
  Plan plan{.device_count = device_count, .global_batch_size = 64, .micro_batch_count = 4};
  plan.schedule = Schedule::kOneForwardOneBackward;
  int layer = 0;
  for (const std::string& part : parts) {
    StagePlan stage;
    stage.rank_count = device_count / static_cast<int>(parts.size());
    stage.first_rank = stage.rank_count * static_cast<int>(plan.stages.size());
    for (size_t i = 0; i < part.size(); ++i) {
      AppendLayer(problem.model(), layer++, {.data_parallel_degree = stage.rank_count}, &stage);
    }
    plan.stages.push_back(std::move(stage));
  }
  std::vector<std::string> tied;
  for (const std::string& line : Listed(problem, plan, rank)) {
    if (absl::StartsWith(line, "tied table")) tied.push_back(line);
  }
  return tied;
}

TEST(CollectivesOfStep, SumsTheSharedTableOnceOverTheStagesThatHoldIt) {
  EXPECT_THAT(TiedTables("Ed|d|dH", 3, 0), ElementsAre("tied table all-reduce 0-2 of 2 x1"));
  EXPECT_THAT(TiedTables("Ed|d|dH", 3, 1), IsEmpty());
  EXPECT_THAT(TiedTables("Ed|dH", 4, 3), ElementsAre("tied table all-reduce 1-3 of 2 x1"));
  EXPECT_THAT(TiedTables("EdH", 2, 0), IsEmpty());
  // Layers of images may come before the embedding of words.
  EXPECT_THAT(TiedTables("d|E|d|dH", 4, 0), IsEmpty());
  EXPECT_THAT(TiedTables("d|E|d|dH", 4, 1), ElementsAre("tied table all-reduce 1-3 of 2 x1"));
  EXPECT_THAT(TiedTables("dd|EdH", 2, 1), IsEmpty());
  // An encoder and a decoder have an embedding each.
  EXPECT_THAT(TiedTables("Ed|dE|dH", 3, 1), ElementsAre("tied table all-reduce 0-2 of 3 x1"));
  EXPECT_THAT(TiedTables("Ed|EdH", 2, 1), ElementsAre("tied table all-reduce 0-1 of 2 x1"));
}

// Neighbours with other layouts exchange them at once in both passes, unless ranks hold the same
// tokens already.
TEST(CollectivesOfStep, ChangesLayoutsOnceEachWay) {
  const PlanningProblem problem = PlainProblem("torch", 0);
  Plan plan =
      PlanOf(problem, {.micro_batch_count = 4,
                       .strategy = {.tensor_parallel_degree = 2, .data_parallel_degree = 4}});
  StageLayerRun& embedding = plan.stages[0].layer_runs.front();
  embedding.strategy = {.data_parallel_degree = 8};
  const std::vector<std::string> listed = Listed(problem, plan, 0);
  EXPECT_THAT(listed, ::testing::Contains("change of layout all-to-all 0-7 of 8 x8"));
  for (StageLayerRun& run : plan.stages[0].layer_runs) run.strategy = embedding.strategy;
  EXPECT_THAT(Listed(problem, plan, 0),
              ::testing::Each(::testing::Not(::testing::HasSubstr("layout"))));
}

// The second of four stages hands on what the first makes, in two messages of each micro-batch on
// either side.
TEST(CollectivesOfStep, HasMessagesAloneInAStageWithoutLayers) {
  const PlanningProblem problem = PlainProblem("megatron-core", 0);
  Plan plan = PlanOf(problem, {.pipeline_parallel_degree = 4,
                               .micro_batch_count = 4,
                               .strategy = {.data_parallel_degree = 2}});
  plan.stages[0].layer_runs.back().layer_count += plan.stages[1].layer_count();
  plan.stages[1].layer_runs.clear();
  EXPECT_THAT(Listed(problem, plan, 3), ElementsAre("pipeline send-receive 1-3 of 2 x8",
                                                    "pipeline send-receive 3-5 of 2 x8"));
}

}  // namespace
}  // namespace parplan
