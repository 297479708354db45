#include "proto/wire/plan_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "planner/model/planning_problem.h"
#include "proto/wire/model_wire.h"
#include "tests/proto/wire/random_values.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

void ExpectSamePrediction(const Prediction& a, const Prediction& b) {
  EXPECT_EQ(a.step.value(), b.step.value());
  EXPECT_EQ(a.samples_per_second, b.samples_per_second);
  EXPECT_EQ(a.peak_memory, b.peak_memory);
  EXPECT_EQ(a.usable_memory, b.usable_memory);
  EXPECT_EQ(a.step_lower.value(), b.step_lower.value());
  EXPECT_NEAR(a.step_upper.value(), b.step_upper.value(), 1e-9);
  EXPECT_EQ(a.peak_memory_lower, b.peak_memory_lower);
  EXPECT_EQ(a.peak_memory_upper, b.peak_memory_upper);
  EXPECT_EQ(a.range_basis, b.range_basis);
  EXPECT_EQ(a.bottleneck, b.bottleneck);
  EXPECT_EQ(a.bottleneck_text, b.bottleneck_text);
  EXPECT_EQ(a.confidence, b.confidence);
  EXPECT_EQ(a.estimated_items, b.estimated_items);
  ASSERT_EQ(a.stages.size(), b.stages.size());
  for (size_t i = 0; i < a.stages.size(); ++i) {
    EXPECT_EQ(a.stages[i].forward.value(), b.stages[i].forward.value());
    EXPECT_EQ(a.stages[i].backward.value(), b.stages[i].backward.value());
    EXPECT_EQ(a.stages[i].gradient_sync.value(), b.stages[i].gradient_sync.value());
    EXPECT_EQ(a.stages[i].optimizer_step.value(), b.stages[i].optimizer_step.value());
    EXPECT_EQ(a.stages[i].send.value(), b.stages[i].send.value());
    EXPECT_EQ(a.stages[i].idle_ratio, b.stages[i].idle_ratio);
    EXPECT_EQ(a.stages[i].in_flight_micro_batch_count, b.stages[i].in_flight_micro_batch_count);
    EXPECT_TRUE(a.stages[i].memory == b.stages[i].memory);
    EXPECT_TRUE(a.stages[i].time == b.stages[i].time);
  }
}

TEST(PlanWire, ThereAndBackIsTheSame) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomValues random(seed);
    ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(random.Model()));
    const Plan plan = random.PlanOf(model.layer_count());
    const Prediction prediction = random.PredictionOf(plan.pipeline_parallel_degree());
    const SearchSummary summary = random.Summary();
    v1::PlanPayload payload;
    FillPayload(plan, prediction, summary, model, &payload);
    v1::PlanPayload received;
    ASSERT_TRUE(received.ParseFromString(payload.SerializeAsString()));

    ASSERT_OK_AND_ASSIGN(const Plan plan_again, PlanFromPayload(received));
    EXPECT_TRUE(plan_again == plan);
    ASSERT_OK_AND_ASSIGN(const Prediction prediction_again,
                         PredictionFromProto(received.prediction()));
    ExpectSamePrediction(prediction_again, prediction);
    ASSERT_OK_AND_ASSIGN(const SearchSummary summary_again,
                         SearchSummaryFromProto(received.search()));
    EXPECT_EQ(summary_again.termination, summary.termination);
    EXPECT_EQ(summary_again.limit, summary.limit);
    EXPECT_EQ(summary_again.bound.value(), summary.bound.value());
    EXPECT_EQ(summary_again.gap_ratio, summary.gap_ratio);
    EXPECT_EQ(summary_again.expanded_state_count, summary.expanded_state_count);
    EXPECT_EQ(summary_again.pruned_state_count, summary.pruned_state_count);
    EXPECT_EQ(summary_again.candidate_count, summary.candidate_count);
    EXPECT_EQ(received.precision(), PrecisionToProto(model.precision()));
    EXPECT_EQ(received.stages(0).layer_runs(0).layer_definition_id(),
              model.layer(0).layer_definition_id);
  }
}

