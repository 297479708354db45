#include "planner/search/stage/front_stage.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace parplan {
namespace {

// Rounds times down to the least of them plus whole grains.
void Coarsen(Seconds FrontOption::*time, Seconds grain, std::vector<FrontOption>& options) {
  if (!(grain > Seconds()) || options.empty()) return;
  Seconds least = Seconds::Infinite();
  for (const FrontOption& option : options) least = std::min(least, option.*time);
  for (FrontOption& option : options) {
    const double grains = std::floor((option.*time - least).value() / grain.value());
    option.*time = std::min(option.*time, least + grain * grains);
  }
}

FrontKind MakeKind(const OptionTable& table, int definition, const StageQuestion& question,
                   const BudgetByCommunicators& budget, const std::vector<char>* allowed,
                   bool has_step) {
  FrontKind kind;
  const std::vector<StageOption>& options = table.options(definition);
  for (size_t index = 0; index < options.size(); ++index) {
    if (allowed != nullptr && !(*allowed)[index]) continue;
    const StageOption& option = options[index];
    const int communicators = option.communicator_count + question.extra_communicator_count;
    PARPLAN_CHECK(communicators < static_cast<int>(budget.size()));
    const Seconds joined = option.forward + option.backward + option.sync * question.sync_share;
    const FrontOption added = {
        .option = static_cast<int>(index),
        .layout = question.ClassOf(option.layout),
        .forward = question.joins_passes ? joined : option.forward,
        .backward = question.joins_passes ? Seconds() : option.backward,
        .sync = question.ignores_sync ? Seconds() : option.sync,
        .held = option.states + option.kept * question.in_flight_micro_batch_count,
        .transient = option.transient,
        .step_held = has_step ? option.states_in_step + option.step : Bytes(),
        .step_held_with_bucket =
            has_step ? option.states_in_step + option.step + option.bucket : Bytes(),
        .budget = budget[communicators]};
    if (added.held + added.transient <= added.budget) kind.options.push_back(added);
  }
  Coarsen(&FrontOption::forward, question.pass_grain, kind.options);
  Coarsen(&FrontOption::backward, question.pass_grain, kind.options);
  Coarsen(&FrontOption::sync, question.sync_grain, kind.options);
  return kind;
}

// Sets the transitions between layouts that neighbouring layers can have.
void AddTransitions(const OptionTable& table, const StageQuestion& question,
                    const std::vector<int>& definitions, FrontStage& stage) {
  const int layout_count = stage.layout_count;
  std::vector<char> occurs(layout_count, 0);
  for (const FrontKind& kind : stage.kinds) {
    for (const FrontOption& option : kind.options) occurs[option.layout] = 1;
  }
  for (size_t index = 0; index < stage.kinds.size(); ++index) {
    FrontKind& kind = stage.kinds[index];
    kind.transitions.assign(static_cast<size_t>(layout_count) * layout_count, Seconds::Infinite());
    for (int from = 0; from < layout_count; ++from) {
      for (int to = 0; to < layout_count; ++to) {
        const int class_from = question.ClassOf(from);
        const int class_to = question.ClassOf(to);
        if (!occurs[class_from] || !occurs[class_to]) continue;
        Seconds& least = kind.transitions[class_from * layout_count + class_to];
        least = class_from == class_to
                    ? Seconds()
                    : std::min(least, table.Transition(definitions[index], from, to));
      }
    }
  }
}

}  // namespace

FrontStage MakeFrontStage(const OptionTable& table, const StageQuestion& question,
                          const BudgetByCommunicators& budget, const OptionMask& allowed) {
  PARPLAN_CHECK(!question.runs.empty());
  FrontStage stage;
  stage.layout_count = table.layout_count();
  stage.gradient_bucket = question.gradient_bucket;
  stage.joins_passes = question.joins_passes;
  stage.known = question.known;
  stage.first_layout_matters = question.first_layout_matters;
  stage.last_layout_matters = question.last_layout_matters;
  for (const DefinitionRun& run : question.runs) {
    for (const StageOption& option : table.options(run.definition_index)) {
      stage.has_step |= option.step + option.bucket > Bytes();
    }
  }
  // [kind]
  std::vector<int> definitions;
  for (const DefinitionRun& run : question.runs) {
    const auto found = std::find(definitions.begin(), definitions.end(), run.definition_index);
    const int kind = static_cast<int>(found - definitions.begin());
    if (!stage.runs.empty() && stage.runs.back().kind == kind) {
      stage.runs.back().layer_count += run.layer_count;
      continue;
    }
    stage.runs.push_back({kind, run.layer_count});
    if (found != definitions.end()) continue;
    definitions.push_back(run.definition_index);
    stage.kinds.push_back(MakeKind(table, run.definition_index, question, budget,
                                   allowed.empty() ? nullptr : &allowed[run.definition_index],
                                   stage.has_step));
  }
  AddTransitions(table, question, definitions, stage);
  if (question.keeps_outputs) {
    stage.output_held.assign(stage.layout_count, Bytes::Max());
    for (int layout = 0; layout < stage.layout_count; ++layout) {
      Bytes& held = stage.output_held[question.ClassOf(layout)];
      held = std::min(held, table.Message(definitions[stage.runs.back().kind], layout) *
                                question.in_flight_micro_batch_count);
    }
    // No layer ends in a layout that is represented by another one of its class.
    const Bytes least = *std::min_element(stage.output_held.begin(), stage.output_held.end());
    std::replace(stage.output_held.begin(), stage.output_held.end(), Bytes::Max(), least);
  }
  return stage;
}

}  // namespace parplan
