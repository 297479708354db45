#include "planner/explain_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "planner/cost/predict_plan.h"
#include "planner/find_plan.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;

std::string NameOf(const PlanExplanation::Difference& difference) {
  return std::string(difference.name);
}

CostModel CostsOf(const PlanningProblem& problem) {
  absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  EXPECT_OK(costs);
  return *std::move(costs);
}

Plan PlanBy(const PlanningProblem& problem, const std::string& planner) {
  const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner);
  EXPECT_OK(result);
  return std::get<PlanFound>(*result).plan;
}

// Two stages of four devices, so many micro-batches.
Plan TwoStages(const PlanningProblem& problem, int64_t micro_batch_count) {
  return PlanOf(problem, {.pipeline_parallel_degree = 2,
                          .micro_batch_count = micro_batch_count,
                          .strategy = {.data_parallel_degree = 4}});
}

TEST(TermsOf, PartsOfAStepAddUpToIt) {
  for (const int device_count : {4, 8, 16}) {
    const PlanningProblem problem = SyntheticProblem(
        {.device_count = device_count, .device_memory = Bytes::Of(int64_t{60} << 30)});
    const CostModel costs = CostsOf(problem);
    for (const std::string& planner : PlannerNames()) {
      const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner);
      if (!result.ok() || !std::holds_alternative<PlanFound>(*result)) continue;
      const Plan& plan = std::get<PlanFound>(*result).plan;
      SCOPED_TRACE(testing::Message() << planner << " " << PlanGist(plan));
      const PlanTerms terms = TermsOf(problem, costs, plan);
      const double step = terms.prediction.step.value();
      EXPECT_NEAR(terms.step.Total().value(), step, 1e-9 * step);
      EXPECT_EQ(terms.prediction.step, PredictPlan(problem, costs, plan).step);
      if (plan.pipeline_parallel_degree() == 1) {
        EXPECT_NEAR(terms.step.bubble.value(), 0.0, 1e-12);
        EXPECT_EQ(terms.step.messages, Seconds());
        EXPECT_NEAR(terms.step.gradient_sync.value(),
                    terms.prediction.stages[0].gradient_sync.value(), 1e-12);
      }
    }
  }
}

TEST(TermsOf, PartsOfAnInterleavedStepAddUpToIt) {
  const PlanningProblem problem = EstimatedProblem({.device_count = 64, .global_batch_size = 64});
  const CostModel costs = CostsOf(problem);
  for (const int virtual_stage_count : {1, 2, 4}) {
    Plan plan =
        PlanOf(problem, {.pipeline_parallel_degree = 4,
                         .virtual_stage_count = virtual_stage_count,
                         .micro_batch_count = 16,
                         .strategy = {.tensor_parallel_degree = 8, .data_parallel_degree = 2}});
    const PlanTerms terms = TermsOf(problem, costs, plan);
    const double step = terms.prediction.step.value();
    EXPECT_NEAR(terms.step.Total().value(), step, 1e-9 * step) << virtual_stage_count;
    EXPECT_EQ(terms.step.overhead, costs.step_overhead());
    EXPECT_GT(terms.step.optimizer_step, Seconds());
  }
}

// One micro-batch goes down the pipeline and back: a device waits for exactly what the
// other does, and for the message each way.
TEST(TermsOf, OneMicroBatchWaitsForTheOtherStageAndTwoMessages) {
  const PlanningProblem problem = SyntheticProblem({.device_memory = Bytes::Of(int64_t{60} << 30)});
  const CostModel costs = CostsOf(problem);
  const PlanTerms terms = TermsOf(problem, costs, TwoStages(problem, 1));
  ASSERT_EQ(terms.prediction.stages.size(), 2u);
  const StagePrediction& other =
      terms.prediction.stages[static_cast<size_t>(1 - terms.step.stage_index)];
  EXPECT_NEAR(terms.step.bubble.value(), (other.forward + other.backward).value(), 1e-12);
  EXPECT_NEAR(terms.step.messages.value(), 2.0 * terms.prediction.stages[0].send.value(), 1e-12);
}

// Two micro-batches, 1F1B, stage times f0 b0 f1 b1 and the second stage slower: without
// messages the step is f0 + 2 (f1 + b1) + b0, of which the second stage does 2 (f1 + b1).
TEST(TermsOf, TheFillAndTheDrainOfTheSlowestLastStageAreItsBubble) {
  const PlanningProblem problem = SyntheticProblem({.device_memory = Bytes::Of(int64_t{60} << 30)});
  const CostModel costs = CostsOf(problem);
  const PlanTerms terms = TermsOf(problem, costs, TwoStages(problem, 2));
  const StagePrediction& first = terms.prediction.stages[0];
  const StagePrediction& last = terms.prediction.stages[1];
  ASSERT_EQ(terms.step.stage_index, 1);
  ASSERT_GE((last.forward + last.backward).value(), first.backward.value());
  EXPECT_NEAR(terms.step.bubble.value(), (first.forward + first.backward).value(), 1e-12);
}

