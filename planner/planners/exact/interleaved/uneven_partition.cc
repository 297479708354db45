#include "planner/planners/exact/interleaved/uneven_partition.h"

#include <algorithm>
#include <utility>

#include "planner/cost/pipeline_schedule.h"
#include "planner/planners/exact/interleaved/interleaved_plan.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// The times of the layers, as sums from the first one.
struct LayerSums {
  std::vector<double> forward = {0.0};
  std::vector<double> backward = {0.0};

  double Of(const std::vector<double>& sums, int first, int count) const {
    return sums[first + count] - sums[first];
  }
};

LayerSums LayerSumsOf(const PipelineSetting& setting, const std::vector<int>& options) {
  LayerSums sums;
  for (int layer = 0; layer < setting.layer_count(); ++layer) {
    const int definition = setting.definition_of(layer);
    const StageOption& option = setting.table().options(definition)[options[definition]];
    sums.forward.push_back(sums.forward.back() + option.forward.value());
    sums.backward.push_back(sums.backward.back() + option.backward.value());
  }
  return sums;
}

// Cuts the layers where the work in front of a virtual stage comes closest to its equal share.
UnevenPartition EqualShares(const LayerSums& sums, int stage_count) {
  const int layer_count = static_cast<int>(sums.forward.size()) - 1;
  const double all = sums.forward.back() + sums.backward.back();
  UnevenPartition partition;
  int first = 0;
  for (int stage = 0; stage + 1 < stage_count; ++stage) {
    const double share = all * (stage + 1) / stage_count;
    // Every stage behind this one needs a layer.
    const int last = layer_count - (stage_count - 1 - stage);
    int end = first + 1;
    const auto distance = [&](int layer) {
      return std::abs(sums.forward[layer] + sums.backward[layer] - share);
    };
    while (end < last && distance(end + 1) <= distance(end)) ++end;
    partition.push_back(end - first);
    first = end;
  }
  partition.push_back(layer_count - first);
  return partition;
}

// The order among devices or virtual stages with equal work.
struct TieOrder {
  bool later_devices_first = false;
  bool later_stages_first = false;
};

// Gives the layers between the first and the last one, all of which count as the mean of their
// times, to devices and their virtual stages.
UnevenPartition EqualLoads(const LayerSums& sums, int device_count, int virtual_stage_count,
                           const TieOrder& order) {
  const int stage_count = device_count * virtual_stage_count;
  const int layer_count = static_cast<int>(sums.forward.size()) - 1;
  const auto time = [&](int first, int count) {
    return sums.Of(sums.forward, first, count) + sums.Of(sums.backward, first, count);
  };
  const double each =
      layer_count > 2 ? time(1, layer_count - 2) / static_cast<double>(layer_count - 2) : 0.0;
  UnevenPartition partition(stage_count, 1);
  std::vector<double> loads(stage_count, each);
  loads.front() = time(0, 1);
  loads.back() = time(layer_count - 1, 1);
  std::vector<double> device_loads(device_count);
  for (int stage = 0; stage < stage_count; ++stage) {
    device_loads[stage % device_count] += loads[stage];
  }
  const auto is_less = [each](double a, double b, bool later_first) {
    const double slack = 1e-9 * each;
    return later_first ? a <= b + slack : a < b - slack;
  };
  for (int left = layer_count - stage_count; left > 0; --left) {
    int device = 0;
    for (int other = 1; other < device_count; ++other) {
      if (is_less(device_loads[other], device_loads[device], order.later_devices_first)) {
        device = other;
      }
    }
    int stage = device;
    for (int other = device; other < stage_count; other += device_count) {
      if (is_less(loads[other], loads[stage], order.later_stages_first)) stage = other;
    }
    ++partition[stage];
    loads[stage] += each;
    device_loads[device] += each;
  }
  return partition;
}

// Stages that are tried to take a layer from, and to give it to. All of a pipeline of so many; of
// larger ones the best, because pairs grow with the square. Not measured for other values.
constexpr size_t kMaxStagesTried = 48;

// Returns the indices of the largest values, in the order of the stages.
std::vector<int> MostOf(const std::vector<double>& values) {
  std::vector<int> indices(values.size());
  for (size_t k = 0; k < indices.size(); ++k) indices[k] = static_cast<int>(k);
  if (indices.size() <= kMaxStagesTried) return indices;
  std::stable_sort(indices.begin(), indices.end(),
                   [&values](int a, int b) { return values[a] > values[b]; });
  indices.resize(kMaxStagesTried);
  std::sort(indices.begin(), indices.end());
  return indices;
}

}  // namespace

