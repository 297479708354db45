#include "planner/search/pipeline_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/cost/predict_plan.h"
#include "planner/search/front_cache.h"
#include "planner/search/partition_graph.h"
#include "planner/search/pipeline_setting.h"
#include "planner/search/plan_assembly.h"
#include "planner/search/range_bound.h"
#include "planner/search/reference_partition.h"
#include "planner/search/stage_mix.h"
#include "planner/search/suffix_search.h"

namespace parplan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Steps are as long where they differ by less than rounding explains.
constexpr double kTolerance = 1e-9;
// Steps looked for, as shares more than the lower bound, one after the other.
constexpr double kExcesses[] = {0.001, 0.004, 0.015, 0.05, 0.15, 0.4, 1.0, 3.0, 10.0};
// Without a reference the first step looked for, and its growth.
constexpr double kGrowth = 1.25;
// Where graphs are too large, the bound is good enough so close to the step of such a one.
constexpr double kCloseEnough = 1.002;
// Stages joined to see all plans that may be faster than a simulated one, and those simulated.
constexpr int64_t kMostEnumerated = 200'000;
constexpr int64_t kMostSimulated = 2'000;
// Plans by their bound that are simulated before.
constexpr int kMostTried = 8;
// States of one mask before the proof is given up, where there is a plan and where not.
constexpr int64_t kMostProofStates = 60'000;
constexpr int64_t kMostStates = 300'000;
// Searches with less memory, where plans fit but for what the allocator keeps.
constexpr int kMostAttempts = 6;
// Runs of layers in all stages of plans, beyond which only the best partition is solved.
constexpr int64_t kMostRunsSolved = 6'000;

// One candidate under one mask.
class MaskSearch {
 public:
  MaskSearch(const PipelineSetting& setting, const OptionMask& allowed, PlanEvaluator& evaluator,
             SearchMeter& meter)
      : setting_(setting),
        allowed_(allowed),
        meter_(meter),
        evaluator_(evaluator),
        overhead_(setting.costs().step_overhead().value()),
        reference_(ReferencePartition(setting, allowed)),
        ranges_(setting, allowed, reference_),
        graph_(setting, ranges_),
        ways_(setting, allowed, FrontKeeps::kWays),
        all_(setting, allowed, FrontKeeps::kAll) {}

  // Of steps without their overhead, up to `most`.
  double LowerBound(double most) {
    if (!setting_.has_partition() || setting_.largest_budget() < Bytes()) return kInfinite;
    double target = std::min(most, PartitionGraph::BoundOf(setting_, ranges_, reference_));
    double lower = graph_.SpreadBound();
    if (!(target < kInfinite)) target = lower * kGrowth;
    // The least step for which the graph was too large, once it was.
    double too_much = kInfinite;
    while (!meter_.stopped()) {
      switch (graph_.Build(target, meter_)) {
        case PartitionGraph::Outcome::kImpossible:
          return kInfinite;
        case PartitionGraph::Outcome::kBuilt:
          was_built_ = true;
          return std::min(target, graph_.bound());
        case PartitionGraph::Outcome::kTooLarge:
          too_much = target;
          break;
        case PartitionGraph::Outcome::kNothing:
          lower = std::max(lower, target);
          if (target >= most) return lower;
          break;
      }
      if (too_much <= lower * kCloseEnough) break;
      target = too_much < kInfinite ? std::sqrt(lower * too_much) : lower * kGrowth;
      target = std::min(most, target);
    }
    return lower;
  }

  // The plan of the partition of the lower bound, with stages mixed of what is good at the
  // price of memory. Its step; infinite where it does not fit. REQUIRES: a finite
  // `LowerBound` of less than its `most`.
  double TryMix(double most, PlanList& plans) {
    const std::vector<int> boundaries = was_built_ ? graph_.BestPartition() : reference_;
    std::vector<StageChoice> choices;
    choices.reserve(setting_.depth());
    std::vector<ChosenStage> stages;
    for (int i = 0; i < setting_.depth(); ++i) {
      std::optional<StageChoice> choice =
          MixStage(setting_, allowed_, i, boundaries[i], boundaries[i + 1]);
      if (!choice) return kInfinite;
      choices.push_back(*std::move(choice));
      stages.push_back({boundaries[i], boundaries[i + 1], &choices.back()});
    }
    StageTimesOf(setting_, stages, times_);
    for (const StageTimes& times : times_) {
      if (!times.send.is_finite()) return kInfinite;
    }
    return Offer(stages, most, plans);
  }

