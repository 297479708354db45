#include "planner/planners/exact/interleaved/interleaved_plan.h"

namespace parplan {

bool NeighboursAgree(const PipelineSetting& setting, const std::vector<int>& options) {
  const OptionTable& table = setting.table();
  int before = -1;
  for (const ModelLayerRun& run : setting.problem().model().layer_runs()) {
    const int after = run.definition_index;
    if (before >= 0 && before != after &&
        !table
             .Transition(after, table.options(before)[options[before]].layout,
                         table.options(after)[options[after]].layout)
             .is_finite()) {
      return false;
    }
    before = after;
  }
  return true;
}

namespace {

// Returns the plan whose layers have the options of `options_of`, which gets the first layer of a
// virtual stage and the one after its last, and returns [layer] indices into the table's options.
template <typename OptionsOf>
Plan PlanOfStages(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                  int64_t group_size, const OptionsOf& options_of) {
  const PipelineCandidate& candidate = setting.candidate();
  const int depth = setting.depth();
  Plan plan{.device_count = setting.problem().device_count(),
            .global_batch_size = candidate.global_batch_size,
            .micro_batch_count = candidate.micro_batch_count,
            .schedule = Schedule::kInterleaved,
            .virtual_stage_count = static_cast<int>(layer_counts.size()) / depth,
            .micro_batch_group_size = group_size};
  const int rank_count = plan.device_count / depth;
  int layer = 0;
  for (size_t index = 0; index < layer_counts.size(); ++index) {
    StagePlan& stage = plan.stages.emplace_back();
    stage.first_rank = static_cast<int>(index) % depth * rank_count;
    stage.rank_count = rank_count;
    const int first = layer;
    const std::vector<int> options = options_of(first, first + layer_counts[index]);
    for (const DefinitionRun& run : setting.RunsOf(first, first + layer_counts[index])) {
      int previous = -1;
      for (const int end = layer + run.layer_count; layer < end; ++layer) {
        const int option = options[layer - first];
        if (option != previous) {
          stage.layer_runs.push_back(
              {.first_layer_index = layer,
               .layer_count = 0,
               .strategy = setting.table().options(run.definition_index)[option].strategy});
        }
        ++stage.layer_runs.back().layer_count;
        previous = option;
      }
    }
  }
  return plan;
}

}  // namespace

Plan InterleavedPlan(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                     const std::vector<int>& options, int64_t group_size) {
  return PlanOfStages(setting, layer_counts, group_size, [&](int first_layer, int end_layer) {
    std::vector<int> of_layers;
    for (int layer = first_layer; layer < end_layer; ++layer) {
      of_layers.push_back(options[setting.definition_of(layer)]);
    }
    return of_layers;
  });
}

Plan InterleavedBlockPlan(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                          const BlockChoice& choice, int count) {
  return PlanOfStages(setting, layer_counts, /*group_size=*/0, [&](int first_layer, int end_layer) {
    return BlockOptions(setting, choice, count, first_layer, end_layer);
  });
}

}  // namespace parplan
