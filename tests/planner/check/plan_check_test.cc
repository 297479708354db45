#include "planner/check/plan_check.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/cost/predict_plan.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using testing::HasSubstr;

Strategy TensorTwo() { return {.tensor_parallel_degree = 2, .data_parallel_degree = 2}; }

Strategy Sharded(int degree) {
  return {.data_parallel_degree = degree, .sharding_level = ShardingLevel::kParameters};
}

// Two stages of four ranks, with layers 0 to 3 and 4 to 9 of the default
// problem, and a change of strategy in each.
Plan GoodPlan() {
  Strategy recomputing = Sharded(4);
  recomputing.recompute_level = RecomputeLevel::kFull;
  StagePlan front{.first_rank = 0, .rank_count = 4};
  front.layer_runs = {{0, 1, TensorTwo()}, {1, 3, TensorTwo()}};
  StagePlan back{.first_rank = 4, .rank_count = 4};
  back.layer_runs = {{4, 2, recomputing}, {6, 3, Sharded(4)}, {9, 1, TensorTwo()}};
  Plan plan{.device_count = 8, .global_batch_size = 16, .micro_batch_count = 4};
  plan.stages = {front, back};
  return plan;
}

SyntheticOptions Roomy() {
  SyntheticOptions options;
  options.device_memory = Bytes::Of(int64_t{64} << 30);
  return options;
}

Prediction Predict(const PlanningProblem& problem, const Plan& plan) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  EXPECT_OK(costs);
  return PredictPlan(problem, *costs, plan);
}

TEST(CheckPlan, AcceptsAPredictionOfTheCostModel) {
  const PlanningProblem problem = SyntheticProblem(Roomy());
  EXPECT_OK(CheckPlanStructure(problem, GoodPlan()));
  EXPECT_OK(CheckPlan(problem, GoodPlan(), Predict(problem, GoodPlan())));
}

struct PlantedMistake {
  const char* what;
  std::function<void(Plan&)> plant;
  const char* told;
  std::function<void(SyntheticOptions&)> change_problem = {};
};

