#include "planner/search/stage/stage_front.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/pipeline/stage_mix.h"
#include "planner/search/space/layout_classes.h"
#include "planner/search/space/strategy_space.h"
#include "tests/planner/search/front_values.h"
#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

using Random = std::mt19937_64;

// Stages of tables as searches make them.
class StagesOfTables : public testing::Test {
 protected:
  static PlanningProblem Problem() {
    return EstimatedProblem({.device_count = 4,
                             .devices_per_node = 4,
                             .decoder_count = 3,
                             .hidden_size = 4096,
                             .attention_head_count = 32,
                             .vocabulary_size = 32000,
                             .global_batch_size = 16});
  }

  StagesOfTables()
      : problem_(Problem()),
        costs_(*CostModel::Create(problem_)),
        space_(problem_, costs_),
        table_(problem_, costs_, space_, 1, kMicroBatch) {
    for (const ModelLayerRun& run : problem_.model().layer_runs()) {
      question_.runs.push_back({run.definition_index, run.layer_count});
    }
    question_.gradient_bucket = costs_.runtime().gradient_bucket;
  }

  static Bytes Gigabytes(double count) { return Bytes::Of(static_cast<int64_t>(count * 1e9)); }

  BudgetByCommunicators Budget(Bytes usable) const {
    BudgetByCommunicators budget;
    for (int communicators = 0; communicators < 32; ++communicators) {
      budget.push_back(
          costs_.group(kFirstGroup).overheads().TensorBudget(usable, 1, 4, communicators));
    }
    return budget;
  }

  Plan PlanOf(const StageChoice& choice) const {
    Plan plan = {.device_count = 4, .global_batch_size = 16, .micro_batch_count = 16 / kMicroBatch};
    StagePlan& stage = plan.stages.emplace_back();
    stage.rank_count = 4;
    const std::vector<int>& definitions = problem_.model().definition_of_layer();
    for (size_t layer = 0; layer < choice.options.size(); ++layer) {
      const int definition = definitions[layer];
      const Strategy& strategy = table_.options(definition)[choice.options[layer]].strategy;
      if (!stage.layer_runs.empty() && stage.layer_runs.back().strategy == strategy &&
          definitions[stage.layer_runs.back().first_layer_index] == definition) {
        ++stage.layer_runs.back().layer_count;
      } else {
        stage.layer_runs.push_back({static_cast<int>(layer), 1, strategy});
      }
    }
    return plan;
  }

  static constexpr int64_t kMicroBatch = 4;
  const PlanningProblem problem_;
  const CostModel costs_;
  const StrategySpace space_;
  const OptionTable table_;
  StageQuestion question_;
};

TEST_F(StagesOfTables, HaveTheTimesAndMemoryThatAreEvaluated) {
  PlanEvaluator evaluator(problem_, costs_);
  const LinearCut weights = {4.0, 4.0, 1.0, 0.0};
  int choices = 0;
  for (double gigabytes : {15.0, 20.0, 24.0, 30.0, 75.0}) {
    SCOPED_TRACE(testing::Message() << gigabytes << " GB");
    const BudgetByCommunicators budget = Budget(Gigabytes(gigabytes));
    LinearCut cut = weights;
    const double bound = StageBound(table_, question_, budget, weights);
    cut.limit = bound * 1.03;
    const SearchControl control;
    SearchMeter meter(control);
    const StageFront front = SolveStage(table_, question_, budget, {&cut, 1}, {}, meter);
    for (const StageChoice& choice : front.choices) {
      ++choices;
      EXPECT_GE(Value(weights, choice), bound);
      const Plan plan = PlanOf(choice);
      const Prediction prediction = evaluator.Predict(plan);
      const StagePrediction& stage = prediction.stages[0];
      EXPECT_NEAR(choice.forward / stage.forward, 1.0, kFrontTolerance);
      EXPECT_NEAR(choice.backward / stage.backward, 1.0, kFrontTolerance);
      EXPECT_NEAR(choice.sync / (stage.gradient_sync + stage.optimizer_step), 1.0, kFrontTolerance);
      EXPECT_LE(evaluator.Evaluate(plan).peak_memory_upper, Gigabytes(gigabytes));
    }
  }
  EXPECT_GT(choices, 5);
}

