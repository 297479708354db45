#include "tests/support/brute_force_plans.h"

#include <algorithm>
#include <functional>
#include <iostream>

#include "base/check.h"
#include "planner/check/plan_check.h"
#include "planner/cost/predict_plan.h"
#include "tests/support/brute_force_menus.h"
#include "tests/support/brute_force_space.h"
#include "tests/support/brute_force_stage.h"

namespace parplan {
namespace {

// Crashes with what is wrong with a plan made here.
void CheckIsValid(const PlanningProblem& problem, const Plan& plan) {
  const absl::Status status = CheckPlanStructure(problem, plan);
  if (!status.ok()) std::cerr << PlanGist(plan) << ": " << status.message() << '\n';
  PARPLAN_CHECK(status.ok());
}

// Calls `visit` with one strategy a layer, in every way.
void ForEachChoice(const LayerMenus& menus,
                   const std::function<void(const std::vector<Strategy>&)>& visit) {
  std::vector<Strategy> chosen(menus.size());
  const std::function<void(size_t)> choose = [&](size_t layer) {
    if (layer == menus.size()) return visit(chosen);
    for (const Strategy& strategy : menus[layer]) {
      chosen[layer] = strategy;
      choose(layer + 1);
    }
  };
  choose(0);
}

// Looks at plans one by one and keeps what the answer asks.
class PlanJudge {
 public:
  PlanJudge(const PlanningProblem& problem, const CostModel& costs)
      : problem_(problem), evaluator_(problem, costs) {}

  void Look(const PlanShape& shape, const std::vector<int>& partition,
            const std::vector<Strategy>& strategies) {
    Plan plan = MakePlan(problem_, shape, partition, strategies);
    CheckIsValid(problem_, plan);
    ++answer_.plan_count;
    const PlanScore score = evaluator_.Evaluate(plan);
    answer_.smallest_usable_memory =
        std::min(answer_.smallest_usable_memory, score.peak_memory_upper);
    if (score.peak_memory_upper > problem_.usable_memory()) return;
    points_.emplace_back(score.step / static_cast<double>(plan.global_batch_size),
                         score.peak_memory_upper);
    PredictedPlan predicted;
    predicted.prediction.step = score.step;
    predicted.prediction.peak_memory = score.peak_memory;
    predicted.plan = std::move(plan);
    if (!answer_.best || IsBetterPlan(predicted, *answer_.best)) answer_.best = predicted;
  }

  BruteForceAnswer Answer() {
    if (answer_.best) answer_.best->prediction = evaluator_.Predict(answer_.best->plan);
    std::sort(points_.begin(), points_.end());
    for (const auto& point : points_) {
      if (answer_.front.empty() || point.second < answer_.front.back().second) {
        answer_.front.push_back(point);
      }
    }
    return std::move(answer_);
  }

 private:
  const PlanningProblem& problem_;
  PlanEvaluator evaluator_;
  std::vector<std::pair<Seconds, Bytes>> points_;
  BruteForceAnswer answer_;
};

// Shows every plan of a shape to the judge.
void LookAtAll(const PlanningProblem& problem, const CostModel& costs, const PlanShape& shape,
               PlanJudge& judge) {
  const std::vector<std::vector<int>> partitions = PartitionsOf(problem, shape);
  for (const LayerMenus& menus : MenusOf(problem, costs, shape)) {
    for (const std::vector<int>& partition : partitions) {
      ForEachChoice(menus, [&](const std::vector<Strategy>& strategies) {
        judge.Look(shape, partition, strategies);
      });
      if (shape.micro_batch_group_size != 0 || shape.schedule == Schedule::kZeroBubble) continue;
      for (const std::vector<Strategy>& strategies : BlocksOf(problem, menus, partition)) {
        judge.Look(shape, partition, strategies);
      }
    }
  }
}

// Combines stages of one shape, menu and partition.
class StageCombiner {
 public:
  StageCombiner(const PlanningProblem& problem, const CostModel& costs, const PlanShape& shape)
      : problem_(problem), costs_(costs), shape_(shape) {
    rules_ = {.schedule = shape.schedule,
              .virtual_stage_count = 1,
              .blocking_messages = costs.runtime().blocking_pipeline_messages,
              .serial_messages = costs.runtime().serial_pipeline_messages};
  }