TEST(FillRecomputePolicy, SaysWhatSelectiveLayersComputeAgain) {
  v1::PlanPayload payload;
  v1::Strategy& strategy = *payload.add_stages()->add_layer_runs()->mutable_strategy();
  strategy.set_recompute_level(v1::RECOMPUTE_LEVEL_FULL);
  FillRecomputePolicy(SelectiveRecompute::kOperators, &payload);
  EXPECT_FALSE(payload.has_recompute_policy());

  strategy.set_recompute_level(v1::RECOMPUTE_LEVEL_SELECTIVE);
  FillRecomputePolicy(SelectiveRecompute::kAttention, &payload);
  EXPECT_EQ(payload.recompute_policy().selective_ac_option(), "attention");
  EXPECT_EQ(payload.recompute_policy().recomputed_functions(0),
            "torch.nn.functional.scaled_dot_product_attention");

  FillRecomputePolicy(SelectiveRecompute::kOperators, &payload);
  EXPECT_EQ(payload.recompute_policy().selective_ac_option(), "op");
  EXPECT_EQ(payload.recompute_policy().recomputed_product_interval(), 2);
  EXPECT_EQ(payload.recompute_policy().recomputed_functions_size(), 0);
  EXPECT_THAT(payload.recompute_policy().saved_operators(),
              testing::AllOf(testing::Contains("aten.mm.default"),
                             testing::Contains("_c10d_functional.reduce_scatter_tensor.default")));
}

TEST(RivalPlanWire, IsThePlanOfAPayloadAndItsFigures) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomValues random(seed);
    ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(random.Model()));
    PredictedPlan rival;
    rival.plan = random.PlanOf(model.layer_count());
    rival.prediction = random.PredictionOf(rival.plan.pipeline_parallel_degree());
    const v1::RivalPlan message = RivalPlanToProto(rival, model);
    v1::PlanPayload payload;
    FillPayload(rival.plan, rival.prediction, {}, model, &payload);
    EXPECT_EQ(message.global_batch_size(), payload.global_batch_size());
    EXPECT_EQ(message.micro_batch_count(), payload.micro_batch_count());
    EXPECT_EQ(message.schedule(), payload.schedule());
    EXPECT_EQ(message.virtual_stage_count(), payload.virtual_stage_count());
    EXPECT_EQ(message.micro_batch_group_size(), payload.micro_batch_group_size());
    ASSERT_EQ(message.stages_size(), payload.stages_size());
    for (int i = 0; i < message.stages_size(); ++i) {
      EXPECT_EQ(message.stages(i).DebugString(), payload.stages(i).DebugString());
    }
    EXPECT_EQ(message.gist(), PlanGist(rival.plan));
    EXPECT_EQ(message.step_duration().DebugString(),
              payload.prediction().step_duration().DebugString());
    EXPECT_EQ(message.samples_per_second(), rival.prediction.samples_per_second);
    EXPECT_EQ(message.peak_memory_bytes(), rival.prediction.peak_memory.count());
  }
}

TEST(PlanWire, CarriesTheClocksOfTheCaller) {
  const v1::SearchSummary message =
      SearchSummaryToProto(SearchSummary(), Seconds::Of(1.5), Seconds::Of(0.25));
  EXPECT_EQ(message.cpu_duration().seconds(), 1);
  EXPECT_EQ(message.cpu_duration().nanos(), 500'000'000);
  EXPECT_EQ(message.wall_duration().nanos(), 250'000'000);
}

// Two stages of two ranks, one layer each.
v1::PlanPayload SmallPayload() {
  v1::PlanPayload payload;
  payload.set_device_count(4);
  payload.set_global_batch_size(8);
  payload.set_micro_batch_count(2);
  for (int i = 0; i < 2; ++i) {
    v1::StagePlan& stage = *payload.add_stages();
    stage.set_first_rank(2 * i);
    stage.set_rank_count(2);
    v1::StageLayerRun& run = *stage.add_layer_runs();
    run.set_first_layer_index(i);
    run.set_layer_count(1);
    run.mutable_strategy()->set_tensor_parallel_degree(2);
    run.mutable_strategy()->set_data_parallel_degree(1);
    run.mutable_strategy()->add_rank_order(v1::PARALLEL_AXIS_TENSOR);
    run.mutable_strategy()->add_rank_order(v1::PARALLEL_AXIS_DATA);
  }
  return payload;
}

TEST(PlanWire, FillsInTheDefaultsOfEnums) {
  ASSERT_OK_AND_ASSIGN(const Plan plan, PlanFromPayload(SmallPayload()));
  EXPECT_EQ(plan.schedule, Schedule::kOneForwardOneBackward);
  EXPECT_EQ(plan.stages[1].layer_runs[0].strategy.sharding_level, ShardingLevel::kNone);
  EXPECT_EQ(plan.stages[1].layer_runs[0].strategy.recompute_level, RecomputeLevel::kNone);
}

