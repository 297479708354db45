// Questions that tests of planctl share: the examples of deploy/, and files in a
// folder of the test.

#ifndef PARPLAN_TESTS_CLIENTS_PLANCTL_COMMANDS_PLANCTL_TEST_FILES_H_
#define PARPLAN_TESTS_CLIENTS_PLANCTL_COMMANDS_PLANCTL_TEST_FILES_H_

#include <string>
#include <vector>

#include "parplan/v1/plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "tests/support/test_folder.h"

namespace parplan::planctl {

// The path of a file in deploy/examples.
std::string ExamplePath(const std::string& name);

// Llama-2-7B, 64 samples a step, on one node or two of 8 devices.
v1::PlanSpec ExampleSpec(int node_count = 1);

// The same, for the planner of that name.
v1::PlanSpec SpecWith(const std::string& planner, int node_count = 1);

// The profile of such a node.
std::vector<v1::Profile> ExampleProfiles(int node_count = 1);

// The planners that answer the example at once: not those that solve integer programs,
// which have tests of their own.
std::vector<std::string> QuickPlannerNames();

// Names of what is in a folder, sorted.
std::vector<std::string> FileNames(const std::string& folder);

}  // namespace parplan::planctl

#endif  // PARPLAN_TESTS_CLIENTS_PLANCTL_COMMANDS_PLANCTL_TEST_FILES_H_
