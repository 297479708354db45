#include "planner/planners/exact/memory/smallest_memory.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/model/strategy_fields.h"
#include "planner/planners/exact/interleaved/group_sizes.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/uneven_bound.h"
#include "planner/planners/exact/memory/interleaved_memory.h"
#include "planner/planners/exact/memory/pipeline_memory.h"
#include "planner/planners/exact/pipeline/block_bound.h"
#include "planner/planners/exact/pipeline/block_choice.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say whether the new field follows from the layer");

// Returns candidates with the fewest micro-batches of each size, which need the least memory; those
// with groups of another size than the pipeline degree, the smallest there is, are counted apart.
std::vector<PipelineCandidate> SmallestCandidates(const StrategySpace& space, Schedule schedule) {
  std::map<std::tuple<int, int64_t, bool>, PipelineCandidate> smallest;
  for (int64_t batch : space.problem().GlobalBatchSizes()) {
    for (int depth : space.PipelineDegrees()) {
      for (int64_t count : space.MicroBatchCounts(batch)) {
        if (count > kMaxForwardPassCount / depth) continue;
        if (TraitsOf(schedule).has_virtual_stages && depth == 1) continue;
        PipelineCandidate candidate{.global_batch_size = batch,
                                    .micro_batch_count = count,
                                    .pipeline_parallel_degree = depth,
                                    .schedule = schedule};
        if (TraitsOf(schedule).needs_whole_groups && count % depth != 0) {
          if (!HasGroupSizes(space, depth, count)) continue;
          candidate.micro_batch_group_size = GroupSizesOf(space, depth, count).tried.front();
        }
        const std::tuple key(depth, batch / count, candidate.micro_batch_group_size > 0);
        auto [found, is_new] = smallest.emplace(key, candidate);
        if (!is_new && count < found->second.micro_batch_count) found->second = candidate;
      }
    }
  }
  std::vector<PipelineCandidate> candidates;
  for (const auto& [key, candidate] : smallest) candidates.push_back(candidate);
  return candidates;
}

// Returns whether end layers follow their neighbours while these may differ. In that case the
// neighbours of a stage cannot be read off sums over layers.
bool BindsNeighbours(const StrategySpace& space) {
  return space.dimensions().has(SearchDimension::kPerLayer) &&
         !space.dimensions().has(SearchDimension::kEndStrategies);
}

// Returns masks all of whose plans are in the space: one for all strategies of the same degrees,
// rank order and sharding.
std::vector<OptionMask> MasksOfLikeStrategies(const OptionTable& table, const OptionMask& mask) {
  const auto key = [](Strategy strategy) {
    strategy.set_recomputation(RecomputeLevel::kNone);
    strategy.sequence_parallel = false;
    strategy.expert_parallel_degree = 1;
    strategy.expert_tensor_parallel_degree = 0;
    return strategy;
  };
  std::map<Strategy, OptionMask> masks;
  for (size_t definition = 0; definition < mask.size(); ++definition) {
    const std::vector<StageOption>& options = table.options(static_cast<int>(definition));
    for (size_t index = 0; index < mask[definition].size(); ++index) {
      if (!mask[definition][index]) continue;
      OptionMask& like = masks[key(options[index].strategy)];
      if (like.empty()) {
        for (const std::vector<char>& flags : mask) like.emplace_back(flags.size(), 0);
      }
      like[definition][index] = 1;
    }
  }
  std::vector<OptionMask> split;
  for (auto& [strategy, like] : masks) split.push_back(std::move(like));
  return split;
}

// Returns the schedule of the plan with the least memory, without interleaving; nothing if the
// rules ask for another one.
std::optional<Schedule> LeanSchedule(const StrategySpace& space) {
  const Schedule schedule = space.problem().rules().schedule.value_or(kDefaultSchedule);
  if (TraitsOf(schedule).has_virtual_stages) return std::nullopt;
  return schedule;
}

class MemorySearch {
 public:
  MemorySearch(const StrategySpace& space, const CostModel& costs, SearchMeter& meter)
      : space_(space), costs_(costs), meter_(meter) {}

  // Returns the least memory.
  std::optional<SmallestMemory> Run() {
    Look(std::nullopt);
    return Answer();
  }

  // Returns the first plan found that needs no more than `enough`.
  FittingPlan FirstWithin(Bytes enough) {
    const std::optional<bool> fits = Fits(enough);
    return {.plan = plan_, .none_fits = fits == false};
  }

  // Returns whether some plan needs no more than `enough`; nothing if undecided.
  std::optional<bool> Fits(Bytes enough) {
    best_ = enough + Bytes::Of(1);
    Look(enough);
    if (plan_.has_value()) return true;
    if (meter_.stopped() || refused_ || BindsNeighbours(space_) || !SumsAreWhole() ||
        BlocksMayFit(enough)) {
      return std::nullopt;
    }
    return false;
  }

