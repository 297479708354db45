#include "planner/planners/exact/nested_spaces.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "planner/model/device_memory.h"
#include "planner/model/schedule_traits.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Dimensions that are left out together. Each further group doubles the number of spaces.
constexpr std::pair<SearchDimension, SearchDimension> kGroups[] = {
    {SearchDimension::kInterleaved, SearchDimension::kGroupSize},
    {SearchDimension::kUnevenStages, SearchDimension::kUnevenStages},
    {SearchDimension::kContext, SearchDimension::kUlysses},
    {SearchDimension::kHybridSharding, SearchDimension::kHybridSharding},
};
// Models with more definitions are searched as a whole only: most of the time goes into what layers
// take under every strategy, which each space computes again. A thousand different layers take 13 s
// for each.
constexpr size_t kMaxDefinitions = 64;
// Models with more layers, too: the spaces within that of ten thousand layers take 1.8 s together,
// and all of it 1.1 s.
constexpr int kMaxNestedLayers = 2048;
// Questions about more devices are not searched for smaller devices: one of 512 devices took 22
// times as long before proofs came first (docs/measurements/search.md).
constexpr int kMaxDevicesForMemory = 64;

Seconds LeastOf(const KindBounds& bounds, Seconds blocks) {
  return std::min({bounds.plain, bounds.listed, bounds.uneven, bounds.grouped, blocks});
}

// Raises bounds to those of a space that contains theirs.
void Raise(const SpaceAnswer& larger, KindBounds& bounds, Seconds& blocks) {
  bounds.plain = std::max(bounds.plain, larger.bounds.plain);
  bounds.listed = std::max(bounds.listed, larger.bounds.listed);
  bounds.uneven = std::max(bounds.uneven, larger.bounds.uneven);
  bounds.grouped = std::max(bounds.grouped, larger.bounds.grouped);
  blocks = std::max(blocks, larger.blocks);
}

// The spaces of a question, each with what is known of it: the whole one and those without some
// groups.
class SpaceFamily {
 public:
  SpaceFamily(const PlanningProblem& problem, const SpaceAnswer& whole,
              const SpaceSearches& searches, PlanList& plans, SearchMeter& meter)
      : problem_(problem),
        groups_(SpacesWithoutGroups(problem)),
        searches_(searches),
        plans_(plans),
        meter_(meter),
        answers_(size_t{1} << groups_.size()) {
    answers_[0] = whole;
    for (size_t set = 0; set < answers_.size(); ++set) order_.push_back(set);
    // Larger spaces first: their bounds may close those within them.
    std::stable_sort(order_.begin(), order_.end(),
                     [](size_t a, size_t b) { return std::popcount(a) < std::popcount(b); });
  }

  // Searches the open spaces but the whole one with the memory of the problem.
  void SearchWithinWhole() { SearchOpen(problem_.usable_memory(), /*begin=*/1); }

  // Searches all open spaces with less memory. What is known then holds for less memory only.
  // Returns false if none is open, so that none is for still less memory.
  bool SearchWith(Bytes usable_memory) { return SearchOpen(usable_memory, /*begin=*/0); }

 private:
  bool SearchOpen(Bytes usable_memory, size_t begin) {
    bool is_any_open = false;
    for (size_t place = begin; place < order_.size(); ++place) {
      if (!meter_.ShouldContinue()) return false;
      const size_t set = order_[place];
      SpaceAnswer& answer = answers_[set];
      const PlanningRules rules = RulesOf(set);
      for (size_t group = 0; group < groups_.size(); ++group) {
        if ((set >> group & 1) == 0) continue;
        Raise(answers_[set & ~(size_t{1} << group)], answer.bounds, answer.blocks);
      }
      if (!rules.dimensions.has(SearchDimension::kInterleaved)) {
        answer.bounds.listed = answer.bounds.uneven = answer.bounds.grouped = Seconds::Infinite();
      }
      if (!rules.dimensions.has(SearchDimension::kUnevenStages)) {
        answer.bounds.uneven = Seconds::Infinite();
      }
      const PlanningProblem part = problem_.WithRules(rules).WithUsableMemory(usable_memory);
      if (IsClosed(answer)) continue;
      // The proof of the space with virtual stages has looked at all plans of the space without.
      const bool leaves_out_virtual_stages =
          problem_.dimensions().has(SearchDimension::kInterleaved) &&
          !rules.dimensions.has(SearchDimension::kInterleaved);
      if (Enough().is_finite() && answer.blocks >= Enough() && !leaves_out_virtual_stages) {
        SpaceAnswer proved = searches_.prove(part, answer, Enough());
        const bool is_settled = proved.is_settled;
        Take(std::move(proved), answer);
        if (IsClosed(answer)) continue;
        is_any_open = true;
        if (is_settled) continue;
        if (!meter_.ShouldContinue()) return false;
      }
      is_any_open = true;
      Take(searches_.search(part, Enough()), answer);
    }
    return is_any_open;
  }

