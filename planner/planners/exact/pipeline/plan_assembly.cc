#include "planner/planners/exact/pipeline/plan_assembly.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace parplan {
namespace {

std::vector<Strategy> StrategiesOf(const Plan& plan) {
  std::vector<Strategy> strategies;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) strategies.push_back(run.strategy);
  }
  std::sort(strategies.begin(), strategies.end());
  strategies.erase(std::unique(strategies.begin(), strategies.end()), strategies.end());
  return strategies;
}

}  // namespace

Plan AssemblePlan(const PipelineSetting& setting, absl::Span<const ChosenStage> stages) {
  const PipelineCandidate& candidate = setting.candidate();
  Plan plan{.device_count = setting.problem().device_count(),
            .global_batch_size = candidate.global_batch_size,
            .micro_batch_count = candidate.micro_batch_count,
            .schedule = candidate.schedule};
  const int rank_count = plan.device_count / candidate.pipeline_parallel_degree;
  for (const ChosenStage& chosen : stages) {
    StagePlan& stage = plan.stages.emplace_back();
    stage.first_rank = static_cast<int>(plan.stages.size() - 1) * rank_count;
    stage.rank_count = rank_count;
    int previous_definition = -1;
    int previous_option = -1;
    for (int layer = chosen.first_layer; layer < chosen.end_layer; ++layer) {
      const int definition = setting.definition_of(layer);
      const int option = chosen.choice->options[layer - chosen.first_layer];
      if (definition != previous_definition || option != previous_option) {
        stage.layer_runs.push_back(
            {layer, 0, setting.table().options(definition)[option].strategy});
      }
      ++stage.layer_runs.back().layer_count;
      previous_definition = definition;
      previous_option = option;
    }
  }
  return plan;
}

void StageTimesOf(const PipelineSetting& setting, absl::Span<const ChosenStage> stages,
                  std::vector<StageTimes>& times) {
  times.clear();
  for (size_t i = 0; i < stages.size(); ++i) {
    const StageChoice& choice = *stages[i].choice;
    times.push_back({choice.forward, choice.backward, Seconds(), choice.sync});
    if (i + 1 == stages.size()) break;
    times.back().send = setting.table().Send(setting.definition_of(stages[i].end_layer - 1),
                                             choice.last_layout, stages[i + 1].choice->first_layout,
                                             setting.stage(static_cast<int>(i)).leaves_node);
  }
}

PlanList::Answer PlanList::AnswerOf(const Plan& plan) {
  return {plan.global_batch_size, plan.stages.size(), plan.virtual_stage_count,
          plan.micro_batch_count, plan.schedule,      StrategiesOf(plan)};
}

bool AreAlike(const Plan& a, const Plan& b) {
  return PlanList::AnswerOf(a) == PlanList::AnswerOf(b);
}

bool PlanList::Offer(PredictedPlan plan) {
  // If it is not better than the last plan, it is not better than one that is alike either.
  if (is_full() && !IsBetterPlan(plan, plans_.back())) return false;
  Answer answer = AnswerOf(plan.plan);
  const auto alike = std::find(answers_.begin(), answers_.end(), answer);
  if (alike != answers_.end()) {
    const auto known = plans_.begin() + (alike - answers_.begin());
    if (!IsBetterPlan(plan, *known)) return false;
    plans_.erase(known);
    answers_.erase(alike);
  } else if (is_full()) {
    plans_.pop_back();
    answers_.pop_back();
  }
  const auto place = std::find_if(plans_.begin(), plans_.end(), [&](const PredictedPlan& known) {
    return IsBetterPlan(plan, known);
  });
  answers_.insert(answers_.begin() + (place - plans_.begin()), std::move(answer));
  plans_.insert(place, std::move(plan));
  return true;
}

Seconds PlanList::CutoffPerSample() const {
  return is_full() ? plans_.back().time_per_sample() : Seconds::Infinite();
}

}  // namespace parplan
