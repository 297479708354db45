#include "planner/planners/exact/block_search.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <queue>
#include <tuple>

#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/interleaved/block_stages.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/pipeline/block_bound.h"
#include "planner/planners/exact/pipeline/block_pipeline.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/priced_search.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Limits of one search, times its effort, above which the rest keeps its bound: pairs that get the
// better bound, pairs that are searched, and plans of virtual stages that are simulated. Chosen by
// hand so that a question of thousands of devices takes about a second; not measured for other
// values.
constexpr int64_t kMaxBounded = 2'000;
constexpr int64_t kMaxSearched = 256;
constexpr int64_t kMaxLooks = 1'024;
// Plans of virtual stages that are simulated for one pair, so that the first pairs leave some of
// `kMaxLooks` to others. Not measured for other values.
constexpr int64_t kMaxLooksOfPair = 192;
// States of the search of one pair, and of all together; a state is a stage of a partition, or a
// join of one with those after it. Pairs that would exceed them keep their bound. Not measured for
// other values.
constexpr int64_t kMaxStatesOfPair = 2'000'000;
constexpr int64_t kMaxBlockStates = 8'000'000;

bool HasVirtualStages(const PipelineCandidate& candidate) {
  return TraitsOf(candidate.schedule).has_virtual_stages;
}

// Returns a setting of which only the parts that do not depend on the schedule are used if it is
// interleaved.
PipelineSetting BlockSettingOf(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, PipelineCandidate candidate,
                               Bytes usable) {
  if (HasVirtualStages(candidate)) candidate.schedule = kDefaultSchedule;
  return {space, costs, table, candidate, usable};
}

// The numbers of virtual stages a device that a candidate may have.
struct VirtualStages {
  int fewest = 1;
  int most = 1;
};

std::optional<VirtualStages> VirtualStagesOf(const StrategySpace& space,
                                             const PipelineCandidate& candidate) {
  if (!HasVirtualStages(candidate)) return VirtualStages();
  const InterleavedPartitions partitions =
      InterleavedPartitionsOf(space, candidate.pipeline_parallel_degree);
  if (partitions.empty()) return std::nullopt;
  VirtualStages stages = {space.problem().model().layer_count(), 2};
  const auto add = [&stages](int count) {
    stages.fewest = std::min(stages.fewest, count);
    stages.most = std::max(stages.most, count);
  };
  for (const InterleavedPartition& partition : partitions.listed) {
    add(partition.virtual_stage_count);
  }
  for (const int count : partitions.unlisted) add(count);
  return stages;
}

// A candidate with a choice of options.
struct Pair {
  const PipelineCandidate* candidate = nullptr;
  const BlockTables::Entry* entry = nullptr;
  size_t choice = 0;
  // Lower bound of the time per sample.
  double bound = 0.0;
  // Whether the bound is that of the stages of a pipeline.
  bool is_bounded = false;
};

// Orders pairs by bound, the least first; of equal ones in the order of the listing.
struct LaterPair {
  bool operator()(const std::pair<size_t, Pair>& a, const std::pair<size_t, Pair>& b) const {
    return std::tuple(a.second.bound, a.first) > std::tuple(b.second.bound, b.first);
  }
};

class BlockSearch {
 public:
  BlockSearch(const StrategySpace& space, const CostModel& costs, BlockTables& tables, int wanted,
              double gap_ratio, PlanList& plans, SearchMeter& meter)
      : space_(space),
        costs_(costs),
        tables_(tables),
        wanted_(wanted),
        closing_factor_(1.0 - std::max(gap_ratio, kProofTolerance)),
        plans_(plans),
        meter_(meter),
        evaluator_(space.problem(), costs),
        looks_left_(kMaxLooks * meter.effort()),
        states_left_(kMaxBlockStates * meter.effort()),
        overhead_(costs.step_overhead().value()) {}

