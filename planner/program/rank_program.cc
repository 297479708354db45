#include "planner/program/rank_program.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"
#include "planner/program/runnable_plan.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "give ranks the new field, or refuse it");

// Collects groups while layers refer to them, and sorts them at the end.
class GroupList {
 public:
  int Add(std::string purpose, std::vector<int> ranks) {
    if (ranks.size() < 2) return -1;
    std::sort(ranks.begin(), ranks.end());
    GroupSpec spec{std::move(purpose), std::move(ranks)};
    const auto found = std::find(specs_.begin(), specs_.end(), spec);
    if (found != specs_.end()) return static_cast<int>(found - specs_.begin());
    specs_.push_back(std::move(spec));
    return static_cast<int>(specs_.size()) - 1;
  }

  // Sorts the groups. Returns [index given before] the index after sorting.
  std::vector<int> Sort() {
    std::vector<int> order(specs_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return specs_[a] < specs_[b]; });
    std::vector<int> place(specs_.size());
    std::vector<GroupSpec> sorted;
    for (size_t k = 0; k < order.size(); ++k) {
      place[order[k]] = static_cast<int>(k);
      sorted.push_back(std::move(specs_[order[k]]));
    }
    specs_ = std::move(sorted);
    return place;
  }

  std::vector<GroupSpec> Take() { return std::move(specs_); }

 private:
  std::vector<GroupSpec> specs_;
};

// Lists the ranks of a stage that differ from `place` only in the free axes.
std::vector<int> RanksAlong(int first_rank, const Strategy& strategy, const GridPlace& place,
                            bool tensor, bool context, bool data) {
  std::vector<int> ranks;
  for (int r = 0; r < strategy.rank_count(); ++r) {
    const GridPlace other = PlaceOfRank(strategy, r);
    if ((tensor || other.tensor == place.tensor) && (context || other.context == place.context) &&
        (data || other.data == place.data)) {
      ranks.push_back(first_rank + r);
    }
  }
  return ranks;
}

std::vector<int> RanksOf(const StagePlan& stage) {
  std::vector<int> ranks(stage.rank_count);
  std::iota(ranks.begin(), ranks.end(), stage.first_rank);
  return ranks;
}

class ProgramMaker {
 public:
  ProgramMaker(const Plan& plan, const ModelSpec& model, int rank)
      : plan_(plan), model_(model), rank_(rank) {}

  RankProgram Make() {
    const int degree = plan_.pipeline_parallel_degree();
    RankProgram program;
    program.rank = rank_;
    program.device_count = plan_.device_count;
    program.pipeline_parallel_degree = degree;
    program.pipeline_place = rank_ / (plan_.device_count / degree);
    program.micro_batch_size = plan_.micro_batch_size();
    program.micro_batch_count = plan_.micro_batch_count;
    for (size_t index = program.pipeline_place; index < plan_.stages.size(); index += degree) {
      program.stages.push_back(MakeStage(static_cast<int>(index)));
    }
    program.tied_group = TiedGroup();
    std::vector<int> all(plan_.device_count);
    std::iota(all.begin(), all.end(), 0);
    groups_.Add(group_purpose::kLoss, std::move(all));
    Renumber(groups_.Sort(), program);
    program.groups = groups_.Take();
    program.passes = PassOrder({.schedule = plan_.schedule,
                                .pipeline_parallel_degree = degree,
                                .virtual_stage_count = plan_.virtual_stage_count,
                                .micro_batch_count = plan_.micro_batch_count},
                               program.pipeline_place);
    return program;
  }

 private:
  ActivationLayout LayoutOf(const StagePlan& stage, int layer_index,
                            const Strategy& strategy) const {
    return {stage.first_rank, strategy, plan_.micro_batch_size(),
            model_.layer(layer_index).sequence_length};
  }
  ActivationLayout FirstLayout(const StagePlan& stage) const {
    const StageLayerRun& run = stage.layer_runs.front();
    return LayoutOf(stage, run.first_layer_index, run.strategy);
  }
  ActivationLayout LastLayout(const StagePlan& stage) const {
    const StageLayerRun& run = stage.layer_runs.back();
    return LayoutOf(stage, run.first_layer_index + run.layer_count - 1, run.strategy);
  }