 private:
  void Look(std::optional<Bytes> enough) {
    if (const std::optional<Schedule> schedule = LeanSchedule(space_)) {
      for (const PipelineCandidate& candidate : SmallestCandidates(space_, *schedule)) {
        if (!GoesOn()) break;
        const OptionTable table(space_.problem(), costs_, space_,
                                candidate.pipeline_parallel_degree,
                                candidate.global_batch_size / candidate.micro_batch_count,
                                OptionTable::Keeps::kUndominated, must_stop_);
        if (!table.usable()) continue;
        Search(candidate, table, enough);
        if (enough.has_value() && plan_.has_value()) return;
      }
    }
    for (const PipelineCandidate& candidate : SmallestCandidates(space_, Schedule::kInterleaved)) {
      if (!GoesOn()) break;
      const InterleavedPartitions partitions =
          InterleavedPartitionsOf(space_, candidate.pipeline_parallel_degree);
      if (partitions.empty()) continue;
      const bool has_groups = space_.dimensions().has(SearchDimension::kGroupSize);
      if ((has_groups || !partitions.unlisted.empty()) && !IsLeanestByOneStage()) {
        has_unlisted_ = true;
      }
      const OptionTable table(space_.problem(), costs_, space_, candidate.pipeline_parallel_degree,
                              candidate.global_batch_size / candidate.micro_batch_count,
                              OptionTable::Keeps::kUndominated, must_stop_);
      if (!table.usable()) continue;
      has_interleaved_ = true;
      NoteSums(table);
      std::optional<SmallestMemory> found =
          SmallestInterleavedMemory(space_, costs_, table, candidate, best_, meter_);
      if (found.has_value()) {
        best_ = found->usable_memory;
        plan_ = std::move(found->plan);
      }
      if (enough.has_value() && plan_.has_value()) return;
    }
  }

  // Counts a candidate. A table takes long enough that each asks whether to go on.
  bool GoesOn() { return meter_.Expand(1) && meter_.ShouldContinue(); }

  // Notes whether the table has memory that sums of lean options do not include.
  void NoteSums(const OptionTable& table) {
    for (const ModelLayerRun& run : space_.problem().model().layer_runs()) {
      for (const StageOption& option : table.options(run.definition_index)) {
        if (option.step > Bytes() || option.bucket > Bytes()) has_step_ = true;
      }
    }
    if (costs_.runtime().keep_stage_outputs) has_step_ = true;
  }
  // Returns whether the sums are lower bounds of what plans need, for all plans. Interleaved plans
  // are compared as they are, and those that sums hide are not looked at.
  bool SumsAreWhole() const { return !has_unlisted_ && (!has_interleaved_ || !has_step_); }

  // Returns whether for each interleaved plan there is one of a stage a device that needs no more
  // memory: it holds as many equal layers on each device, and fewer micro-batches of them.
  bool IsLeanestByOneStage() const {
    return LeanSchedule(space_).has_value() &&
           UnevenBound(space_.problem().model(), 1).is_uniform();
  }

  // Returns whether plans with block recomputation, which are not looked at, may need no more than
  // `usable`. With one definition of transformer layers they need no less than those that recompute
  // all layers: each device that has such layers recomputes one of them.
  bool BlocksMayFit(Bytes usable) const {
    if (!AllowsBlocks(space_.dimensions())) return false;
    const std::vector<LayerDefinition>& definitions = space_.problem().model().layer_definitions();
    const auto is_transformer = [](const LayerDefinition& layer) {
      return IsTransformer(layer.kind);
    };
    if (std::count_if(definitions.begin(), definitions.end(), is_transformer) < 2) return false;
    for (const Schedule schedule :
         {LeanSchedule(space_).value_or(Schedule::kInterleaved), Schedule::kInterleaved}) {
      for (const PipelineCandidate& candidate : SmallestCandidates(space_, schedule)) {
        if (!meter_.Expand(1) || !meter_.ShouldContinue()) return true;
        if (SomeBlocksMayFit(candidate, usable)) return true;
      }
    }
    return false;
  }

  bool SomeBlocksMayFit(const PipelineCandidate& candidate, Bytes usable) const {
    const int depth = candidate.pipeline_parallel_degree;
    const bool interleaves = TraitsOf(candidate.schedule).has_virtual_stages;
    if (interleaves && InterleavedPartitionsOf(space_, depth).empty()) return false;
    const OptionTable table(space_.problem(), costs_, space_, depth,
                            candidate.global_batch_size / candidate.micro_batch_count,
                            OptionTable::Keeps::kAll, must_stop_);
    if (!table.is_complete()) return true;
    if (!table.usable()) return false;
    PipelineCandidate place = candidate;
    if (interleaves) place.schedule = kDefaultSchedule;
    const PipelineSetting setting(space_, costs_, table, place, usable);
    const int most = interleaves ? std::max(2, space_.problem().model().layer_count() / depth) : 1;
    for (const BlockChoice& choice : BlockChoicesOf(space_, table)) {
      const BlockBound bound(setting, choice, std::min(most, 2), most);
      if (bound.Bound(std::numeric_limits<double>::infinity()) <
          std::numeric_limits<double>::infinity()) {
        return true;
      }
    }
    return false;
  }