  Seconds Run() {
    LeastTimesMemo memo;
    const CandidateList list = ListCandidates(space_, costs_, meter_, memo);
    if (!list.complete) return Seconds();
    for (const ExactCandidate& candidate : list.candidates) {
      // Candidates come in the order of these bounds, which hold without recomputation too.
      if (candidate.bound_per_sample().value() >= Cutoff()) {
        Leave(candidate.bound_per_sample().value());
        break;
      }
      if (!meter_.ShouldContinue()) return Seconds();
      AddPairs(candidate.pipeline);
    }
    // The pairs of the last candidate may be missing.
    if (meter_.stopped()) return Seconds();
    int64_t bounded = 0;
    int64_t searched = 0;
    while (!pairs_.empty()) {
      auto [index, pair] = pairs_.top();
      if (pair.bound >= Cutoff() || !meter_.ShouldContinue() ||
          bounded == kMaxBounded * meter_.effort() || searched == kMaxSearched * meter_.effort() ||
          states_left_ <= 0) {
        Leave(pair.bound);
        break;
      }
      pairs_.pop();
      if (!pair.is_bounded) {
        ++bounded;
        Bound(pair);
        pairs_.emplace(index, pair);
        continue;
      }
      ++searched;
      Search(pair);
    }
    return Seconds::Of(least_);
  }

 private:
  // Returns the time per sample that a plan must stay below.
  double Cutoff() const { return plans_.CutoffPerSample().value() * closing_factor_; }
  // Returns the step, in seconds and without its overhead, beyond which a bound need not go.
  double Enough(const PipelineCandidate& candidate) const {
    return plans_.CutoffPerSample().value() * BatchOf(candidate) - overhead_;
  }

  // Counts the states of a part.
  void Count(const SearchMeter& part) {
    states_left_ -= part.expanded_state_count();
    meter_.Add(part);
  }

  // Notes the bound of plans that are not looked at further.
  void Leave(double bound) { least_ = std::min(least_, bound); }

  PipelineSetting SettingOfPair(const Pair& pair) const {
    return BlockSettingOf(space_, costs_, pair.entry->table, *pair.candidate,
                          space_.problem().usable_memory());
  }

  static double BatchOf(const PipelineCandidate& candidate) {
    return static_cast<double>(candidate.global_batch_size);
  }

  void AddPairs(const PipelineCandidate& candidate) {
    const std::optional<VirtualStages> stages = VirtualStagesOf(space_, candidate);
    if (!stages.has_value()) return;
    const BlockTables::Entry& entry = tables_.Of(space_, costs_, candidate, meter_);
    if (!entry.table.usable() || entry.choices.empty()) return;
    kept_.push_back(std::make_unique<const PipelineCandidate>(candidate));
    const PipelineSetting setting =
        BlockSettingOf(space_, costs_, entry.table, candidate, space_.problem().usable_memory());
    if (!setting.has_partition() && !HasVirtualStages(candidate)) return;
    const double batch = BatchOf(candidate);
    meter_.Expand(static_cast<int64_t>(entry.choices.size()));
    for (size_t choice = 0; choice < entry.choices.size(); ++choice) {
      const BlockBound quick(setting, entry.choices[choice], stages->fewest, stages->most);
      const double bound = (quick.Bound(Enough(candidate)) + overhead_) / batch;
      if (bound >= Cutoff()) {
        Leave(bound);
        meter_.Prune(1);
        continue;
      }
      // Virtual stages have no better bound over all partitions.
      pairs_.emplace(pairs_.size(),
                     Pair{kept_.back().get(), &entry, choice, bound, !HasPipelineBound(candidate)});
    }
  }

  // Returns whether the partitions of a candidate are searched as those of a pipeline.
  bool HasPipelineBound(const PipelineCandidate& candidate) const {
    return !HasVirtualStages(candidate) && (candidate.pipeline_parallel_degree == 1 ||
                                            space_.problem().model().layer_count() < kManyLayers);
  }

  void Bound(Pair& pair) {
    const PipelineSetting setting = SettingOfPair(pair);
    const SearchControl control = meter_.PartOf(std::min(kMaxStatesOfPair, states_left_));
    SearchMeter part(control);
    const double batch = BatchOf(*pair.candidate);
    const double bound = BlockPipelineBound(setting, pair.entry->choices[pair.choice], evaluator_,
                                            Enough(*pair.candidate), part);
    if (!part.stopped()) pair.bound = std::max(pair.bound, (bound + overhead_) / batch);
    Count(part);
    pair.is_bounded = true;
  }

