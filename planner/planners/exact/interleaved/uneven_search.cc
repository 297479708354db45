#include "planner/planners/exact/interleaved/uneven_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "planner/model/plan.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/interleaved_plan.h"
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
// Virtual stages from which a simulated plan counts as two, three and so on.
constexpr int64_t kStagesOfLook = 64;
// Masks up to which each is asked what devices can hold under it (`UnevenBound::HeldBound`), which
// takes about a millisecond.
constexpr size_t kMostMasksHeld = 8;

// Sets the most layers of the major definition that each device has room for under an option of it,
// if the others need what is least. At the first backward pass of a device all its virtual stages
// but the last have as many micro-batches in flight as there are devices, or more; the last has
// fewer. This holds for all sizes of groups.
void SetMostLayers(const PipelineSetting& setting, const MaskedOptions& masked,
                   const StageOption& option, bool is_uniform, UnevenBound::Question& question) {
  const int depth = setting.depth();
  const int layer_count = setting.layer_count();
  const double states = option.states.as_double();
  const double kept = option.kept.as_double();
  question.most_layers.resize(depth);
  for (int device = 0; device < depth; ++device) {
    double room = (setting.largest_budget() - option.transient).as_double();
    int guaranteed = 0;
    if (is_uniform) {
      if (device == 0) room -= masked.least_states[setting.definition_of(0)].as_double();
      if (device + 1 == depth) {
        room -= masked.least_states[setting.definition_of(layer_count - 1)].as_double();
      }
      guaranteed = std::max(0, question.fewest_virtual_stages - 1 - (device == 0 ? 1 : 0));
    }
    const double in_flight = std::min(depth, 2 * (depth - 1 - device) + 1);
    room -= guaranteed * kept * (depth - in_flight);
    const double each = states + kept * in_flight;
    const double most = each > 0.0 ? room / each * (1.0 + 1e-12) : layer_count;
    question.most_layers[device] = static_cast<int>(std::clamp(most, 0.0, 1.0 * layer_count));
  }
}

DefinitionTimes WithOption(const MaskedOptions& masked, int definition, const StageOption& option) {
  DefinitionTimes times = masked.least;
  times.forward[definition] = option.forward.value();
  times.forward_backward[definition] = (option.forward + option.backward).value();
  times.sync[definition] = option.sync.value();
  times.backward[definition] = option.backward.value();
  return times;
}

// Returns [device] the least seconds of a message to the next device, the last one's to the first.
std::vector<double> SendsOf(const PipelineSetting& setting) {
  std::vector<double> sends;
  for (int device = 0; device < setting.depth(); ++device) {
    sends.push_back(setting.least_send(setting.stage(device).leaves_node));
  }
  return sends;
}

// Returns what the allowed options cost, each once. Dominated ones are left out.
PricedOptions PricedOptionsOf(const PipelineSetting& setting, const MaskedOptions& masked) {
  PricedOptions priced;
  priced.options.resize(masked.allowed.size());
  double transient = kInfinity;
  for (const int definition : masked.order) {
    transient = std::min(transient, masked.least_transient[definition].as_double());
    std::vector<PricedOption>& kept = priced.options[definition];
    // Fastest first.
    for (const int index : masked.allowed[definition]) {
      const StageOption& option = setting.table().options(definition)[index];
      const PricedOption added = {(option.forward + option.backward).value(), option.sync.value(),
                                  option.states.as_double(), option.kept.as_double()};
      const bool is_dominated =
          std::any_of(kept.begin(), kept.end(), [&added](const PricedOption& other) {
            return other.time <= added.time && other.sync <= added.sync &&
                   other.states <= added.states && other.kept <= added.kept;
          });
      if (!is_dominated) kept.push_back(added);
    }
  }
  priced.room = setting.largest_budget().as_double() - transient;
  return priced;
}

// Returns the end of the numbers of virtual stages that are bounded together with the one at
// `begin`: less than twice as many.
size_t EndOfStageCounts(const std::vector<int>& virtual_stage_counts, size_t begin) {
  size_t end = begin + 1;
  while (end < virtual_stage_counts.size() &&
         virtual_stage_counts[end] < 2 * virtual_stage_counts[begin]) {
    ++end;
  }
  return end;
}

// The plans with one option of the major definition and one number of virtual stages.
struct UnevenLeaf {
  const MaskedOptions* masked = nullptr;
  int option = 0;
  int virtual_stage_count = 2;
  // Lower bounds of the step, with its overhead: that of partitions (`UnevenBound::Bound`), and the
  // larger of it and the priced one, which is the same for many leaves.
  double partition_bound = 0.0;
  double bound = 0.0;
  // The best of the first partitions: bytes above the memory, and seconds.
  UnevenScore score;
  UnevenPartition partition;
  // [definition]
  std::vector<int> options;
  int64_t group_size = 0;
};

// The leaves to search, and a bound of all that there are.
struct ListedLeaves {
  // The least first.
  std::vector<UnevenLeaf> leaves;
  // Lower bound of the step of all leaves, with its overhead; infinite if none is below the cutoff.
  double bound = kInfinity;
};

