#include "tests/clients/planctl/commands/planctl_test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "clients/planctl/files.h"
#include "planner/find_plan.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {

std::string ExamplePath(const std::string& name) {
  return SourceDir() + "/deploy/examples/" + name;
}

v1::PlanSpec ExampleSpec(int node_count) {
  v1::PlanSpec spec;
  const auto model = ReadModel(ExamplePath("llama2-7b.model.json"));
  const auto cluster = ReadCluster(
      ExamplePath(node_count == 1 ? "a100-40g-8.cluster.json" : "a100-40g-16.cluster.json"));
  EXPECT_OK(model);
  EXPECT_OK(cluster);
  *spec.mutable_model() = *model;
  *spec.mutable_topology() = *cluster;
  spec.set_global_batch_size(64);
  return spec;
}

v1::PlanSpec SpecWith(const std::string& planner, int node_count) {
  v1::PlanSpec spec = ExampleSpec(node_count);
  spec.mutable_options()->set_planner(planner);
  return spec;
}

std::vector<v1::Profile> ExampleProfiles(int node_count) {
  const auto profile = ReadProfile(ExamplePath(
      node_count == 1 ? "llama2-7b-a100.profile.json" : "llama2-7b-a100-2-nodes.profile.json"));
  EXPECT_OK(profile);
  return {*profile};
}

std::vector<std::string> QuickPlannerNames() {
  std::vector<std::string> names = PlannerNames();
  for (const char* slow : {"min-memory-ilp", "alpa-like", "colossal-auto-like"}) {
    names.erase(std::remove(names.begin(), names.end(), slow), names.end());
  }
  return names;
}

std::vector<std::string> FileNames(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace parplan::planctl
