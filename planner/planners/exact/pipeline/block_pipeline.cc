#include "planner/planners/exact/pipeline/block_pipeline.h"

#include <algorithm>
#include <utility>

#include "planner/cost/rank_memory.h"
#include "planner/planners/exact/pipeline/mask_search.h"
#include "planner/planners/exact/pipeline/stage_mix.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/space/layout_classes.h"

namespace parplan {
namespace {

// Halvings of the interval in which the least step of a number of recomputed layers is sought: the
// search of partitions begins there, and a thousandth of the interval is about its first window.
constexpr int kCountHalvings = 10;

// Returns a step, in seconds, below which `bound` allows no plan of `count` recomputed layers.
// REQUIRES: it allows one below `cutoff`.
double LeastOfCount(const BlockBound& bound, int count, double lower, double cutoff) {
  double least = lower;
  double most = cutoff;
  for (int halving = 0; halving < kCountHalvings && most < kInfinity; ++halving) {
    const double middle = 0.5 * (least + most);
    (bound.AllowsCount(count, middle) ? most : least) = middle;
  }
  return least;
}

}  // namespace

BlockRule::BlockRule(const PipelineSetting& setting, const BlockChoice& choice)
    : setting_(setting),
      choice_(choice),
      whole_(choice.whole.size()),
      recomputed_(choice.whole.size()) {
  const GroupCosts& group = setting.costs().searched_group();
  const auto memory_of = [&](int definition, int option) {
    return group
        .CostOfLayer(definition, setting.table().options(definition)[option].strategy,
                     setting.table().micro_batch_size(), setting.depth())
        .memory;
  };
  for (int definition = 0; definition < static_cast<int>(choice.whole.size()); ++definition) {
    if (choice.whole[definition] < 0) continue;
    whole_[definition] = memory_of(definition, choice.whole[definition]);
    if (choice.recomputed[definition] < 0) continue;
    recomputed_[definition] = memory_of(definition, choice.recomputed[definition]);
  }
}

void BlockRule::SetCount(int count) {
  count_ = count;
  fronts_.clear();
}

bool BlockRule::Fits(int stage, int first_layer, const std::vector<int>& options) const {
  const PlanningProblem& problem = setting_.problem();
  const int depth = setting_.depth();
  StageMemory memory;
  RankPlace place{.schedule = setting_.candidate().schedule,
                  .pipeline_parallel_degree = depth,
                  .stage_index = stage,
                  .micro_batch_count = setting_.candidate().micro_batch_count};
  const int layer_count = static_cast<int>(options.size());
  for (int begin = 0; begin < layer_count;) {
    const int definition = setting_.definition_of(first_layer + begin);
    int end = begin + 1;
    while (end < layer_count && setting_.definition_of(first_layer + end) == definition &&
           options[end] == options[begin]) {
      ++end;
    }
    const bool is_recomputed = options[begin] == choice_.recomputed[definition];
    memory.Add((is_recomputed ? recomputed_ : whole_)[definition], end - begin);
    place.communicator_count =
        std::max(place.communicator_count,
                 setting_.table().options(definition)[options[begin]].communicator_count);
    begin = end;
  }
  place.communicator_count += setting_.stage(stage).extra_communicator_count;
  const GroupCosts& group = setting_.costs().searched_group();
  const StageMemory* const stages[] = {&memory};
  const RankMemory rank =
      MemoryOfRank(stages, place, setting_.costs().runtime(), group.memory_coefficients());
  const Bytes upper = group.overheads().Upper(group.overheads().DeviceMemory(
      rank.tensor_bound, depth, problem.device_count() / depth, place.communicator_count));
  return std::max(upper, rank.total.Total()) <= problem.usable_memory();
}

const StageFront& BlockRule::Front(int stage, int first_layer, int end_layer) {
  const auto [found, is_new] = fronts_.try_emplace({stage, first_layer, end_layer});
  if (!is_new) return found->second;
  StageChoice choice;
  choice.options = BlockOptions(setting_, choice_, count_, first_layer, end_layer);
  if (!Fits(stage, first_layer, choice.options)) return found->second;
  SumTimes(setting_.table(), setting_.RunsOf(first_layer, end_layer), choice);
  found->second.choices.push_back(std::move(choice));
  return found->second;
}

double BlockPipelineBound(const PipelineSetting& setting, const BlockChoice& choice,
                          PlanEvaluator& evaluator, double cutoff, SearchMeter& meter) {
  const OptionMask mask = MaskOf(setting.table(), choice);
  LayoutClasses classes(setting.problem().model(), setting.table());
  return MaskSearch(setting, mask, classes, evaluator, meter).LowerBound(cutoff);
}

double SearchBlockPipeline(const PipelineSetting& setting, const BlockChoice& choice,
                           const BlockBound& bound, PlanEvaluator& evaluator, double cutoff,
                           int wanted, PlanList& plans, bool& is_exact, SearchMeter& meter) {
  const OptionMask mask = MaskOf(setting.table(), choice);
  LayoutClasses classes(setting.problem().model(), setting.table());
  BlockRule rule(setting, choice);
  MaskSearch search(setting, mask, classes, evaluator, meter, &rule);
  const double lower = search.LowerBound(cutoff);
  const double overhead = setting.costs().step_overhead().value();
  const auto batch = static_cast<double>(setting.candidate().global_batch_size);
  double least = cutoff;
  const int most = BlockLayerCount(setting, 0, setting.layer_count());
  for (int count = 1; count <= most; ++count) {
    if (meter.stopped()) {
      is_exact = false;
      return std::min(least, lower);
    }
    if (lower >= cutoff) break;
    if (!bound.AllowsCount(count, cutoff)) continue;
    rule.SetCount(count);
    const double start = std::max(lower, LeastOfCount(bound, count, lower, cutoff));
    least = std::min(least, search.SearchRule(start, cutoff, wanted, plans, is_exact));
    cutoff = std::min(cutoff, (plans.CutoffPerSample() * batch).value() - overhead);
  }
  return least;
}

}  // namespace parplan
