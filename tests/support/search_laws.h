// Laws of `exact` that hold for any question: a larger space, a larger memory, a faster link and
// one more batch size never give a slower plan. Used by nested_spaces_test.cc for a few questions
// and by tests/benchmarks/search_laws.cc for many.

#ifndef PARPLAN_TESTS_SUPPORT_SEARCH_LAWS_H_
#define PARPLAN_TESTS_SUPPORT_SEARCH_LAWS_H_

#include <string>
#include <vector>

#include "planner/model/planning_result.h"
#include "tests/support/large_problem.h"

namespace parplan {

// A question whose plans are among those of another one, or whose plans take no less time there.
struct LesserQuestion {
  // What is less about it, in words.
  std::string name;
  LargeOptions options;
};

// Lists questions with one dimension less, or several that belong together.
std::vector<LesserQuestion> SmallerSpaces(const LargeOptions& options);
// Lists those of them for which the law holds by construction (nested_spaces.h), alone and
// together.
std::vector<LesserQuestion> NestedSpacesOf(const LargeOptions& options);
// Lists questions with less memory, a slower network, and without the largest batch size.
std::vector<LesserQuestion> LesserHardware(const LargeOptions& options);

// The answer of a question.
struct LawAnswer {
  // Seconds per sample; infinite without a plan.
  double per_sample = 0.0;
  double gap_ratio = 0.0;
  bool is_proved = false;
  // Processor seconds.
  double processor_seconds = 0.0;
};
// Searches without limits.
LawAnswer AnswerOf(const LargeOptions& options);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_SEARCH_LAWS_H_
