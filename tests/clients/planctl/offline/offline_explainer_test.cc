#include "clients/planctl/offline/offline_explainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/quantity_text.h"
#include "clients/planctl/offline/offline_planner.h"
#include "clients/planctl/view/explain_json.h"
#include "clients/planctl/view/explain_text.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/clients/planctl/view/expect_tidy.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

ExplainContext ExampleContext(int64_t device_memory_bytes = 0) {
  ExplainContext context = {ExampleSpec(), ExampleProfiles(), nullptr};
  if (device_memory_bytes > 0) {
    context.spec.mutable_topology()->mutable_node_groups(0)->set_device_memory_bytes(
        device_memory_bytes);
  }
  return context;
}

// The plan of a planner for the example.
Plan PlanOfPlanner(const ExplainContext& context, const std::string& planner) {
  v1::PlanSpec spec = context.spec;
  spec.mutable_options()->set_planner(planner);
  const absl::StatusOr<PlanView> view = PlanOffline(spec, context.profiles);
  EXPECT_OK(view);
  return view->plan;
}

// Every member of `json`, at any depth, is in the documentation.
void ExpectDocumented(const Json& json, const std::string& documentation) {
  if (json.is_array()) {
    for (const Json& element : json) ExpectDocumented(element, documentation);
  }
  if (!json.is_object()) return;
  for (const auto& [name, value] : json.items()) {
    EXPECT_THAT(documentation, HasSubstr(name));
    if (name != "memory_items") ExpectDocumented(value, documentation);
  }
}

