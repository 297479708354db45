// Changes with which tests break a value, to verify that its Create refuses it.

#ifndef PARPLAN_TESTS_PLANNER_MODEL_BROKEN_RULE_H_
#define PARPLAN_TESTS_PLANNER_MODEL_BROKEN_RULE_H_

#include <functional>
#include <ostream>
#include <string>

namespace parplan {

// A parameter of tests; `Raw` is what Create is given.
template <typename Raw>
struct BrokenRule {
  friend void PrintTo(const BrokenRule& rule, std::ostream* out) { *out << rule.name; }
  // Name of the test.
  std::string name;
  // That the error names.
  std::string field;
  // Makes a good value break the rule, and no other.
  std::function<void(Raw&)> break_it;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_MODEL_BROKEN_RULE_H_