  // Plans faster a step than `best` replace it.
  void Combine(const LayerMenus& menus, const std::vector<int>& partition,
               const std::vector<const std::vector<GrownStage>*>& stages, Seconds& best,
               std::vector<Strategy>& best_strategies, int64_t& plan_count) {
    first_layer_.clear();
    int layer = 0;
    for (int count : partition) {
      first_layer_.push_back(layer);
      layer += count;
    }
    stages_ = stages;
    chosen_.assign(partition.size(), nullptr);
    times_.assign(partition.size(), {});
    Extend(menus, 0, Seconds(), best, best_strategies, plan_count);
  }

 private:
  // Bound for a single stage: no step is shorter than its work.
  Seconds Work(const GrownStage& stage) const {
    return (stage.forward + stage.backward) * static_cast<double>(shape_.micro_batch_count) +
           stage.sync + costs_.step_overhead();
  }

  // `path` is what one micro-batch takes through the stages before.
  void Extend(const LayerMenus& menus, size_t index, Seconds path, Seconds& best,
              std::vector<Strategy>& best_strategies, int64_t& plan_count) {
    if (index == chosen_.size()) {
      ++plan_count;
      const Seconds step =
          schedule_.StepTime(rules_, times_, shape_.micro_batch_count) + costs_.step_overhead();
      if (step >= best) return;
      best = step;
      best_strategies.clear();
      for (size_t stage = 0; stage < chosen_.size(); ++stage) {
        const std::vector<int>& options = chosen_[stage]->options;
        for (size_t i = 0; i < options.size(); ++i) {
          best_strategies.push_back(menus[first_layer_[stage] + i][options[i]]);
        }
      }
      return;
    }
    for (const GrownStage& stage : *stages_[index]) {
      const Seconds longer = path + stage.forward + stage.backward;
      if (Work(stage) >= best || longer + costs_.step_overhead() >= best) continue;
      chosen_[index] = &stage;
      times_[index] = {stage.forward, stage.backward, Seconds(), stage.sync};
      if (index > 0) times_[index - 1].send = SendTo(menus, index);
      Extend(menus, index + 1, longer, best, best_strategies, plan_count);
    }
  }

