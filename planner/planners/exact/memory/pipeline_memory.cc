#include "planner/planners/exact/memory/pipeline_memory.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace parplan {
namespace {

constexpr Bytes kNever = Bytes::Of(std::numeric_limits<int64_t>::max() / 4);

Bytes Kept(const StageOption& option, int64_t in_flight) {
  return option.states + option.kept * in_flight;
}

}  // namespace

PipelineMemory::PipelineMemory(const PipelineSetting& setting, const OptionMask& mask,
                               const std::function<bool(int64_t)>& work)
    : setting_(setting), lean_(LeanOptions(setting.problem().model(), setting.table(), mask)) {
  for (const ModelLayerRun& run : setting.problem().model().layer_runs()) {
    if (lean_[run.definition_index].empty()) is_usable_ = false;
  }
  if (!is_usable_) return;
  ListClasses();
  for (int i = 0; i < setting.depth(); ++i) {
    const int64_t in_flight = setting.stage(i).in_flight;
    if (least_.find(in_flight) != least_.end()) continue;
    std::vector<std::vector<Bytes>>& least = least_[in_flight] = LeastOf(in_flight, work);
    if (!least.empty()) continue;
    is_usable_ = false;
    least_.clear();
    return;
  }
}

bool PipelineMemory::Fits(Bytes usable) const {
  if (!is_usable_ || !setting_.has_partition()) return false;
  const BudgetByCommunicators budget = BudgetsFor(usable);
  int layer = 0;
  for (int stage = 0; stage < setting_.depth(); ++stage) {
    const StageReach reach = ReachOfStage(stage, layer, budget);
    if (reach.cap_class < 0) return false;
    layer = reach.end_layer;
  }
  return layer == setting_.layer_count();
}

Plan PipelineMemory::PlanWithin(Bytes usable) const {
  const PlanningProblem& problem = setting_.problem();
  const BudgetByCommunicators budget = BudgetsFor(usable);
  Plan plan{.device_count = problem.device_count(),
            .global_batch_size = setting_.candidate().global_batch_size,
            .micro_batch_count = setting_.candidate().micro_batch_count,
            .schedule = setting_.candidate().schedule};
  const int rank_count = plan.device_count / setting_.depth();
  int layer = 0;
  for (int index = 0; index < setting_.depth(); ++index) {
    const StageReach reach = ReachOfStage(index, layer, budget);
    StagePlan& stage = plan.stages.emplace_back();
    stage.first_rank = index * rank_count;
    stage.rank_count = rank_count;
    for (const DefinitionRun& run : setting_.RunsOf(layer, reach.end_layer)) {
      const int option =
          LeastOption(setting_.stage(index).in_flight, reach.cap_class, run.definition_index);
      stage.layer_runs.push_back(
          {.first_layer_index = layer,
           .layer_count = run.layer_count,
           .strategy = setting_.table().options(run.definition_index)[option].strategy});
      layer += run.layer_count;
    }
  }
  return plan;
}

BudgetByCommunicators PipelineMemory::BudgetsFor(Bytes usable) const {
  return BudgetsOf(setting_.costs().searched_group().overheads(), usable, setting_.depth(),
                   setting_.problem().device_count() / setting_.depth(),
                   static_cast<int>(setting_.budget().size()) - 1);
}

void PipelineMemory::ListClasses() {
  std::vector<Bytes> transients;
  std::vector<int> counts;
  for (size_t definition = 0; definition < lean_.size(); ++definition) {
    for (int index : lean_[definition]) {
      const StageOption& option = setting_.table().options(static_cast<int>(definition))[index];
      transients.push_back(option.transient);
      counts.push_back(option.communicator_count);
    }
  }
  const auto unique = [](auto& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  };
  unique(transients);
  unique(counts);
  for (Bytes transient : transients) {
    for (int count : counts) classes_.push_back({transient, count});
  }
}