TEST_F(StagesOfTables, AreBoundedBelowEveryPlanThatFits) {
  PlanEvaluator evaluator(problem_, costs_);
  const std::vector<int>& definitions = problem_.model().definition_of_layer();
  int fitting = 0;
  for (double gigabytes : {15.0, 20.0, 24.0, 30.0, 75.0}) {
    SCOPED_TRACE(testing::Message() << gigabytes << " GB");
    const LinearCut weights = {4.0, 4.0, 1.0, 0.0};
    const double bound = StageBound(table_, question_, Budget(Gigabytes(gigabytes)), weights);
    Random random(1);
    for (int round = 0; round < 1000; ++round) {
      StageChoice choice;
      const bool is_uniform = round % 2 == 0;
      for (size_t layer = 0; layer < definitions.size(); ++layer) {
        const bool repeats =
            is_uniform && layer > 0 && definitions[layer] == definitions[layer - 1];
        const int last = static_cast<int>(table_.options(definitions[layer]).size()) - 1;
        choice.options.push_back(repeats ? choice.options.back() : Draw(random, 0, last));
      }
      const Prediction prediction = evaluator.Predict(PlanOf(choice));
      if (prediction.peak_memory_upper > Gigabytes(gigabytes)) continue;
      ++fitting;
      const StagePrediction& stage = prediction.stages[0];
      choice.forward = stage.forward;
      choice.backward = stage.backward;
      choice.sync = stage.gradient_sync + stage.optimizer_step;
      EXPECT_GE(Value(weights, choice), bound);
    }
  }
  EXPECT_GT(fitting, 500);
}

TEST_F(StagesOfTables, FitNowhereIfOutputsAloneExceedTheBudget) {
  const OptionTable table(problem_, costs_, space_, 2, kMicroBatch);
  // The first of two stages: all layers but the head, which is the last run.
  question_.runs.pop_back();
  question_.keeps_outputs = true;
  question_.in_flight_micro_batch_count = 10000;
  const LinearCut weights = {4.0, 4.0, 1.0, std::numeric_limits<double>::infinity()};
  const BudgetByCommunicators budget = Budget(Gigabytes(30.0));
  EXPECT_EQ(StageBound(table, question_, budget, weights), std::numeric_limits<double>::infinity());
  const SearchControl control;
  SearchMeter meter(control);
  const StageFront front = SolveStage(table, question_, budget, {&weights, 1}, {}, meter);
  EXPECT_TRUE(front.choices.empty());
  EXPECT_TRUE(front.is_complete);
}

TEST_F(StagesOfTables, JoinPassesWhereOnlyTheirSumCounts) {
  const BudgetByCommunicators budget = Budget(Gigabytes(20.0));
  LinearCut cut = {1.0, 1.0, 0.0, 0.0};
  cut.limit = StageBound(table_, question_, budget, cut) * 1.05;
  const SearchControl control;
  SearchMeter meter(control);
  const StageFront all = SolveStage(table_, question_, budget, {&cut, 1}, {}, meter);
  question_.joins_passes = question_.ignores_sync = true;
  question_.first_layout_matters = question_.last_layout_matters = false;
  const StageFront joined = SolveStage(table_, question_, budget, {&cut, 1}, {}, meter);
  ASSERT_EQ(joined.choices.size(), 1u);
  double least = std::numeric_limits<double>::infinity();
  for (const StageChoice& choice : all.choices) {
    least = std::min(least, (choice.forward + choice.backward).value());
  }
  EXPECT_NEAR(joined.choices[0].forward.value(), least, least * kFrontTolerance);
}

