// Predicted against measured peaks of memory, from the test program `executor_memory_test`, which
// runs small plans on processors. The command `parplan-study papers` reads them with it.

#ifndef PARPLAN_STUDIES_PAPERS_MEMORY_CHECK_H_
#define PARPLAN_STUDIES_PAPERS_MEMORY_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan::papers {

// A plan that was run.
struct MeasuredMemory {
  // Name of the test without the `FromAProfile/` or `FromTheory/` it begins with.
  std::string plan;
  // Whether it was predicted from a profile (`FromAProfile/`); else from the model and a data sheet
  // alone.
  bool from_profile = false;
  // Predicted peak over the measured one, less 1, of the device of the pipeline where it is the
  // furthest from 0; six digits.
  double error = 0.0;

  friend bool operator==(const MeasuredMemory&, const MeasuredMemory&) = default;
};

// Reads what `executor_memory_test --gtest_output=json:FILE` wrote: the property `peak_error` of
// each test; tests without it are left out. INVALID_ARGUMENT (SPEC_INVALID) naming `--memory-runs`
// if it is no such file, if no test has that property, or if a test that has it failed or has no
// number there.
absl::StatusOr<std::vector<MeasuredMemory>> ParseMeasuredMemory(absl::string_view text);

// The magnitudes of the errors of some plans.
struct MemoryErrors {
  int plan_count = 0;
  // Median and largest of |predicted / measured - 1|, and the plan that has the largest.
  double median = 0.0;
  double worst = 0.0;
  std::string worst_plan;
};
// Returns those of the plans that were predicted from a profile, or of the others. All 0 if there
// are none.
MemoryErrors ErrorsOf(const std::vector<MeasuredMemory>& plans, bool from_profile);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_MEMORY_CHECK_H_