std::string Documentation() {
  std::ifstream file(SourceDir() + "/docs/planctl.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ExplainOffline, PutsTwoPlansSideBySide) {
  const ExplainContext context = ExampleContext();
  const Plan plan = PlanOfPlanner(context, "galvatron-base");
  const Plan rival = PlanOfPlanner(context, "deepspeed-3d");
  ASSERT_OK_AND_ASSIGN(const PlanExplanation explanation, ExplainOffline(context, plan, rival));
  ASSERT_OK_AND_ASSIGN(const PlanView of_plan,
                       EvaluateOffline(context.spec, context.profiles, plan));
  ASSERT_OK_AND_ASSIGN(const PlanView of_rival,
                       EvaluateOffline(context.spec, context.profiles, rival));
  // A view has whole nanoseconds.
  EXPECT_NEAR(explanation.plan.prediction.step.value(), of_plan.prediction.step.value(), 2e-9);
  EXPECT_NEAR(explanation.rival.prediction.step.value(), of_rival.prediction.step.value(), 2e-9);
  EXPECT_GE(explanation.time_ratio, 1.0);

  const ExplainAnswer answer = {.against = explanation};
  const std::string text = ExplainText(answer);
  ExpectLinesFit(text);
  EXPECT_THAT(text, AllOf(HasSubstr("less time a sample"), HasSubstr(PlanGist(plan)),
                          HasSubstr("bound by"), HasSubstr("forward"), HasSubstr("parameters"),
                          HasSubstr(TimeText(of_rival.prediction.step))));
  const Json json = Json::parse(ExplainJson(answer));
  ExpectDocumented(json, Documentation());
  EXPECT_EQ(json["against"]["time_ratio"].get<double>(), explanation.time_ratio);
  double sum = 0.0;
  for (const Json& difference : json["against"]["differences"]) {
    sum += difference["rival_seconds"].get<double>() - difference["plan_seconds"].get<double>();
  }
  EXPECT_NEAR(sum, (of_rival.prediction.step - of_plan.prediction.step).value(), 4e-9);
}

TEST(ExplainOffline, ARivalMayHaveAnotherBatch) {
  const ExplainContext context = ExampleContext();
  const Plan plan = PlanOfPlanner(context, "galvatron-base");
  ExplainContext half = context;
  half.spec.set_global_batch_size(32);
  const Plan rival = PlanOfPlanner(half, "galvatron-base");
  ASSERT_OK_AND_ASSIGN(const PlanExplanation explanation, ExplainOffline(context, plan, rival));
  EXPECT_EQ(explanation.rival.plan.global_batch_size, 32);
  Seconds sum;
  for (const auto& difference : explanation.differences) sum += difference.rival;
  EXPECT_NEAR(sum.value(), 2.0 * explanation.rival.prediction.step.value(), 1e-9);
  EXPECT_THAT(ExplainText({.against = explanation}), HasSubstr("for as many samples"));
}

TEST(WhyNotOffline, IsAnExplanationWhereTheOtherPlannerHasAPlan) {
  const ExplainContext context = ExampleContext();
  const Plan plan = PlanOfPlanner(context, "galvatron-base");
  ASSERT_OK_AND_ASSIGN(const WhyNot why_not, WhyNotOffline(context, plan, "deepspeed-3d"));
  ASSERT_TRUE(why_not.explanation.has_value());
  EXPECT_TRUE(why_not.explanation->rival.plan == PlanOfPlanner(context, "deepspeed-3d"));
  const ExplainAnswer answer = {.why_not = {why_not}};
  EXPECT_THAT(ExplainText(answer), HasSubstr("against `deepspeed-3d`"));
  const Json json = Json::parse(ExplainJson(answer));
  ExpectDocumented(json, Documentation());
  EXPECT_EQ(json["why_not"][0]["feasible"], true);
}

// All parameters on every device are more than it holds.
TEST(WhyNotOffline, SaysWhichStageLacksHowMuchWhereNothingFits) {
  const ExplainContext context = ExampleContext();
  const Plan plan = PlanOfPlanner(context, "galvatron-base");
  ASSERT_OK_AND_ASSIGN(const WhyNot why_not, WhyNotOffline(context, plan, "dp"));
  ASSERT_FALSE(why_not.explanation.has_value());
  ASSERT_TRUE(why_not.smallest.has_value());
  const PlanTerms& smallest = *why_not.smallest;
  EXPECT_EQ(smallest.memory.stage_index, 0);
  EXPECT_LT(smallest.memory.left, Bytes());
  EXPECT_EQ(smallest.memory.upper + smallest.memory.left, smallest.prediction.usable_memory);
  // The memory that would do is what the smallest plan needs, to a MiB or two.
  const v1::NodeGroup& group = context.spec.topology().node_groups(0);
  const int64_t reserved = group.reserved_memory_bytes();
  EXPECT_NEAR(static_cast<double>(why_not.smallest_device_memory.count() - reserved),
              smallest.memory.upper.as_double(), 4e6);
  const ExplainAnswer answer = {.why_not = {why_not}};
  const std::string text = ExplainText(answer);
  ExpectLinesFit(text);
  EXPECT_THAT(text, AllOf(HasSubstr("why not `dp`: nothing of it fits"),
                          HasSubstr("does not fit: stage 0 lacks"),
                          HasSubstr(SizeText(smallest.memory.upper))));
  const Json json = Json::parse(ExplainJson(answer));
  ExpectDocumented(json, Documentation());
  EXPECT_EQ(json["why_not"][0]["smallest"]["bound_by"], "does_not_fit");
  EXPECT_EQ(json["why_not"][0]["smallest"]["bytes_left"].get<int64_t>(),
            smallest.memory.left.count());
}

TEST(WhyNotOffline, SaysThatAPlannerHasNoPlanOfItsKindOrWasStopped) {
  // 16 devices are more than a node has.
  ExplainContext context = {ExampleSpec(2), ExampleProfiles(2), nullptr};
  const Plan plan = PlanOfPlanner(context, "galvatron-base");
  ASSERT_OK_AND_ASSIGN(const WhyNot none, WhyNotOffline(context, plan, "tp"));
  EXPECT_TRUE(none.has_no_candidates);
  EXPECT_THAT(ExplainText({.why_not = {none}}), HasSubstr("no plan for these devices"));
  SearchWatch watch;
  watch.is_cancelled = [] { return true; };
  ASSERT_OK_AND_ASSIGN(const WhyNot stopped, WhyNotOffline(context, plan, "galvatron-base", watch));
  EXPECT_TRUE(stopped.stopped_early);
  EXPECT_THAT(ExplainText({.why_not = {stopped}}), HasSubstr("a limit ended its search"));
  EXPECT_THAT(WhyNotOffline(context, plan, "abacus"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SensitivitiesOffline, ListWhatThereIsMoreOf) {
  ExplainContext context = ExampleContext();
  const Plan plan = PlanOfPlanner(context, "galvatron-base");
  ASSERT_OK_AND_ASSIGN(const std::vector<Sensitivity> all, SensitivitiesOffline(context, plan));
  // One node: memory, links inside it, devices.
  ASSERT_EQ(all.size(), 3u);
  const ExplainAnswer answer = {.sensitivities = all};
  const std::string text = ExplainText(answer);
  ExpectLinesFit(text);
  EXPECT_THAT(text, AllOf(HasSubstr("+10.0 % memory"), HasSubstr("bandwidth inside nodes"),
                          HasSubstr("speed of devices"), HasSubstr("time saved")));
  const Json json = Json::parse(ExplainJson(answer));
  ExpectDocumented(json, Documentation());
  ASSERT_EQ(json["sensitivities"].size(), 3u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(json["sensitivities"][i]["gain"].get<double>(), all[i].gain);
  }
}

TEST(CollectivesOffline, ListsWhatARankTakesPartIn) {
  const ExplainContext context = ExampleContext();
  const Plan plan = PlanOfPlanner(context, "dp+tp");
  ASSERT_OK_AND_ASSIGN(const PricedCollectives priced, CollectivesOffline(context, plan, 3));
  EXPECT_EQ(priced.rank, 3);
  ASSERT_FALSE(priced.rows.empty());
  for (const StepCollective& one : priced.rows) {
    EXPECT_THAT(one.ranks, ::testing::Contains(3));
    EXPECT_GT(one.count, 0.0);
    EXPECT_GT(one.bytes, 0.0);
  }
  const ExplainAnswer answer = {.collectives = priced};
  const std::string text = ExplainText(answer);
  ExpectTidy(text);
  EXPECT_THAT(text, AllOf(HasSubstr("Collectives of rank 3"), HasSubstr(priced.runtime_id)));
  const Json json = Json::parse(ExplainJson(answer));
  EXPECT_EQ(json["collectives"]["rows"].size(), priced.rows.size());
  ExpectDocumented(json, Documentation());
}

TEST(CollectivesOffline, RefusesARankThatThePlanLacks) {
  const ExplainContext context = ExampleContext();
  const Plan plan = PlanOfPlanner(context, "dp+tp");
  for (const int rank : {-1, plan.device_count}) {
    const absl::Status status = CollectivesOffline(context, plan, rank).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("--collectives")) << rank;
  }
}

TEST(ExplainOffline, RefusesAPlanForOtherDevices) {
  const ExplainContext context = ExampleContext();
  const Plan plan = PlanOfPlanner(context, "galvatron-base");
  const ExplainContext larger = {ExampleSpec(2), ExampleProfiles(2), nullptr};
  const Plan rival = PlanOfPlanner(larger, "galvatron-base");
  EXPECT_THAT(ExplainOffline(context, plan, rival),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plan")));
}

TEST(WalksOffline, ShowEveryPartitionAndWhyItJoinsOrNot) {
  ExplainContext context = ExampleContext();
  context.spec.mutable_options()->set_space("all,-tensor,-zero-1,-zero-2,-zero-3");
  v1::PlanSpec spec = context.spec;
  spec.mutable_options()->set_planner("pp");
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, context.profiles));
  ASSERT_GT(view.plan.pipeline_parallel_degree(), 1);
  ExplainAnswer answer;
  ASSERT_OK_AND_ASSIGN(answer.walks, WalksOffline(context, view.plan));
  ASSERT_FALSE(answer.walks.empty());
  int layer_count = 0;
  for (const v1::ModelLayerRun& run : spec.model().layer_runs()) layer_count += run.layer_count();
  for (const ExplainedWalk& walk : answer.walks) {
    ASSERT_FALSE(walk.steps.empty());
    EXPECT_EQ(walk.steps[0].step.verdict, PartitionVerdict::kStart);
    for (const ExplainedStep& step : walk.steps) {
      EXPECT_EQ(std::accumulate(step.layer_counts.begin(), step.layer_counts.end(), 0),
                layer_count);
      EXPECT_EQ(step.plan.has_value(), step.step.figures.has_value());
      if (!step.plan) continue;
      EXPECT_EQ(step.plan->plan.pipeline_parallel_degree(), view.plan.pipeline_parallel_degree());
      EXPECT_EQ(step.plan->plan.micro_batch_count, view.plan.micro_batch_count);
      EXPECT_GT(step.degrees->time, 0.0);
    }
  }
  ExplainContext other = context;
  other.spec.set_global_batch_size(2 * view.plan.global_batch_size);
  EXPECT_THAT(WalksOffline(other, view.plan),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--batch")));
  other = context;
  other.spec.mutable_options()->set_schedule(v1::SCHEDULE_GPIPE);
  EXPECT_THAT(WalksOffline(other, view.plan),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--schedule")));
  const std::string text = ExplainText(answer);
  EXPECT_THAT(text, AllOf(HasSubstr("from balanced memory to balanced time"), HasSubstr("alpha_t"),
                          HasSubstr("start: balanced memory")));
  const Json json = Json::parse(ExplainJson(answer));
  EXPECT_EQ(json["bmw"].size(), answer.walks.size());
  EXPECT_EQ(json["bmw"][0]["steps"][0]["verdict"], "start");
  EXPECT_EQ(json["bmw"][0]["ended"], "nothing_left");
  ExpectDocumented(json, Documentation());
}

TEST(WalksOffline, NeedAPlanOfSeveralStages) {
  const ExplainContext context = ExampleContext();
  EXPECT_THAT(WalksOffline(context, PlanOfPlanner(context, "sdp")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--bmw")));
}

}  // namespace
}  // namespace parplan::planctl