TEST(TermsOf, MemoryIsThatOfTheFullestDevice) {
  const PlanningProblem problem = SyntheticProblem({});
  const CostModel costs = CostsOf(problem);
  const Plan plan = PlanBy(problem, "galvatron-base");
  const PlanTerms terms = TermsOf(problem, costs, plan);
  const MemoryTerms& memory = terms.memory;
  EXPECT_EQ(memory.upper, terms.prediction.peak_memory_upper);
  EXPECT_EQ(memory.left, problem.usable_memory() - memory.upper);
  EXPECT_TRUE(memory.items ==
              terms.prediction.stages[static_cast<size_t>(memory.stage_index)].memory);

  // A device with a byte more than the plan needs, one with a byte less, and a large one.
  const auto with = [&](Bytes usable) {
    const PlanningProblem changed = problem.WithUsableMemory(usable);
    return TermsOf(changed, CostsOf(changed), plan).memory;
  };
  EXPECT_EQ(with(memory.upper + Bytes::Of(1)).left, Bytes::Of(1));
  EXPECT_TRUE(with(memory.upper + Bytes::Of(1)).binds);
  EXPECT_EQ(with(memory.upper - Bytes::Of(1)).left, Bytes::Of(-1));
  EXPECT_TRUE(with(memory.upper - Bytes::Of(1)).binds);
  EXPECT_FALSE(with(memory.upper * 2).binds);
}

// Terms by hand: 10 s of forward on one side, 6 s and 1 s of waiting on the other.
TEST(Explain, PutsTheLargestDifferenceFirstAndScalesToTheSamplesOfThePlan) {
  PlanTerms plan;
  plan.plan.global_batch_size = 8;
  plan.prediction.step = Seconds::Of(12.0);
  plan.step.busy[TimeItemKind::kForwardCompute] = Seconds::Of(10.0);
  plan.step.gradient_sync = Seconds::Of(2.0);
  PlanTerms rival;
  rival.plan.global_batch_size = 4;
  rival.prediction.step = Seconds::Of(7.5);
  rival.step.busy[TimeItemKind::kForwardCompute] = Seconds::Of(6.0);
  rival.step.bubble = Seconds::Of(0.5);
  rival.step.gradient_sync = Seconds::Of(1.0);
  const PlanExplanation explanation = Explain(plan, rival);
  // 7.5 / 4 over 12 / 8.
  EXPECT_DOUBLE_EQ(explanation.time_ratio, 1.25);
  ASSERT_EQ(explanation.differences.size(), 3u);
  EXPECT_THAT((std::vector<std::string>{NameOf(explanation.differences[0]),
                                        NameOf(explanation.differences[1]),
                                        NameOf(explanation.differences[2])}),
              ElementsAre("forward", "waiting for other stages", "gradient synchronisation"));
  EXPECT_EQ(explanation.differences[0].plan, Seconds::Of(10.0));
  EXPECT_EQ(explanation.differences[0].rival, Seconds::Of(12.0));
  EXPECT_EQ(explanation.differences[1].plan, Seconds());
  EXPECT_EQ(explanation.differences[1].rival, Seconds::Of(1.0));
  EXPECT_EQ(explanation.differences[2].plan, explanation.differences[2].rival);
}

TEST(Explain, DifferencesAddUpToTheWholeDifference) {
  const PlanningProblem problem = SyntheticProblem({});
  const CostModel costs = CostsOf(problem);
  const Plan plan = PlanBy(problem, "galvatron-base");
  const PlanExplanation explanation =
      Explain(TermsOf(problem, costs, plan), TermsOf(problem, costs, TwoStages(problem, 4)));
  Seconds sum;
  for (const auto& difference : explanation.differences) {
    sum += difference.rival - difference.plan;
  }
  const Seconds whole = explanation.rival.prediction.step - explanation.plan.prediction.step;
  EXPECT_NEAR(sum.value(), whole.value(), 1e-9);
  EXPECT_NEAR(explanation.time_ratio,
              explanation.rival.prediction.step / explanation.plan.prediction.step, 1e-12);
}

// Content with two collectives: one inside a node of 4, one across two nodes.
PlanningProblem TwoNodes() { return SyntheticProblem({.device_count = 8, .devices_per_node = 4}); }