  void Search(const Pair& pair) {
    const PipelineSetting setting = SettingOfPair(pair);
    const BlockChoice& choice = pair.entry->choices[pair.choice];
    const PipelineCandidate& candidate = *pair.candidate;
    const double batch = BatchOf(candidate);
    const SearchControl control = meter_.PartOf(std::min(kMaxStatesOfPair, states_left_));
    SearchMeter part(control);
    double bound = kInfinity;
    if (HasPipelineBound(candidate)) {
      const BlockBound quick(setting, choice, 1, 1);
      bool is_exact = true;
      bound = (SearchBlockPipeline(setting, choice, quick, evaluator_, Enough(candidate), wanted_,
                                   plans_, is_exact, part) +
               overhead_) /
              batch;
    } else {
      InterleavedPartitions partitions;
      if (HasVirtualStages(candidate)) {
        partitions = InterleavedPartitionsOf(space_, candidate.pipeline_parallel_degree);
      } else if (setting.fixed_boundaries().empty()) {
        partitions.unlisted = {1};
      } else {
        InterleavedPartition& even = partitions.listed.emplace_back();
        even.virtual_stage_count = 1;
        for (int stage = 0; stage < setting.depth(); ++stage) {
          even.layer_counts.push_back(setting.fixed_boundaries()[stage + 1] -
                                      setting.fixed_boundaries()[stage]);
        }
      }
      int64_t looks = std::min(looks_left_, kMaxLooksOfPair * meter_.effort());
      looks_left_ -= looks;
      bound =
          SearchBlockStages(setting, choice, partitions, evaluator_, plans_, looks, part).value() /
          batch;
      looks_left_ += std::max<int64_t>(looks, 0);
    }
    if (part.stopped()) bound = std::min(bound, pair.bound);
    Count(part);
    Leave(std::max(bound, pair.bound));
  }

  const StrategySpace& space_;
  const CostModel& costs_;
  BlockTables& tables_;
  const int wanted_;
  // Share of the cutoff at which a bound closes a pair.
  const double closing_factor_;
  PlanList& plans_;
  SearchMeter& meter_;
  PlanEvaluator evaluator_;
  int64_t looks_left_;
  int64_t states_left_;
  const double overhead_;
  std::vector<std::unique_ptr<const PipelineCandidate>> kept_;
  std::priority_queue<std::pair<size_t, Pair>, std::vector<std::pair<size_t, Pair>>, LaterPair>
      pairs_;
  double least_ = kInfinity;
};

}  // namespace

const BlockTables::Entry& BlockTables::Of(const StrategySpace& space, const CostModel& costs,
                                          const PipelineCandidate& candidate, SearchMeter& meter) {
  const TableCache::Key key = TableCache::KeyOf(candidate);
  std::unique_ptr<const Entry>& entry = entries_[key];
  if (entry != nullptr) return *entry;
  auto made = std::make_unique<Entry>(OptionTable(space.problem(), costs, space, key.first,
                                                  key.second, OptionTable::Keeps::kAll,
                                                  [&meter] { return !meter.ShouldContinue(); }));
  if (made->table.usable()) {
    made->choices = UndominatedBlocks(made->table, BlockChoicesOf(space, made->table));
  }
  entry = std::move(made);
  return *entry;
}

Seconds SearchBlocks(const StrategySpace& space, const CostModel& costs, BlockTables& tables,
                     int wanted, double gap_ratio, PlanList& plans, SearchMeter& meter) {
  if (!AllowsBlocks(space.dimensions()) || meter.stopped()) {
    return AllowsBlocks(space.dimensions()) ? Seconds() : Seconds::Infinite();
  }
  return BlockSearch(space, costs, tables, wanted, gap_ratio, plans, meter).Run();
}

}  // namespace parplan
