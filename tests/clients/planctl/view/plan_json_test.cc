// PlanJson and ComparisonJson against what docs/planctl.md promises.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "clients/planctl/offline/offline_planner.h"
#include "clients/planctl/view/plan_json.h"
#include "clients/planctl/view/plan_view.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::vector<std::string> Members(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

// In the order of docs/planctl.md. Members may be added there and here, never
// taken away or moved.
const std::vector<std::string> kPlan = {"name",
                                        "planner",
                                        "planner_version",
                                        "gist",
                                        "device_count",
                                        "global_batch_size",
                                        "micro_batch_count",
                                        "pipeline_parallel_degree",
                                        "schedule",
                                        "virtual_stage_count",
                                        "model_digest",
                                        "topology_digest",
                                        "profile_digest",
                                        "hardware_digest",
                                        "calibration_digest",
                                        "runtime_id",
                                        "stages"};
const std::vector<std::string> kStage = {"first_rank", "rank_count", "layer_runs"};
const std::vector<std::string> kLayerRun = {"first_layer_index", "layer_count",
                                            "layer_definition_id", "strategy"};
const std::vector<std::string> kStrategy = {"notation",
                                            "tensor_parallel_degree",
                                            "data_parallel_degree",
                                            "zero_level",
                                            "rank_order",
                                            "recompute",
                                            "sequence_parallel",
                                            "context_parallel_degree",
                                            "context_kind",
                                            "expert_parallel_degree"};
const std::vector<std::string> kPrediction = {"step_seconds",
                                              "step_seconds_lower",
                                              "step_seconds_upper",
                                              "samples_per_second",
                                              "peak_memory_bytes",
                                              "peak_memory_bytes_lower",
                                              "peak_memory_bytes_upper",
                                              "range_basis",
                                              "usable_memory_bytes",
                                              "fits",
                                              "bottleneck",
                                              "bottleneck_text",
                                              "confidence",
                                              "estimated_items",
                                              "stages"};
const std::vector<std::string> kStagePrediction = {
    "forward_seconds", "backward_seconds", "gradient_sync_seconds",       "optimizer_step_seconds",
    "send_seconds",    "idle_ratio",       "in_flight_micro_batch_count", "peak_memory_bytes",
    "memory_items",    "time_items"};
const std::vector<std::string> kSearch = {
    "termination",   "limit",      "bound",       "gap",          "states",
    "pruned_states", "candidates", "cpu_seconds", "wall_seconds", "from_cache"};
const std::vector<std::string> kFeasible = {
    "planner", "feasible", "step_seconds", "samples_per_second", "peak_memory_bytes", "gist"};
const std::vector<std::string> kInfeasible = {"planner", "feasible", "smallest_device_memory_bytes",
                                              "smallest_device_count", "stopped_early"};
const std::vector<std::string> kBeside = {"gist",
                                          "step_seconds",
                                          "samples_per_second",
                                          "peak_memory_bytes",
                                          "time_change",
                                          "memory_change",
                                          "global_batch_size",
                                          "micro_batch_count",
                                          "pipeline_parallel_degree",
                                          "schedule",
                                          "virtual_stage_count",
                                          "stages"};

// The plan of the example, of two stages or more where asked.
PlanView ExampleView(const std::string& planner = "", bool compare = false) {
  v1::PlanSpec spec = ExampleSpec();
  spec.mutable_options()->set_planner(planner);
  spec.mutable_options()->set_compare_baselines(compare);
  absl::StatusOr<PlanView> view = PlanOffline(spec, ExampleProfiles());
  EXPECT_OK(view);
  return *std::move(view);
}

TEST(PlanJson, HasExactlyTheMembersDocumented) {
  const Json object = Json::parse(PlanJson(ExampleView("deepspeed-3d", /*compare=*/true)));
  EXPECT_THAT(Members(object), ElementsAre("plan", "prediction", "search", "notes", "comparisons"));
  EXPECT_THAT(Members(object["plan"]), ElementsAreArray(kPlan));
  ASSERT_GT(object["plan"]["stages"].size(), 1u);
  for (const Json& stage : object["plan"]["stages"]) {
    EXPECT_THAT(Members(stage), ElementsAreArray(kStage));
    for (const Json& run : stage["layer_runs"]) {
      EXPECT_THAT(Members(run), ElementsAreArray(kLayerRun));
      EXPECT_THAT(Members(run["strategy"]), ElementsAreArray(kStrategy));
    }
  }
  EXPECT_THAT(Members(object["prediction"]), ElementsAreArray(kPrediction));
  for (const Json& stage : object["prediction"]["stages"]) {
    EXPECT_THAT(Members(stage), ElementsAreArray(kStagePrediction));
    EXPECT_EQ(stage["memory_items"].size(), static_cast<size_t>(kMemoryItemKindCount));
    EXPECT_EQ(stage["time_items"].size(), static_cast<size_t>(kTimeItemKindCount));
  }
  EXPECT_THAT(Members(object["search"]), ElementsAreArray(kSearch));
  for (const Json& row : object["comparisons"]) {
    EXPECT_THAT(Members(row), AnyOf(ElementsAreArray(kFeasible), ElementsAreArray(kInfeasible)));
  }
}

