#include "planner/planners/exact/nested_spaces.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "planner/model/schedule_traits.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Dimensions that are left out together. Each further group doubles the number of spaces.
constexpr std::pair<SearchDimension, SearchDimension> kGroups[] = {
    {SearchDimension::kInterleaved, SearchDimension::kGroupSize},
    {SearchDimension::kUnevenStages, SearchDimension::kUnevenStages},
    {SearchDimension::kContext, SearchDimension::kUlysses},
};
// Models with more definitions are searched as a whole only: most of the time goes into what layers
// take under every strategy, which each space computes again. A thousand different layers take 13 s
// for each.
constexpr size_t kMaxDefinitions = 64;
// Models with more layers, too: the spaces within that of ten thousand layers take 1.8 s together,
// and all of it 1.1 s.
constexpr int kMaxNestedLayers = 2048;

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

}  // namespace

std::vector<DimensionSet> SpacesWithoutGroups(const PlanningProblem& problem) {
  const DimensionSet dimensions = problem.dimensions();
  const std::optional<Schedule> schedule = problem.rules().schedule;
  std::vector<DimensionSet> spaces;
  if (problem.model().layer_definitions().size() > kMaxDefinitions ||
      problem.model().layer_count() > kMaxNestedLayers) {
    return spaces;
  }
  for (const auto& [first, second] : kGroups) {
    const bool is_asked_for = first == SearchDimension::kInterleaved && schedule.has_value() &&
                              TraitsOf(*schedule).has_virtual_stages;
    const DimensionSet rest = dimensions.Without(first).Without(second);
    if (!is_asked_for && rest != dimensions) spaces.push_back(rest);
  }
  return spaces;
}

void SearchNestedSpaces(const PlanningProblem& problem, const SpaceAnswer& whole,
                        const SpaceSearch& search, PlanList& plans, SearchMeter& meter) {
  const std::vector<DimensionSet> groups = SpacesWithoutGroups(problem);
  const auto space_count = size_t{1} << groups.size();
  // [set of groups left out]
  std::vector<SpaceAnswer> answers(space_count);
  answers[0] = whole;
  std::vector<size_t> order(space_count);
  for (size_t set = 0; set < space_count; ++set) order[set] = set;
  // Larger spaces first: their bounds may close those within them.
  std::stable_sort(order.begin(), order.end(),
                   [](size_t a, size_t b) { return std::popcount(a) < std::popcount(b); });
  for (const size_t set : order) {
    if (set == 0) continue;
    if (!meter.ShouldContinue()) return;
    SpaceAnswer& answer = answers[set];
    PlanningRules rules = problem.rules();
    rules.dimensions = problem.dimensions();
    for (size_t group = 0; group < groups.size(); ++group) {
      if ((set >> group & 1) == 0) continue;
      rules.dimensions = rules.dimensions & groups[group];
      Raise(answers[set & ~(size_t{1} << group)], answer.bounds, answer.blocks);
    }
    if (!rules.dimensions.has(SearchDimension::kInterleaved)) {
      answer.bounds.listed = answer.bounds.uneven = answer.bounds.grouped = Seconds::Infinite();
    }
    if (!rules.dimensions.has(SearchDimension::kUnevenStages)) {
      answer.bounds.uneven = Seconds::Infinite();
    }
    const Seconds enough = plans.CutoffPerSample() * (1.0 - kProofTolerance);
    if (LeastOf(answer.bounds, answer.blocks) >= enough) continue;
    SpaceAnswer found = search(problem.WithRules(rules), enough);
    if (meter.stopped()) found.bounds = {};
    Raise(found, answer.bounds, answer.blocks);
    for (PredictedPlan& plan : found.plans) plans.Offer(std::move(plan));
  }
}

}  // namespace parplan
