#include "planner/planners/exact/interleaved/interleaved_choices.h"

#include <algorithm>
#include <utility>

#include "planner/model/in_flight.h"
#include "planner/planners/exact/interleaved/interleaved_plan.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/space/allowed_options.h"

namespace parplan {

MaskedOptions MaskedOptionsOf(const PipelineSetting& setting, const OptionMask& mask) {
  const ModelSpec& model = setting.problem().model();
  const size_t definition_count = model.layer_definitions().size();
  MaskedOptions masked;
  masked.allowed.resize(definition_count);
  masked.least = {std::vector<double>(definition_count), std::vector<double>(definition_count),
                  std::vector<double>(definition_count), std::vector<double>(definition_count)};
  masked.least_states.resize(definition_count, Bytes::Max());
  masked.least_kept.resize(definition_count, Bytes::Max());
  masked.least_transient.resize(definition_count, Bytes::Max());
  std::vector<int64_t> layers(definition_count);
  for (const ModelLayerRun& run : model.layer_runs()) {
    layers[run.definition_index] += run.layer_count;
  }
  const auto micro_batches = static_cast<double>(setting.candidate().micro_batch_count);
  for (int definition = 0; definition < static_cast<int>(definition_count); ++definition) {
    if (layers[definition] == 0) continue;
    masked.order.push_back(definition);
    const std::vector<StageOption>& options = setting.table().options(definition);
    std::vector<int>& allowed = masked.allowed[definition];
    double forward = kInfinity;
    double forward_backward = kInfinity;
    double backward = kInfinity;
    double sync = kInfinity;
    ForEachAllowed(mask[definition], [&](int index) {
      allowed.push_back(index);
      forward = std::min(forward, options[index].forward.value());
      forward_backward =
          std::min(forward_backward, (options[index].forward + options[index].backward).value());
      backward = std::min(backward, options[index].backward.value());
      sync = std::min(sync, options[index].sync.value());
      Bytes& states = masked.least_states[definition];
      Bytes& kept = masked.least_kept[definition];
      Bytes& transient = masked.least_transient[definition];
      states = std::min(states, options[index].states);
      kept = std::min(kept, options[index].kept);
      transient = std::min(transient, options[index].transient);
    });
    if (allowed.empty()) masked.usable = false;
    masked.least.forward[definition] = forward;
    masked.least.forward_backward[definition] = forward_backward;
    masked.least.sync[definition] = sync;
    masked.least.backward[definition] = backward;
    const auto time = [&](int index) {
      const StageOption& option = options[index];
      return (option.forward + option.backward).value() * micro_batches + option.sync.value();
    };
    std::stable_sort(allowed.begin(), allowed.end(),
                     [&time](int a, int b) { return time(a) < time(b); });
  }
  std::stable_sort(masked.order.begin(), masked.order.end(),
                   [&layers](int a, int b) { return layers[a] > layers[b]; });
  return masked;
}

double CutoffOf(const PipelineSetting& setting, const InterleavedFinds& finds) {
  const Seconds cutoff =
      finds.plans.CutoffPerSample() * static_cast<double>(setting.candidate().global_batch_size);
  return std::min(finds.cutoff, cutoff).value();
}

PartitionChoices::PartitionChoices(const PipelineSetting& setting,
                                   const InterleavedPartition& partition,
                                   const MaskedOptions& masked, int64_t micro_batch_count,
                                   const InterleavedRelaxation* prices,
                                   const GroupSizes* group_sizes)
    : setting_(setting),
      partition_(partition),
      masked_(masked),
      prices_(prices),
      group_sizes_(group_sizes),
      depth_(setting.depth()),
      micro_batch_count_(micro_batch_count),
      counts_(setting.problem().model(), partition.layer_counts),
      seams_(setting, partition.layer_counts),
      paths_(counts_, depth_),
      times_(masked.least),
      chosen_(masked.allowed.size(), -1),
      kept_(partition.virtual_stage_count),
      unused_(partition.virtual_stage_count) {
  AddHops();
}

void PartitionChoices::AddHops() {
  const int rank_count = setting_.problem().device_count() / depth_;
  const Topology& topology = setting_.problem().topology();
  const auto stage_count = static_cast<int>(partition_.layer_counts.size());
  int layer = 0;
  for (int stage = 0; stage + 1 < stage_count; ++stage) {
    layer += partition_.layer_counts[stage];
    const int from = stage % depth_ * rank_count;
    const int to = (stage + 1) % depth_ * rank_count;
    const auto node_changes = [&](int rank) {
      return topology.NodeOfRank(from + rank) != topology.NodeOfRank(to + rank);
    };
    const Hop hop = {.before = setting_.definition_of(layer - 1),
                     .after = setting_.definition_of(layer),
                     .leaves_node = node_changes(0) || node_changes(rank_count - 1)};
    const auto known = std::find_if(hops_.begin(), hops_.end(), [&hop](const Hop& other) {
      return hop.before == other.before && hop.after == other.after &&
             hop.leaves_node == other.leaves_node;
    });
    const auto index = static_cast<int>(known - hops_.begin());
    if (known == hops_.end()) hops_.push_back(hop);
    ++hops_[index].count;
    if (stage < depth_) first_hops_.push_back(index);
    if (stage >= stage_count - depth_) last_hops_.push_back(index);
  }
  hop_sends_.resize(hops_.size());
  sends_.resize(first_hops_.size());
  last_sends_.resize(last_hops_.size());
}

double PartitionChoices::LeastSend(const Hop& hop) const {
  const int before = chosen_[hop.before];
  const int after = chosen_[hop.after];
  if (before < 0 || after < 0) return setting_.least_send(hop.leaves_node);
  return setting_.table()
      .Send(hop.before, OptionOf(hop.before, before).layout, OptionOf(hop.after, after).layout,
            hop.leaves_node)
      .value();
}

void PartitionChoices::SetLeast(int definition) {
  chosen_[definition] = -1;
  times_.forward[definition] = masked_.least.forward[definition];
  times_.forward_backward[definition] = masked_.least.forward_backward[definition];
  times_.sync[definition] = masked_.least.sync[definition];
  times_.backward[definition] = masked_.least.backward[definition];
}

void PartitionChoices::SetTimes(int definition, int index) {
  const StageOption& option = OptionOf(definition, index);
  chosen_[definition] = index;
  times_.forward[definition] = option.forward.value();
  times_.forward_backward[definition] = (option.forward + option.backward).value();
  times_.sync[definition] = option.sync.value();
  times_.backward[definition] = option.backward.value();
}

double PartitionChoices::Bound() {
  double all_sends = 0.0;
  for (size_t index = 0; index < hops_.size(); ++index) {
    hop_sends_[index] = LeastSend(hops_[index]);
    all_sends += hop_sends_[index] * hops_[index].count;
  }
  for (size_t device = 0; device < sends_.size(); ++device) {
    sends_[device] = hop_sends_[first_hops_[device]];
  }
  for (size_t device = 0; device < last_sends_.size(); ++device) {
    last_sends_[device] = hop_sends_[last_hops_[device]];
  }
  const double bound =
      group_sizes_ == nullptr
          ? paths_.Bound(times_, micro_batch_count_, sends_, last_sends_, all_sends)
          : paths_.BoundOfDevices(times_, micro_batch_count_, sends_);
  return std::max(bound, PricedBound()) + setting_.costs().step_overhead().value();
}

double PartitionChoices::PricedBound() const {
  double bound = 0.0;
  if (prices_ == nullptr) return bound;
  for (const InterleavedRelaxation::Dual& dual : prices_->duals()) {
    double sum = dual.constant;
    for (const int definition : masked_.order) {
      const int index = chosen_[definition];
      sum += index < 0 ? dual.least[definition]
                       : dual.weights[definition].Of(ItemOf(OptionOf(definition, index), index));
    }
    bound = std::max(bound, sum);
  }
  return bound;
}

// A dominated option is never more promising than the one that dominates it, so a cutoff by bounds
// cannot drop an option that stands for others and keep those.
std::vector<int> PartitionChoices::Promising(int definition, const InterleavedFinds& finds) {
  const double cutoff = CutoffOf(setting_, finds) - setting_.costs().step_overhead().value();
  std::vector<std::pair<double, int>> promising;
  for (const int index : masked_.allowed[definition]) {
    chosen_[definition] = index;
    const double bound = PricedBound();
    if (bound < cutoff) promising.emplace_back(bound, index);
  }
  chosen_[definition] = -1;
  std::stable_sort(promising.begin(), promising.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int> options;
  for (const auto& [bound, index] : promising) options.push_back(index);
  return options;
}

std::vector<PartitionChoices::Start> PartitionChoices::Starts(double cutoff) {
  const int definition = masked_.order.front();
  std::vector<Start> starts;
  for (int index : seams_.Undominated(definition, masked_.allowed[definition], chosen_)) {
    SetTimes(definition, index);
    const double bound = Bound();
    if (bound < cutoff && MayFit()) starts.push_back({index, bound});
  }
  SetLeast(definition);
  return starts;
}

double PartitionChoices::LeastBound(double cutoff) {
  const int definition = masked_.order.front();
  for (int index : masked_.allowed[definition]) {
    SetTimes(definition, index);
    const double bound = Bound();
    if (bound < cutoff && MayFit()) cutoff = bound;
  }
  SetLeast(definition);
  return cutoff;
}

void PartitionChoices::Search(const Start& start, PlanEvaluator& evaluator, InterleavedFinds& finds,
                              SearchMeter& meter) {
  const int definition = masked_.order.front();
  SetTimes(definition, start.option);
  Choose(1, evaluator, finds, meter);
  SetLeast(definition);
}

void PartitionChoices::Choose(size_t position, PlanEvaluator& evaluator, InterleavedFinds& finds,
                              SearchMeter& meter) {
  const bool is_plan = position == masked_.order.size();
  if (is_plan) {
    const size_t simulated = group_sizes_ == nullptr ? 1 : group_sizes_->tried.size();
    finds.passes_left -= 2 * setting_.candidate().micro_batch_count *
                         static_cast<int64_t>(partition_.layer_counts.size() * simulated);
  }
  if (!meter.Expand(1) || --finds.choices_left < 0 || finds.passes_left < 0) {
    // This bound is all that is known about the plans left out.
    finds.least_unseen = std::min(finds.least_unseen, Bound());
    return;
  }
  if (Bound() >= CutoffOf(setting_, finds) || !MayFit()) return meter.Prune(1);
  if (is_plan) return Try(evaluator, finds);
  const int definition = masked_.order[position];
  for (int index : seams_.Undominated(definition, Promising(definition, finds), chosen_)) {
    SetTimes(definition, index);
    Choose(position + 1, evaluator, finds, meter);
  }
  SetLeast(definition);
}

// Returns whether some plan with the chosen options may fit: memory as in
// `RankMemory::tensor_bound`, without kept outputs and the optimizer's step, and with the least
// memory of undecided definitions. The evaluator has the last word.
bool PartitionChoices::MayFit() {
  for (int device = 0; device < depth_; ++device) {
    Bytes states;
    Bytes transient;
    for (int chunk = 0; chunk < partition_.virtual_stage_count; ++chunk) {
      kept_[chunk] = Bytes();
      for (int definition : masked_.order) {
        const int count = counts_.of(chunk * depth_ + device, definition);
        if (count == 0) continue;
        if (chosen_[definition] < 0) {
          states += masked_.least_states[definition] * count;
          kept_[chunk] += masked_.least_kept[definition] * count;
          transient = std::max(transient, masked_.least_transient[definition]);
          continue;
        }
        const StageOption& option = OptionOf(definition, chosen_[definition]);
        states += option.states * count;
        kept_[chunk] += option.kept * count;
        transient = std::max(transient, option.transient);
      }
    }
    if (states + LeastKept(device) + transient > setting_.largest_budget()) return false;
  }
  return true;
}

Bytes PartitionChoices::LeastKept(int device) {
  if (group_sizes_ != nullptr) {
    // Right before the first backward pass. All chunks but the last have whole groups in flight.
    Bytes kept = kept_.back() * std::min(depth_, 2 * (depth_ - 1 - device) + 1);
    for (size_t chunk = 0; chunk + 1 < kept_.size(); ++chunk) kept += kept_[chunk] * depth_;
    return kept;
  }
  const InterleavedDevice place{.pipeline_parallel_degree = depth_,
                                .virtual_stage_count = partition_.virtual_stage_count,
                                .device_index = device,
                                .micro_batch_count = setting_.candidate().micro_batch_count};
  return InFlightPeak(place, kept_, absl::MakeSpan(unused_));
}

void PartitionChoices::Try(PlanEvaluator& evaluator, InterleavedFinds& finds) {
  if (!NeighboursAgree(setting_, chosen_)) return;
  if (group_sizes_ == nullptr) return TryGroups(/*group_size=*/0, evaluator, finds);
  for (const int64_t size : group_sizes_->tried) {
    if (Bound() >= CutoffOf(setting_, finds)) return;
    TryGroups(size, evaluator, finds);
  }
  // The bound is all that is known about the other sizes.
  if (!group_sizes_->are_all) finds.least_unseen = std::min(finds.least_unseen, Bound());
}

void PartitionChoices::TryGroups(int64_t group_size, PlanEvaluator& evaluator,
                                 InterleavedFinds& finds) {
  Plan plan = InterleavedPlan(setting_, partition_.layer_counts, chosen_, group_size);
  const PlanScore score = evaluator.Evaluate(plan);
  if (score.peak_memory_upper > setting_.problem().usable_memory()) return;
  if (!(score.step < finds.cutoff) || score.step.value() > CutoffOf(setting_, finds)) return;
  Prediction prediction = evaluator.Predict(plan);
  finds.plans.Offer({std::move(plan), std::move(prediction)});
}

}  // namespace parplan
