#include "planner/planners/exact/interleaved/block_stages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/model/in_flight.h"
#include "planner/planners/exact/interleaved/interleaved_paths.h"
#include "planner/planners/exact/interleaved/uneven_partition.h"
#include "planner/planners/exact/pipeline/block_bound.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Numbers of virtual stages of one candidate and choice whose first partitions are simulated, and
// the plans simulated to improve one of them. Not measured for other values.
constexpr size_t kMaxBlockLeaves = 4;
constexpr int kMaxBlockLooks = 64;
// First partitions are improved if they are slower than the cutoff by less than this factor, as in
// uneven_search.cc.
constexpr double kBlockHope = 1.03;
// States that a simulated plan counts on the meter, as in uneven_search.cc.
constexpr int64_t kStatesOfBlockLook = 64;
// More recomputed layers tried where memory sums say that a plan fits and the allocator's reserve
// does not. Each is a simulation. Not measured for other numbers.
constexpr int kMaxBlockRetries = 3;

// The plans of one candidate and choice.
class BlockStages {
 public:
  BlockStages(const PipelineSetting& setting, const BlockChoice& choice, PlanEvaluator& evaluator,
              PlanList& plans, int64_t& looks_left, SearchMeter& meter)
      : setting_(setting),
        choice_(choice),
        evaluator_(evaluator),
        simulation_(setting, choice, evaluator),
        plans_(plans),
        looks_left_(looks_left),
        meter_(meter),
        definition_count_(static_cast<int>(choice.whole.size())) {
    AddTimes();
    for (int layer = 0; layer < setting.layer_count(); ++layer) {
      const LayerDefinition& definition = setting.problem().model().layer(layer);
      if (IsTransformer(definition.kind) && !IsRecomputedInBlocks(definition)) leaves_some_ = true;
    }
  }

  // Looks at one partition with all numbers of recomputed layers.
  void SearchListed(const std::vector<int>& partition) {
    const int most = MostCount(partition);
    for (int count = 1; count <= most; ++count) {
      const double bound = PathBound(partition, count);
      // More recomputation takes longer, unless it hides synchronisation.
      if (bound >= Cutoff()) {
        if (hides_sync_) continue;
        return;
      }
      if (!MayFit(partition, count)) continue;
      if (looks_left_ <= 0 || !meter_.ShouldContinue()) {
        least_unseen_ = std::min(least_unseen_, bound);
        return;
      }
      const UnevenScore score = Look(partition, count);
      if (score.excess <= 0.0 && !hides_sync_) return;
    }
  }

  // Searches all partitions into these numbers of virtual stages.
  void SearchUnlisted(const std::vector<int>& virtual_stage_counts) {
    struct Leaf {
      int virtual_stage_count = 2;
      double bound = 0.0;
    };
    std::vector<Leaf> leaves;
    const double overhead = setting_.costs().step_overhead().value();
    for (const int count : virtual_stage_counts) {
      if (!FitsPassLimit(setting_.candidate().micro_batch_count, count * setting_.depth())) break;
      const double bound =
          BlockBound(setting_, choice_, count, count).Bound(Cutoff() - overhead) + overhead;
      if (bound < Cutoff()) leaves.push_back({count, bound});
    }
    std::stable_sort(leaves.begin(), leaves.end(),
                     [](const Leaf& a, const Leaf& b) { return a.bound < b.bound; });
    // No more is proved about them.
    const double least = leaves.empty() ? kInfinity : leaves.front().bound;
    if (leaves.size() > kMaxBlockLeaves) leaves.resize(kMaxBlockLeaves);
    for (const Leaf& leaf : leaves) {
      if (leaf.bound >= Cutoff()) break;
      SearchLeaf(leaf.virtual_stage_count);
    }
    if (least < Cutoff()) least_unseen_ = std::min(least_unseen_, least);
  }

  Seconds least_unseen() const { return Seconds::Of(least_unseen_); }

 private:
  // A partition with the number of layers that each stage recomputes.
  struct Placed {
    UnevenPartition partition;
    int count = 0;
    UnevenScore score;
  };

  const StageOption& OptionOf(int definition, int option) const {
    return setting_.table().options(definition)[option];
  }