TEST_F(StagesOfTables, CoarseTimesAreShorterByTheirGrainsAtMost) {
  question_.joins_passes = question_.ignores_sync = true;
  int coarser = 0;
  for (double gigabytes : {15.0, 20.0, 24.0, 30.0}) {
    SCOPED_TRACE(testing::Message() << gigabytes << " GB");
    const BudgetByCommunicators budget = Budget(Gigabytes(gigabytes));
    LinearCut cut = {1.0, 1.0, 0.0, 0.0};
    cut.limit = StageBound(table_, question_, budget, cut) * 1.05;
    const SearchControl control;
    SearchMeter meter(control);
    const StageFront exact = SolveStage(table_, question_, budget, {&cut, 1}, {}, meter);
    ASSERT_FALSE(exact.choices.empty());
    for (double share : {0.001, 0.01}) {
      StageQuestion coarse = question_;
      coarse.pass_grain = Seconds::Of(cut.limit * share);
      double layer_count = 0.0;
      for (const DefinitionRun& run : question_.runs) layer_count += run.layer_count;
      const StageFront front = SolveStage(table_, coarse, budget, {&cut, 1}, {}, meter);
      EXPECT_LE(front.choices.size(), exact.choices.size());
      for (const StageChoice& wanted : exact.choices) {
        EXPECT_TRUE(std::any_of(front.choices.begin(), front.choices.end(), [&](const auto& one) {
          return one.first_layout == wanted.first_layout && one.last_layout == wanted.last_layout &&
                 one.forward.value() <= wanted.forward.value() * (1.0 + kFrontTolerance);
        }));
      }
      for (const StageChoice& choice : front.choices) {
        StageChoice real = choice;
        SumTimes(table_, question_.runs, real);
        const Seconds longer = real.forward + real.backward - choice.forward;
        EXPECT_GE(longer.value(), -cut.limit * kFrontTolerance);
        EXPECT_LE(longer.value(), coarse.pass_grain.value() * layer_count);
        coarser += longer.value() > cut.limit * kFrontTolerance ? 1 : 0;
      }
    }
  }
  EXPECT_GT(coarser, 0);
}

TEST_F(StagesOfTables, LayoutsOfAClassTakeNoLonger) {
  question_.joins_passes = question_.ignores_sync = true;
  const BudgetByCommunicators budget = Budget(Gigabytes(20.0));
  LinearCut cut = {1.0, 1.0, 0.0, 0.0};
  cut.limit = StageBound(table_, question_, budget, cut) * 1.05;
  const SearchControl control;
  SearchMeter meter(control);
  const StageFront exact = SolveStage(table_, question_, budget, {&cut, 1}, {}, meter);
  ASSERT_FALSE(exact.choices.empty());
  LayoutClasses classes(problem_.model(), table_);
  int class_count = table_.layout_count() + 1;
  for (double share : {0.0, 0.001, 0.01, 0.1}) {
    question_.layout_classes = classes.Within(Seconds::Of(cut.limit * share));
    int count = 0;
    for (int layout = 0; layout < table_.layout_count(); ++layout) {
      count += question_.ClassOf(layout) == layout ? 1 : 0;
      EXPECT_EQ(question_.ClassOf(question_.ClassOf(layout)), question_.ClassOf(layout));
    }
    EXPECT_LE(count, class_count);
    class_count = count;
    const StageFront front = SolveStage(table_, question_, budget, {&cut, 1}, {}, meter);
    for (const StageChoice& wanted : exact.choices) {
      EXPECT_TRUE(std::any_of(front.choices.begin(), front.choices.end(), [&](const auto& one) {
        return one.first_layout == question_.ClassOf(wanted.first_layout) &&
               one.last_layout == question_.ClassOf(wanted.last_layout) &&
               one.forward.value() <= wanted.forward.value() * (1.0 + kFrontTolerance);
      }));
    }
  }
  EXPECT_LT(class_count, table_.layout_count());
}

}  // namespace
}  // namespace parplan
