#include "planner/search/interleaved_search.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/model/in_flight.h"
#include "planner/search/interleaved_paths.h"
#include "planner/search/interleaved_plan.h"
#include "planner/search/partition_seams.h"
#include "planner/search/pipeline_setting.h"
#include "planner/search/plan_assembly.h"

namespace parplan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Choices for definitions of one candidate before the rest is left with its bound: models
// of many definitions have too many combinations.
constexpr int64_t kMostChoices = 40'000;
// What the definitions may use under one mask.
struct MaskedOptions {
  // Definitions that layers have, those with most layers first.
  std::vector<int> order;
  // [definition] allowed options, the fastest first, and the least of their times.
  std::vector<std::vector<int>> allowed;
  DefinitionTimes least;
  // [definition] the least memory of each kind.
  std::vector<Bytes> least_states;
  std::vector<Bytes> least_kept;
  std::vector<Bytes> least_transient;
  bool usable = true;
};

MaskedOptions OptionsOf(const PipelineSetting& setting, const OptionMask& mask) {
  const ModelSpec& model = setting.problem().model();
  const size_t definition_count = model.layer_definitions().size();
  MaskedOptions masked;
  masked.allowed.resize(definition_count);
  masked.least = {std::vector<double>(definition_count), std::vector<double>(definition_count),
                  std::vector<double>(definition_count)};
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
    double forward = kInfinite;
    double both = kInfinite;
    double sync = kInfinite;
    for (int index = 0; index < static_cast<int>(options.size()); ++index) {
      if (!mask[definition][index]) continue;
      allowed.push_back(index);
      forward = std::min(forward, options[index].forward.value());
      both = std::min(both, (options[index].forward + options[index].backward).value());
      sync = std::min(sync, options[index].sync.value());
      Bytes& states = masked.least_states[definition];
      Bytes& kept = masked.least_kept[definition];
      Bytes& transient = masked.least_transient[definition];
      states = std::min(states, options[index].states);
      kept = std::min(kept, options[index].kept);
      transient = std::min(transient, options[index].transient);
    }
    if (allowed.empty()) masked.usable = false;
    masked.least.forward[definition] = forward;
    masked.least.both[definition] = both;
    masked.least.sync[definition] = sync;
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

// All plans of one partition.
class PartitionSearch {
 public:
  PartitionSearch(const PipelineSetting& setting, PlanEvaluator& evaluator,
                  const std::vector<int>& layer_counts, const MaskedOptions& masked, double most,
                  SearchMeter& meter, PlanList& plans, int64_t& choices_left, double& least_unseen)
      : setting_(setting),
        evaluator_(evaluator),
        layer_counts_(layer_counts),
        masked_(masked),
        depth_(setting.depth()),
        virtual_stage_count_(static_cast<int>(layer_counts.size()) / setting.depth()),
        counts_(setting.problem().model(), layer_counts),
        seams_(setting, layer_counts),
        paths_(counts_, depth_, setting.candidate().micro_batch_count, SendsOf(setting)),
        most_(most),
        meter_(meter),
        plans_(plans),
        choices_left_(choices_left),
        least_unseen_(least_unseen),
        times_(masked.least),
        chosen_(masked.allowed.size(), -1) {}

  void Run() { Choose(0); }

 private:
  static std::vector<double> SendsOf(const PipelineSetting& setting) {
    std::vector<double> sends;
    for (int device = 0; device < setting.depth(); ++device) {
      sends.push_back(setting.stage(device).least_send);
    }
    return sends;
  }

  const StageOption& OptionOf(int definition, int option) const {
    return setting_.table().options(definition)[option];
  }

  void SetLeast(int definition) {
    chosen_[definition] = -1;
    times_.forward[definition] = masked_.least.forward[definition];
    times_.both[definition] = masked_.least.both[definition];
    times_.sync[definition] = masked_.least.sync[definition];
  }

  void SetTimes(int definition, int index) {
    const StageOption& option = OptionOf(definition, index);
    chosen_[definition] = index;
    times_.forward[definition] = option.forward.value();
    times_.both[definition] = (option.forward + option.backward).value();
    times_.sync[definition] = option.sync.value();
  }

  double Most() const {
    const double per_sample = plans_.MostTimePerSample();
    return std::min(most_,
                    per_sample * static_cast<double>(setting_.candidate().global_batch_size));
  }

  double Bound() const { return paths_.Bound(times_) + setting_.costs().step_overhead().value(); }

  void Choose(size_t position) {
    if (!meter_.Expand(1) || --choices_left_ < 0) {
      // Nothing is known of what is not looked at but this.
      least_unseen_ = std::min(least_unseen_, Bound());
      return;
    }
    if (Bound() >= Most() || (position > 0 && !MayFit())) return meter_.Prune(1);
    if (position == masked_.order.size()) return Try();
    const int definition = masked_.order[position];
    for (int index : seams_.Undominated(definition, masked_.allowed[definition], chosen_)) {
      SetTimes(definition, index);
      Choose(position + 1);
    }
    SetLeast(definition);
  }

  // Whether some plan of what is chosen may fit: what is kept and needed, as
  // `RankMemory::tensor_bound` has it but for outputs that are kept and the optimizer's step,
  // with the least of definitions that are not decided. The evaluator has the last word.
  bool MayFit() const {
    std::vector<Bytes> kept(virtual_stage_count_);
    std::vector<int64_t> unused(virtual_stage_count_);
    for (int device = 0; device < depth_; ++device) {
      Bytes states;
      Bytes transient;
      for (int chunk = 0; chunk < virtual_stage_count_; ++chunk) {
        kept[chunk] = Bytes();
        for (int definition : masked_.order) {
          const int count = counts_.of(chunk * depth_ + device, definition);
          if (count == 0) continue;
          if (chosen_[definition] < 0) {
            states += masked_.least_states[definition] * count;
            kept[chunk] += masked_.least_kept[definition] * count;
            transient = std::max(transient, masked_.least_transient[definition]);
            continue;
          }
          const StageOption& option = OptionOf(definition, chosen_[definition]);
          states += option.states * count;
          kept[chunk] += option.kept * count;
          transient = std::max(transient, option.transient);
        }
      }
      const InterleavedDevice place{.pipeline_parallel_degree = depth_,
                                    .virtual_stage_count = virtual_stage_count_,
                                    .device_index = device,
                                    .micro_batch_count = setting_.candidate().micro_batch_count};
      const Bytes needed = states + InFlightPeak(place, kept, absl::MakeSpan(unused)) + transient;
      if (needed > setting_.largest_budget()) return false;
    }
    return true;
  }

  void Try() {
    if (!NeighboursAgree(setting_, chosen_)) return;
    Plan plan = InterleavedPlan(setting_, layer_counts_, chosen_);
    const PlanScore score = evaluator_.Evaluate(plan);
    if (score.peak_memory_upper > setting_.problem().usable_memory()) return;
    if (!(score.step.value() < most_)) return;
    Prediction prediction = evaluator_.Predict(plan);
    plans_.Offer({std::move(plan), std::move(prediction)});
  }

  const PipelineSetting& setting_;
  PlanEvaluator& evaluator_;
  const std::vector<int>& layer_counts_;
  const MaskedOptions& masked_;
  const int depth_;
  const int virtual_stage_count_;
  const StageCounts counts_;
  const PartitionSeams seams_;
  const InterleavedPaths paths_;
  const double most_;
  SearchMeter& meter_;
  PlanList& plans_;
  int64_t& choices_left_;
  double& least_unseen_;
  // Of definitions that are not decided the least.
  DefinitionTimes times_;
  // [definition] option, or -1.
  std::vector<int> chosen_;
};

bool FitsPassLimit(const PipelineCandidate& candidate, int virtual_stage_count) {
  return candidate.micro_batch_count <=
         kMaxForwardPassCount / (int64_t{candidate.pipeline_parallel_degree} * virtual_stage_count);
}

}  // namespace