Plan UnevenSimulation::PlanOf(const UnevenPartition& partition) const {
  if (choice_ != nullptr) return InterleavedBlockPlan(setting_, partition, *choice_, count_);
  return InterleavedPlan(setting_, partition, options_, group_size_);
}

UnevenScore UnevenSimulation::Score(const UnevenPartition& partition) {
  const PlanScore score = evaluator_.Evaluate(PlanOf(partition));
  const Bytes usable = setting_.problem().usable_memory();
  return {.excess = std::max(Bytes(), score.peak_memory_upper - usable).as_double(),
          .step = score.step.value()};
}

std::vector<double> UnevenSimulation::Excesses(const UnevenPartition& partition) {
  evaluator_.Evaluate(PlanOf(partition));
  std::vector<double> excesses;
  for (int device = 0; device < setting_.depth(); ++device) {
    excesses.push_back(
        (evaluator_.peak_memory_upper(device) - setting_.problem().usable_memory()).as_double());
  }
  return excesses;
}

UnevenSimulation::Path UnevenSimulation::LongestPath(const UnevenPartition& partition) {
  evaluator_.Evaluate(PlanOf(partition));
  const absl::Span<const StageTimes> stages = evaluator_.stage_times();
  const int depth = setting_.depth();
  const auto stage_count = static_cast<int>(stages.size());
  const int64_t micro_batches = setting_.candidate().micro_batch_count;
  const std::vector<PipelineEvent> events =
      PipelineEvents({.schedule = Schedule::kInterleaved,
                      .virtual_stage_count = stage_count / depth,
                      .micro_batch_group_size = group_size_,
                      .blocking_messages = setting_.costs().runtime().blocking_pipeline_messages},
                     stages, micro_batches);
  // [stage][direction][micro-batch] the event, and for each event the one before it on its device.
  std::vector<int> index(events.size());
  const auto place = [&](int stage, bool is_backward, int64_t micro_batch) -> int& {
    return index[(int64_t{stage} * 2 + (is_backward ? 1 : 0)) * micro_batches + micro_batch];
  };
  std::vector<std::vector<int>> of_device(depth);
  for (int k = 0; k < static_cast<int>(events.size()); ++k) {
    const PipelineEvent& event = events[k];
    place(event.stage_index, event.is_backward, event.micro_batch_index) = k;
    of_device[event.stage_index % depth].push_back(k);
  }
  std::vector<int> before(events.size(), -1);
  int last = 0;
  double latest = -1.0;
  for (std::vector<int>& list : of_device) {
    std::stable_sort(list.begin(), list.end(),
                     [&](int a, int b) { return events[a].start < events[b].start; });
    double sync = 0.0;
    for (size_t k = 1; k < list.size(); ++k) before[list[k]] = list[k - 1];
    for (int stage = events[list.front()].stage_index % depth; stage < stage_count;
         stage += depth) {
      sync += stages[stage].gradient_sync.value();
    }
    const double end = events[list.back()].end.value() + sync;
    if (end > latest) {
      latest = end;
      last = list.back();
    }
  }
  Path path{std::vector<double>(stage_count), std::vector<double>(stage_count)};
  while (last >= 0) {
    const PipelineEvent& event = events[last];
    const int stage = event.stage_index;
    (event.is_backward ? path.backward : path.forward)[stage] += 1.0;
    // The event waits for the last of these to end.
    int cause = before[last];
    double arrival = cause < 0 ? 0.0 : events[cause].end.value();
    const auto consider = [&](int other, double send) {
      const double end = events[other].end.value() + send;
      if (end <= arrival) return;
      arrival = end;
      cause = other;
    };
    if (!event.is_backward && stage > 0) {
      consider(place(stage - 1, false, event.micro_batch_index), stages[stage - 1].send.value());
    }
    if (event.is_backward && stage + 1 < stage_count) {
      consider(place(stage + 1, true, event.micro_batch_index), stages[stage].send.value());
    }
    last = cause;
  }
  return path;
}

std::vector<UnevenPartition> FirstPartitions(const PipelineSetting& setting,
                                             const std::vector<int>& options,
                                             int virtual_stage_count) {
  const LayerSums sums = LayerSumsOf(setting, options);
  std::vector<UnevenPartition> partitions;
  const auto add = [&partitions](UnevenPartition partition) {
    if (std::find(partitions.begin(), partitions.end(), partition) != partitions.end()) return;
    partitions.push_back(std::move(partition));
  };
  for (const bool later_devices : {true, false}) {
    for (const bool later_stages : {true, false}) {
      add(EqualLoads(sums, setting.depth(), virtual_stage_count, {later_devices, later_stages}));
    }
  }
  add(EqualShares(sums, setting.depth() * virtual_stage_count));
  return partitions;
}