  Seconds SendTo(const LayerMenus& menus, size_t index) const {
    const int ranks = problem_.device_count() / shape_.pipeline_parallel_degree;
    const int per_node = problem_.node_group(kFirstGroup).devices_per_node;
    bool leaves_node = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const int from = static_cast<int>(index - 1) * ranks + rank;
      leaves_node = leaves_node || from / per_node != (from + ranks) / per_node;
    }
    const int first = first_layer_[index];
    const Strategy& from = menus[first - 1][chosen_[index - 1]->options.back()];
    const Strategy& to = menus[first][chosen_[index]->options.front()];
    return costs_.SendTime(kFirstGroup, kFirstGroup,
                           problem_.model().definition_of_layer()[first - 1], from, to, ranks,
                           leaves_node, shape_.micro_batch_size());
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const PlanShape& shape_;
  PipelineRules rules_;
  ScheduleEvaluator schedule_;
  std::vector<int> first_layer_;
  std::vector<const std::vector<GrownStage>*> stages_;
  std::vector<const GrownStage*> chosen_;
  std::vector<StageTimes> times_;
};

}  // namespace

BruteForceAnswer EveryPlan(const PlanningProblem& problem, const CostModel& costs) {
  PlanJudge judge(problem, costs);
  for (const PlanShape& shape : ShapesOf(problem)) LookAtAll(problem, costs, shape, judge);
  return judge.Answer();
}

std::vector<std::pair<PlanShape, PredictedPlan>> BestOfEveryShape(const PlanningProblem& problem,
                                                                  const CostModel& costs) {
  std::vector<std::pair<PlanShape, PredictedPlan>> best;
  for (const PlanShape& shape : ShapesOf(problem)) {
    PlanJudge judge(problem, costs);
    LookAtAll(problem, costs, shape, judge);
    BruteForceAnswer answer = judge.Answer();
    if (answer.best) best.emplace_back(shape, *std::move(answer.best));
  }
  return best;
}

BruteForceAnswer EveryStage(const PlanningProblem& problem, const CostModel& costs) {
  // Looks at interleaved plans, and at those that recompute the first layers of each stage.
  PlanJudge one_by_one(problem, costs);
  PlanEvaluator evaluator(problem, costs);
  int64_t plan_count = 0;
  Bytes smallest = Bytes::Max();
  std::optional<PredictedPlan> best;
  for (const PlanShape& shape : ShapesOf(problem)) {
    const std::vector<std::vector<int>> partitions = PartitionsOf(problem, shape);
    for (const LayerMenus& menus : MenusOf(problem, costs, shape)) {
      for (const std::vector<int>& partition : partitions) {
        if (shape.micro_batch_group_size != 0 || shape.schedule == Schedule::kZeroBubble) break;
        for (const std::vector<Strategy>& strategies : BlocksOf(problem, menus, partition)) {
          one_by_one.Look(shape, partition, strategies);
        }
      }
      // `StageGrower` compares no stages with split backward passes.
      if (shape.virtual_stage_count > 1 || shape.schedule == Schedule::kZeroBubble) {
        for (const std::vector<int>& partition : partitions) {
          ForEachChoice(menus, [&](const std::vector<Strategy>& strategies) {
            one_by_one.Look(shape, partition, strategies);
          });
        }
        continue;
      }
      StageGrower grower(problem, costs, shape, menus);
      StageCombiner combiner(problem, costs, shape);
      for (const std::vector<int>& partition : partitions) {
        std::vector<const std::vector<GrownStage>*> stages;
        Bytes needed;
        int first = 0;
        for (int index = 0; index < static_cast<int>(partition.size()); ++index) {
          needed = std::max(needed, grower.LeastMemory(index, first, partition[index]));
          first += partition[index];
        }
        smallest = std::min(smallest, needed);
        if (needed > problem.usable_memory()) continue;
        first = 0;
        for (int index = 0; index < static_cast<int>(partition.size()); ++index) {
          stages.push_back(&grower.Stages(index, first, partition[index]));
          first += partition[index];
        }
        const auto batch = static_cast<double>(shape.global_batch_size);
        Seconds least = best ? best->prediction.step *
                                   (batch / static_cast<double>(best->plan.global_batch_size))
                             : Seconds::Infinite();
        const Seconds before = least;
        std::vector<Strategy> strategies;
        combiner.Combine(menus, partition, stages, least, strategies, plan_count);
        if (least >= before) continue;
        best.emplace().plan = MakePlan(problem, shape, partition, strategies);
        CheckIsValid(problem, best->plan);
        best->prediction = evaluator.Predict(best->plan);
        PARPLAN_CHECK(best->prediction.fits());
        PARPLAN_CHECK(best->prediction.step >= least * (1.0 - 1e-12) &&
                      best->prediction.step <= least * (1.0 + 1e-12));
      }
    }
  }
  BruteForceAnswer answer = one_by_one.Answer();
  answer.front.clear();
  answer.plan_count += plan_count;
  answer.smallest_usable_memory = std::min(answer.smallest_usable_memory, smallest);
  if (best && (!answer.best || IsBetterPlan(*best, *answer.best))) answer.best = best;
  return answer;
}

}  // namespace parplan
