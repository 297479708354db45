// Parsers with another one of their allocations failing each time. Replaces `operator new`, so
// whoever links it is a program of its own.

#ifndef PARPLAN_TESTS_SUPPORT_FAILING_ALLOCATIONS_H_
#define PARPLAN_TESTS_SUPPORT_FAILING_ALLOCATIONS_H_

#include <functional>
#include <string>

namespace parplan {

// A parser with an input that it takes; returns whether it took it.
struct Parser {
  std::string name;
  std::function<bool()> parse;
};

// Expects the parser to take its input, with each of its allocations failing in turn to throw
// std::bad_alloc or to refuse it, and to take it again afterwards. At least one of the runs must
// have thrown.
void ExpectToOutliveFailingAllocations(const Parser& parser);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_FAILING_ALLOCATIONS_H_