// Lists the at most `most` leaves of the least bounds below the cutoff of `finds`. If `meter`
// stops, the bound is 0, because some leaves have not been bounded.
ListedLeaves LeavesOf(const PipelineSetting& setting,
                      const std::vector<const MaskedOptions*>& masks,
                      const std::vector<int>& virtual_stage_counts, int64_t group_size,
                      const InterleavedFinds& finds, size_t most, SearchMeter& meter) {
  const UnevenBound bounds(setting.problem().model(), setting.depth());
  const std::vector<double> sends = SendsOf(setting);
  const int64_t count = setting.candidate().micro_batch_count;
  const int depth = setting.depth();
  const double overhead = setting.costs().step_overhead().value();
  const double cutoff_of_finds = CutoffOf(setting, finds) - overhead;
  // When there are as many leaves as wanted, a further one must be below the last of them, which
  // one look at the paths decides, without a bisection.
  double cutoff = cutoff_of_finds;
  // With one common definition the limits of layers know what devices hold. Where layers have one
  // strategy, there are hundreds of masks, for each of which it would be asked.
  const bool asks_held = !bounds.is_uniform() && masks.size() <= kMostMasksHeld;
  // The least partition bound that is too large for a leaf whose priced bound is `cutoff`.
  double tie_cutoff = 0.0;
  const int major = bounds.major();
  ListedLeaves listed;
  std::vector<UnevenLeaf>& leaves = listed.leaves;
  const auto is_less = [](const UnevenLeaf& a, const UnevenLeaf& b) {
    return std::pair(a.bound, a.partition_bound) < std::pair(b.bound, b.partition_bound);
  };
  for (const MaskedOptions* const masked : masks) {
    if (!meter.ShouldContinue()) {
      listed.bound = 0.0;
      return listed;
    }
    if (bounds.Quick(masked->least, count) >= cutoff) continue;
    // [index in `virtual_stage_counts`]
    std::vector<double> priced(virtual_stage_counts.size());
    const PricedOptions priced_options = PricedOptionsOf(setting, *masked);
    const double held =
        !asks_held ? 0.0
                   : bounds.HeldBound(masked->least,
                                      {.micro_batch_count = count,
                                       .fewest_virtual_stages = virtual_stage_counts.front(),
                                       .most_virtual_stages = virtual_stage_counts.back(),
                                       .sends = sends,
                                       .most_layers = {},
                                       .any_group_size = group_size > 0},
                                      priced_options, cutoff_of_finds);
    if (held >= cutoff_of_finds) continue;
    for (size_t begin = 0; begin < priced.size();) {
      const size_t end = EndOfStageCounts(virtual_stage_counts, begin);
      const double bound = bounds.PricedBound(masked->least,
                                              {.micro_batch_count = count,
                                               .fewest_virtual_stages = virtual_stage_counts[begin],
                                               .most_virtual_stages = virtual_stage_counts[end - 1],
                                               .sends = sends,
                                               .most_layers = {},
                                               .any_group_size = group_size > 0},
                                              priced_options, cutoff_of_finds);
      for (; begin < end; ++begin) priced[begin] = std::max(held, bound);
    }
    for (const int index : masked->allowed[major]) {
      const StageOption& option = setting.table().options(major)[index];
      const DefinitionTimes times = WithOption(*masked, major, option);
      if (bounds.Quick(times, count) >= cutoff) continue;
      for (size_t place = 0; place < virtual_stage_counts.size(); ++place) {
        const int virtual_stage_count = virtual_stage_counts[place];
        if (!FitsPassLimit(count, virtual_stage_count * depth)) break;
        if (priced[place] > cutoff) continue;
        UnevenBound::Question question = {.micro_batch_count = count,
                                          .fewest_virtual_stages = virtual_stage_count,
                                          .most_virtual_stages = virtual_stage_count,
                                          .sends = sends,
                                          .most_layers = {},
                                          .any_group_size = group_size > 0};
        SetMostLayers(setting, *masked, option, bounds.is_uniform(), question);
        const double needed = priced[place] < cutoff ? cutoff : tie_cutoff;
        const double partition_bound = bounds.Bound(times, question, needed);
        if (partition_bound >= needed) continue;
        UnevenLeaf leaf = {.masked = masked,
                           .option = index,
                           .virtual_stage_count = virtual_stage_count,
                           .partition_bound = partition_bound + overhead,
                           .bound = std::max(priced[place], partition_bound) + overhead,
                           .score = {},
                           .partition = {},
                           .options = {},
                           .group_size = group_size};
        leaves.insert(std::upper_bound(leaves.begin(), leaves.end(), leaf, is_less),
                      std::move(leaf));
        if (leaves.size() > most) leaves.pop_back();
        if (leaves.size() == most) {
          cutoff = leaves.back().bound - overhead;
          tie_cutoff = leaves.back().partition_bound - overhead;
        }
      }
    }
  }
  if (!leaves.empty()) listed.bound = leaves.front().bound;
  return listed;
}

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

double LeastUnevenBound(const PipelineSetting& setting, const MaskedOptions& masked,
                        const UnevenBound& bound, const std::vector<int>& virtual_stage_counts,
                        int64_t micro_batch_count, double cutoff) {
  if (virtual_stage_counts.empty()) return cutoff;
  const double overhead = setting.costs().step_overhead().value();
  const int major = bound.major();
  double least = cutoff - overhead;
  UnevenBound::Question question = {.micro_batch_count = micro_batch_count,
                                    .fewest_virtual_stages = virtual_stage_counts.front(),
                                    .most_virtual_stages = virtual_stage_counts.back(),
                                    .sends = SendsOf(setting),
                                    .most_layers = {},
                                    .any_group_size = false};
  if (bound.Quick(masked.least, micro_batch_count) >= least) return least + overhead;
  const double priced =
      bound.PricedBound(masked.least, question, PricedOptionsOf(setting, masked), least);
  double by_option = least;
  for (const int index : masked.allowed[major]) {
    if (priced >= by_option) break;
    const StageOption& option = setting.table().options(major)[index];
    const DefinitionTimes times = WithOption(masked, major, option);
    if (bound.Quick(times, micro_batch_count) >= by_option) continue;
    SetMostLayers(setting, masked, option, bound.is_uniform(), question);
    by_option = bound.Bound(times, question, by_option);
  }
  return std::min(least, std::max(priced, by_option)) + overhead;
}

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