  // Returns the step, in seconds, that a plan must stay below.
  double Cutoff() const {
    const auto batch = static_cast<double>(setting_.candidate().global_batch_size);
    return (plans_.CutoffPerSample() * batch).value() * (1.0 - kProofTolerance);
  }

  void AddTimes() {
    const auto size = static_cast<size_t>(definition_count_) * 2;
    times_ = {std::vector<double>(size), std::vector<double>(size), std::vector<double>(size)};
    const auto set = [&](size_t place, const StageOption& option) {
      times_.forward[place] = option.forward.value();
      times_.forward_backward[place] = (option.forward + option.backward).value();
      times_.sync[place] = option.sync.value();
    };
    for (int definition = 0; definition < definition_count_; ++definition) {
      if (choice_.whole[definition] < 0) continue;
      const StageOption& whole = OptionOf(definition, choice_.whole[definition]);
      set(definition, whole);
      if (choice_.recomputed[definition] < 0) continue;
      const StageOption& recomputed = OptionOf(definition, choice_.recomputed[definition]);
      set(definition_count_ + definition, recomputed);
      hides_sync_ |= recomputed.sync < whole.sync;
    }
  }

  // Returns the largest number of recomputed layers that differs from recomputation of all layers.
  int MostCount(const std::vector<int>& partition) const {
    int most = 0;
    int layer = 0;
    for (const int count : partition) {
      most = std::max(most, BlockLayerCount(setting_, layer, layer + count));
      layer += count;
    }
    return leaves_some_ ? most : most - 1;
  }

  // Returns a lower bound of the step with its overhead.
  double PathBound(const std::vector<int>& partition, int count) const {
    const int kinds = 2 * definition_count_;
    std::vector<int> counts(partition.size() * kinds);
    int layer = 0;
    for (size_t stage = 0; stage < partition.size(); ++stage) {
      int left = count;
      for (const int end = layer + partition[stage]; layer < end; ++layer) {
        const int definition = setting_.definition_of(layer);
        const bool is_recomputed = choice_.recomputed[definition] >= 0 && left-- > 0;
        ++counts[stage * kinds + (is_recomputed ? definition_count_ : 0) + definition];
      }
    }
    const InterleavedPaths paths(StageCounts(kinds, std::move(counts)), setting_.depth());
    return paths.Bound(times_, setting_.candidate().micro_batch_count, {}, {}, 0.0) +
           setting_.costs().step_overhead().value();
  }

  // Returns whether a plan may fit, by sums of what is kept as in `RankMemory::tensor_bound`,
  // without kept outputs and the optimizer's step. The evaluator has the last word.
  bool MayFit(const std::vector<int>& partition, int count) const {
    const int depth = setting_.depth();
    const int chunks = static_cast<int>(partition.size()) / depth;
    std::vector<Bytes> states(depth);
    std::vector<Bytes> transient(depth);
    std::vector<Bytes> kept(partition.size());
    int layer = 0;
    for (size_t stage = 0; stage < partition.size(); ++stage) {
      const int device = static_cast<int>(stage) % depth;
      int left = count;
      for (const int end = layer + partition[stage]; layer < end; ++layer) {
        const int definition = setting_.definition_of(layer);
        const bool is_recomputed = choice_.recomputed[definition] >= 0 && left-- > 0;
        const StageOption& option =
            OptionOf(definition, (is_recomputed ? choice_.recomputed : choice_.whole)[definition]);
        states[device] += option.states;
        transient[device] = std::max(transient[device], option.transient);
        kept[device * chunks + static_cast<int>(stage) / depth] += option.kept;
      }
    }
    std::vector<int64_t> unused(chunks);
    for (int device = 0; device < depth; ++device) {
      const InterleavedDevice place{.pipeline_parallel_degree = depth,
                                    .virtual_stage_count = chunks,
                                    .device_index = device,
                                    .micro_batch_count = setting_.candidate().micro_batch_count};
      const size_t first = static_cast<size_t>(device) * chunks;
      const Bytes peak = InFlightPeak(place, absl::MakeConstSpan(kept).subspan(first, chunks),
                                      absl::MakeSpan(unused));
      if (states[device] + peak + transient[device] > setting_.largest_budget()) return false;
    }
    return true;
  }

