#include "tests/support/search_laws.h"

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <variant>

#include "planner/find_plan.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/exact/nested_spaces.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

LargeOptions WithDimensions(LargeOptions options, DimensionSet dimensions) {
  options.rules.dimensions = dimensions;
  return options;
}

}  // namespace

std::vector<LesserQuestion> SmallerSpaces(const LargeOptions& options) {
  std::vector<LesserQuestion> smaller;
  const DimensionSet all = options.rules.dimensions;
  for (const char* const names : {"-pipeline",
                                  "-uneven-stages",
                                  "-per-layer",
                                  "-end-strategies",
                                  "-tensor",
                                  "-rank-order",
                                  "-zero-1",
                                  "-zero-2",
                                  "-zero-3",
                                  "-ulysses",
                                  "-context",
                                  "-recompute-selective",
                                  "-recompute-full",
                                  "-gpipe",
                                  "-interleaved",
                                  "-expert-tensor",
                                  "-hybrid-sharding",
                                  "-ulysses,-context",
                                  "-uneven-stages,-ulysses,-context",
                                  "-interleaved,-uneven-stages"}) {
    const DimensionSet dimensions = all & Valid(DimensionSet::Parse(names, "space"));
    if (dimensions != all) smaller.push_back({names, WithDimensions(options, dimensions)});
  }
  return smaller;
}

std::vector<LesserQuestion> NestedSpacesOf(const LargeOptions& options) {
  const PlanningProblem problem = LargeProblem(options);
  const std::vector<DimensionSet> groups = SpacesWithoutGroups(problem);
  std::vector<LesserQuestion> smaller;
  for (size_t set = 1; set < size_t{1} << groups.size(); ++set) {
    DimensionSet dimensions = problem.dimensions();
    for (size_t group = 0; group < groups.size(); ++group) {
      if ((set >> group & 1) == 1) dimensions = dimensions & groups[group];
    }
    smaller.push_back({dimensions.ToString(), WithDimensions(options, dimensions)});
  }
  return smaller;
}

std::vector<LesserQuestion> LesserHardware(const LargeOptions& options) {
  std::vector<LesserQuestion> lesser;
  for (const int percent : {97, 75}) {
    LargeOptions smaller = options;
    smaller.device_memory = Bytes::Of(options.device_memory.count() / 100 * percent);
    lesser.push_back({percent == 97 ? "97 % of the memory" : "75 % of the memory", smaller});
  }
  LargeOptions slower = options;
  slower.network_speed *= 0.5;
  lesser.push_back({"half the network", slower});
  const int64_t step = options.rules.global_batch_size_step;
  if (options.rules.smallest_global_batch_size > 0 &&
      options.global_batch_size - step >= options.rules.smallest_global_batch_size) {
    LargeOptions fewer = options;
    fewer.global_batch_size -= step;
    lesser.push_back({"without the largest batch", fewer});
  }
  return lesser;
}

LawAnswer AnswerOf(const LargeOptions& options) {
  const PlanningProblem problem = LargeProblem(options);
  const double begin = ProcessorSeconds();
  const absl::StatusOr<PlanningResult> result = FindPlan(problem, "exact");
  LawAnswer answer = {.per_sample = std::numeric_limits<double>::infinity(),
                      .processor_seconds = ProcessorSeconds() - begin};
  // Without any plan at all, regardless of memory, there is no result.
  if (!result.ok()) return answer;
  if (const auto* const found = std::get_if<PlanFound>(&*result)) {
    answer.per_sample =
        found->prediction.step.value() / static_cast<double>(found->plan.global_batch_size);
  }
  const SearchSummary& search =
      std::visit([](const auto& each) -> const SearchSummary& { return each.search; }, *result);
  answer.gap_ratio = search.gap_ratio;
  answer.is_proved = search.termination == Termination::kOptimal;
  return answer;
}

}  // namespace parplan
