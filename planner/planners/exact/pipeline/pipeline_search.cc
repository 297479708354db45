#include "planner/planners/exact/pipeline/pipeline_search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/pipeline/mask_floor.h"
#include "planner/planners/exact/pipeline/mask_search.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/planners/exact/pipeline/priced_search.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/space/allowed_options.h"
#include "planner/search/space/layout_classes.h"

namespace parplan {
namespace {

// Limits of states of one mask before it is given up, with and without an incumbent. Without one
// the search goes on longer, because any plan is worth more than a proof. With fewer states more
// answers keep a gap, with more a single candidate delays all others; the values are not measured
// one by one. `kFewStates` is a tenth or a fifth of them, so that trying every candidate costs
// little compared with searching one.
struct StateLimits {
  int64_t with_plan;
  int64_t without;
};
constexpr StateLimits kMaxStates = {60'000, 300'000};
constexpr StateLimits kFewStates = {6'000, 60'000};
// The same for plans of one layout, which are only to give an incumbent, once per layout and mask:
// a fifteenth of `kMaxStates`. Not measured for other values.
constexpr int64_t kMaxDiveStates = 4'000;
// Models of many layers are also searched by labels, if prices prove nothing, up to this many
// layers and runs of equal layers. Not measured for other values.
constexpr int kMaxFoldedLayers = 512;
constexpr int kMaxFoldedRuns = 16;
// Searches with less memory, if plans fit except for what the allocator keeps. Each leaves out what
// the plans of the last one exceeded; the number guards against many small steps. Not measured.
constexpr int kMaxSearchAttempts = 6;

bool IsTransformerDefinition(const PipelineSetting& setting, size_t definition) {
  return IsTransformer(setting.problem().model().layer_definitions()[definition].kind);
}

// Returns the part of a mask in which every definition that has options of `layout` uses only
// those; end layers may keep the others.
OptionMask OfOneLayout(const PipelineSetting& setting, const OptionMask& mask, int layout,
                       bool frees_ends) {
  OptionMask part = mask;
  for (size_t definition = 0; definition < part.size(); ++definition) {
    if (frees_ends && !IsTransformerDefinition(setting, definition)) continue;
    const std::vector<StageOption>& options = setting.table().options(static_cast<int>(definition));
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

// The search over all masks of a candidate.
class CandidatePlans {
 public:
  CandidatePlans(const PipelineSetting& setting, PlanEvaluator& evaluator, double cutoff,
                 int wanted, const StateLimits& limits, PlanList& plans, SearchMeter& meter)
      : setting_(setting),
        classes_(setting.problem().model(), setting.table()),
        evaluator_(evaluator),
        overhead_(setting.costs().step_overhead().value()),
        wanted_(wanted),
        limits_(limits),
        cutoff_(cutoff),
        plans_(plans),
        meter_(meter) {}

  // Returns the lower bound of steps without their overhead. Without `dives`, plans of one layout
  // are not sought first.
  double Search(const std::vector<OptionMask>& masks, bool dives) {
    for (const OptionMask& mask : masks) {
      if (dives) Dive(mask);
    }
    double lower = kInfinity;
    for (const OptionMask& mask : masks) {
      if (meter_.stopped()) {
        is_exact_ = false;
        return 0.0;
      }
      const bool has_plan = cutoff_ < kInfinity;
      lower = std::min(
          lower,
          SearchMask(mask, (has_plan ? limits_.with_plan : limits_.without) * meter_.effort(),
                     is_exact_));
    }
    return lower;
  }

  bool is_exact() const { return is_exact_; }
  Bytes max_excess() const { return max_excess_; }

 private:
  // Finds quick plans of one layout each, to have an incumbent: first a mix without search, then a
  // coarse search in which end layers may have any layout.
  void Dive(const OptionMask& mask) {
    for (const OptionMask& part : PartsOfOneLayout(mask, /*frees_ends=*/false)) {
      if (!meter_.ShouldContinue()) return;
      MaskSearch search(setting_, part, classes_, evaluator_, meter_);
      if (search.LowerBound(cutoff_) < cutoff_) search.TryMix(cutoff_, plans_);
      TakeMost();
    }
    for (const OptionMask& part : PartsOfOneLayout(mask, /*frees_ends=*/true)) {
      if (!meter_.ShouldContinue()) return;
      const SearchControl control = meter_.PartOf(kMaxDiveStates);
      SearchMeter meter(control);
      MaskSearch search(setting_, part, classes_, evaluator_, meter);
      const double lower = search.LowerBound(cutoff_);
      if (lower < cutoff_) search.SearchCoarsely(lower, cutoff_, wanted_, plans_);
      meter_.Add(meter);
      TakeMost();
    }
  }

  // Returns the parts of a mask for all layouts, each once. A layout that no definition has leaves
  // the whole mask, so where all transformer layers have one strategy most layouts have equal
  // parts.
  std::vector<OptionMask> PartsOfOneLayout(const OptionMask& mask, bool frees_ends) const {
    std::vector<OptionMask> parts;
    std::vector<char> is_there(setting_.table().layout_count(), 0);
    for (size_t definition = 0; definition < mask.size(); ++definition) {
      if (frees_ends && !IsTransformerDefinition(setting_, definition)) continue;
      const std::vector<StageOption>& options =
          setting_.table().options(static_cast<int>(definition));
      ForEachAllowed(mask[definition], [&](int k) { is_there[options[k].layout] = 1; });
    }
    bool has_whole = false;
    for (int layout = 0; layout < setting_.table().layout_count(); ++layout) {
      if (!LeavesTableThere(mask, layout)) continue;
      if (!is_there[layout] && has_whole) continue;
      has_whole |= !is_there[layout];
      OptionMask part = OfOneLayout(setting_, mask, layout, frees_ends);
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) {
        parts.push_back(std::move(part));
      }
    }
    return parts;
  }

  // Returns whether the layers that hold a tied table have options next to which layers of `layout`
  // reshard nothing. Masks differ in these options, and each mask is tried only with its own
  // layouts.
  bool LeavesTableThere(const OptionMask& mask, int layout) const {
    const int definition_count = static_cast<int>(mask.size());
    for (int definition = 0; definition < definition_count; ++definition) {
      if (!setting_.space().HoldsTiedTable(definition) || mask[definition].empty()) continue;
      const std::vector<StageOption>& options = setting_.table().options(definition);
      for (size_t k = 0; k < options.size(); ++k) {
        if (mask[definition][k] &&
            setting_.table().Transition(definition, options[k].layout, layout) == Seconds()) {
          return true;
        }
      }
      return false;
    }
    return true;
  }

  void TakeMost() {
    if (!plans_.is_full()) return;
    cutoff_ = std::min(cutoff_, plans_.plans().back().prediction.step.value() - overhead_);
  }

  double SearchMask(const OptionMask& mask, int64_t max_states, bool& is_exact) {
    const SearchControl control = meter_.PartOf(max_states);
    SearchMeter part(control);
    MaskSearch search(setting_, mask, classes_, evaluator_, part);
    const double lower = search.Search(cutoff_, wanted_, plans_, is_exact);
    meter_.Add(part);
    max_excess_ = std::max(max_excess_, search.max_excess());
    TakeMost();
    return lower;
  }

  const PipelineSetting& setting_;
  LayoutClasses classes_;
  PlanEvaluator& evaluator_;
  const double overhead_;
  const int wanted_;
  const StateLimits limits_;
  double cutoff_;
  PlanList& plans_;
  SearchMeter& meter_;
  bool is_exact_ = true;
  Bytes max_excess_;
};

// Returns whether the layers fold into so few runs that stages of them can be solved.
bool AreFewRuns(const ModelSpec& model) {
  return model.layer_count() <= kMaxFoldedLayers &&
         static_cast<int>(model.layer_runs().size()) <= kMaxFoldedRuns;
}

PipelineOutcome SearchWithin(const StrategySpace& space, const CostModel& costs,
                             const OptionTable& table, const PipelineCandidate& candidate,
                             Seconds cutoff, int wanted, const StateLimits& limits, bool dives,
                             SearchMeter& meter) {
  PlanEvaluator evaluator(space.problem(), costs);
  const double overhead = costs.step_overhead().value();
  const PipelineSetting whole(space, costs, table, candidate, space.problem().usable_memory());
  MaskFloor floor(whole, /*interleaves=*/false, cutoff.value() - overhead);
  const std::vector<OptionMask> masks = PlanWideMasks(space, table, floor.Filter(), meter.Worker());
  PipelineOutcome outcome;
  if (meter.stopped()) {
    outcome.is_exact = false;
    return outcome;
  }
  PlanList plans(wanted);
  Bytes usable = space.problem().usable_memory();
  for (int attempt = 0; attempt < kMaxSearchAttempts; ++attempt) {
    const PipelineSetting setting(space, costs, table, candidate, usable);
    CandidatePlans search(setting, evaluator, cutoff.value() - overhead, wanted, limits, plans,
                          meter);
    const double bound = search.Search(masks, dives || attempt > 0);
    // Searches with less memory serve only to find a plan; the bound is that of the first attempt.
    if (attempt == 0) {
      outcome.bound = Seconds::Of(bound + overhead);
      if (floor.dropped_slow()) outcome.bound = std::min(outcome.bound, cutoff);
    }
    outcome.is_exact = outcome.is_exact && search.is_exact();
    if (!plans.plans().empty() || search.max_excess() == Bytes() || meter.stopped()) break;
    outcome.is_exact = false;
    usable -= search.max_excess();
  }
  outcome.plans = plans.Take();
  return outcome;
}

}  // namespace

PipelineOutcome SearchPipeline(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const PipelineCandidate& candidate,
                               Seconds cutoff, int wanted, SearchMeter& meter) {
  if (space.problem().model().layer_count() >= kManyLayers) {
    PipelineOutcome priced =
        SearchPricedPipeline(space, costs, table, candidate, cutoff, wanted, meter);
    if (priced.is_exact || meter.stopped() || !AreFewRuns(space.problem().model())) return priced;
    if (wanted == 1 && !priced.plans.empty()) {
      cutoff = std::min(cutoff, priced.plans.front().prediction.step);
    }
    PipelineOutcome outcome = SearchWithin(space, costs, table, candidate, cutoff, wanted,
                                           kMaxStates, /*dives=*/true, meter);
    outcome.bound = std::max(outcome.bound, priced.bound);
    PlanList plans(wanted);
    for (PredictedPlan& plan : priced.plans) plans.Offer(std::move(plan));
    for (PredictedPlan& plan : outcome.plans) plans.Offer(std::move(plan));
    outcome.plans = plans.Take();
    return outcome;
  }
  return SearchWithin(space, costs, table, candidate, cutoff, wanted, kMaxStates,
                      /*dives=*/true, meter);
}

PipelineOutcome SearchTriedPipeline(const StrategySpace& space, const CostModel& costs,
                                    const OptionTable& table, const PipelineCandidate& candidate,
                                    Seconds cutoff, int wanted, SearchMeter& meter) {
  return SearchWithin(space, costs, table, candidate, cutoff, wanted, kMaxStates, /*dives=*/false,
                      meter);
}

PipelineOutcome TryPipeline(const StrategySpace& space, const CostModel& costs,
                            const OptionTable& table, const PipelineCandidate& candidate,
                            Seconds cutoff, int wanted, SearchMeter& meter) {
  return SearchWithin(space, costs, table, candidate, cutoff, wanted, kFewStates, /*dives=*/true,
                      meter);
}

Seconds PipelineBound(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                      const PipelineCandidate& candidate, Seconds cutoff, SearchMeter& meter) {
  if (space.problem().model().layer_count() >= kManyLayers) {
    return PricedPipelineBound(space, costs, table, candidate, cutoff, meter);
  }
  const PipelineSetting setting(space, costs, table, candidate, space.problem().usable_memory());
  LayoutClasses classes(space.problem().model(), table);
  PlanEvaluator evaluator(space.problem(), costs);
  const double overhead = costs.step_overhead().value();
  double bound = kInfinity;
  MaskFloor floor(setting, /*interleaves=*/false, cutoff.value() - overhead);
  for (const OptionMask& mask : RelaxedMasks(space, table, floor.Filter(), meter.Worker())) {
    if (!meter.ShouldContinue()) return Seconds();
    MaskSearch search(setting, mask, classes, evaluator, meter);
    bound = std::min(bound, search.LowerBound(std::min(bound, cutoff.value() - overhead)));
  }
  // Without masks because the meter stopped, nothing is proved.
  if (meter.stopped()) return Seconds();
  const Seconds least = Seconds::Of(bound + overhead);
  return floor.dropped_slow() ? std::min(least, cutoff) : least;
}

}  // namespace parplan