  // Simulates a plan and adds it to the plans if it is good.
  UnevenScore Look(const std::vector<int>& partition, int count) {
    --looks_left_;
    meter_.Expand(kStatesOfBlockLook);
    simulation_.SetCount(count);
    UnevenScore score = simulation_.Score(partition);
    if (score.excess > 0.0 || !(score.step < Cutoff())) return score;
    Plan plan = simulation_.PlanOf(partition);
    if (plan.virtual_stage_count == 1) plan.schedule = setting_.candidate().schedule;
    Prediction prediction = evaluator_.Predict(plan);
    // One stage a device is simulated as 1F1B. GPipe keeps more micro-batches.
    const Bytes usable = setting_.problem().usable_memory();
    if (prediction.peak_memory_upper > usable) {
      score.excess = (prediction.peak_memory_upper - usable).as_double();
      return score;
    }
    plans_.Offer({std::move(plan), std::move(prediction)});
    return score;
  }

  // Simulates a partition with the least number of recomputed layers with which it fits, and takes
  // it for `best` if it is better.
  void Take(UnevenPartition partition, Placed& best) {
    const int most = MostCount(partition);
    int count = 1;
    while (count <= most && !MayFit(partition, count)) ++count;
    UnevenScore score;
    for (int attempt = 0; attempt < kMaxBlockRetries && count <= most; ++attempt, ++count) {
      if (looks_left_ <= 0) return;
      score = Look(partition, count);
      if (score.excess <= 0.0) break;
    }
    if (!score.is_known() || score.excess > 0.0 || !(score < best.score)) return;
    best = {std::move(partition), count, score};
  }

  void SearchLeaf(int virtual_stage_count) {
    Placed best;
    for (UnevenPartition& partition :
         FirstPartitions(setting_, choice_.whole, virtual_stage_count)) {
      if (looks_left_ <= 0 || !meter_.ShouldContinue()) return;
      Take(std::move(partition), best);
    }
    const int64_t enough = looks_left_ - kMaxBlockLooks;
    while (best.score.step < Cutoff() * kBlockHope && looks_left_ > std::max<int64_t>(enough, 0)) {
      const UnevenScore before = best.score;
      simulation_.SetCount(best.count);
      // A copy, because what is better replaces it.
      const UnevenPartition from = best.partition;
      for (UnevenPartition& partition :
           NeighboursOf(setting_, choice_.whole, from, best.score, simulation_)) {
        if (looks_left_ <= std::max<int64_t>(enough, 0) || !meter_.ShouldContinue()) return;
        Take(std::move(partition), best);
        if (best.score < before) break;
      }
      if (!(best.score < before)) return;
    }
  }

  const PipelineSetting& setting_;
  const BlockChoice& choice_;
  PlanEvaluator& evaluator_;
  UnevenSimulation simulation_;
  PlanList& plans_;
  int64_t& looks_left_;
  SearchMeter& meter_;
  const int definition_count_;
  // [definition] without recomputation, then [definition] with it.
  DefinitionTimes times_;
  // Whether some layers synchronise for a shorter time if they are recomputed, because their longer
  // backward pass hides more.
  bool hides_sync_ = false;
  // Whether some transformer layers are never recomputed.
  bool leaves_some_ = false;
  double least_unseen_ = kInfinity;
};

}  // namespace

Seconds SearchBlockStages(const PipelineSetting& setting, const BlockChoice& choice,
                          const InterleavedPartitions& partitions, PlanEvaluator& evaluator,
                          PlanList& plans, int64_t& looks_left, SearchMeter& meter) {
  BlockStages search(setting, choice, evaluator, plans, looks_left, meter);
  for (const InterleavedPartition& partition : partitions.listed) {
    if (FitsPassLimit(setting.candidate().micro_batch_count,
                      static_cast<int>(partition.layer_counts.size()))) {
      search.SearchListed(partition.layer_counts);
    }
  }
  if (!partitions.unlisted.empty()) search.SearchUnlisted(partitions.unlisted);
  return search.least_unseen();
}

}  // namespace parplan
