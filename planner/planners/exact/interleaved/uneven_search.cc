#include "planner/planners/exact/interleaved/uneven_search.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "planner/model/plan.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/interleaved_plan.h"
#include "planner/planners/exact/interleaved/uneven_leaves.h"
#include "planner/planners/exact/interleaved/uneven_partition.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Pairs of a strategy and a number of virtual stages of which first partitions are simulated, those
// of them that are improved, and the plans simulated for each. More find better plans in more time;
// not measured for other values.
constexpr size_t kMaxLeaves = 48;
constexpr int kMaxImproved = 4;
constexpr int kMaxLooks = 160;
// First partitions are improved if they are slower than the cutoff by less than this factor: moves
// of layers have gained up to 1.5 %. After so many leaves in a row without one, no more are
// started.
constexpr double kHope = 1.03;
constexpr int kMaxHopeless = 4;
// At most so many plans for a candidate are few. Then all leaves within them are started, those
// slower by less than this factor are improved, and moves are not followed beyond it. So with a
// lower cutoff the search finds every plan below it that it finds with a higher one.
constexpr int64_t kFewLooks = 64;
constexpr double kHopeOfFew = 1.1;
// States that a simulated plan counts on the meter. It stands for the time a simulation takes
// compared with a label; not measured.
constexpr int64_t kStatesOfLook = 64;
// Virtual stages from which a simulated plan counts as two, three and so on, because simulating
// takes time in proportion to them. Not measured.
constexpr int64_t kStagesOfLook = 64;

// Simulates plans of listed leaves and improves the best.
class UnevenLeaves {
 public:
  UnevenLeaves(const PipelineSetting& setting, std::vector<UnevenLeaf> leaves,
               const std::vector<int64_t>& group_sizes, PlanEvaluator& evaluator,
               InterleavedFinds& finds, int64_t& looks_left, SearchMeter& meter)
      : setting_(setting),
        group_sizes_(group_sizes),
        major_(UnevenBound(setting.problem().model(), setting.depth()).major()),
        evaluator_(evaluator),
        finds_(finds),
        looks_left_(looks_left),
        meter_(meter),
        leaves_(std::move(leaves)) {}

