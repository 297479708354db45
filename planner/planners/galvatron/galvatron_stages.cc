#include "planner/planners/galvatron/galvatron_stages.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "planner/cost/rank_memory.h"

namespace parplan {
namespace {

bool Recomputes(const GalvatronOption& option) {
  return std::any_of(option.strategies.begin(), option.strategies.end(), [](const Strategy& each) {
    return each.recompute_level != RecomputeLevel::kNone;
  });
}

}  // namespace

GalvatronStages::GalvatronStages(const PlanningProblem& problem, const CostModel& costs,
                                 const GalvatronTables& tables, Schedule schedule,
                                 int64_t micro_batch_count, SearchMeter& meter)
    : problem_(problem),
      costs_(costs),
      tables_(tables),
      schedule_(schedule),
      micro_batch_count_(micro_batch_count),
      meter_(meter) {}

int64_t GalvatronStages::UnitsFor(Bytes bytes) const {
  const int64_t granule = problem_.rules().memory_granule.count();
  return (bytes.count() + granule - 1) / granule;
}

int64_t GalvatronStages::UnitsWithin(Bytes bytes) const {
  return bytes.count() >= 0 ? bytes.count() / problem_.rules().memory_granule.count()
                            : -UnitsFor(Bytes() - bytes);
}

int64_t GalvatronStages::InFlight(int stage_index) const {
  return InFlightMicroBatchCount(schedule_, tables_.pipeline_parallel_degree(), stage_index,
                                 micro_batch_count_);
}

Seconds GalvatronStages::TimeOf(const GalvatronOption& option) const {
  return option.micro_batch * static_cast<double>(micro_batch_count_) + option.once;
}

Bytes GalvatronStages::Kept(const GalvatronOption& option, int stage_index) const {
  return option.states + option.kept * InFlight(stage_index);
}

const GalvatronOption& GalvatronStages::Option(int unit, int option) const {
  return tables_.kinds()[tables_.kind_of_unit()[unit]].options[option];
}

int GalvatronStages::CommunicatorsAt(int stage_index, int communicator_count) const {
  const int depth = tables_.pipeline_parallel_degree();
  const ModelSpec& model = problem_.model();
  const bool is_edge = stage_index == 0 || stage_index + 1 == depth;
  const bool ties = model.layer(model.layer_count() - 1).tied_embedding;
  return communicator_count + (ties && is_edge && depth > 1 ? 1 : 0);
}

// Returns the peak as `PlanEvaluator` computes it.
Bytes GalvatronStages::PeakOf(int first_unit, const std::vector<int>& options,
                              int stage_index) const {
  const int depth = tables_.pipeline_parallel_degree();
  StageMemory memory;
  RankPlace place = {.schedule = schedule_,
                     .pipeline_parallel_degree = depth,
                     .stage_index = stage_index,
                     .micro_batch_count = micro_batch_count_};
  for (size_t index = 0; index < options.size(); ++index) {
    const GalvatronOption& option = Option(first_unit + static_cast<int>(index), options[index]);
    for (size_t layer = 0; layer < option.costs.size(); ++layer) {
      memory.Add(option.costs[layer].memory, 1);
      place.communicator_count =
          std::max(place.communicator_count, CommunicatorCount(option.strategies[layer], depth,
                                                               /*has_tied_table_elsewhere=*/false));
    }
  }
  place.communicator_count = CommunicatorsAt(stage_index, place.communicator_count);
  const StageMemory* const stage = &memory;
  const RankMemory rank = MemoryOfRank(absl::MakeConstSpan(&stage, 1), place, costs_.runtime(),
                                       costs_.searched_group().memory_coefficients());
  const MemoryOverheads& overheads = costs_.searched_group().overheads();
  const Bytes upper = overheads.Upper(overheads.DeviceMemory(
      rank.tensor_bound, depth, problem_.device_count() / depth, place.communicator_count));
  return std::max(upper, rank.total.Total());
}

DenseStage GalvatronStages::DenseOf(int first_unit, int unit_count, int stage_index) const {
  const auto m = static_cast<double>(micro_batch_count_);
  DenseStage stage;
  stage.layout_count = tables_.layout_count();
  for (const GalvatronKind& kind : tables_.kinds()) {
    DenseKind dense;
    for (const GalvatronOption& option : kind.options) {
      dense.options.push_back({.layout = option.layout,
                               .time = TimeOf(option),
                               .units = UnitsFor(Kept(option, stage_index))});
    }
    for (Seconds transition : kind.transitions) dense.transitions.push_back(transition * m);
    stage.kinds.push_back(std::move(dense));
  }
  const auto begin = tables_.kind_of_unit().begin() + first_unit;
  stage.kind_of_layer.assign(begin, begin + unit_count);
  return stage;
}

std::optional<GalvatronStage> GalvatronStages::SolveNew(int first_unit, int unit_count,
                                                        int stage_index) {
  const int depth = tables_.pipeline_parallel_degree();
  // Some unit needs at least the least of its transients, and no unit more than the most (b_up);
  // the programme cannot use that part of the budget.
  Bytes least_transient, max_transient;
  for (int unit = first_unit; unit < first_unit + unit_count; ++unit) {
    const GalvatronKind& kind = tables_.kinds()[tables_.kind_of_unit()[unit]];
    Bytes least = Bytes::Max();
    for (const GalvatronOption& option : kind.options) {
      least = std::min(least, option.transient);
      max_transient = std::max(max_transient, option.transient);
    }
    least_transient = std::max(least_transient, least);
  }
  const Bytes budget = costs_.searched_group().overheads().TensorBudget(
      problem_.usable_memory(), depth, problem_.device_count() / depth);
  const int64_t largest = UnitsWithin(budget - least_transient);
  const int64_t least = std::min(largest, UnitsWithin(budget - max_transient));
  const DenseStage dense = DenseOf(first_unit, unit_count, stage_index);
  // Below b_up everything fits, except for what a runtime keeps in addition to layers.
  for (const auto& [lowest, highest] :
       {std::pair(least, largest), std::pair<int64_t, int64_t>(0, least - 1)}) {
    if (highest < lowest) continue;
    DenseAssignment programme(dense, lowest, highest, meter_);
    if (!programme.complete()) return std::nullopt;
    for (int64_t capacity = highest; capacity >= lowest;) {
      if (!meter_.Expand(unit_count)) return std::nullopt;
      std::optional<DenseSolution> solution = programme.At(capacity);
      if (!solution) return std::nullopt;
      const Bytes peak = PeakOf(first_unit, solution->options, stage_index);
      if (peak <= problem_.usable_memory()) {
        return GalvatronStage{std::move(solution->options), solution->time, peak};
      }
      // Down to the units it uses, the answer is the same.
      capacity = solution->units - 1;
    }
  }
  return std::nullopt;
}

const GalvatronStage* GalvatronStages::Solve(int first_unit, int unit_count, int stage_index) {
  std::vector<std::pair<int, int>> runs;
  for (int unit = first_unit; unit < first_unit + unit_count; ++unit) {
    const int kind = tables_.kind_of_unit()[unit];
    if (runs.empty() || runs.back().first != kind) runs.push_back({kind, 0});
    ++runs.back().second;
  }
  Key key(InFlight(stage_index), stage_index == 0,
          stage_index + 1 == tables_.pipeline_parallel_degree(), std::move(runs));
  auto found = solved_.find(key);
  if (found == solved_.end()) {
    found = solved_.emplace(std::move(key), SolveNew(first_unit, unit_count, stage_index)).first;
  }
  return found->second ? &*found->second : nullptr;
}

std::vector<Bytes> GalvatronStages::LeastKept(int stage_index) const {
  std::vector<Bytes> of_kind;
  for (const GalvatronKind& kind : tables_.kinds()) {
    Bytes least = Bytes::Max();
    for (const GalvatronOption& option : kind.options) {
      least = std::min(least, Kept(option, stage_index));
    }
    of_kind.push_back(least);
  }
  std::vector<Bytes> of_unit;
  for (int kind : tables_.kind_of_unit()) of_unit.push_back(of_kind[kind]);
  return of_unit;
}

std::optional<LeastMemory> GalvatronStages::LeastMemoryOfStages(bool with_recompute) const {
  return MemoryOfStages([&](const GalvatronOption& option, int stage) -> std::optional<Rank> {
    if (!with_recompute && Recomputes(option)) return std::nullopt;
    return Rank(Seconds(), Kept(option, stage));
  });
}

std::optional<LeastMemory> GalvatronStages::MemoryAtFastest() const {
  return MemoryOfStages([&](const GalvatronOption& option, int stage) -> std::optional<Rank> {
    return Rank(TimeOf(option), Kept(option, stage));
  });
}

std::optional<LeastMemory> GalvatronStages::MemoryOfStages(
    const std::function<std::optional<Rank>(const GalvatronOption& option, int stage)>& rank_of)
    const {
  LeastMemory memory;
  for (const GalvatronKind& kind : tables_.kinds()) {
    for (const GalvatronOption& option : kind.options) memory.caps.push_back(option.transient);
  }
  std::sort(memory.caps.begin(), memory.caps.end());
  memory.caps.erase(std::unique(memory.caps.begin(), memory.caps.end()), memory.caps.end());
  const auto cap_count = static_cast<int64_t>(memory.caps.size());
  for (int stage = 0; stage < tables_.pipeline_parallel_degree(); ++stage) {
    if (stage > 0 && InFlight(stage) == InFlight(stage - 1)) {
      memory.kept.push_back(memory.kept.back());
      continue;
    }
    auto of_stage = std::make_shared<LeastMemory::OfStage>();
    for (const GalvatronKind& kind : tables_.kinds()) {
      // The first of the options with exactly the transient of a cap, then the first up to it.
      std::vector<Rank> first(memory.caps.size(), Rank(Seconds::Infinite(), Bytes::Max()));
      for (const GalvatronOption& option : kind.options) {
        const auto cap = std::lower_bound(memory.caps.begin(), memory.caps.end(), option.transient);
        Rank& known = first[static_cast<size_t>(cap - memory.caps.begin())];
        if (const std::optional<Rank> rank = rank_of(option, stage)) known = std::min(known, *rank);
      }
      std::vector<Bytes>& of_kind = of_stage->emplace_back();
      for (size_t cap = 0; cap < first.size(); ++cap) {
        if (cap > 0) first[cap] = std::min(first[cap], first[cap - 1]);
        of_kind.push_back(first[cap].second);
      }
      if (!meter_.Work(2 * cap_count)) return std::nullopt;
    }
    memory.kept.push_back(std::move(of_stage));
  }
  return memory;
}

Bytes GalvatronStages::LeastPeak(int first_unit, int unit_count, int stage_index) const {
  const std::vector<Bytes> kept = LeastKept(stage_index);
  Bytes tensors;
  Bytes transient;
  for (int unit = first_unit; unit < first_unit + unit_count; ++unit) {
    tensors += kept[unit];
    Bytes least = Bytes::Max();
    for (const GalvatronOption& option : tables_.kinds()[tables_.kind_of_unit()[unit]].options) {
      least = std::min(least, option.transient);
    }
    transient = std::max(transient, least);
  }
  const int depth = tables_.pipeline_parallel_degree();
  const MemoryOverheads& overheads = costs_.searched_group().overheads();
  return overheads.Upper(
      overheads.DeviceMemory(tensors + transient, depth, problem_.device_count() / depth));
}

std::vector<Seconds> GalvatronStages::FastestTimes() const {
  std::vector<Seconds> of_unit;
  for (int kind : tables_.kind_of_unit()) {
    Seconds least = Seconds::Infinite();
    for (const GalvatronOption& option : tables_.kinds()[kind].options) {
      least = std::min(least, TimeOf(option));
    }
    of_unit.push_back(least);
  }
  return of_unit;
}

Plan GalvatronStages::PlanOf(const Partition& partition, int64_t global_batch_size,
                             const std::vector<const GalvatronStage*>& stages) const {
  const std::vector<int>& definition_of_layer = problem_.model().definition_of_layer();
  Plan plan{.device_count = problem_.device_count(),
            .global_batch_size = global_batch_size,
            .micro_batch_count = micro_batch_count_,
            .schedule = schedule_};
  const int rank_count = plan.device_count / tables_.pipeline_parallel_degree();
  int unit = 0, layer = 0;
  for (size_t index = 0; index < partition.size(); ++index) {
    StagePlan stage{.first_rank = static_cast<int>(index) * rank_count, .rank_count = rank_count};
    for (int option_index : stages[index]->options) {
      for (const Strategy& strategy : Option(unit, option_index).strategies) {
        const bool continues = !stage.layer_runs.empty() &&
                               definition_of_layer[layer - 1] == definition_of_layer[layer] &&
                               stage.layer_runs.back().strategy == strategy;
        if (!continues) {
          stage.layer_runs.push_back(
              {.first_layer_index = layer, .layer_count = 0, .strategy = strategy});
        }
        ++stage.layer_runs.back().layer_count;
        ++layer;
      }
      ++unit;
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace parplan
