#include "planner/search/memory/smallest_memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/search/memory/interleaved_memory.h"
#include "planner/search/memory/memory_options.h"
#include "planner/search/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {
namespace {

// A stage's layers use options that need no more than so much while they run, and no more
// communicators.
struct CapClass {
  Bytes transient;
  int communicator_count = 0;
};

// A run of layers in the place of a stage: which options do, and how far it reaches.
struct StageReach {
  int end_layer = 0;
  int cap_class = -1;
};

// The plans of one table under 1F1B with one mask. GPipe keeps all micro-batches where 1F1B
// keeps as many as there are stages behind, and all else alike, so it never needs less.
class PipelineMemory {
 public:
  PipelineMemory(const PipelineSetting& setting, const OptionMask& mask)
      : setting_(setting), lean_(LeanOptions(setting.problem().model(), setting.table(), mask)) {
    for (const ModelLayerRun& run : setting.problem().model().layer_runs()) {
      if (lean_[run.definition_index].empty()) is_usable_ = false;
    }
    if (!is_usable_) return;
    ListClasses();
    for (int i = 0; i < setting.depth(); ++i) {
      const int64_t in_flight = setting.stage(i).in_flight;
      if (least_.find(in_flight) == least_.end()) least_[in_flight] = LeastOf(in_flight);
    }
  }

