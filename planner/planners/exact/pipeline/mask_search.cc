#include "planner/planners/exact/pipeline/mask_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "planner/planners/exact/pipeline/reference_partition.h"
#include "planner/planners/exact/pipeline/stage_mix.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/stage/window_growth.h"

namespace parplan {
namespace {

// First and last window of steps, as a share above the lower bound. The first is small because it
// costs almost nothing; the last only ends searches of spaces without plans that fit.
constexpr double kFirstStepExcess = 0.001;
constexpr double kMaxExcess = 100.0;
// Shares of the least time of a stage that may be lost by rounding, in successive searches: each
// proves more than the one before and costs more. Beginning with coarse grains made the later,
// exact searches smaller (docs/search.md, "Coarse first"); the single values are not measured.
constexpr double kGrains[] = {1.0 / 32, 1.0 / 256, 1.0 / 2048, 1.0 / 8192, 0.0};
// The same for a quick search, which only gives an incumbent and is not repeated with finer grains.
// Not measured for other values.
constexpr double kDiveGrain = 1.0 / 256;
// If the best plan by rounded times takes longer than the bound by more than so many grains, the
// bound lacks something else, and later searches let every stage synchronise. Not measured for
// other values.
constexpr double kLooseGrains = 2.0;
// Share of a grain that a move between layouts of one class may take. With more the bound is
// weaker, with less there are more classes to search. Not measured.
constexpr double kShareOfMoves = 0.5;
// Growth of the step searched for if there is no reference. A larger one may build a graph that is
// too large, a smaller one builds more graphs. Not measured for other values.
constexpr double kGrowth = 1.25;
// If graphs are too large, the search for the largest target whose graph is not ends this close to
// it: the bound then lacks at most 0.2 %. Each step halves the ratio that is left, on a logarithmic
// scale, and builds a graph. Not measured for other values.
constexpr double kCloseTargets = 1.002;
// Limits of the enumeration of plans that may be faster than a simulated one: stages joined, and
// plans simulated. Above them the answer keeps its gap. Not measured for other values.
constexpr int64_t kMaxEnumerated = 200'000;
constexpr int64_t kMaxSimulated = 2'000;
// Plans simulated in the order of their bounds before the enumeration, for each plan that is
// wanted: the best of their steps is the cutoff of the enumeration. Not measured for other numbers.
constexpr int kMaxTried = 8;
// Runs of layers in all stages of plans above which only the best partition is solved. Not
// measured.
constexpr int64_t kMaxRunsSolved = 6'000;

}  // namespace

MaskSearch::MaskSearch(const PipelineSetting& setting, const OptionMask& allowed,
                       LayoutClasses& classes, PlanEvaluator& evaluator, SearchMeter& meter,
                       StageRule* rule)
    : setting_(setting),
      allowed_(allowed),
      classes_(classes),
      meter_(meter),
      evaluator_(evaluator),
      overhead_(setting.costs().step_overhead().value()),
      has_rule_(rule != nullptr),
      reference_(ReferencePartition(setting, allowed)),
      ranges_(setting, allowed, reference_, meter),
      graph_(setting, ranges_),
      all_(setting, allowed, FrontKeeps::kAll, /*grain=*/0.0, /*layout_classes=*/{}, rule) {}

double MaskSearch::LowerBound(double cutoff) {
  if (!setting_.has_partition() || setting_.largest_budget() < Bytes()) return kInfinity;
  double target = std::min(cutoff, PartitionGraph::BoundOf(setting_, ranges_, reference_));
  double lower = graph_.SpreadBound();
  if (!(target < kInfinity)) target = lower * kGrowth;
  // The least target for which the graph was too large, if any.
  double too_much = kInfinity;
  while (!meter_.stopped()) {
    switch (graph_.Build(target, meter_)) {
      case PartitionGraph::Outcome::kImpossible:
        return kInfinity;
      case PartitionGraph::Outcome::kBuilt:
        was_built_ = true;
        return std::min(target, graph_.bound());
      case PartitionGraph::Outcome::kTooLarge:
        too_much = target;
        break;
      case PartitionGraph::Outcome::kNothing:
        lower = std::max(lower, target);
        if (target >= cutoff) return lower;
        break;
    }
    if (too_much <= lower * kCloseTargets) break;
    target = too_much < kInfinity ? std::sqrt(lower * too_much) : lower * kGrowth;
    target = std::min(cutoff, target);
  }
  return lower;
}

double MaskSearch::TryMix(double cutoff, PlanList& plans) {
  const std::vector<int> boundaries = was_built_ ? graph_.BestPartition() : reference_;
  std::vector<StageChoice> choices;
  choices.reserve(setting_.depth());
  std::vector<ChosenStage> stages;
  for (int i = 0; i < setting_.depth(); ++i) {
    std::optional<StageChoice> choice =
        MixStage(setting_, allowed_, i, boundaries[i], boundaries[i + 1]);
    if (!choice) return kInfinity;
    choices.push_back(*std::move(choice));
    stages.push_back({boundaries[i], boundaries[i + 1], &choices.back()});
  }
  StageTimesOf(setting_, stages, times_);
  for (const StageTimes& times : times_) {
    if (!times.send.is_finite()) return kInfinity;
  }
  return Offer(stages, cutoff, plans);
}

void MaskSearch::SearchCoarsely(double lower, double cutoff, int wanted, PlanList& plans) {
  double found = kInfinity;
  FrontCache fronts = CoarseFronts(lower, kDiveGrain, FrontKeeps::kForwardBackward);
  SearchRelaxed(fronts, cutoff, wanted, plans, lower, found);
}

double MaskSearch::Search(double cutoff, int wanted, PlanList& plans, bool& is_exact) {
  double lower = LowerBound(cutoff);
  double found = kInfinity;
  FrontKeeps keeps = FrontKeeps::kForwardBackward;
  const bool may_count_sync = setting_.depth() > 1 && !setting_.recurrence().is_gpipe();
  for (size_t k = 0; k < std::size(kGrains);) {
    const double grain = kGrains[k];
    if (lower >= std::min(cutoff, found * (1.0 - kProofTolerance))) break;
    FrontCache fronts = CoarseFronts(lower, grain, keeps);
    if (SearchRelaxed(fronts, cutoff, wanted, plans, lower, found) == Relaxed::kStopped) {
      is_exact = false;
      return lower;
    }
    if (may_count_sync && keeps == FrontKeeps::kForwardBackward &&
        found > lower * (1.0 + kLooseGrains * grain)) {
      keeps = FrontKeeps::kForwardBackwardSync;
    } else {
      ++k;
    }
  }
  if (meter_.stopped()) is_exact = false;
  if (meter_.stopped() || lower >= cutoff || found <= lower * (1.0 + kProofTolerance)) return lower;
  // The tensors of the plans found may fit while the memory the allocator keeps does not.
  if (!(found < kInfinity) || !SearchAll(std::min(cutoff, found), wanted, plans, lower)) {
    is_exact = false;
  }
  return lower;
}

double MaskSearch::SearchRule(double lower, double cutoff, int wanted, PlanList& plans,
                              bool& is_exact) {
  double found = kInfinity;
  if (SearchRelaxed(all_, cutoff, wanted, plans, lower, found) == Relaxed::kStopped ||
      meter_.stopped()) {
    is_exact = false;
    return lower;
  }
  if (lower >= cutoff || found <= lower * (1.0 + kProofTolerance)) return lower;
  if (!SearchAll(std::min(cutoff, found), wanted, plans, lower)) is_exact = false;
  return lower;
}

FrontCache MaskSearch::CoarseFronts(double lower, double grain, FrontKeeps keeps) {
  std::vector<int> classes;
  if (grain > 0.0 && lower < kInfinity) {
    const double stage = lower / setting_.recurrence().micro_batch_count();
    classes = classes_.Within(Seconds::Of(stage * grain * kShareOfMoves));
  }
  return FrontCache(setting_, allowed_, keeps, grain, std::move(classes));
}

PartitionGraph::Outcome MaskSearch::Prepare(double target) {
  is_partial_ = false;
  const PartitionGraph::Outcome outcome = graph_.Build(target, meter_);
  // A rule leaves nothing to solve.
  if (outcome == PartitionGraph::Outcome::kBuilt && !has_rule_ &&
      RunCount() > kMaxRunsSolved * meter_.effort()) {
    graph_.KeepOnly(graph_.BestPartition());
    is_partial_ = true;
  }
  return outcome;
}

int64_t MaskSearch::RunCount() const {
  int64_t count = 0;
  for (int i = 0; i < setting_.depth() && count <= kMaxRunsSolved * meter_.effort(); ++i) {
    for (const PartitionGraph::Edge& edge : graph_.edges(i)) {
      for (int layer = edge.first; layer < edge.end; layer = setting_.EndOfRun(layer)) ++count;
    }
  }
  return count;
}

MaskSearch::Relaxed MaskSearch::SearchRelaxed(FrontCache& fronts, double cutoff, int wanted,
                                              PlanList& plans, double& lower, double& found) {
  // If every stage synchronises, the bound before lacked a multiple of the grain.
  WindowGrowth window(std::max(
      kFirstStepExcess, fronts.keeps() == FrontKeeps::kForwardBackwardSync ? fronts.grain() : 0.0));
  const double first = lower;
  while (lower < std::min(cutoff, found)) {
    if (window.excess() > kMaxExcess) return Relaxed::kStopped;
    const int64_t states_before = meter_.expanded_state_count();
    const double target = std::min({cutoff, found, first * (1.0 + window.excess())});
    const PartitionGraph::Outcome outcome = Prepare(target);
    if (outcome == PartitionGraph::Outcome::kTooLarge || meter_.stopped()) return Relaxed::kStopped;
    if (outcome == PartitionGraph::Outcome::kImpossible) {
      lower = kInfinity;
      return Relaxed::kDone;
    }
    if (outcome == PartitionGraph::Outcome::kBuilt) {
      SuffixSearch suffixes(setting_, graph_, fronts, meter_);
      const bool is_complete = suffixes.Run(target) && !is_partial_;
      if (suffixes.result_count() > 0) {
        if (is_complete) lower = std::max(lower, std::min(target, suffixes.bound(0)));
        found = std::min(found, Try(suffixes, cutoff, wanted, plans));
        return is_complete ? Relaxed::kDone : Relaxed::kStopped;
      }
      if (meter_.stopped()) return Relaxed::kStopped;
      if (!is_complete) {
        window.Widen(0);
        continue;
      }
    }
    lower = std::max(lower, target);
    window.Widen(meter_.expanded_state_count() - states_before);
  }
  return Relaxed::kDone;
}

bool MaskSearch::SearchAll(double cutoff, int wanted, PlanList& plans, double& lower) {
  const double target = cutoff * (1.0 - kProofTolerance);
  const PartitionGraph::Outcome outcome = Prepare(target);
  if (outcome != PartitionGraph::Outcome::kBuilt) {
    if (outcome == PartitionGraph::Outcome::kTooLarge) return false;
    lower = cutoff;
    return true;
  }
  SuffixSearch suffixes(setting_, graph_, all_, meter_);
  if (is_partial_ || !suffixes.Run(target)) return false;
  if (suffixes.result_count() == 0) {
    lower = cutoff;
    return true;
  }
  lower = std::max(lower, suffixes.bound(0));
  least_refused_ = kInfinity;
  double best = std::min(cutoff, Try(suffixes, cutoff, wanted, plans));
  if (best <= lower * (1.0 + kProofTolerance)) return true;
  int64_t simulated = 0;
  const int64_t max_simulated = kMaxSimulated * meter_.effort();
  const bool is_complete = suffixes.Enumerate(
      best * (1.0 - kProofTolerance), kMaxEnumerated * meter_.effort(),
      [&](absl::Span<const ChosenStage> stages) {
        if (++simulated > max_simulated) return 0.0;
        StageTimesOf(setting_, stages, times_);
        const PipelineRules rules = {
            .schedule = setting_.candidate().schedule,
            .blocking_messages = setting_.costs().runtime().blocking_pipeline_messages,
            .serial_messages = setting_.costs().runtime().serial_pipeline_messages};
        const double step =
            schedule_.StepTime(rules, times_, setting_.candidate().micro_batch_count).value();
        if (step < best) best = std::min(best, Offer(stages, best, plans));
        return best * (1.0 - kProofTolerance);
      });
  if (!is_complete || simulated > max_simulated) return false;
  // Fronts may have dropped a smaller variant of a faster plan that was refused.
  if (least_refused_ < best) return false;
  lower = best;
  return true;
}

double MaskSearch::Try(const SuffixSearch& suffixes, double cutoff, int wanted, PlanList& plans) {
  double best = kInfinity;
  const int count = std::min(suffixes.result_count(), kMaxTried * wanted);
  for (int k = 0; k < count; ++k) {
    if (wanted == 1 && suffixes.bound(k) >= std::min(best, cutoff)) break;
    const std::vector<ChosenStage> stages = suffixes.Stages(k);
    if (MayFollow(stages)) best = std::min(best, Offer(stages, cutoff, plans));
  }
  return best;
}

bool MaskSearch::MayFollow(absl::Span<const ChosenStage> stages) {
  std::vector<StageChoice> choices;
  choices.reserve(stages.size());
  std::vector<ChosenStage> exact;
  for (const ChosenStage& stage : stages) {
    choices.push_back(*stage.choice);
    SumTimes(setting_.table(), setting_.RunsOf(stage.first_layer, stage.end_layer), choices.back());
    if (!(choices.back().forward + choices.back().backward).is_finite()) return false;
    exact.push_back({stage.first_layer, stage.end_layer, &choices.back()});
  }
  StageTimesOf(setting_, exact, times_);
  return std::all_of(times_.begin(), times_.end(),
                     [](const StageTimes& times) { return times.send.is_finite(); });
}

double MaskSearch::Offer(absl::Span<const ChosenStage> stages, double cutoff, PlanList& plans) {
  Plan plan = AssemblePlan(setting_, stages);
  const PlanScore score = evaluator_.Evaluate(plan);
  const Bytes usable = setting_.problem().usable_memory();
  const double step = score.step.value() - overhead_;
  if (score.peak_memory_upper > usable) {
    least_refused_ = std::min(least_refused_, step);
    max_excess_ = std::max(max_excess_, score.peak_memory_upper - usable);
    return kInfinity;
  }
  if (step >= cutoff) return step;
  Prediction prediction = evaluator_.Predict(plan);
  plans.Offer({std::move(plan), std::move(prediction)});
  return step;
}

}  // namespace parplan
