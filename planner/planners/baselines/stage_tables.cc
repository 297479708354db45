#include "planner/planners/baselines/stage_tables.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "planner/search/space/layout_index.h"

namespace parplan {
namespace {

// Operations that listing and pricing the strategies of a definition count as, roughly: 0.05 to 0.1
// ms. Not measured for other values.
constexpr int64_t kWorkOfDefinition = 10'000;

}  // namespace

StageTables::StageTables(const PlanningProblem& problem, const CostModel& costs,
                         const SearchSpace& space, int pipeline_parallel_degree,
                         int64_t micro_batch_count, SearchMeter* meter)
    : pipeline_parallel_degree_(pipeline_parallel_degree),
      micro_batch_count_(micro_batch_count),
      schedule_(problem.rules().schedule.value_or(kDefaultSchedule)),
      definition_of_layer_(problem.model().definition_of_layer()) {
  const int rank_count = problem.device_count() / pipeline_parallel_degree;
  const int64_t micro_batch_size = problem.global_batch_size() / micro_batch_count;
  const std::vector<LayerDefinition>& definitions = problem.model().layer_definitions();
  entries_.resize(definitions.size());
  for (int definition : definition_of_layer_) {
    if (!entries_[definition].empty() || !usable_) continue;
    if (meter != nullptr && !meter->Work(kWorkOfDefinition)) usable_ = false;
    if (!usable_) return;
    for (const Strategy& strategy :
         AllowedStrategies(problem, space, definition, rank_count, micro_batch_size,
                           costs.searched_group().sequence_parallel(definition))) {
      entries_[definition].push_back(
          {.strategy = strategy,
           .layout = LayoutIndex(strategy, layouts_),
           .cost = costs.searched_group().CostOfLayer(definition, strategy, micro_batch_size,
                                                      pipeline_parallel_degree_)});
    }
    if (entries_[definition].empty()) usable_ = false;
  }
  if (!usable_) return;
  transitions_.resize(definitions.size());
  for (size_t definition = 0; definition < definitions.size(); ++definition) {
    if (entries_[definition].empty()) continue;
    transitions_[definition].resize(layouts_.size() * layouts_.size());
    for (const TableEntry& entry : entries_[definition]) {
      for (size_t from = 0; from < layouts_.size(); ++from) {
        transitions_[definition][from * layouts_.size() + entry.layout] =
            costs.searched_group().TransitionTime(static_cast<int>(definition), layouts_[from],
                                                  entry.strategy, micro_batch_size);
      }
    }
  }
}

int64_t StageTables::InFlight(int stage_index) const {
  return InFlightMicroBatchCount(schedule_, pipeline_parallel_degree_, stage_index,
                                 micro_batch_count_);
}

Seconds StageTables::Time(const TableEntry& entry, const StageObjective& objective) {
  return (entry.cost.forward + entry.cost.backward) * objective.repeat_count +
         (entry.cost.gradient_sync + entry.cost.optimizer_step) * objective.sync_count;
}

Bytes StageTables::Kept(const TableEntry& entry, int64_t in_flight) {
  return entry.cost.states() + entry.cost.kept_per_micro_batch() * in_flight;
}

std::vector<int> StageTables::DefinitionsOfStage(int first_layer, int layer_count) const {
  std::vector<int> definitions;
  for (int layer = first_layer; layer < first_layer + layer_count; ++layer) {
    const int definition = definition_of_layer_[layer];
    if (std::find(definitions.begin(), definitions.end(), definition) == definitions.end()) {
      definitions.push_back(definition);
    }
  }
  return definitions;
}

StageChoices StageTables::ChoicesOfStage(int first_layer, int layer_count, int stage_index,
                                         const StageObjective& objective) const {
  const std::vector<int> definitions = DefinitionsOfStage(first_layer, layer_count);
  const int64_t in_flight = InFlight(stage_index);
  StageChoices choices;
  choices.layout_count = static_cast<int>(layouts_.size());
  for (int definition : definitions) {
    LayerChoices kind;
    for (const TableEntry& entry : entries_[definition]) {
      kind.options.push_back({.strategy = entry.strategy,
                              .layout = entry.layout,
                              .time = Time(entry, objective),
                              .kept = Kept(entry, in_flight),
                              .transient = entry.cost.transient()});
    }
    for (Seconds transition : transitions_[definition]) {
      kind.transitions.push_back(transition * objective.repeat_count);
    }
    choices.kinds.push_back(std::move(kind));
  }
  for (int layer = first_layer; layer < first_layer + layer_count; ++layer) {
    const auto kind = static_cast<int>(
        std::find(definitions.begin(), definitions.end(), definition_of_layer_[layer]) -
        definitions.begin());
    if (choices.runs.empty() || choices.runs.back().kind != kind) {
      choices.runs.push_back({.kind = kind, .layer_count = 0});
    }
    ++choices.runs.back().layer_count;
  }
  return choices;
}

std::optional<LeastMemory> StageTables::LeastMemoryOfStages(SearchMeter& meter) const {
  PARPLAN_CHECK(usable_);
  LeastMemory memory;
  for (const std::vector<TableEntry>& entries : entries_) {
    for (const TableEntry& entry : entries) memory.caps.push_back(entry.cost.transient());
  }
  std::sort(memory.caps.begin(), memory.caps.end());
  memory.caps.erase(std::unique(memory.caps.begin(), memory.caps.end()), memory.caps.end());
  for (int stage = 0; stage < pipeline_parallel_degree_; ++stage) {
    const int64_t in_flight = InFlight(stage);
    if (stage > 0 && in_flight == InFlight(stage - 1)) {
      memory.kept.push_back(memory.kept.back());
      continue;
    }
    auto of_stage = std::make_shared<LeastMemory::OfStage>();
    for (const std::vector<TableEntry>& entries : entries_) {
      // The least that entries with exactly the transient of a cap keep, then the least up to it.
      std::vector<Bytes> of_kind(memory.caps.size(), Bytes::Max());
      for (const TableEntry& entry : entries) {
        const auto cap =
            std::lower_bound(memory.caps.begin(), memory.caps.end(), entry.cost.transient());
        Bytes& least = of_kind[static_cast<size_t>(cap - memory.caps.begin())];
        least = std::min(least, Kept(entry, in_flight));
      }
      for (size_t cap = 1; cap < of_kind.size(); ++cap) {
        of_kind[cap] = std::min(of_kind[cap], of_kind[cap - 1]);
      }
      of_stage->push_back(std::move(of_kind));
      if (!meter.Work(static_cast<int64_t>(memory.caps.size()))) return std::nullopt;
    }
    memory.kept.push_back(std::move(of_stage));
  }
  return memory;
}

std::vector<Seconds> StageTables::FastestLayerTimes(const StageObjective& objective) const {
  std::vector<Seconds> of_definition(entries_.size(), Seconds::Infinite());
  for (size_t definition = 0; definition < entries_.size(); ++definition) {
    for (const TableEntry& entry : entries_[definition]) {
      of_definition[definition] = std::min(of_definition[definition], Time(entry, objective));
    }
  }
  std::vector<Seconds> times;
  for (int definition : definition_of_layer_) times.push_back(of_definition[definition]);
  return times;
}

}  // namespace parplan