TEST(WithMore, MemoryIsMoreOfIt) {
  const PlanningProblem problem = TwoNodes();
  const PlanningProblem more = WithMore(problem, Resource::kMemory, 1.5);
  EXPECT_EQ(more.usable_memory().count(), problem.usable_memory().count() / 2 * 3);
  EXPECT_EQ(more.profile(kFirstGroup).collectives().size(),
            problem.profile(kFirstGroup).collectives().size());
}

// The smallest message keeps its time t0; the others take t0 + (t - t0) / factor.
TEST(WithMore, BandwidthShortensWhatIsNotLatencyOnLinksOfItsKindOnly) {
  const PlanningProblem problem = TwoNodes();
  const std::vector<CollectivePoint>& before = problem.profile(kFirstGroup).collectives();
  for (const bool between_nodes : {false, true}) {
    const PlanningProblem more = WithMore(
        problem, between_nodes ? Resource::kInterNodeBandwidth : Resource::kIntraNodeBandwidth,
        2.0);
    const std::vector<CollectivePoint>& after = more.profile(kFirstGroup).collectives();
    ASSERT_EQ(after.size(), before.size());
    int changed = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      const CollectivePoint& point = before[i];
      EXPECT_EQ(after[i].message_size, point.message_size);
      const bool leaves = (point.participant_count - 1) * point.rank_stride >= 4;
      // Three sizes a curve, the smallest first.
      const Seconds latency = before[i / 3 * 3].duration;
      const Seconds expected =
          leaves == between_nodes ? latency + (point.duration - latency) * 0.5 : point.duration;
      EXPECT_NEAR(after[i].duration.value(), expected.value(), 1e-15) << i;
      if (after[i].duration < point.duration) ++changed;
    }
    EXPECT_GT(changed, 0);
    EXPECT_LT(changed, static_cast<int>(before.size()));
    EXPECT_EQ(more.usable_memory(), problem.usable_memory());
  }
}

TEST(WithMore, ASinglePointIsABandwidthAlone) {
  ProfileSnapshot::Content content = SyntheticProfileContent({});
  CollectivePoint point = content.collectives.front();
  point.duration = Seconds::Of(0.5);
  content.collectives = {point};
  SyntheticOptions options;
  options.rules.allow_estimates = true;
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot, ProfileSnapshot::Create(content));
  ASSERT_OK_AND_ASSIGN(
      const PlanningProblem problem,
      PlanningProblem::Create(SyntheticModel(options), SyntheticTopology(options),
                              {{{std::make_shared<const ProfileSnapshot>(snapshot)}}}, 16,
                              options.rules));
  const PlanningProblem more = WithMore(problem, Resource::kIntraNodeBandwidth, 2.0);
  EXPECT_DOUBLE_EQ(more.profile(kFirstGroup).collectives().front().duration.value(), 0.25);
}

TEST(WithMore, FasterDevicesMakeMeasuredLayersFaster) {
  const PlanningProblem problem = TwoNodes();
  const PlanningProblem more = WithMore(problem, Resource::kDevices, 2.0);
  const std::vector<MeasuredLayer>& before = problem.profile(kFirstGroup).layers();
  const std::vector<MeasuredLayer>& after = more.profile(kFirstGroup).layers();
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    for (size_t p = 0; p < before[i].timings.size(); ++p) {
      EXPECT_DOUBLE_EQ(after[i].timings[p].forward.value(),
                       before[i].timings[p].forward.value() / 2.0);
      EXPECT_DOUBLE_EQ(after[i].timings[p].backward->value(),
                       before[i].timings[p].backward->value() / 2.0);
    }
  }
  EXPECT_EQ(more.profile(kFirstGroup).collectives().back().duration,
            problem.profile(kFirstGroup).collectives().back().duration);
}

TEST(WithMore, OfDataSheetsIsTheirRatesAndNotTheirLatencies) {
  const PlanningProblem problem = EstimatedProblem({.device_count = 64});
  const Hardware& before = *problem.hardware(kFirstGroup);
  const PlanningProblem wide = WithMore(problem, Resource::kInterNodeBandwidth, 2.0);
  Hardware expected = before;
  expected.fabric.inter_node.bytes_per_second_per_device *= 2.0;
  expected.fabric.inter_node.bytes_per_second_per_node *= 2.0;
  EXPECT_TRUE(*wide.hardware(kFirstGroup) == expected);
  const PlanningProblem inside = WithMore(problem, Resource::kIntraNodeBandwidth, 2.0);
  EXPECT_EQ(inside.hardware(kFirstGroup)->fabric.intra_node.bytes_per_second_per_device,
            2.0 * before.fabric.intra_node.bytes_per_second_per_device);
  EXPECT_TRUE(inside.hardware(kFirstGroup)->fabric.inter_node == before.fabric.inter_node);
  const PlanningProblem fast = WithMore(problem, Resource::kDevices, 2.0);
  EXPECT_EQ(fast.hardware(kFirstGroup)->device.matrix_flops_16_bit,
            2.0 * before.device.matrix_flops_16_bit);
  EXPECT_EQ(fast.hardware(kFirstGroup)->device.memory_bytes_per_second,
            2.0 * before.device.memory_bytes_per_second);
  EXPECT_TRUE(fast.hardware(kFirstGroup)->fabric == before.fabric);
}