  // Adds plans of steps below `most` and gives the bound.
  double Search(double most, int wanted, PlanList& plans, bool& is_exact) {
    double lower = LowerBound(most);
    double found = kInfinite;
    const bool was_seen = SearchRelaxed(most, wanted, plans, lower, found);
    if (!was_seen || meter_.stopped()) {
      is_exact = false;
      return lower;
    }
    if (lower >= most || found <= lower * (1.0 + kTolerance)) return lower;
    // Tensors of the plans found may fit, but not what the allocator keeps besides.
    if (!(found < kInfinite) || !SearchAll(std::min(most, found), wanted, plans, lower)) {
      is_exact = false;
    }
    return lower;
  }

  // What the plans that were refused have too much.
  Bytes most_excess() const { return most_excess_; }

 private:
  // The graph for plans of `target`; where that is too large, of one partition.
  PartitionGraph::Outcome Prepare(double target) {
    is_partial_ = false;
    const PartitionGraph::Outcome outcome = graph_.Build(target, meter_);
    if (outcome == PartitionGraph::Outcome::kBuilt && RunCount() > kMostRunsSolved) {
      graph_.KeepOnly(graph_.BestPartition());
      is_partial_ = true;
    }
    return outcome;
  }

  int64_t RunCount() const {
    int64_t count = 0;
    for (int i = 0; i < setting_.depth() && count <= kMostRunsSolved; ++i) {
      for (const PartitionGraph::Edge& edge : graph_.edges(i)) {
        for (int layer = edge.first; layer < edge.end; layer = setting_.EndOfRun(layer)) ++count;
      }
    }
    return count;
  }

  // The best plans by the relaxed bound. Raises `lower`, and to `most` where there are none
  // below; `found` is the shortest step simulated. False where not all were looked at.
  bool SearchRelaxed(double most, int wanted, PlanList& plans, double& lower, double& found) {
    for (const double excess : kExcesses) {
      if (lower >= most) return true;
      const double target = std::min(most, lower * (1.0 + excess));
      const PartitionGraph::Outcome outcome = Prepare(target);
      if (outcome == PartitionGraph::Outcome::kTooLarge || meter_.stopped()) return false;
      if (outcome == PartitionGraph::Outcome::kImpossible) {
        lower = kInfinite;
        return true;
      }
      if (outcome == PartitionGraph::Outcome::kNothing) {
        lower = std::max(lower, target);
        continue;
      }
      SuffixSearch suffixes(setting_, graph_, ways_, meter_);
      const bool is_complete = suffixes.Run(target) && !is_partial_;
      if (suffixes.result_count() > 0) {
        if (is_complete) lower = std::max(lower, suffixes.bound(0));
        found = Try(suffixes, most, wanted, plans);
        return is_complete;
      }
      if (is_complete) lower = target;
      if (meter_.stopped()) return false;
    }
    return false;
  }

