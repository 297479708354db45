#include "planner/search/stage/suffix_costs.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Returns [from * layout count + to] the least half moves from one layout to another, possibly
// through others.
std::vector<double> ShortestHalfResharding(const TickStage& stage, int kind) {
  const int count = stage.layout_count;
  std::vector<double> resharding(static_cast<size_t>(count) * count, kInfinity);
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      const int64_t move = from == to ? 0 : stage.half_resharding[kind][from * count + to];
      if (move < TickStage::kNever) resharding[from * count + to] = static_cast<double>(move);
    }
  }
  for (int by = 0; by < count; ++by) {
    for (int from = 0; from < count; ++from) {
      for (int to = 0; to < count; ++to) {
        double& move = resharding[from * count + to];
        move = std::min(move, resharding[from * count + by] + resharding[by * count + to]);
      }
    }
  }
  return resharding;
}

// Returns [begin * layout count + end] a lower bound of the cost of a run that begins and ends with
// these layouts: its first and last layer cost at least as much as the cheapest option of their
// layouts, all others at least as much as the cheapest layout the run visits, and it must move
// there and on.
std::vector<double> RunCosts(const FrontCase& front_case, const FrontRun& run, size_t cut_index) {
  const PricedCut& cut = front_case.cuts[cut_index];
  const int count = front_case.stage->layout_count;
  const double resharding_weight = cut.cut.forward + cut.cut.backward;
  std::vector<double> least(count, kInfinity);
  for (const auto& option : front_case.options[run.kind]) {
    least[option.layout] = std::min(least[option.layout], cut.Cost(option.cost));
  }
  std::vector<double> costs(static_cast<size_t>(count) * count, kInfinity);
  if (run.layer_count == 1) {
    for (int layout = 0; layout < count; ++layout) costs[layout * count + layout] = least[layout];
    return costs;
  }
  const std::vector<double> resharding = ShortestHalfResharding(*front_case.stage, run.kind);
  for (int begin = 0; begin < count; ++begin) {
    for (int end = 0; end < count; ++end) {
      double& cost = costs[begin * count + end];
      for (int by = 0; by < count; ++by) {
        if (!(least[by] < kInfinity)) continue;
        cost = std::min(cost, least[begin] + least[end] + least[by] * (run.layer_count - 2) +
                                  resharding_weight * (resharding[begin * count + by] +
                                                       resharding[by * count + end]));
      }
    }
  }
  return costs;
}

}  // namespace

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
      const std::vector<double> run_costs = RunCosts(front_case, runs[run + 1], index);
      const std::vector<int64_t>& resharding = stage.half_resharding[runs[run + 1].kind];
      std::fill_n(costs, layout_count, kInfinity);
      for (int begin = 0; begin < layout_count; ++begin) {
        double from_begin = kInfinity;
        for (int end = 0; end < layout_count; ++end) {
          from_begin = std::min(from_begin, run_costs[begin * layout_count + end] + suffix[end]);
        }
        if (!(from_begin < kInfinity)) continue;
        for (int layout = 0; layout < layout_count; ++layout) {
          const int64_t move = resharding[layout * layout_count + begin];
          if (move >= TickStage::kNever) continue;
          const double moved = (cut.cut.forward + cut.cut.backward) * static_cast<double>(move);
          costs[layout] = std::min(costs[layout], moved + from_begin);
        }
      }
    }
  }
}

}  // namespace parplan