TEST(CheckPlanStructure, FindsEveryPlantedMistake) {
  const Recomputation modules(*RecomputeModules::Create({RecomputeModule::kFeedForward}, ""));
  const std::vector<PlantedMistake> mistakes = {
      {"other devices", [](Plan& p) { p.device_count = 4; }, "device_count"},
      {"other batch", [](Plan& p) { p.global_batch_size = 32; }, "global_batch_size"},
      {"no micro-batch", [](Plan& p) { p.micro_batch_count = 0; }, "micro_batch_count"},
      {"batch not divided", [](Plan& p) { p.micro_batch_count = 3; }, "micro_batch_count"},
      {"micro-batches not those of the rules", [](Plan&) {}, "rules say 8",
       [](SyntheticOptions& o) { o.rules.micro_batch_count = 8; }},
      {"schedule not that of the rules", [](Plan& p) { p.schedule = Schedule::kGpipe; }, "schedule",
       [](SyntheticOptions& o) { o.rules.schedule = Schedule::kOneForwardOneBackward; }},
      {"groups without virtual stages", [](Plan& p) { p.micro_batch_group_size = 4; },
       "micro_batch_group_size is 4 with 1 virtual stages"},
      {"several stages on one device",
       [](Plan& p) {
         p.schedule = Schedule::kInterleaved;
         p.virtual_stage_count = 2;
         p.stages[0].rank_count = p.stages[1].rank_count = 8;
         p.stages[1].first_rank = 0;
       },
       "virtual_stage_count is 2 in a pipeline of one device"},
      {"no stage", [](Plan& p) { p.stages.clear(); }, "0 stages"},
      {"too many stages", [](Plan&) {}, "2 stages",
       [](SyntheticOptions& o) { o.rules.max_pipeline_parallel_degree = 1; }},
      {"gap of ranks", [](Plan& p) { p.stages[1].first_rank = 5; }, "ranks"},
      {"unequal stages", [](Plan& p) { p.stages[0].rank_count = 6; }, "ranks"},
      {"stage without layers", [](Plan& p) { p.stages[1].layer_runs.clear(); }, "no layers"},
      {"layer twice", [](Plan& p) { p.stages[1].layer_runs[0].first_layer_index = 3; },
       "layer 4 of 10 comes next"},
      {"layer left out", [](Plan& p) { p.stages[0].layer_runs[1].layer_count = 2; },
       "layer 3 of 10 comes next"},
      {"empty run", [](Plan& p) { p.stages[0].layer_runs[1].layer_count = 0; }, "run of 0"},
      {"run beyond the model", [](Plan& p) { p.stages[1].layer_runs[2].layer_count = 2; },
       "run of 2"},
      {"last layer missing", [](Plan& p) { p.stages[1].layer_runs.pop_back(); }, "no stage"},
      {"run over unlike layers",
       [](Plan& p) {
         p.stages[0].layer_runs[0].layer_count = 4;
         p.stages[0].layer_runs.pop_back();
       },
       "unlike"},
      {"run cut in two",
       [](Plan& p) {
         p.stages[0].layer_runs[1].layer_count = 2;
         p.stages[0].layer_runs.push_back({3, 1, p.stages[0].layer_runs[1].strategy});
       },
       "continues"},
      {"degrees of other ranks",
       [](Plan& p) { p.stages[0].layer_runs[1].strategy.data_parallel_degree = 4; }, "ranks"},
      {"degree 0", [](Plan& p) { p.stages[0].layer_runs[1].strategy.tensor_parallel_degree = 0; },
       "ranks"},
      {"degree above the limit", [](Plan&) {}, "above 1",
       [](SyntheticOptions& o) { o.rules.max_tensor_parallel_degree = 1; }},
      {"hidden size not divided", [](Plan&) {}, "hidden_size",
       [](SyntheticOptions& o) {
         o.hidden_size = 1023;
         o.attention_head_count = 3;
       }},
      {"embedding split as no layer can be", [](Plan&) {}, "no transformer layer can be split",
       [](SyntheticOptions& o) {
         o.hidden_size = 1020;
         o.attention_head_count = 3;
       }},
      {"heads not divided", [](Plan& p) { p.stages[0].layer_runs[0].strategy = Sharded(4); },
       "its heads",
       [](SyntheticOptions& o) {
         o.hidden_size = 1020;
         o.attention_head_count = 3;
       }},
      {"micro-batch not divided", [](Plan& p) { p.micro_batch_count = 8; }, "micro-batch of 2"},
      {"order without meaning",
       [](Plan& p) { p.stages[1].layer_runs[0].strategy.rank_order = RankOrder::kDataInnermost; },
       "rank order"},
      {"sharded over one rank",
       [](Plan& p) {
         Strategy& strategy = p.stages[0].layer_runs[1].strategy;
         strategy = {.tensor_parallel_degree = 4, .sharding_level = ShardingLevel::kParameters};
       },
       "one rank"},
      {"sharding forbidden", [](Plan&) {}, "sharded, which the rules forbid",
       [](SyntheticOptions& o) { o.rules.allow_sharded_data_parallel = false; }},
      {"recomputation forbidden", [](Plan&) {}, "recomputes, which the rules forbid",
       [](SyntheticOptions& o) { o.rules.allow_recompute = false; }},
      {"head recomputes",
       [](Plan& p) { p.stages[1].layer_runs[2].strategy.recompute_level = RecomputeLevel::kFull; },
       "no transformer layer"},
      {"modules without their level",
       [&modules](Plan& p) {
         p.stages[1].layer_runs[0].strategy.recompute_modules = modules.modules;
       },
       "names modules that it does not recompute"},
      {"a level without modules",
       [](Plan& p) {
         p.stages[1].layer_runs[0].strategy.recompute_level = RecomputeLevel::kModules;
       },
       "recomputes modules and names none"},
      {"modules of a measured layer",
       [&modules](Plan& p) { p.stages[1].layer_runs[0].strategy.set_recomputation(modules); },
       "which profiles do not measure"},
      {"sequence parallelism alone",
       [](Plan& p) { p.stages[1].layer_runs[0].strategy.sequence_parallel = true; },
       "sequence-parallel"},
  };
  for (const PlantedMistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.what);
    SyntheticOptions options = Roomy();
    if (mistake.change_problem) mistake.change_problem(options);
    Plan plan = GoodPlan();
    mistake.plant(plan);
    const PlanningProblem problem = SyntheticProblem(options);
    EXPECT_THAT(CheckPlanStructure(problem, plan),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(mistake.told)));
    EXPECT_FALSE(CheckPlan(problem, plan, Prediction{}).ok());
  }
}