TEST(PlanJson, HasThePlansBesideIt) {
  PlanView view = ExampleView("deepspeed-3d");
  PlanBeside beside;
  beside.plan = view.plan;
  beside.step = view.prediction.step * 1.25;
  beside.samples_per_second = view.prediction.samples_per_second / 1.25;
  beside.peak_memory = Bytes::Ceil(view.prediction.peak_memory.as_double() * 0.5);
  view.alternatives = {beside};
  view.memory_front = {beside, beside};
  view.notes = {"alpha_t 0.5"};
  const Json object = Json::parse(PlanJson(view));
  EXPECT_THAT(Members(object),
              ElementsAre("plan", "prediction", "search", "alternatives", "memory_front", "notes"));
  ASSERT_EQ(object["alternatives"].size(), 1u);
  EXPECT_EQ(object["memory_front"].size(), 2u);
  const Json& first = object["alternatives"][0];
  EXPECT_THAT(Members(first), ElementsAreArray(kBeside));
  EXPECT_NEAR(first["time_change"].get<double>(), 0.25, 1e-12);
  EXPECT_NEAR(first["memory_change"].get<double>(), -0.5, 1e-9);
  EXPECT_EQ(first["stages"], object["plan"]["stages"]);
  EXPECT_EQ(object["notes"], Json::array({"alpha_t 0.5"}));
}

TEST(PlanJson, WithoutRivalsHasNoComparisons) {
  const Json object = Json::parse(PlanJson(ExampleView()));
  EXPECT_THAT(Members(object), ElementsAre("plan", "prediction", "search"));
}

TEST(PlanJson, EveryMemberIsInTheDocumentation) {
  std::ifstream file(SourceDir() + "/docs/planctl.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const auto* names : {&kPlan, &kStage, &kLayerRun, &kStrategy, &kPrediction,
                            &kStagePrediction, &kSearch, &kFeasible, &kInfeasible, &kBeside}) {
    for (const std::string& name : *names) EXPECT_THAT(text.str(), HasSubstr(name));
  }
}

TEST(PlanJson, ItemsAddUpToTheirStage) {
  for (const char* planner : {"galvatron-base", "deepspeed-3d", "pp"}) {
    const Json prediction = Json::parse(PlanJson(ExampleView(planner)))["prediction"];
    int64_t fullest = 0;
    for (const Json& stage : prediction["stages"]) {
      int64_t memory = 0;
      for (const Json& item : stage["memory_items"]) memory += item.get<int64_t>();
      EXPECT_EQ(memory, stage["peak_memory_bytes"].get<int64_t>());
      fullest = std::max(fullest, memory);
      double time = 0.0;
      for (const Json& item : stage["time_items"]) time += item.get<double>();
      const double expected =
          stage["forward_seconds"].get<double>() + stage["backward_seconds"].get<double>();
      EXPECT_NEAR(time, expected, 1e-6 * expected);
    }
    EXPECT_EQ(fullest, prediction["peak_memory_bytes"].get<int64_t>());
  }
}

TEST(PlanJson, SaysWhatTheViewSays) {
  const PlanView view = ExampleView("deepspeed-3d");
  const Json object = Json::parse(PlanJson(view));
  EXPECT_EQ(object["plan"]["gist"], PlanGist(view.plan));
  EXPECT_EQ(object["plan"]["planner"], "deepspeed-3d");
  EXPECT_EQ(object["plan"]["schedule"], "1f1b");
  EXPECT_EQ(object["plan"]["stages"].size(), view.plan.stages.size());
  EXPECT_EQ(object["prediction"]["step_seconds"].get<double>(), view.prediction.step.value());
  EXPECT_EQ(object["prediction"]["fits"], true);
  EXPECT_EQ(object["search"]["wall_seconds"].get<double>(), view.wall_seconds.value());
  int layer_count = 0;
  for (const Json& stage : object["plan"]["stages"]) {
    for (const Json& run : stage["layer_runs"]) {
      EXPECT_EQ(run["first_layer_index"], layer_count);
      layer_count += run["layer_count"].get<int>();
      EXPECT_EQ(run["strategy"]["tensor_parallel_degree"].get<int>() *
                    run["strategy"]["data_parallel_degree"].get<int>(),
                stage["rank_count"].get<int>());
    }
  }
  EXPECT_EQ(layer_count, 34);
}

TEST(PlanJson, StaysJsonWithNamesThatAreNoUtf8) {
  PlanView view = ExampleView();
  view.prediction.bottleneck_text = "odd \xff bytes \x01";
  EXPECT_TRUE(Json::accept(PlanJson(view)));
}

TEST(ComparisonJson, SaysWhatWouldHaveBeenEnough) {
  v1::PlanSpec spec = ExampleSpec();
  // Integer programs take their time.
  spec.mutable_options()->mutable_search_time_limit()->set_seconds(1);
  ASSERT_OK_AND_ASSIGN(const std::vector<v1::PlannerComparison> rows,
                       CompareOffline(spec, ExampleProfiles()));
  const Json object = Json::parse(ComparisonJson(rows));
  EXPECT_THAT(Members(object), ElementsAre("comparisons"));
  bool seen = false;
  for (const Json& row : object["comparisons"]) {
    if (row["feasible"] || row["stopped_early"]) continue;
    seen = true;
    EXPECT_GT(row["smallest_device_memory_bytes"].get<int64_t>(), int64_t{40} << 30);
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace parplan::planctl