  void Run() {
    // Half of the plans for first partitions, half for their improvement.
    const int64_t looks_to_improve = looks_left_ / 2;
    // A search of group sizes has what those before it left, which says nothing about it.
    const bool has_no_groups = group_sizes_.size() == 1 && group_sizes_.front() == 0;
    has_few_looks_ = has_no_groups && looks_left_ <= kFewLooks * meter_.effort();
    size_t looked = 0;
    int hopeless_count = 0;
    for (; looked < leaves_.size() && looks_left_ > looks_to_improve; ++looked) {
      if (leaves_[looked].bound >= CutoffOf(setting_, finds_) || !meter_.ShouldContinue()) break;
      Start(leaves_[looked]);
      hopeless_count = IsHopeful(leaves_[looked]) ? 0 : hopeless_count + 1;
      if (hopeless_count == kMaxHopeless && !has_few_looks_) break;
    }
    std::vector<UnevenLeaf*> order;
    for (size_t k = 0; k < looked; ++k) {
      if (IsHopeful(leaves_[k])) order.push_back(&leaves_[k]);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const UnevenLeaf* a, const UnevenLeaf* b) { return a->score < b->score; });
    const auto max_improved = static_cast<size_t>(kMaxImproved * meter_.effort());
    if (order.size() > max_improved) order.resize(max_improved);
    for (UnevenLeaf* const leaf : order) {
      if (!meter_.ShouldContinue()) break;
      if (leaf->bound < CutoffOf(setting_, finds_)) Improve(*leaf);
    }
  }

 private:
  double Hope() const { return has_few_looks_ ? kHopeOfFew : kHope; }

  // Returns whether moves of layers may make the leaf's best first partition good enough.
  bool IsHopeful(const UnevenLeaf& leaf) const {
    return leaf.score.is_known() && leaf.score.step < CutoffOf(setting_, finds_) * Hope();
  }

  // How the other definitions choose beside the major one.
  enum class Others {
    // The fastest option, of the same layout if there is any.
    kFastest,
    // The fastest option that shards as the major definition does, as plans of one strategy have.
    kAlike,
    // The option that needs least memory, of the same layout if there is any.
    kLean,
  };

  // Returns [definition] the options of a plan; empty if there are none, or if they do not go
  // together.
  std::vector<int> OptionsOf(const UnevenLeaf& leaf, Others others) const {
    const OptionTable& table = setting_.table();
    std::vector<int> options(leaf.masked->allowed.size(), -1);
    const StageOption& chosen = table.options(major_)[leaf.option];
    const auto micro_batches = static_cast<double>(setting_.candidate().micro_batch_count);
    for (const int definition : leaf.masked->order) {
      if (definition == major_) {
        options[definition] = leaf.option;
        continue;
      }
      std::tuple<bool, double> least = {true, kInfinity};
      for (const int index : leaf.masked->allowed[definition]) {
        const StageOption& option = table.options(definition)[index];
        if (others == Others::kAlike && option.strategy.sharding() != chosen.strategy.sharding()) {
          continue;
        }
        const double cost =
            others == Others::kLean
                ? option.states.as_double() + option.kept.as_double() * setting_.depth()
                : micro_batches * (option.forward + option.backward).value() + option.sync.value();
        const std::tuple<bool, double> key = {option.layout != chosen.layout, cost};
        if (!(key < least)) continue;
        least = key;
        options[definition] = index;
      }
      if (options[definition] < 0) return {};
    }
    if (!NeighboursAgree(setting_, options)) options.clear();
    return options;
  }

  // Simulates a partition with options, and takes all three for the leaf if they are better.
  void Take(UnevenLeaf& leaf, const std::vector<int>& options, int64_t group_size,
            UnevenPartition partition) {
    UnevenSimulation simulation(setting_, options, group_size, evaluator_);
    const UnevenScore score = Look(simulation, partition);
    if (score.step < least_step_ || (leaf.score.is_known() && !(score < leaf.score))) return;
    leaf.score = score;
    leaf.partition = std::move(partition);
    leaf.options = options;
    leaf.group_size = group_size;
  }

  // Tries the other sizes of groups, and then the other ways to choose, on the leaf's partition.
  void TryOthers(UnevenLeaf& leaf) {
    for (const int64_t group_size : group_sizes_) {
      if (group_size == leaf.group_size || looks_left_ <= 0) continue;
      const std::vector<int> options = leaf.options;
      Take(leaf, options, group_size, leaf.partition);
    }
    for (const Others others : {Others::kFastest, Others::kAlike, Others::kLean}) {
      const std::vector<int> options = OptionsOf(leaf, others);
      if (options.empty() || options == leaf.options || looks_left_ <= 0) continue;
      Take(leaf, options, leaf.group_size, leaf.partition);
    }
  }

  // Simulates the first partitions of a leaf.
  void Start(UnevenLeaf& leaf) {
    for (const Others others : {Others::kFastest, Others::kAlike, Others::kLean}) {
      const std::vector<int> options = OptionsOf(leaf, others);
      if (options.empty()) continue;
      for (UnevenPartition& partition :
           FirstPartitions(setting_, options, leaf.virtual_stage_count)) {
        if (looks_left_ <= 0) return;
        Take(leaf, options, group_sizes_.front(), std::move(partition));
      }
      break;
    }
    if (leaf.score.is_known()) TryOthers(leaf);
  }

  void Improve(UnevenLeaf& leaf) {
    const int64_t max_looks = kMaxLooks * meter_.effort();
    int64_t looks = 0;
    if (has_few_looks_) least_step_ = leaf.score.step / Hope();
    while (looks < max_looks && looks_left_ > 0) {
      const UnevenScore before = leaf.score;
      const std::vector<int> options = leaf.options;
      const int64_t group_size = leaf.group_size;
      UnevenSimulation simulation(setting_, options, group_size, evaluator_);
      for (UnevenPartition& partition :
           NeighboursOf(setting_, options, leaf.partition, leaf.score, simulation)) {
        if (++looks > max_looks || looks_left_ <= 0 || !meter_.ShouldContinue()) return;
        Take(leaf, options, group_size, std::move(partition));
        if (leaf.score < before) break;
      }
      if (!(leaf.score < before)) break;
    }
    TryOthers(leaf);
  }

  // Simulates a plan and adds it to the finds if it is good.
  UnevenScore Look(UnevenSimulation& simulation, const UnevenPartition& partition) {
    const auto stage_count = static_cast<int64_t>(partition.size());
    looks_left_ -= 1 + stage_count / kStagesOfLook;
    meter_.Expand(kStatesOfLook);
    const UnevenScore score = simulation.Score(partition);
    if (score.excess > 0.0 || score.step < least_step_ ||
        !(score.step < CutoffOf(setting_, finds_))) {
      return score;
    }
    Plan plan = simulation.PlanOf(partition);
    Prediction prediction = evaluator_.Predict(plan);
    finds_.plans.Offer({std::move(plan), std::move(prediction)});
    return score;
  }

  const PipelineSetting& setting_;
  const std::vector<int64_t>& group_sizes_;
  const int major_;
  PlanEvaluator& evaluator_;
  InterleavedFinds& finds_;
  int64_t& looks_left_;
  SearchMeter& meter_;
  std::vector<UnevenLeaf> leaves_;
  bool has_few_looks_ = false;
  // Plans of fewer seconds are left out while a leaf is improved with few looks.
  double least_step_ = 0.0;
};

}  // namespace

double SearchUneven(const PipelineSetting& setting, const std::vector<const MaskedOptions*>& masks,
                    const std::vector<int>& virtual_stage_counts,
                    const std::vector<int64_t>& group_sizes, PlanEvaluator& evaluator,
                    InterleavedFinds& finds, int64_t& looks_left, SearchMeter& meter) {
  ListedLeaves listed = LeavesOf(setting, masks, virtual_stage_counts, group_sizes.front(), finds,
                                 looks_left > 0 ? kMaxLeaves * meter.effort() : 1, meter);
  UnevenLeaves(setting, std::move(listed.leaves), group_sizes, evaluator, finds, looks_left, meter)
      .Run();
  return listed.bound;
}

}  // namespace parplan
