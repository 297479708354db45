#include "planner/planners/exact/pipeline/pipeline_setting.h"

#include <algorithm>
#include <limits>

namespace parplan {

BudgetByCommunicators BudgetsOf(const MemoryOverheads& overheads, Bytes usable_memory,
                                int pipeline_parallel_degree, int ranks_per_stage,
                                int max_communicators) {
  BudgetByCommunicators budget;
  for (int count = 0; count <= max_communicators; ++count) {
    budget.push_back(
        overheads.TensorBudget(usable_memory, pipeline_parallel_degree, ranks_per_stage, count));
  }
  return budget;
}

PipelineSetting::PipelineSetting(const StrategySpace& space, const CostModel& costs,
                                 const OptionTable& table, const PipelineCandidate& candidate,
                                 Bytes usable_memory)
    : space_(space),
      costs_(costs),
      table_(table),
      candidate_(candidate),
      recurrence_(candidate.schedule, candidate.pipeline_parallel_degree,
                  candidate.micro_batch_count) {
  int max_communicators = 0;
  for (const ModelLayerRun& run : problem().model().layer_runs()) {
    for (const StageOption& option : table.options(run.definition_index)) {
      max_communicators = std::max(max_communicators, option.communicator_count);
    }
  }
  budget_ = BudgetsOf(costs.searched_group().overheads(), usable_memory, depth(),
                      problem().device_count() / depth(), max_communicators + 1);
  largest_budget_ = *std::max_element(budget_.begin(), budget_.end());
  for (const ModelLayerRun& run : problem().model().layer_runs()) {
    const int end = static_cast<int>(end_of_run_.size()) + run.layer_count;
    end_of_run_.resize(end, end);
  }
  DescribeStages();
  if (!space.dimensions().has(SearchDimension::kUnevenStages)) {
    fixed_boundaries_ = EvenBoundaries();
    has_partition_ = !fixed_boundaries_.empty();
  }
  LimitEndStages();
}

// Layers that are no transformer layers are at the ends, so that only the first and the last stage
// could be without one.
void PipelineSetting::LimitEndStages() {
  first_of_last_ = layer_count() - 1;
  if (space_.target().transformer_in_each_stage) {
    const auto is_transformer = [this](int layer) {
      return IsTransformer(problem().model().layer(layer).kind);
    };
    while (end_of_first_ < layer_count() && !is_transformer(end_of_first_ - 1)) ++end_of_first_;
    while (first_of_last_ > 0 && !is_transformer(first_of_last_)) --first_of_last_;
  }
  if (depth() > 1 && end_of_first_ + depth() - 2 > first_of_last_) has_partition_ = false;
}

void PipelineSetting::DescribeStages() {
  const ModelSpec& model = problem().model();
  const bool has_tied_table = model.layer(model.layer_count() - 1).tied_embedding;
  const int rank_count = problem().device_count() / depth();
  const Topology& topology = problem().topology();
  least_send_within_node_ = LeastSend(/*leaves_node=*/false);
  least_send_between_nodes_ = LeastSend(/*leaves_node=*/true);
  for (int i = 0; i < depth(); ++i) {
    const bool is_last = i + 1 == depth();
    Stage& stage = stages_.emplace_back();
    stage.in_flight =
        InFlightMicroBatchCount(candidate_.schedule, depth(), i, candidate_.micro_batch_count);
    stage.keeps_outputs = costs_.runtime().keep_stage_outputs && !is_last;
    const int next = (i + 1) % depth();
    const auto node_changes = [&](int rank) {
      return topology.NodeOfRank(i * rank_count + rank) !=
             topology.NodeOfRank(next * rank_count + rank);
    };
    stage.leaves_node = node_changes(0) || node_changes(rank_count - 1);
    stage.extra_communicator_count = has_tied_table && depth() > 1 && (i == 0 || is_last) ? 1 : 0;
    if (!is_last) stage.least_send = least_send(stage.leaves_node);
  }
}

double PipelineSetting::LeastSend(bool leaves_node) const {
  if (depth() == 1) return 0.0;
  double least = std::numeric_limits<double>::infinity();
  std::vector<char> was_seen(problem().model().layer_definitions().size(), 0);
  for (const ModelLayerRun& run : problem().model().layer_runs()) {
    if (was_seen[run.definition_index]++ > 0) continue;
    for (int from = 0; from < table_.layout_count(); ++from) {
      // Moving into another layout takes no less than staying.
      least = std::min(least, table_.Send(run.definition_index, from, from, leaves_node).value());
    }
  }
  return least < std::numeric_limits<double>::infinity() ? least : 0.0;
}

std::vector<int> PipelineSetting::EvenBoundaries() const {
  const ModelSpec& model = problem().model();
  std::vector<int> transformer_layers;
  for (int layer = 0; layer < layer_count(); ++layer) {
    if (IsTransformer(model.layer(layer).kind)) transformer_layers.push_back(layer);
  }
  const auto count = static_cast<int>(transformer_layers.size());
  if (count % depth() != 0 || (count == 0 && depth() > 1)) return {};
  std::vector<int> boundaries = {0};
  for (int i = 1; i < depth(); ++i) {
    boundaries.push_back(transformer_layers[static_cast<size_t>(count / depth()) * i]);
  }
  boundaries.push_back(layer_count());
  return boundaries;
}

std::vector<DefinitionRun> PipelineSetting::RunsOf(int first_layer, int end_layer) const {
  std::vector<DefinitionRun> runs;
  for (int layer = first_layer; layer < end_layer;) {
    const int end = std::min(end_of_run_[layer], end_layer);
    const int definition = definition_of(layer);
    if (!runs.empty() && runs.back().definition_index == definition) {
      runs.back().layer_count += end - layer;
    } else {
      runs.push_back({definition, end - layer});
    }
    layer = end;
  }
  return runs;
}

}  // namespace parplan