  // Whether some partition fits into `usable` on every device.
  bool Fits(Bytes usable) const {
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

  // One that does. REQUIRES: Fits(usable).
  Plan PlanWithin(Bytes usable) const {
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

 private:
  static constexpr Bytes kNever = Bytes::Of(std::numeric_limits<int64_t>::max() / 4);

  BudgetByCommunicators BudgetsFor(Bytes usable) const {
    return BudgetsOf(setting_.costs().overheads(), usable, setting_.depth(),
                     setting_.problem().device_count() / setting_.depth(),
                     static_cast<int>(setting_.budget().size()) - 1);
  }

  void ListClasses() {
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

  static Bytes Kept(const StageOption& option, int64_t in_flight) {
    return option.states + option.kept * in_flight;
  }

  int LeastOption(int64_t in_flight, int cap_class, int definition) const {
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

  // [class][definition]
  std::vector<std::vector<Bytes>> LeastOf(int64_t in_flight) const {
    std::vector<std::vector<Bytes>> least(classes_.size(),
                                          std::vector<Bytes>(lean_.size(), kNever));
    for (size_t cap = 0; cap < classes_.size(); ++cap) {
      for (size_t definition = 0; definition < lean_.size(); ++definition) {
        const int option =
            LeastOption(in_flight, static_cast<int>(cap), static_cast<int>(definition));
        if (option < 0) continue;
        least[cap][definition] =
            Kept(setting_.table().options(static_cast<int>(definition))[option], in_flight);
      }
    }
    return least;
  }

  // The most layers from `first_layer` on that fit in the stage, and the class with which.
  // Later stages keep less, so what fits here leaves them least to do.
  StageReach ReachOfStage(int stage_index, int first_layer,
                          const BudgetByCommunicators& budget) const {
    const PipelineSetting::Stage& stage = setting_.stage(stage_index);
    const std::vector<std::vector<Bytes>>& least = least_.at(stage.in_flight);
    // Every stage behind has a layer.
    const int last = setting_.layer_count() - (setting_.depth() - 1 - stage_index);
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
        const int fits =
            left < each ? 0
            : each == Bytes()
                ? run
                : static_cast<int>(std::min<int64_t>(run, left.count() / each.count()));
        layer += fits;
        left -= each * fits;
        if (fits < run) break;
      }
      if (wanted > 0 && layer >= wanted) layer = wanted;
      const bool is_enough = wanted > 0 ? layer == wanted : layer > first_layer;
      if (is_enough && layer > best.end_layer) best = {layer, cap};
    }
    return best;
  }

  const PipelineSetting& setting_;
  const std::vector<std::vector<int>> lean_;
  bool is_usable_ = true;
  std::vector<CapClass> classes_;
  // By micro-batches in flight.
  std::map<int64_t, std::vector<std::vector<Bytes>>> least_;
};

// Micro-batches of one size need least when there are fewest of them.
std::vector<PipelineCandidate> SmallestCandidates(const StrategySpace& space, Schedule schedule) {
  std::map<std::pair<int, int64_t>, PipelineCandidate> smallest;
  for (int64_t batch : space.problem().GlobalBatchSizes()) {
    for (int depth : space.PipelineDegrees()) {
      for (int64_t count : space.MicroBatchCounts(batch)) {
        if (count > kMaxForwardPassCount / depth) continue;
        if (schedule == Schedule::kInterleaved && (depth == 1 || count % depth != 0)) continue;
        const PipelineCandidate candidate{.global_batch_size = batch,
                                          .micro_batch_count = count,
                                          .pipeline_parallel_degree = depth,
                                          .schedule = schedule};
        auto [found, is_new] = smallest.emplace(std::pair(depth, batch / count), candidate);
        if (!is_new && count < found->second.micro_batch_count) found->second = candidate;
      }
    }
  }
  std::vector<PipelineCandidate> candidates;
  for (const auto& [key, candidate] : smallest) candidates.push_back(candidate);
  return candidates;
}

// Whether ends follow the layers beside them while these may differ: which neighbours a
// stage has then is no matter of sums.
bool BindsNeighbours(const StrategySpace& space) {
  return space.dimensions().has(SearchDimension::kPerLayer) &&
         !space.dimensions().has(SearchDimension::kEndStrategies);
}

// Masks of which all plans are in the space: one for all strategies of the same degrees,
// order and sharding.
std::vector<OptionMask> MasksOfLikeStrategies(const OptionTable& table, const OptionMask& mask) {
  const auto key = [](Strategy strategy) {
    strategy.recompute_level = RecomputeLevel::kNone;
    strategy.sequence_parallel = false;
    strategy.expert_parallel_degree = 1;
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

// The schedule a plan without interleaving has when memory is all that counts; nothing
// when the rules ask for another kind.
std::optional<Schedule> LeanSchedule(const StrategySpace& space) {
  const std::optional<Schedule> wanted = space.problem().rules().schedule;
  if (wanted == Schedule::kInterleaved) return std::nullopt;
  return wanted.value_or(Schedule::kOneForwardOneBackward);
}

class MemorySearch {
 public:
  MemorySearch(const StrategySpace& space, const CostModel& costs, SearchMeter& meter)
      : space_(space), costs_(costs), meter_(meter) {}

  // The least memory.
  std::optional<SmallestMemory> Run() {
    Look(std::nullopt);
    return Answer();
  }

  // Whether some plan needs no more than `enough`; absent where that was not settled.
  std::optional<bool> Fits(Bytes enough) {
    best_ = enough + Bytes::Of(1);
    Look(enough);
    if (plan_.has_value()) return true;
    if (meter_.stopped() || refused_ || BindsNeighbours(space_) || !SumsAreWhole()) {
      return std::nullopt;
    }
    return false;
  }

 private:
  void Look(std::optional<Bytes> enough) {
    if (const std::optional<Schedule> schedule = LeanSchedule(space_)) {
      for (const PipelineCandidate& candidate : SmallestCandidates(space_, *schedule)) {
        if (!meter_.Expand(1)) break;
        const OptionTable table(space_.problem(), costs_, space_,
                                candidate.pipeline_parallel_degree,
                                candidate.global_batch_size / candidate.micro_batch_count);
        if (!table.usable()) continue;
        Search(candidate, table, enough);
        if (enough.has_value() && plan_.has_value()) return;
      }
    }
    for (const PipelineCandidate& candidate : SmallestCandidates(space_, Schedule::kInterleaved)) {
      if (!meter_.Expand(1)) break;
      if (InterleavedPartitions(space_, candidate.pipeline_parallel_degree).empty()) continue;
      const OptionTable table(space_.problem(), costs_, space_, candidate.pipeline_parallel_degree,
                              candidate.global_batch_size / candidate.micro_batch_count);
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

  // What is not in the sums of lean options.
  void NoteSums(const OptionTable& table) {
    for (const ModelLayerRun& run : space_.problem().model().layer_runs()) {
      for (const StageOption& option : table.options(run.definition_index)) {
        if (option.step > Bytes() || option.bucket > Bytes()) has_step_ = true;
      }
    }
    if (costs_.runtime().keep_stage_outputs) has_step_ = true;
  }
  // The sums of stages are never more than what a plan needs; interleaved plans are
  // compared as they are, and those that sums hide are not looked at.
  bool SumsAreWhole() const { return !has_interleaved_ || !has_step_; }

  void Search(const PipelineCandidate& candidate, const OptionTable& table,
              std::optional<Bytes> enough) {
    const PipelineSetting setting(space_, costs_, table, candidate,
                                  space_.problem().usable_memory());
    std::vector<OptionMask> masks = PlanWideMasks(space_, table);
    if (BindsNeighbours(space_)) {
      std::vector<OptionMask> split;
      for (const OptionMask& mask : masks) {
        for (OptionMask& like : MasksOfLikeStrategies(table, mask))
          split.push_back(std::move(like));
      }
      masks = std::move(split);
    }
    for (const OptionMask& mask : masks) {
      const PipelineMemory memory(setting, mask);
      Bytes fits = best_ - Bytes::Of(1);
      if (!memory.Fits(fits)) continue;
      if (!enough.has_value()) {
        Bytes too_small;
        while (fits - too_small > Bytes::Of(1)) {
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

  // With what a device holds besides what was counted: outputs that are kept, the
  // optimizer's step.
  Bytes Needed(const Plan& plan) const {
    return PlanEvaluator(space_.problem(), costs_).Evaluate(plan).peak_memory_upper;
  }

  std::optional<SmallestMemory> Answer() const {
    if (!plan_.has_value()) return std::nullopt;
    SmallestMemory answer{.usable_memory = best_, .plan = *plan_};
    const Bytes needed = Needed(answer.plan);
    answer.is_proved =
        !meter_.stopped() && needed <= best_ && !BindsNeighbours(space_) && SumsAreWhole();
    answer.usable_memory = std::max(answer.usable_memory, needed);
    return answer;
  }

  const StrategySpace& space_;
  const CostModel& costs_;
  SearchMeter& meter_;
  // More than any device has, and sums of it still fit.
  Bytes best_ = Bytes::Of(int64_t{1} << 61);
  std::optional<Plan> plan_;
  // A plan whose sums fit needs more.
  bool refused_ = false;
  bool has_interleaved_ = false;
  bool has_step_ = false;
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

std::optional<int> FindSmallestDeviceCount(const PlanningProblem& problem, SearchMeter& meter) {
  const NodeGroup& group = problem.node_group();
  for (int nodes = 1; nodes <= group.node_count + kMostNodesTried; ++nodes) {
    const int64_t count = int64_t{group.devices_per_node} * nodes;
    if (count > kMaxDeviceCount || !meter.Ask()) return std::nullopt;
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