  // Returns the time per sample that a plan must be below to be worth finding.
  Seconds Enough() const { return plans_.CutoffPerSample() * (1.0 - kProofTolerance); }
  // A proof closes a space at `Enough` up to the tolerance, and rounding takes more from a bound
  // that is divided by the batch and multiplied again.
  bool IsClosed(const SpaceAnswer& answer) const {
    return LeastOf(answer.bounds, answer.blocks) >= Enough() * (1.0 - 2.0 * kProofTolerance);
  }
  // Adds what was found of a space to what is known of it.
  void Take(SpaceAnswer found, SpaceAnswer& answer) {
    if (meter_.stopped()) found.bounds = {};
    Raise(found, answer.bounds, answer.blocks);
    for (PredictedPlan& plan : found.plans) {
      plan.prediction.usable_memory = problem_.usable_memory();
      plans_.Offer(std::move(plan));
    }
  }

  // Returns the rules without a set of groups.
  PlanningRules RulesOf(size_t set) const {
    PlanningRules rules = problem_.rules();
    if (set == 0) return rules;
    rules.dimensions = problem_.dimensions();
    for (size_t group = 0; group < groups_.size(); ++group) {
      if ((set >> group & 1) == 1) rules.dimensions = rules.dimensions & groups_[group];
    }
    return rules;
  }

  const PlanningProblem& problem_;
  std::vector<DimensionSet> groups_;
  const SpaceSearches& searches_;
  PlanList& plans_;
  SearchMeter& meter_;
  // [set of groups left out]
  std::vector<SpaceAnswer> answers_;
  // The sets.
  std::vector<size_t> order_;
};

}  // namespace

bool IsNestingCheap(const PlanningProblem& problem) {
  return problem.model().layer_definitions().size() <= kMaxDefinitions &&
         problem.model().layer_count() <= kMaxNestedLayers;
}

std::vector<DimensionSet> SpacesWithoutGroups(const PlanningProblem& problem) {
  const DimensionSet dimensions = problem.dimensions();
  const std::optional<Schedule> schedule = problem.rules().schedule;
  std::vector<DimensionSet> spaces;
  if (!IsNestingCheap(problem)) return spaces;
  for (const auto& [first, second] : kGroups) {
    const bool is_asked_for = first == SearchDimension::kInterleaved && schedule.has_value() &&
                              TraitsOf(*schedule).has_virtual_stages;
    const DimensionSet rest = dimensions.Without(first).Without(second);
    if (!is_asked_for && rest != dimensions) spaces.push_back(rest);
  }
  return spaces;
}

void SearchNestedSpaces(const PlanningProblem& problem, const SpaceAnswer& whole,
                        const SpaceSearches& searches, PlanList& plans, SearchMeter& meter) {
  if (!IsNestingCheap(problem)) return;
  SpaceFamily family(problem, whole, searches, plans, meter);
  family.SearchWithinWhole();
  if (problem.device_count() > kMaxDevicesForMemory) return;
  for (const auto& [gibibytes, usable_memory] : SmallerDevices(problem)) {
    if (!family.SearchWith(usable_memory)) return;
  }
}

}  // namespace parplan
