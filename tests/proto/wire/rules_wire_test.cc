#include "proto/wire/rules_wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/proto/wire/random_values.h"
#include "tests/proto/wire/reverse_wire.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(OptionsWire, ThereAndBackIsTheSame) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ASSERT_OK_AND_ASSIGN(const PlanningOptions options,
                         OptionsFromProto(RandomValues(seed).Options()));
    ASSERT_OK_AND_ASSIGN(const PlanningOptions again, OptionsFromProto(OptionsToProto(options)));
    EXPECT_TRUE(again == options);
  }
}

TEST(OptionsWire, AnEmptyMessageIsTheDefaults) {
  ASSERT_OK_AND_ASSIGN(const PlanningOptions options, OptionsFromProto({}));
  EXPECT_EQ(options.planner, "exact");
  EXPECT_TRUE(options.rules == PlanningRules());
  EXPECT_EQ(options.rules.memory_headroom_ratio, 0.0);
  EXPECT_EQ(options.rules.out_of_memory_risk, 0.01);
  EXPECT_EQ(options.rules.runtime.runtime_id, "parplan");
  EXPECT_FALSE(options.search_time_limit.has_value());
  EXPECT_EQ(options.max_state_count, 0);
}

TEST(OptionsWire, NoScheduleIsNoRuleAndEachScheduleIsOne) {
  ASSERT_OK_AND_ASSIGN(const PlanningOptions none, OptionsFromProto({}));
  EXPECT_FALSE(none.rules.schedule.has_value());
  EXPECT_EQ(OptionsToProto(none).schedule(), v1::SCHEDULE_UNSPECIFIED);
  for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kGpipe,
                                  Schedule::kInterleaved, Schedule::kZeroBubble}) {
    v1::PlanningOptions message;
    message.set_schedule(ScheduleToProto(schedule));
    ASSERT_OK_AND_ASSIGN(const PlanningOptions options, OptionsFromProto(message));
    EXPECT_EQ(options.rules.schedule, schedule);
  }
}

TEST(OptionsWire, ReadsSpaceAndTarget) {
  v1::PlanningOptions message;
  message.set_space("all,-gpipe,-interleaved");
  message.set_target("deepspeed");
  ASSERT_OK_AND_ASSIGN(const PlanningOptions options, OptionsFromProto(message));
  EXPECT_TRUE(
      options.rules.dimensions ==
      DimensionSet::All().Without(SearchDimension::kGpipe).Without(SearchDimension::kInterleaved));
  EXPECT_EQ(options.rules.target, Target::kDeepSpeed);
}

// A target's runtime takes the place of a missing one, and of no other.
TEST(OptionsWire, ATargetImpliesItsRuntime) {
  ASSERT_OK_AND_ASSIGN(const PlanningOptions none, OptionsFromProto({}));
  EXPECT_EQ(none.rules.runtime.runtime_id, "parplan");
  for (const TargetLimits& target : KnownTargets()) {
    SCOPED_TRACE(std::string(target.name));
    v1::PlanningOptions message;
    message.set_target(std::string(target.name));
    ASSERT_OK_AND_ASSIGN(const PlanningOptions implied, OptionsFromProto(message));
    EXPECT_EQ(implied.rules.runtime.runtime_id, target.runtime_id);
    message.set_runtime_id("megatron-2022");
    ASSERT_OK_AND_ASSIGN(const PlanningOptions named, OptionsFromProto(message));
    EXPECT_EQ(named.rules.runtime.runtime_id, "megatron-2022");
  }
}

TEST(OptionsWire, BatchesAndPlansToGiveHaveDefaults) {
  ASSERT_OK_AND_ASSIGN(const PlanningOptions none, OptionsFromProto({}));
  EXPECT_EQ(none.rules.smallest_global_batch_size, 0);
  EXPECT_EQ(none.rules.global_batch_size_step, 1);
  EXPECT_EQ(none.rules.top_plan_count, 1);
  v1::PlanningOptions message;
  message.set_smallest_global_batch_size(8);
  message.set_global_batch_size_step(4);
  message.set_top_plan_count(5);
  message.set_wants_memory_front(true);
  ASSERT_OK_AND_ASSIGN(const PlanningOptions options, OptionsFromProto(message));
  EXPECT_EQ(options.rules.smallest_global_batch_size, 8);
  EXPECT_EQ(options.rules.global_batch_size_step, 4);
  EXPECT_EQ(options.rules.top_plan_count, 5);
  EXPECT_TRUE(options.rules.wants_memory_front);
}

TEST(OptionsWire, AnAlphaOfZeroIsNotNone) {
  v1::PlanningOptions message;
  ASSERT_OK_AND_ASSIGN(const PlanningOptions none, OptionsFromProto(message));
  EXPECT_FALSE(none.rules.ilp_alpha_bytes_per_second.has_value());
  EXPECT_FALSE(OptionsToProto(none).has_ilp_alpha_bytes_per_second());
  for (const double alpha : {0.0, 2.5e9}) {
    message.set_ilp_alpha_bytes_per_second(alpha);
    ASSERT_OK_AND_ASSIGN(const PlanningOptions options, OptionsFromProto(message));
    EXPECT_EQ(options.rules.ilp_alpha_bytes_per_second, alpha);
    EXPECT_TRUE(OptionsToProto(options).has_ilp_alpha_bytes_per_second());
  }
}