std::vector<UnevenPartition> NeighboursOf(const PipelineSetting& setting,
                                          const std::vector<int>& options,
                                          const UnevenPartition& partition,
                                          const UnevenScore& score, UnevenSimulation& simulation) {
  struct Move {
    double gain = 0.0;
    int from = 0;
    int to = 0;
  };
  const auto stage_count = static_cast<int>(partition.size());
  const int depth = setting.depth();
  std::vector<Move> moves;
  // Tries the pairs of the stages that are best to take from and to give to, by one number each.
  const auto add_where = [&](const std::vector<double>& take, const std::vector<double>& give,
                             const auto& gain_of) {
    const std::vector<int> givers = MostOf(give);
    for (const int from : MostOf(take)) {
      if (partition[from] < 2) continue;
      for (const int to : givers) {
        const double gain = from == to ? 0.0 : gain_of(from, to);
        if (gain > 0.0) moves.push_back({gain, from, to});
      }
    }
  };
  if (score.excess > 0.0) {
    const std::vector<double> excesses = simulation.Excesses(partition);
    const double fullest = *std::max_element(excesses.begin(), excesses.end());
    // Earlier virtual stages of a device keep more micro-batches.
    std::vector<double> take(stage_count), give(stage_count);
    for (int stage = 0; stage < stage_count; ++stage) {
      take[stage] = partition[stage] < 2 ? -kInfinity : excesses[stage % depth] - stage * 1e-3;
      give[stage] = stage * 1e-3 - excesses[stage % depth];
    }
    add_where(take, give, [&](int from, int to) {
      if (excesses[from % depth] < fullest) return 0.0;
      const double relief = excesses[from % depth] - excesses[to % depth];
      return relief > 0.0 || to > from ? relief + (to - from) * 1e-3 : 0.0;
    });
  } else {
    const LayerSums sums = LayerSumsOf(setting, options);
    const UnevenSimulation::Path path = simulation.LongestPath(partition);
    const auto layer_time = [&](int stage, int layer) {
      return path.forward[stage] * sums.Of(sums.forward, layer, 1) +
             path.backward[stage] * sums.Of(sums.backward, layer, 1);
    };
    // [stage] how much shorter the path gets if each boundary in front of the stage moves by a
    // layer towards the front, and if each moves towards the end. The change for two stages,
    // between which all boundaries move, is a difference.
    std::vector<double> to_front(stage_count), to_end(stage_count);
    int first = 0;
    for (int stage = 1; stage < stage_count; ++stage) {
      first += partition[stage - 1];
      to_front[stage] =
          to_front[stage - 1] + layer_time(stage - 1, first - 1) - layer_time(stage, first - 1);
      to_end[stage] = to_end[stage - 1] + layer_time(stage, first) - layer_time(stage - 1, first);
    }
    std::vector<double> take(stage_count), give(stage_count);
    const auto add_direction = [&](const std::vector<double>& sum, bool forward) {
      for (int stage = 0; stage < stage_count; ++stage) {
        const double value = forward ? sum[stage] : -sum[stage];
        take[stage] = partition[stage] < 2 ? -kInfinity : -value;
        give[stage] = value;
      }
      add_where(take, give, [&](int from, int to) {
        if ((from < to) != forward) return 0.0;
        const double gain = forward ? sum[to] - sum[from] : sum[from] - sum[to];
        return gain > score.step * 1e-12 ? gain : 0.0;
      });
    };
    add_direction(to_front, /*forward=*/true);
    add_direction(to_end, /*forward=*/false);
  }
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& a, const Move& b) { return a.gain > b.gain; });
  std::vector<UnevenPartition> neighbours;
  // Those of the largest gains: the others hardly ever lead further, and each takes a simulation.
  // Not measured for other values.
  constexpr size_t kMaxNeighbours = 40;
  for (const Move& move : moves) {
    if (neighbours.size() == kMaxNeighbours) break;
    UnevenPartition& neighbour = neighbours.emplace_back(partition);
    --neighbour[move.from];
    ++neighbour[move.to];
  }
  return neighbours;
}

}  // namespace parplan