  // All plans whose bound allows a step below `most`. Raises `lower` to the best step of all;
  // false where a limit ended it.
  bool SearchAll(double most, int wanted, PlanList& plans, double& lower) {
    const double target = most * (1.0 - kTolerance);
    const PartitionGraph::Outcome outcome = Prepare(target);
    if (outcome != PartitionGraph::Outcome::kBuilt) {
      if (outcome == PartitionGraph::Outcome::kTooLarge) return false;
      lower = most;
      return true;
    }
    SuffixSearch suffixes(setting_, graph_, all_, meter_);
    if (is_partial_ || !suffixes.Run(target)) return false;
    if (suffixes.result_count() == 0) {
      lower = most;
      return true;
    }
    lower = std::max(lower, suffixes.bound(0));
    least_refused_ = kInfinite;
    double best = std::min(most, Try(suffixes, most, wanted, plans));
    if (best <= lower * (1.0 + kTolerance)) return true;
    int64_t simulated = 0;
    const bool is_complete = suffixes.Enumerate(
        best * (1.0 - kTolerance), kMostEnumerated, [&](absl::Span<const ChosenStage> stages) {
          if (++simulated > kMostSimulated) return 0.0;
          StageTimesOf(setting_, stages, times_);
          const PipelineRules rules = {
              .schedule = setting_.candidate().schedule,
              .blocking_messages = setting_.costs().runtime().blocking_pipeline_messages};
          const double step =
              schedule_.StepTime(rules, times_, setting_.candidate().micro_batch_count).value();
          if (step < best) best = std::min(best, Offer(stages, best, plans));
          return best * (1.0 - kTolerance);
        });
    if (!is_complete || simulated > kMostSimulated) return false;
    // Of a faster plan that was refused, one that fronts leave out may be smaller.
    if (least_refused_ < best) return false;
    lower = best;
    return true;
  }

  // Simulates the best results. The shortest step of a plan that fits.
  double Try(const SuffixSearch& suffixes, double most, int wanted, PlanList& plans) {
    double best = kInfinite;
    const int count = std::min(suffixes.result_count(), kMostTried * wanted);
    for (int k = 0; k < count; ++k) {
      if (wanted == 1 && suffixes.bound(k) >= std::min(best, most)) break;
      best = std::min(best, Offer(suffixes.Stages(k), most, plans));
    }
    return best;
  }

  // The step of the plan where it fits and is below `most`; else infinite.
  double Offer(absl::Span<const ChosenStage> stages, double most, PlanList& plans) {
    Plan plan = AssemblePlan(setting_, stages);
    const PlanScore score = evaluator_.Evaluate(plan);
    const Bytes usable = setting_.problem().usable_memory();
    const double step = score.step.value() - overhead_;
    if (score.peak_memory_upper > usable) {
      least_refused_ = std::min(least_refused_, step);
      most_excess_ = std::max(most_excess_, score.peak_memory_upper - usable);
      return kInfinite;
    }
    if (step >= most) return step;
    Prediction prediction = evaluator_.Predict(plan);
    plans.Offer({std::move(plan), std::move(prediction)});
    return step;
  }

  const PipelineSetting& setting_;
  const OptionMask& allowed_;
  SearchMeter& meter_;
  PlanEvaluator& evaluator_;
  const double overhead_;
  const std::vector<int> reference_;
  bool was_built_ = false;
  RangeBounds ranges_;
  PartitionGraph graph_;
  FrontCache ways_;
  FrontCache all_;
  bool is_partial_ = false;
  Bytes most_excess_;
  // The shortest step of those refused.
  double least_refused_ = kInfinite;
  ScheduleEvaluator schedule_;
  std::vector<StageTimes> times_;
};

// The part of a mask in which every definition that has options of `layout` has no others.
OptionMask OfOneLayout(const OptionTable& table, const OptionMask& mask, int layout) {
  OptionMask part = mask;
  for (size_t definition = 0; definition < part.size(); ++definition) {
    const std::vector<StageOption>& options = table.options(static_cast<int>(definition));
    std::vector<char> kept(part[definition].size(), 0);
    bool has_any = false;
    for (size_t k = 0; k < options.size(); ++k) {
      if (!mask[definition][k] || options[k].layout != layout) continue;
      kept[k] = 1;
      has_any = true;
    }
    if (has_any) part[definition] = std::move(kept);
  }
  return part;
}

// All masks of a candidate.
class CandidatePlans {
 public:
  CandidatePlans(const PipelineSetting& setting, PlanEvaluator& evaluator, double most, int wanted,
                 PlanList& plans, SearchMeter& meter)
      : setting_(setting),
        evaluator_(evaluator),
        overhead_(setting.costs().step_overhead().value()),
        wanted_(wanted),
        most_(most),
        plans_(plans),
        meter_(meter) {}