std::vector<int> VirtualStageCounts(const StrategySpace& space, int pipeline_parallel_degree) {
  const PlanningProblem& problem = space.problem();
  const Schedule schedule = problem.rules().schedule.value_or(Schedule::kInterleaved);
  std::vector<int> counts;
  if (pipeline_parallel_degree < 2 || schedule != Schedule::kInterleaved ||
      !space.dimensions().has(SearchDimension::kInterleaved)) {
    return counts;
  }
  for (int count = 2; count <= problem.model().layer_count() / pipeline_parallel_degree; ++count) {
    if (!EvenPartitions(space, count * pipeline_parallel_degree).empty()) counts.push_back(count);
  }
  return counts;
}

std::vector<std::vector<int>> EvenPartitions(const StrategySpace& space, int stage_count) {
  const ModelSpec& model = space.problem().model();
  const int layer_count = model.layer_count();
  const auto is_transformer = [&model](int layer) {
    return IsTransformer(model.layer(layer).kind);
  };
  int transformer_count = 0;
  int first = layer_count;
  int end = 0;
  for (int layer = 0; layer < layer_count; ++layer) {
    if (!is_transformer(layer)) continue;
    ++transformer_count;
    first = std::min(first, layer);
    end = layer + 1;
  }
  std::vector<std::vector<int>> partitions;
  if (transformer_count == 0) return partitions;
  const int most = space.dimensions().has(SearchDimension::kUnevenStages) ? 1 : 0;
  for (int front = 0; front <= most; ++front) {
    for (int back = 0; back <= most; ++back) {
      const int units = transformer_count + front + back;
      if (units % stage_count != 0) continue;
      std::vector<int> partition;
      int next = 0;
      for (int stage = 0; stage < stage_count; ++stage) {
        const bool is_last = stage + 1 == stage_count;
        int left = units / stage_count - (stage == 0 ? front : 0) - (is_last ? back : 0);
        int stop = stage == 0 ? first : next;
        // Layers of other kinds in between go with those before them.
        while (left > 0 && stop < end) left -= is_transformer(stop++) ? 1 : 0;
        if (is_last) stop = layer_count;
        if (left < 0 || stop == next) break;
        partition.push_back(stop - next);
        next = stop;
      }
      const bool is_whole = static_cast<int>(partition.size()) == stage_count;
      const bool is_new =
          std::find(partitions.begin(), partitions.end(), partition) == partitions.end();
      if (is_whole && is_new) partitions.push_back(std::move(partition));
    }
  }
  return partitions;
}

