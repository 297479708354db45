#include "planner/search/stage/suffix_costs.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Returns [begin] the least cost of a run that begins with the layout and of the layers after it,
// where `suffix` is [end] the cost of these after a run that ends with the layout. The first and
// last layer of the run cost at least as much as the cheapest option of their layouts, all others
// at least as much as the cheapest layout the run visits, and it must move there and on.
std::vector<double> CostsFromRun(const FrontCase& front_case, const FrontRun& run, size_t cut_index,
                                 const double* suffix) {
  const PricedCut& cut = front_case.cuts[cut_index];
  const int count = front_case.stage->layout_count;
  std::vector<double> least(count, kInfinity);
  for (const auto& option : front_case.options[run.kind]) {
    least[option.layout] = std::min(least[option.layout], cut.Cost(option.cost));
  }
  std::vector<double> costs(count, kInfinity);
  if (run.layer_count == 1) {
    for (int layout = 0; layout < count; ++layout) costs[layout] = least[layout] + suffix[layout];
    return costs;
  }
  const double weight = cut.cut.forward + cut.cut.backward;
  const std::vector<double>& resharding = front_case.stage->shortest_half_resharding[run.kind];
  for (int by = 0; by < count; ++by) {
    if (!(least[by] < kInfinity)) continue;
    double onward = kInfinity;
    for (int end = 0; end < count; ++end) {
      onward = std::min(onward, weight * resharding[by * count + end] + least[end] + suffix[end]);
    }
    onward += least[by] * (run.layer_count - 2);
    for (int begin = 0; begin < count; ++begin) {
      costs[begin] =
          std::min(costs[begin], least[begin] + weight * resharding[begin * count + by] + onward);
    }
  }
  return costs;
}

}  // namespace

std::vector<double> ShortestHalfResharding(absl::Span<const int64_t> half_resharding,
                                           int layout_count, absl::Span<const int> layouts) {
  const auto move_of = [&](int from, int to) {
    const int64_t move = from == to ? 0 : half_resharding[from * layout_count + to];
    return move < TickStage::kNever ? static_cast<double>(move) : kInfinity;
  };
  // [place] its layouts. A move to a place that takes no time joins it only if the way back does
  // not either, and if it leads to all layouts of the place that are known by then, so that each
  // pair of them is apart by nothing.
  std::vector<std::vector<int>> places;
  std::vector<char> is_known(layout_count, 0);
  for (const int layout : layouts) {
    if (is_known[layout]) continue;
    is_known[layout] = 1;
    const auto place = std::find_if(places.begin(), places.end(), [&](const auto& others) {
      return std::all_of(others.begin(), others.end(), [&](int other) {
        return move_of(layout, other) == 0.0 && move_of(other, layout) == 0.0;
      });
    });
    if (place == places.end()) {
      places.push_back({layout});
    } else {
      place->push_back(layout);
    }
  }
  const size_t count = places.size();
  // [from * count + to] between places.
  std::vector<double> least(count * count, kInfinity);
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      double& move = least[from * count + to];
      for (const int a : places[from]) {
        for (const int b : places[to]) move = std::min(move, move_of(a, b));
      }
    }
  }
  for (size_t by = 0; by < count; ++by) {
    for (size_t from = 0; from < count; ++from) {
      const double there = least[from * count + by];
      if (!(there < kInfinity)) continue;
      for (size_t to = 0; to < count; ++to) {
        double& move = least[from * count + to];
        move = std::min(move, there + least[by * count + to]);
      }
    }
  }
  std::vector<double> resharding(static_cast<size_t>(layout_count) * layout_count, kInfinity);
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      for (const int a : places[from]) {
        for (const int b : places[to]) resharding[a * layout_count + b] = least[from * count + to];
      }
    }
  }
  return resharding;
}

void AddSuffixCostsByLayout(FrontCase& front_case) {
  const TickStage& stage = *front_case.stage;
  const std::vector<FrontRun>& runs = stage.runs;
  const size_t cut_count = front_case.cuts.size();
  const int layout_count = stage.layout_count;
  front_case.suffix_cost_of_layout.assign(runs.size() * cut_count * layout_count, 0.0);
  for (size_t run = runs.size(); run-- > 0;) {
    for (size_t index = 0; index < cut_count; ++index) {
      const PricedCut& cut = front_case.cuts[index];
      double* const costs =
          &front_case.suffix_cost_of_layout[(run * cut_count + index) * layout_count];
      if (run + 1 == runs.size()) {
        std::fill_n(costs, layout_count, front_case.suffix[run * cut_count + index].cost);
        continue;
      }
      const double* const suffix = costs + cut_count * layout_count;
      const std::vector<double> from_run = CostsFromRun(front_case, runs[run + 1], index, suffix);
      const std::vector<int64_t>& resharding = stage.half_resharding[runs[run + 1].kind];
      std::fill_n(costs, layout_count, kInfinity);
      for (int begin = 0; begin < layout_count; ++begin) {
        if (!(from_run[begin] < kInfinity)) continue;
        for (int layout = 0; layout < layout_count; ++layout) {
          const int64_t move = resharding[layout * layout_count + begin];
          if (move >= TickStage::kNever) continue;
          const double moved = (cut.cut.forward + cut.cut.backward) * static_cast<double>(move);
          costs[layout] = std::min(costs[layout], moved + from_run[begin]);
        }
      }
    }
  }
}

}  // namespace parplan