// More of anything never makes a given plan slower.
TEST(WithMore, NeverMakesAPlanSlower) {
  for (const PlanningProblem& problem : {TwoNodes(), EstimatedProblem({.device_count = 8,
                                                     .devices_per_node = 4,
                                                     .decoder_count = 8,
                                                     .hidden_size = 1024,
                                                     .attention_head_count = 16,
                                                     .global_batch_size = 16})}) {
    const Plan plan = TwoStages(problem, 4);
    const Seconds before = PredictPlan(problem, CostsOf(problem), plan).step;
    for (int i = 0; i < kResourceCount; ++i) {
      const PlanningProblem more = WithMore(problem, static_cast<Resource>(i), 1.1);
      EXPECT_LE(PredictPlan(more, CostsOf(more), plan).step, before)
          << ResourceName(static_cast<Resource>(i));
    }
  }
}

TEST(Sensitivities, ShowWhatEveryResourceThereIsWouldBuy) {
  const PlanningProblem problem = TwoNodes();
  const Plan plan = TwoStages(problem, 4);
  const Seconds before = PredictPlan(problem, CostsOf(problem), plan).step;
  std::vector<PlanningProblem> asked;
  // Says the same plan takes half as long.
  const PlannerOfProblem half = [&](const PlanningProblem& more) -> absl::StatusOr<PlanningResult> {
    asked.push_back(more);
    PlanFound found;
    found.plan = plan;
    found.prediction.step = before * 0.5;
    return PlanningResult(std::move(found));
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<Sensitivity> all, Sensitivities(problem, plan, 1.1, half));
  ASSERT_EQ(all.size(), 4u);
  ASSERT_EQ(asked.size(), 4u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].resource, static_cast<Resource>(i));
    EXPECT_EQ(all[i].factor, 1.1);
    EXPECT_NEAR(all[i].gain, 0.5, 1e-12);
    EXPECT_FALSE(all[i].plan_changes);
    EXPECT_EQ(all[i].kept_step, PredictPlan(asked[i], CostsOf(asked[i]), plan).step);
  }
  EXPECT_EQ(all[0].kept_step, before);
  EXPECT_LT(all[3].kept_step, before);
}

TEST(Sensitivities, ASearchThatFindsNothingBetterLeavesWhatThePlanItselfGains) {
  const PlanningProblem problem = SyntheticProblem({});
  const Plan plan = TwoStages(problem, 4);
  const Seconds before = PredictPlan(problem, CostsOf(problem), plan).step;
  const PlannerOfProblem stopped = [](const PlanningProblem&) -> absl::StatusOr<PlanningResult> {
    return PlanningResult(StoppedEmpty{});
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<Sensitivity> all,
                       Sensitivities(problem, plan, 1.1, stopped));
  // One node: nothing is between nodes.
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].resource, Resource::kDevices);
  for (const Sensitivity& sensitivity : all) {
    EXPECT_FALSE(sensitivity.best.has_value());
    EXPECT_NEAR(sensitivity.gain, 1.0 - sensitivity.kept_step / before, 1e-12);
  }
  EXPECT_EQ(all[0].gain, 0.0);
  EXPECT_GT(all[2].gain, 0.0);

  const PlannerOfProblem fails = [](const PlanningProblem&) -> absl::StatusOr<PlanningResult> {
    return absl::InternalError("no");
  };
  EXPECT_THAT(Sensitivities(problem, plan, 1.1, fails), StatusIs(absl::StatusCode::kInternal));
}

TEST(Sensitivities, OfAPlannersOwnPlanAreGains) {
  const PlanningProblem problem = TwoNodes();
  const Plan plan = PlanBy(problem, "galvatron-base");
  const PlannerOfProblem planner = [](const PlanningProblem& more) {
    return FindPlan(more, "galvatron-base");
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<Sensitivity> all,
                       Sensitivities(problem, plan, 1.1, planner));
  for (const Sensitivity& sensitivity : all) {
    ASSERT_TRUE(sensitivity.best.has_value());
    EXPECT_GE(sensitivity.gain, 0.0);
    // Not more than everything 10 % faster would.
    EXPECT_LT(sensitivity.gain, 0.5);
  }
  EXPECT_GT(all.back().gain, 0.0);
}

}  // namespace
}  // namespace parplan