TEST(OptionsWire, WhatThePapersPlannersTakeIsOneUnlessGiven) {
  v1::PlanningOptions message;
  ASSERT_OK_AND_ASSIGN(const PlanningOptions unset, OptionsFromProto(message));
  EXPECT_EQ(unset.rules.partitioner, Partitioner::kBest);
  EXPECT_EQ(unset.rules.memory_granule, Bytes::Of(1 << 20));
  EXPECT_EQ(unset.rules.fused_layer_count, 1);
  message.set_partitioner("greedy");
  message.set_memory_granule_bytes(32 << 20);
  message.set_fused_layer_count(4);
  ASSERT_OK_AND_ASSIGN(const PlanningOptions options, OptionsFromProto(message));
  EXPECT_EQ(options.rules.partitioner, Partitioner::kGreedy);
  EXPECT_EQ(options.rules.memory_granule, Bytes::Of(32 << 20));
  EXPECT_EQ(options.rules.fused_layer_count, 4);
}

TEST(OptionsWire, EveryRuntimeIsFoundByItsId) {
  for (const RuntimeTraits& runtime : KnownRuntimes()) {
    v1::PlanningOptions message;
    message.set_runtime_id(runtime.runtime_id);
    ASSERT_OK_AND_ASSIGN(const PlanningOptions options, OptionsFromProto(message));
    EXPECT_TRUE(options.rules.runtime == runtime) << runtime.runtime_id;
  }
}

TEST(OptionsWire, NamesTheFieldThatBreaksARule) {
  struct Case {
    std::string field;
    std::function<void(v1::PlanningOptions&)> change;
  };
  const std::vector<Case> cases = {
      {"planner", [](auto& o) { o.set_planner(std::string(64, 'x')); }},
      {"memory_headroom_ratio", [](auto& o) { o.set_memory_headroom_ratio(1); }},
      {"memory_headroom_ratio", [](auto& o) { o.set_memory_headroom_ratio(std::nan("")); }},
      {"max_tensor_parallel_degree", [](auto& o) { o.set_max_tensor_parallel_degree(-1); }},
      {"max_pipeline_parallel_degree", [](auto& o) { o.set_max_pipeline_parallel_degree(-1); }},
      {"micro_batch_count", [](auto& o) { o.set_micro_batch_count(-1); }},
      {"schedule", [](auto& o) { o.set_schedule(static_cast<v1::Schedule>(5)); }},
      {"runtime_id", [](auto& o) { o.set_runtime_id("abacus"); }},
      {"out_of_memory_probability", [](auto& o) { o.set_out_of_memory_probability(0); }},
      {"out_of_memory_probability", [](auto& o) { o.set_out_of_memory_probability(0.51); }},
      {"out_of_memory_probability", [](auto& o) { o.set_out_of_memory_probability(std::nan("")); }},
      {"search_time_limit", [](auto& o) { o.mutable_search_time_limit(); }},
      {"search_time_limit", [](auto& o) { o.mutable_search_time_limit()->set_nanos(-1); }},
      {"max_state_count", [](auto& o) { o.set_max_state_count(-1); }},
      {"space", [](auto& o) { o.set_space("pipelines"); }},
      {"space", [](auto& o) { o.set_space("all,-gpipe,"); }},
      {"space", [](auto& o) { o.set_space("tensor,all"); }},
      {"target", [](auto& o) { o.set_target("abacus"); }},
      {"smallest_global_batch_size", [](auto& o) { o.set_smallest_global_batch_size(-1); }},
      {"global_batch_size_step", [](auto& o) { o.set_global_batch_size_step(-1); }},
      {"top_plan_count", [](auto& o) { o.set_top_plan_count(-1); }},
      {"ilp_alpha_bytes_per_second", [](auto& o) { o.set_ilp_alpha_bytes_per_second(-1); }},
      {"wanted_gap_ratio", [](auto& o) { o.set_wanted_gap_ratio(-0.1); }},
      {"wants_robust_plan",
       [](auto& o) {
         o.set_wants_robust_plan(true);
         o.set_planner("dp");
       }},
      {"wants_robust_plan",
       [](auto& o) {
         o.set_wants_robust_plan(true);
         o.set_wants_memory_front(true);
       }},
      {"wanted_gap_ratio", [](auto& o) { o.set_wanted_gap_ratio(1.1); }},
      {"wanted_gap_ratio", [](auto& o) { o.set_wanted_gap_ratio(std::nan("")); }},
      {"ilp_alpha_bytes_per_second",
       [](auto& o) { o.set_ilp_alpha_bytes_per_second(std::nan("")); }},
      {"ilp_alpha_bytes_per_second", [](auto& o) { o.set_ilp_alpha_bytes_per_second(HUGE_VAL); }},
      {"partitioner", [](auto& o) { o.set_partitioner("uneven"); }},
      {"memory_granule_bytes", [](auto& o) { o.set_memory_granule_bytes(-1); }},
      {"fused_layer_count", [](auto& o) { o.set_fused_layer_count(-1); }},
  };
  for (const Case& c : cases) {
    v1::PlanningOptions broken;
    c.change(broken);
    EXPECT_EQ(Rejection(OptionsFromProto(broken, "spec.options").status()),
              "SPEC_INVALID spec.options." + c.field);
  }
}

TEST(OptionsFromProto, ARobustPlanIsChosenAmongSeveral) {
  v1::PlanningOptions message;
  message.set_wants_robust_plan(true);
  ASSERT_OK_AND_ASSIGN(const PlanningOptions some, OptionsFromProto(message));
  EXPECT_TRUE(some.wants_robust_plan);
  EXPECT_EQ(some.rules.top_plan_count, kRobustPlanCount);
  // The fastest plan stays beside it.
  EXPECT_EQ(some.robust_alternative_count, 1);
  message.set_top_plan_count(5);
  ASSERT_OK_AND_ASSIGN(const PlanningOptions five, OptionsFromProto(message));
  EXPECT_EQ(five.rules.top_plan_count, 5);
  EXPECT_EQ(five.robust_alternative_count, 4);
}

}  // namespace
}  // namespace parplan
