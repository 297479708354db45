// The files that an export writes into one folder. Every exporter returns them (exporters.h).

#ifndef PARPLAN_EXPORTS_EXPORTED_FILES_H_
#define PARPLAN_EXPORTS_EXPORTED_FILES_H_

#include <string>
#include <vector>

#include "exports/uniform_plan.h"
#include "planner/model/plan.h"
#include "planner/model/runtime_traits.h"

namespace parplan {

// One file: its name and its contents.
struct ExportedFile {
  // Name inside the folder. An exporter's has no path; ExportToFolders (clients/launch) puts the
  // target's folder before it.
  std::string name;
  std::string text;
  friend bool operator==(const ExportedFile&, const ExportedFile&) = default;
};

// The circumstances of a plan that its files must repeat.
struct ExportFacts {
  // The program that the prediction assumes; parplan's own unless set.
  RuntimeTraits runtime;
  // How the plan is named in README.txt; may be empty.
  std::string plan_name;
};

// Returns the variables that every target's environment file has, one `NAME=value` a line, each
// ended by a newline: PARPLAN_DEVICE_COUNT, PARPLAN_GLOBAL_BATCH_SIZE,
// PARPLAN_MICRO_BATCH_SIZE_PER_RANK (samples of one micro-batch on one data-parallel replica) and
// PARPLAN_GRADIENT_ACCUMULATION_STEPS (micro-batches of a step).
std::string CommonVariables(const UniformPlan& plan);
// Returns the same of any plan. Replicas are those of the first layer, which reads the samples; the
// division by their number rounds down. REQUIRES, unchecked: there is a first stage, it has a
// layer, and neither the micro-batches nor the data-parallel degree of that layer is 0.
std::string CommonVariables(const Plan& plan);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_EXPORTED_FILES_H_
