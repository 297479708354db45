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

Plan InterleavedPlan(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                     const std::vector<int>& options, int64_t group_size) {
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
    for (const DefinitionRun& run : setting.RunsOf(layer, layer + layer_counts[index])) {
      stage.layer_runs.push_back(
          {.first_layer_index = layer,
           .layer_count = run.layer_count,
           .strategy = setting.table()
                           .options(run.definition_index)[options[run.definition_index]]
                           .strategy});
      layer += run.layer_count;
    }
  }
  return plan;
}

}  // namespace parplan