int PipelineMemory::LeastOption(int64_t in_flight, int cap_class, int definition) const {
  const std::vector<StageOption>& options = setting_.table().options(definition);
  int least = -1;
  for (int index : lean_[definition]) {
    if (options[index].transient > classes_[cap_class].transient ||
        options[index].communicator_count > classes_[cap_class].communicator_count) {
      continue;
    }
    if (least < 0 || Kept(options[index], in_flight) < Kept(options[least], in_flight)) {
      least = index;
    }
  }
  return least;
}

std::vector<std::vector<Bytes>> PipelineMemory::LeastOf(
    int64_t in_flight, const std::function<bool(int64_t)>& work) const {
  std::vector<std::vector<Bytes>> least;
  for (size_t cap = 0; cap < classes_.size(); ++cap) {
    if (!work(2 * static_cast<int64_t>(lean_.size()))) return {};
    least.emplace_back(lean_.size(), kNever);
  }
  // The least of the options that have the transient memory and communicators of a class, then the
  // least up to both. A loop over options for each class took seconds for a thousand unlike layers.
  const auto is_below = [](const CapClass& a, const CapClass& b) {
    return std::pair(a.transient, a.communicator_count) <
           std::pair(b.transient, b.communicator_count);
  };
  for (size_t definition = 0; definition < lean_.size(); ++definition) {
    for (const int index : lean_[definition]) {
      const StageOption& option = setting_.table().options(static_cast<int>(definition))[index];
      const CapClass own = {option.transient, option.communicator_count};
      const auto cap = std::lower_bound(classes_.begin(), classes_.end(), own, is_below);
      Bytes& known = least[static_cast<size_t>(cap - classes_.begin())][definition];
      known = std::min(known, Kept(option, in_flight));
    }
  }
  // Classes are sorted by transient memory, and those of one by communicators.
  const size_t count_count = static_cast<size_t>(
      std::upper_bound(
          classes_.begin(), classes_.end(), classes_.front().transient,
          [](Bytes transient, const CapClass& other) { return transient < other.transient; }) -
      classes_.begin());
  for (size_t cap = 1; cap < classes_.size(); ++cap) {
    for (size_t definition = 0; definition < lean_.size(); ++definition) {
      Bytes& known = least[cap][definition];
      if (cap % count_count > 0) known = std::min(known, least[cap - 1][definition]);
      if (cap >= count_count) known = std::min(known, least[cap - count_count][definition]);
    }
  }
  return least;
}

PipelineMemory::StageReach PipelineMemory::ReachOfStage(int stage_index, int first_layer,
                                                        const BudgetByCommunicators& budget) const {
  const PipelineSetting::Stage& stage = setting_.stage(stage_index);
  const std::vector<std::vector<Bytes>>& least = least_.at(stage.in_flight);
  // Later stages have their layers.
  const int last = setting_.largest_first(stage_index + 1);
  const int least_end = std::max(first_layer + 1, setting_.least_first(stage_index + 1));
  const int wanted =
      setting_.fixed_boundaries().empty() ? 0 : setting_.fixed_boundaries()[stage_index + 1];
  StageReach best;
  for (int cap = 0; cap < static_cast<int>(classes_.size()); ++cap) {
    const int count = classes_[cap].communicator_count + stage.extra_communicator_count;
    Bytes left = budget[count] - classes_[cap].transient;
    int layer = first_layer;
    while (layer < last) {
      const Bytes each = least[cap][setting_.definition_of(layer)];
      const int run = std::min(setting_.EndOfRun(layer), last) - layer;
      const int fits = left < each ? 0
                       : each == Bytes()
                           ? run
                           : static_cast<int>(std::min<int64_t>(run, left.count() / each.count()));
      layer += fits;
      left -= each * fits;
      if (fits < run) break;
    }
    if (wanted > 0 && layer >= wanted) layer = wanted;
    const bool is_enough = wanted > 0 ? layer == wanted : layer >= least_end;
    if (is_enough && layer > best.end_layer) best = {layer, cap};
  }
  return best;
}

}  // namespace parplan