Seconds InterleavedBound(const StrategySpace& space, const LeastTimes& least,
                         const PipelineCandidate& candidate) {
  DefinitionTimes times;
  for (size_t i = 0; i < least.forward.size(); ++i) {
    times.forward.push_back(least.forward[i].value());
    times.both.push_back(least.forward_and_backward[i].value());
    times.sync.push_back(0.0);
  }
  const int depth = candidate.pipeline_parallel_degree;
  const std::vector<double> no_sends(depth);
  double bound = kInfinite;
  for (int count : VirtualStageCounts(space, depth)) {
    if (!FitsPassLimit(candidate, count)) continue;
    for (const std::vector<int>& partition : EvenPartitions(space, count * depth)) {
      const StageCounts counts(space.problem().model(), partition);
      bound = std::min(
          bound,
          InterleavedPaths(counts, depth, candidate.micro_batch_count, no_sends).Bound(times));
    }
  }
  return Seconds::Of(bound);
}

PipelineOutcome SearchInterleaved(const StrategySpace& space, const CostModel& costs,
                                  const OptionTable& table, const PipelineCandidate& candidate,
                                  Seconds most, int wanted, SearchMeter& meter) {
  PipelineOutcome outcome;
  outcome.bound = most;
  const PlanningProblem& problem = space.problem();
  // Of the setting only what does not depend on the schedule is used.
  PipelineCandidate place = candidate;
  place.schedule = Schedule::kOneForwardOneBackward;
  const PipelineSetting setting(space, costs, table, place, problem.usable_memory());
  PlanEvaluator evaluator(problem, costs);
  PlanList plans(wanted);
  int64_t choices_left = kMostChoices;
  double least_unseen = kInfinite;
  const std::vector<int> virtual_stage_counts =
      VirtualStageCounts(space, candidate.pipeline_parallel_degree);
  for (const OptionMask& mask : PlanWideMasks(space, table)) {
    const MaskedOptions masked = OptionsOf(setting, mask);
    if (!masked.usable) continue;
    for (int count : virtual_stage_counts) {
      if (!FitsPassLimit(candidate, count)) continue;
      for (const std::vector<int>& partition :
           EvenPartitions(space, count * candidate.pipeline_parallel_degree)) {
        PartitionSearch(setting, evaluator, partition, masked, most.value(), meter, plans,
                        choices_left, least_unseen)
            .Run();
      }
    }
  }
  outcome.plans = plans.Take();
  outcome.is_exact = !meter.stopped() && choices_left >= 0;
  if (!outcome.plans.empty()) {
    outcome.bound = std::min(outcome.bound, outcome.plans.front().prediction.step);
  }
  outcome.bound = std::min(outcome.bound, Seconds::Of(least_unseen));
  return outcome;
}

}  // namespace parplan
