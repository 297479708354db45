// Expectations that every text planctl prints to a terminal has to meet.

#ifndef PARPLAN_TESTS_CLIENTS_PLANCTL_VIEW_EXPECT_TIDY_H_
#define PARPLAN_TESTS_CLIENTS_PLANCTL_VIEW_EXPECT_TIDY_H_

#include <string>

namespace parplan::planctl {

// Expects lines of at most `kTextWidth` columns.
void ExpectLinesFit(const std::string& text);

// Expects the same, no spaces at the ends of lines, and a newline at the end.
void ExpectTidy(const std::string& text);

}  // namespace parplan::planctl

#endif  // PARPLAN_TESTS_CLIENTS_PLANCTL_VIEW_EXPECT_TIDY_H_