  StageProgram MakeStage(int index) {
    const StagePlan& stage = plan_.stages[index];
    StageProgram program{.stage_index = index};
    program.stage_group = groups_.Add(group_purpose::kStage, RanksOf(stage));
    for (const StageLayerRun& run : stage.layer_runs) {
      for (int k = 0; k < run.layer_count; ++k) AddLayer(stage, run, k, program);
    }
    if (index > 0) {
      const StagePlan& previous = plan_.stages[index - 1];
      program.receive_forward_group = BoundaryGroup(group_purpose::kForward, index - 1);
      program.send_backward_group = BoundaryGroup(group_purpose::kBackward, index - 1);
      program.receive_forward = MakeReshard(LastLayout(previous), FirstLayout(stage), rank_);
      program.send_backward = MakeReshard(FirstLayout(stage), LastLayout(previous), rank_);
    }
    if (index + 1 < static_cast<int>(plan_.stages.size())) {
      const StagePlan& next = plan_.stages[index + 1];
      program.send_forward_group = BoundaryGroup(group_purpose::kForward, index);
      program.receive_backward_group = BoundaryGroup(group_purpose::kBackward, index);
      program.send_forward = MakeReshard(LastLayout(stage), FirstLayout(next), rank_);
      program.receive_backward = MakeReshard(FirstLayout(next), LastLayout(stage), rank_);
    }
    return program;
  }

  // Returns the group of the ranks of a stage and the next.
  int BoundaryGroup(const char* direction, int stage) {
    std::vector<int> ranks = RanksOf(plan_.stages[stage]);
    const std::vector<int> others = RanksOf(plan_.stages[stage + 1]);
    ranks.insert(ranks.end(), others.begin(), others.end());
    return groups_.Add(absl::StrCat(direction, " ", stage), std::move(ranks));
  }

  void AddLayer(const StagePlan& stage, const StageLayerRun& run, int k, StageProgram& program) {
    const Strategy& strategy = run.strategy;
    LayerProgram layer;
    // Layers of a run are equal.
    if (k > 0) {
      layer = program.layers.back();
      layer.enter = {};
      layer.leave_backward = {};
    } else {
      layer.strategy = strategy;
      layer.layout = LayoutOf(stage, run.first_layer_index, strategy);
      layer.place = layer.layout.PlaceOf(rank_);
      const auto along = [&](bool tensor, bool context, bool data) {
        return RanksAlong(stage.first_rank, strategy, layer.place, tensor, context, data);
      };
      layer.tensor_group = groups_.Add(group_purpose::kTensor, along(true, false, false));
      layer.context_group = groups_.Add(group_purpose::kContext, along(false, true, false));
      layer.gradient_group = groups_.Add(group_purpose::kGradient, along(false, true, true));
      if (!program.layers.empty()) {
        const ActivationLayout& before = program.layers.back().layout;
        if (!before.IsSameAs(layer.layout)) {
          layer.enter = MakeReshard(before, layer.layout, rank_);
          layer.leave_backward = MakeReshard(layer.layout, before, rank_);
        }
      }
    }
    layer.layer_index = run.first_layer_index + k;
    layer.definition_index = model_.definition_of_layer()[layer.layer_index];
    program.layers.push_back(std::move(layer));
  }

  // Returns the group with the rank that has the same part of the table at the other end of the
  // model.
  int TiedGroup() {
    const StagePlan& first = plan_.stages.front();
    const StagePlan& last = plan_.stages.back();
    if (!HasTiedTable(model_) || first.first_rank == last.first_rank) return -1;
    for (const StagePlan* stage : {&first, &last}) {
      const int place = rank_ - stage->first_rank;
      if (place < 0 || place >= stage->rank_count) continue;
      return groups_.Add(group_purpose::kTied, {first.first_rank + place, last.first_rank + place});
    }
    return -1;
  }

  static void Renumber(const std::vector<int>& place, RankProgram& program) {
    const auto renumber = [&](int& group) {
      if (group >= 0) group = place[group];
    };
    renumber(program.tied_group);
    for (StageProgram& stage : program.stages) {
      renumber(stage.stage_group);
      renumber(stage.receive_forward_group);
      renumber(stage.send_forward_group);
      renumber(stage.receive_backward_group);
      renumber(stage.send_backward_group);
      for (LayerProgram& layer : stage.layers) {
        renumber(layer.tensor_group);
        renumber(layer.context_group);
        renumber(layer.gradient_group);
      }
    }
  }

  const Plan& plan_;
  const ModelSpec& model_;
  const int rank_;
  GroupList groups_;
};

}  // namespace

absl::StatusOr<RankProgram> RankProgram::Create(const Plan& plan, const ModelSpec& model,
                                                int rank) {
  PARPLAN_RETURN_IF_ERROR(CheckRunnablePlan(plan, model));
  if (rank < 0 || rank >= plan.device_count) {
    return RefuseRun(
        "rank", absl::StrCat("the plan has ranks 0 to ", plan.device_count - 1, ", not ", rank));
  }
  return ProgramMaker(plan, model, rank).Make();
}

}  // namespace parplan