// A stage without layers between the two: that it hands on is for a program to say.
TEST(PlanWire, CarriesStagesWithoutLayers) {
  v1::PlanPayload payload = SmallPayload();
  payload.set_device_count(6);
  *payload.add_stages() = payload.stages(1);
  payload.mutable_stages(1)->clear_layer_runs();
  payload.mutable_stages(2)->set_first_rank(4);
  ASSERT_OK_AND_ASSIGN(const Plan plan, PlanFromPayload(payload));
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_EQ(plan.stages[1], (StagePlan{.first_rank = 2, .rank_count = 2}));
  EXPECT_EQ(plan.stages[2].first_layer_index(), 1);
  RandomValues random(30);
  v1::ModelSpec model = random.Model();
  model.mutable_layer_runs(0)->set_layer_count(2);
  ASSERT_OK_AND_ASSIGN(const ModelSpec spec, ModelFromProto(model));
  v1::PlanPayload again;
  FillPayload(plan, random.PredictionOf(3), {}, spec, &again);
  EXPECT_EQ(again.stages(1).layer_runs_size(), 0);
  ASSERT_OK_AND_ASSIGN(const Plan back, PlanFromPayload(again));
  EXPECT_EQ(back, plan);
}

TEST(PlanWire, NamesTheFieldThatIsNoPlan) {
  struct Case {
    std::string field;
    std::function<void(v1::PlanPayload&)> change;
  };
  const auto stage = [](v1::PlanPayload& p) { return p.mutable_stages(1); };
  const auto run = [](v1::PlanPayload& p) { return p.mutable_stages(1)->mutable_layer_runs(0); };
  const auto strategy = [&](v1::PlanPayload& p) { return run(p)->mutable_strategy(); };
  const std::string in_run = "stages[1].layer_runs[0]";
  const std::vector<Case> cases = {
      {"global_batch_size", [](auto& p) { p.set_global_batch_size(0); }},
      {"micro_batch_count", [](auto& p) { p.set_micro_batch_count(3); }},
      {"micro_batch_count", [](auto& p) { p.set_micro_batch_count(0); }},
      {"schedule", [](auto& p) { p.set_schedule(static_cast<v1::Schedule>(9)); }},
      {"stages", [](auto& p) { p.clear_stages(); }},
      {"device_count", [](auto& p) { p.set_device_count(5); }},
      {"stages[1].first_rank", [&](auto& p) { stage(p)->set_first_rank(1); }},
      {"stages[1].rank_count", [&](auto& p) { stage(p)->set_rank_count(0); }},
      {"stages[1].rank_count", [&](auto& p) { stage(p)->set_rank_count(2'147'483'647); }},
      {"stages[1].layer_runs", [&](auto& p) { stage(p)->clear_layer_runs(); }},
      {"stages[0].layer_runs", [](auto& p) { p.mutable_stages(0)->clear_layer_runs(); }},
      {"stages",
       [](auto& p) {
         const v1::StagePlan last = p.stages(1);
         while (p.stages_size() <= kMaxLayerCount) *p.add_stages() = last;
       }},
      {in_run + ".first_layer_index", [&](auto& p) { run(p)->set_first_layer_index(2); }},
      {in_run + ".layer_count", [&](auto& p) { run(p)->set_layer_count(0); }},
      {in_run + ".layer_count", [&](auto& p) { run(p)->set_layer_count(2'147'483'647); }},
      {in_run + ".strategy", [&](auto& p) { strategy(p)->set_data_parallel_degree(2); }},
      {in_run + ".strategy.tensor_parallel_degree",
       [&](auto& p) { strategy(p)->set_tensor_parallel_degree(0); }},
      {in_run + ".strategy.data_parallel_degree",
       [&](auto& p) { strategy(p)->set_data_parallel_degree(-1); }},
      {in_run + ".strategy.sharding_level",
       [&](auto& p) { strategy(p)->set_sharding_level(static_cast<v1::ShardingLevel>(8)); }},
      {in_run + ".strategy.rank_order",
       [&](auto& p) { strategy(p)->set_rank_order(1, v1::PARALLEL_AXIS_TENSOR); }},
      {in_run + ".strategy.rank_order", [&](auto& p) { strategy(p)->clear_rank_order(); }},
      {in_run + ".strategy.recompute_level",
       [&](auto& p) { strategy(p)->set_recompute_level(static_cast<v1::RecomputeLevel>(8)); }},
      {in_run + ".strategy.recompute_modules",
       [&](auto& p) { strategy(p)->set_recompute_level(v1::RECOMPUTE_LEVEL_MODULES); }},
      {in_run + ".strategy.recompute_modules",
       [&](auto& p) {
         strategy(p)->set_recompute_level(v1::RECOMPUTE_LEVEL_FULL);
         strategy(p)->add_recompute_modules(v1::RECOMPUTE_MODULE_EXPERTS);
       }},
      {in_run + ".strategy.recompute_modules",
       [&](auto& p) {
         strategy(p)->set_recompute_level(v1::RECOMPUTE_LEVEL_MODULES);
         strategy(p)->add_recompute_modules(v1::RECOMPUTE_MODULE_CORE_ATTENTION);
       }},
      {in_run + ".strategy.recompute_modules",
       [&](auto& p) {
         strategy(p)->set_recompute_level(v1::RECOMPUTE_LEVEL_MODULES);
         strategy(p)->add_recompute_modules(v1::RECOMPUTE_MODULE_EXPERTS);
         strategy(p)->add_recompute_modules(v1::RECOMPUTE_MODULE_NORMS);
       }},
      {in_run + ".strategy.recompute_modules[0]",
       [&](auto& p) {
         strategy(p)->set_recompute_level(v1::RECOMPUTE_LEVEL_MODULES);
         strategy(p)->add_recompute_modules(static_cast<v1::RecomputeModule>(8));
       }},
      {in_run + ".strategy.context_parallel_degree",
       [&](auto& p) { strategy(p)->set_context_parallel_degree(-1); }},
      {in_run + ".strategy.context_parallel_degree",
       [&](auto& p) { strategy(p)->set_context_parallel_degree(2'147'483'647); }},
      {in_run + ".strategy.expert_parallel_degree",
       [&](auto& p) { strategy(p)->set_expert_parallel_degree(2); }},
      {in_run + ".strategy.expert_tensor_parallel_degree",
       [&](auto& p) { strategy(p)->set_expert_tensor_parallel_degree(-1); }},
      {in_run + ".strategy.expert_tensor_parallel_degree",
       [&](auto& p) { strategy(p)->set_expert_tensor_parallel_degree(65'536); }},
      {in_run + ".strategy.expert_tensor_parallel_degree",
       [&](auto& p) {
         strategy(p)->set_expert_tensor_parallel_degree(strategy(p)->tensor_parallel_degree());
       }},
      {in_run + ".strategy.sharding_degree",
       [&](auto& p) { strategy(p)->set_sharding_degree(-1); }},
      {in_run + ".strategy.sharding_degree",
       [&](auto& p) { strategy(p)->set_sharding_degree(65'536); }},
      {in_run + ".strategy.context_kind",
       [&](auto& p) { strategy(p)->set_context_kind(static_cast<v1::ContextKind>(3)); }},
      // No ranks share a sample.
      {in_run + ".strategy.context_kind",
       [&](auto& p) { strategy(p)->set_context_kind(v1::CONTEXT_KIND_ULYSSES); }},
      {"virtual_stage_count", [](auto& p) { p.set_virtual_stage_count(-1); }},
      {"virtual_stage_count", [](auto& p) { p.set_virtual_stage_count(2); }},
      {"virtual_stage_count",
       [](auto& p) {
         p.set_schedule(v1::SCHEDULE_INTERLEAVED);
         p.set_virtual_stage_count(3);
       }},
      // Two stages on one device.
      {"virtual_stage_count",
       [](auto& p) {
         p.set_schedule(v1::SCHEDULE_INTERLEAVED);
         p.set_virtual_stage_count(2);
         p.set_device_count(2);
         p.mutable_stages(1)->set_first_rank(0);
       }},
      // One stage a device.
      {"micro_batch_group_size", [](auto& p) { p.set_micro_batch_group_size(4); }},
      {"micro_batch_group_size", [](auto& p) { p.set_micro_batch_group_size(-1); }},
  };
  for (const Case& c : cases) {
    v1::PlanPayload broken = SmallPayload();
    c.change(broken);
    EXPECT_EQ(Rejection(PlanFromPayload(broken).status()), "PAYLOAD_MALFORMED " + c.field);
  }
}

// A Duration ends at nanoseconds, which is a ten millionth of a step of 10 ms.
TEST(PlanWire, KeepsAllDigitsOfTheStep) {
  Prediction prediction = RandomValues(1).PredictionOf(1);
  prediction.step = prediction.step_lower = prediction.step_upper = Seconds::Of(0.0123456789623456);
  v1::Prediction message = PredictionToProto(prediction);
  ASSERT_OK_AND_ASSIGN(const Prediction again, PredictionFromProto(message));
  EXPECT_EQ(again.step, prediction.step);
  // The ends of the range are rounded, but not past the step.
  EXPECT_LE(again.step_lower, again.step);
  EXPECT_GE(again.step_upper, again.step);
  const SearchSummary summary{.termination = Termination::kOptimal, .bound = prediction.step};
  ASSERT_OK_AND_ASSIGN(const SearchSummary summary_again,
                       SearchSummaryFromProto(SearchSummaryToProto(summary, Seconds(), Seconds())));
  EXPECT_EQ(summary_again.bound, summary.bound);
  // Plans of older releases.
  message.clear_step_seconds();
  ASSERT_OK_AND_ASSIGN(const Prediction older, PredictionFromProto(message));
  EXPECT_EQ(older.step, Seconds::Of(0.012345679));
}

TEST(PlanWire, NamesTheFieldThatIsNoPrediction) {
  struct Case {
    std::string field;
    std::function<void(v1::Prediction&)> change;
  };
  const auto stage = [](v1::Prediction& p) { return p.mutable_stages(0); };
  const std::vector<Case> cases = {
      {"step_duration", [](auto& p) { p.mutable_step_duration()->set_seconds(-1); }},
      {"step_seconds", [](auto& p) { p.set_step_seconds(p.step_seconds() + 1e-8); }},
      {"step_seconds", [](auto& p) { p.set_step_seconds(std::nan("")); }},
      {"peak_memory_bytes", [](auto& p) { p.set_peak_memory_bytes(-1); }},
      {"step_duration_range",
       [](auto& p) { p.mutable_step_duration_range()->clear_upper_duration(); }},
      {"step_duration_range.lower_duration",
       [](auto& p) { p.mutable_step_duration_range()->mutable_lower_duration()->set_seconds(-1); }},
      {"peak_memory_range", [](auto& p) { p.mutable_peak_memory_range()->clear_upper_bytes(); }},
      {"peak_memory_range.lower_bytes",
       [](auto& p) { p.mutable_peak_memory_range()->set_lower_bytes(-1); }},
      {"samples_per_second", [](auto& p) { p.set_samples_per_second(1e308 * 10); }},
      {"bottleneck", [](auto& p) { p.clear_bottleneck(); }},
      {"confidence", [](auto& p) { p.set_confidence(static_cast<v1::Confidence>(7)); }},
      {"stages[0].peak_memory_bytes",
       [&](auto& p) { stage(p)->set_peak_memory_bytes(stage(p)->peak_memory_bytes() + 1); }},
      {"stages[0].memory_items[1]",
       [&](auto& p) {
         stage(p)->mutable_memory_items(1)->set_kind(v1::MEMORY_ITEM_KIND_PARAMETERS);
       }},
      {"stages[0].memory_items[1]",
       [&](auto& p) {
         for (auto& item : *stage(p)->mutable_memory_items()) item.set_size_bytes(INT64_MAX);
       }},
      {"stages[0].memory_items[0].kind",
       [&](auto& p) { stage(p)->mutable_memory_items(0)->clear_kind(); }},
      {"stages[0].time_items[2].duration",
       [&](auto& p) {
         stage(p)->mutable_time_items(2)->mutable_duration()->set_nanos(-1);
         stage(p)->mutable_time_items(2)->mutable_duration()->set_seconds(0);
       }},
  };
  const v1::Prediction good = PredictionToProto(RandomValues(1).PredictionOf(1));
  for (const Case& c : cases) {
    v1::Prediction broken = good;
    c.change(broken);
    EXPECT_EQ(Rejection(PredictionFromProto(broken).status()),
              "PAYLOAD_MALFORMED prediction." + c.field);
  }
}

}  // namespace
}  // namespace parplan