  void Search(const PipelineCandidate& candidate, const OptionTable& table,
              std::optional<Bytes> enough) {
    const PipelineSetting setting(space_, costs_, table, candidate,
                                  space_.problem().usable_memory());
    std::vector<OptionMask> masks =
        PlanWideMasks(space_, table, /*keeps=*/nullptr, meter_.Worker());
    if (BindsNeighbours(space_)) {
      std::vector<OptionMask> split;
      for (const OptionMask& mask : masks) {
        for (OptionMask& like : MasksOfLikeStrategies(table, mask))
          split.push_back(std::move(like));
      }
      masks = std::move(split);
    }
    for (const OptionMask& mask : masks) {
      // There can be one for each strategy. The first plan is made whatever the limits say, unless
      // the search has to end while its tables of sums are made.
      if (plan_.has_value() && !meter_.ShouldContinue()) return;
      const PipelineMemory memory(setting, mask, meter_.Worker());
      Bytes fits = best_ - Bytes::Of(1);
      if (!memory.Fits(fits)) {
        if (meter_.stopped()) return;
        continue;
      }
      if (!enough.has_value()) {
        // A power of two times what there is comes near, so that a search that must end has an
        // answer within a factor of two.
        Bytes too_small;
        for (Bytes guess = space_.problem().usable_memory(); guess < fits; guess = guess * 2) {
          if (memory.Fits(guess)) {
            fits = guess;
          } else {
            too_small = guess;
          }
        }
        while (fits - too_small > Bytes::Of(1) && meter_.ShouldContinue()) {
          const Bytes middle = Bytes::Of((fits.count() + too_small.count()) / 2);
          (memory.Fits(middle) ? fits : too_small) = middle;
        }
      }
      Plan plan = memory.PlanWithin(fits);
      if (enough.has_value() && Needed(plan) > *enough) {
        refused_ = true;
        continue;
      }
      best_ = fits;
      plan_ = std::move(plan);
      if (enough.has_value()) return;
    }
  }

  // Returns the memory of a plan including kept outputs and the optimizer's step.
  Bytes Needed(const Plan& plan) const {
    return PlanEvaluator(space_.problem(), costs_).Evaluate(plan).peak_memory_upper;
  }

  std::optional<SmallestMemory> Answer() const {
    if (!plan_.has_value()) return std::nullopt;
    SmallestMemory answer{.usable_memory = best_, .plan = *plan_};
    const Bytes needed = Needed(answer.plan);
    answer.is_proved = !meter_.stopped() && needed <= best_ && !BindsNeighbours(space_) &&
                       SumsAreWhole() && !BlocksMayFit(best_ - Bytes::Of(1));
    answer.usable_memory = std::max(answer.usable_memory, needed);
    return answer;
  }

  const StrategySpace& space_;
  const CostModel& costs_;
  SearchMeter& meter_;
  const std::function<bool()> must_stop_ = [this] { return !meter_.ShouldContinue(); };
  // More than any device has, while sums of it still fit int64_t.
  Bytes best_ = Bytes::Of(int64_t{1} << 61);
  std::optional<Plan> plan_;
  // Whether a plan whose sums fit needs more memory after all.
  bool refused_ = false;
  bool has_interleaved_ = false;
  bool has_step_ = false;
  // Whether interleaved plans that were not looked at may need less memory.
  bool has_unlisted_ = false;
};

}  // namespace

std::optional<SmallestMemory> FindSmallestMemory(const StrategySpace& space, const CostModel& costs,
                                                 SearchMeter& meter) {
  return MemorySearch(space, costs, meter).Run();
}

std::optional<bool> AnyPlanFits(const StrategySpace& space, const CostModel& costs,
                                SearchMeter& meter) {
  return MemorySearch(space, costs, meter).Fits(space.problem().usable_memory());
}

FittingPlan FindPlanThatFits(const StrategySpace& space, const CostModel& costs,
                             SearchMeter& meter) {
  return MemorySearch(space, costs, meter).FirstWithin(space.problem().usable_memory());
}

std::optional<int> FindSmallestDeviceCount(const PlanningProblem& problem, SearchMeter& meter) {
  const NodeGroup& group = problem.node_group(kSearchedGroup);
  for (int nodes = 1; nodes <= group.node_count + kMaxNodesTried; ++nodes) {
    const int64_t count = int64_t{group.devices_per_node} * nodes;
    if (count > kMaxDeviceCount || !meter.ShouldContinue()) return std::nullopt;
    const PlanningProblem other = problem.WithNodeCount(nodes);
    const absl::StatusOr<CostModel> costs = CostModel::Create(other);
    if (!costs.ok()) return std::nullopt;
    const std::optional<bool> fits = AnyPlanFits(StrategySpace(other, *costs), *costs, meter);
    if (!fits.has_value()) return std::nullopt;
    if (*fits) return static_cast<int>(count);
  }
  return std::nullopt;
}

}  // namespace parplan