// Embedding and head hold the same table.
TEST(CheckPlanStructure, WantsATiedTableSpreadInOneWay) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 2;
  options.global_batch_size = 8;
  const PlanningProblem tied = EstimatedProblem(options);
  options.tied_embedding = false;
  const PlanningProblem untied = EstimatedProblem(options);
  Strategy data{.data_parallel_degree = 8, .sharding_level = ShardingLevel::kOptimizer};
  Plan plan = PlanOf(tied, {.strategy = data});
  EXPECT_OK(CheckPlanStructure(tied, plan));
  plan.stages[0].layer_runs.back().strategy.sharding_level = ShardingLevel::kNone;
  EXPECT_OK(CheckPlanStructure(untied, plan));
  EXPECT_THAT(
      CheckPlanStructure(tied, plan),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr("layer 3 shares a table with layer 0, which is spread otherwise")));
}

TEST(CheckPlan, FindsEveryFalsePromise) {
  const PlanningProblem problem = SyntheticProblem(Roomy());
  const Plan plan = GoodPlan();
  const Prediction good = Predict(problem, plan);
  const std::vector<std::pair<const char*, std::function<void(Prediction&)>>> lies = {
      {"step", [](Prediction& p) { p.step = p.step * 0.99999; }},
      {"samples_per_second", [](Prediction& p) { p.samples_per_second *= 1.00001; }},
      {"peak_memory", [](Prediction& p) { p.peak_memory -= Bytes::Of(1 << 20); }},
      {"usable_memory", [](Prediction& p) { p.usable_memory = p.usable_memory * 2; }},
      {"stages are predicted", [](Prediction& p) { p.stages.pop_back(); }},
      {"forward", [](Prediction& p) { p.stages[0].forward = p.stages[0].forward * 1.1; }},
      {"backward", [](Prediction& p) { p.stages[1].backward = Seconds(); }},
      {"gradient_sync", [](Prediction& p) { p.stages[1].gradient_sync += Seconds::Of(1); }},
      {"send", [](Prediction& p) { p.stages[0].send = Seconds(); }},
      {"in_flight", [](Prediction& p) { p.stages[0].in_flight_micro_batch_count = 1; }},
      {"idle_ratio", [](Prediction& p) { p.stages[0].idle_ratio += 0.01; }},
      {"memory item",
       [](Prediction& p) { p.stages[0].memory[MemoryItemKind::kParameters] = Bytes(); }},
      {"time item",
       [](Prediction& p) { p.stages[0].time[TimeItemKind::kRecompute] = Seconds::Of(1); }},
      {"estimated items", [](Prediction& p) { p.estimated_items.push_back("none"); }},
      {"estimated items", [](Prediction& p) { p.confidence = Confidence::kEstimated; }},
  };
  for (const auto& [told, lie] : lies) {
    SCOPED_TRACE(told);
    Prediction prediction = good;
    lie(prediction);
    EXPECT_THAT(CheckPlan(problem, plan, prediction),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(told)));
  }
}

TEST(CheckPlan, RefusesAPlanThatDoesNotFit) {
  const PlanningProblem roomy = SyntheticProblem(Roomy());
  const Prediction prediction = Predict(roomy, GoodPlan());
  const PlanningProblem exact = roomy.WithUsableMemory(prediction.peak_memory_upper);
  EXPECT_OK(CheckPlan(exact, GoodPlan(), Predict(exact, GoodPlan())));
  const PlanningProblem tight = roomy.WithUsableMemory(prediction.peak_memory_upper - Bytes::Of(1));
  EXPECT_THAT(CheckPlan(tight, GoodPlan(), Predict(tight, GoodPlan())),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("it may need")));
}

}  // namespace
}  // namespace parplan
