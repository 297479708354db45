#include "planner/planners/exact/interleaved/uneven_leaves.h"

#include <algorithm>
#include <utility>

#include "planner/planners/exact/interleaved/interleaved_plan.h"

namespace parplan {
namespace {

// Masks up to which each is asked what devices can hold under it (`UnevenBound::HeldBound`), which
// takes about a millisecond. With hundreds of masks that would be most of the time of a candidate.
// Not measured for other numbers.
constexpr size_t kMostMasksHeld = 8;

// Sets the most layers of the major definition that each device has room for under an option of it,
// if the others need what is least. At the first backward pass of a device all its virtual stages
// but the last have as many micro-batches in flight as there are devices, or more; the last has
// `LeastInFlight`. This holds for all sizes of groups.
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
    const double in_flight = LeastInFlight(device, depth);
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

}  // namespace

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

}  // namespace parplan