  // The bound of steps without their overhead.
  double Search(const std::vector<OptionMask>& masks) {
    for (const OptionMask& mask : masks) Dive(mask);
    double lower = kInfinite;
    for (const OptionMask& mask : masks) {
      if (meter_.stopped()) {
        is_exact_ = false;
        return 0.0;
      }
      const bool has_plan = most_ < kInfinite;
      lower =
          std::min(lower, SearchMask(mask, has_plan ? kMostProofStates : kMostStates, is_exact_));
    }
    return lower;
  }

  bool is_exact() const { return is_exact_; }
  Bytes most_excess() const { return most_excess_; }

 private:
  // Quick plans, of one layout each, to have a step to beat.
  void Dive(const OptionMask& mask) {
    for (int layout = 0; layout < setting_.table().layout_count() && !meter_.stopped(); ++layout) {
      const OptionMask part = OfOneLayout(setting_.table(), mask, layout);
      MaskSearch search(setting_, part, evaluator_, meter_);
      if (search.LowerBound(most_) < most_) search.TryMix(most_, plans_);
      TakeMost();
    }
  }

  void TakeMost() {
    if (!plans_.is_full()) return;
    most_ = std::min(most_, plans_.plans().back().prediction.step.value() - overhead_);
  }

  double SearchMask(const OptionMask& mask, int64_t most_states, bool& is_exact) {
    const SearchControl control = meter_.PartOf(most_states);
    SearchMeter part(control);
    MaskSearch search(setting_, mask, evaluator_, part);
    const double lower = search.Search(most_, wanted_, plans_, is_exact);
    meter_.Add(part);
    most_excess_ = std::max(most_excess_, search.most_excess());
    TakeMost();
    return lower;
  }

  const PipelineSetting& setting_;
  PlanEvaluator& evaluator_;
  const double overhead_;
  const int wanted_;
  double most_;
  PlanList& plans_;
  SearchMeter& meter_;
  bool is_exact_ = true;
  Bytes most_excess_;
};

}  // namespace

PipelineOutcome SearchPipeline(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const PipelineCandidate& candidate,
                               Seconds most, int wanted, SearchMeter& meter) {
  PlanEvaluator evaluator(space.problem(), costs);
  const double overhead = costs.step_overhead().value();
  const std::vector<OptionMask> masks = PlanWideMasks(space, table);
  PipelineOutcome outcome;
  PlanList plans(wanted);
  Bytes usable = space.problem().usable_memory();
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const PipelineSetting setting(space, costs, table, candidate, usable);
    CandidatePlans search(setting, evaluator, most.value() - overhead, wanted, plans, meter);
    const double bound = search.Search(masks);
    // With less memory only to find a plan; the bound is that of the first attempt.
    if (attempt == 0) outcome.bound = Seconds::Of(bound + overhead);
    outcome.is_exact = outcome.is_exact && search.is_exact();
    if (!plans.plans().empty() || search.most_excess() == Bytes() || meter.stopped()) break;
    outcome.is_exact = false;
    usable -= search.most_excess();
  }
  outcome.plans = plans.Take();
  return outcome;
}

Seconds PipelineBound(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                      const PipelineCandidate& candidate, Seconds most, SearchMeter& meter) {
  const PipelineSetting setting(space, costs, table, candidate, space.problem().usable_memory());
  PlanEvaluator evaluator(space.problem(), costs);
  const double overhead = costs.step_overhead().value();
  double bound = kInfinite;
  for (const OptionMask& mask : PlanWideMasks(space, table)) {
    if (meter.stopped()) return Seconds();
    MaskSearch search(setting, mask, evaluator, meter);
    bound = std::min(bound, search.LowerBound(std::min(bound, most.value() - overhead)));
  }
  return Seconds::Of(bound + overhead);
}

}  // namespace parplan
