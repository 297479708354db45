#include "executor/apply/state_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "tests/executor/apply/apply_cases.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Bytes of fp32, of which shards have multiples of 32.
constexpr int64_t kElementSize = 4;

std::vector<std::vector<HeldRun>> HeldBy(const Plan& plan, const ModelSpec& model, StateKind kind) {
  const ParameterNumbers numbers(model);
  std::vector<std::vector<HeldRun>> held;
  for (int rank = 0; rank < plan.device_count; ++rank) {
    const absl::StatusOr<RankProgram> program = RankProgram::Create(plan, model, rank);
    EXPECT_OK(program.status());
    held.push_back(RunsOf(*program, model, numbers, kind, kElementSize));
  }
  return held;
}

// Returns a model whose head shares the embedding's table and has a LayerNorm with a bias.
ModelSpec TiedGpt2(int decoder_count) {
  const ModelSpec model = SmallGpt2(decoder_count);
  std::vector<LayerDefinition> definitions = model.layer_definitions();
  LayerDefinition& head = definitions.back();
  head.tied_embedding = true;
  head.parameter_count = 2 * int64_t{head.hidden_size};
  absl::StatusOr<ModelSpec> tied =
      ModelSpec::Create("tied", definitions, {{0, 1}, {1, decoder_count}, {2, 1}},
                        model.precision(), model.optimizer());
  EXPECT_OK(tied.status());
  return *std::move(tied);
}

// [slot, element] the parameter that lies there.
using Places = std::map<std::pair<int, int64_t>, int64_t>;

Places PlacesOf(const std::vector<HeldRun>& runs) {
  Places places;
  for (const HeldRun& run : runs) {
    for (int64_t k = 0; k < run.count; ++k) {
      EXPECT_TRUE(places.emplace(std::pair(run.layer_slot, run.offset + k), run.number + k).second);
    }
  }
  return places;
}

std::vector<Plan> PlansOfFour(const ModelSpec& model) {
  std::vector<Plan> plans;
  for (const Strategy& strategy : StrategiesOf(4)) {
    plans.push_back(PlanOf(model, 4, {4}, {strategy}, kAppliedBatch, 1));
  }
  for (const Strategy& strategy : StrategiesOf(2)) {
    plans.push_back(PlanOf(model, 4, {1, 3}, {strategy}, kAppliedBatch, 4));
  }
  plans.push_back(PlanOf(model, 4, {1, 1, 1, 1}, {{}}, kAppliedBatch, 4));
  plans.push_back(PlanOf(model, 4, {4}, StrategiesOf(4), kAppliedBatch, 1));
  // A head that shares its table is spread as the embedding is.
  std::erase_if(
      plans, [&](const Plan& plan) { return !RankProgram::Create(plan, model, /*rank=*/0).ok(); });
  EXPECT_GT(plans.size(), 10u);
  return plans;
}

TEST(StateMap, EveryParameterIsHeldBySomeone) {
  for (const ModelSpec& model : {SmallGpt(2), SmallGpt(2, /*is_tied=*/true), TiedGpt2(2)}) {
    for (const Plan& plan : PlansOfFour(model)) {
      for (const StateKind kind : {StateKind::kParameters, StateKind::kFirstMoments}) {
        std::vector<bool> is_held(ParameterNumbers(model).count());
        for (const std::vector<HeldRun>& runs : HeldBy(plan, model, kind)) {
          for (const HeldRun& run : runs) {
            for (int64_t k = 0; k < run.count; ++k) is_held[run.number + k] = true;
          }
        }
        EXPECT_THAT(is_held, ::testing::Each(true)) << PlanGist(plan);
      }
    }
  }
}

TEST(StateMap, ShardsOfStatesAreDisjointAndOfParametersOnlyAtTheHighestLevel) {
  const ModelSpec model = SmallGpt(2);
  const auto count_of = [&](ShardingLevel level, StateKind kind) {
    const Plan plan = PlanOf(model, 4, {4}, {{.data_parallel_degree = 4, .sharding_level = level}},
                             kAppliedBatch, 1);
    int64_t count = 0;
    for (const std::vector<HeldRun>& runs : HeldBy(plan, model, kind)) {
      for (const HeldRun& run : runs) count += run.count;
    }
    return count / ParameterNumbers(model).count();
  };
  EXPECT_EQ(count_of(ShardingLevel::kNone, StateKind::kFirstMoments), 4);
  EXPECT_EQ(count_of(ShardingLevel::kOptimizer, StateKind::kFirstMoments), 1);
  EXPECT_EQ(count_of(ShardingLevel::kGradients, StateKind::kParameters), 4);
  EXPECT_EQ(count_of(ShardingLevel::kParameters, StateKind::kParameters), 1);
}

// The trainer's shards begin there too (LayerState); the head's 4,656 elements are no multiple.
TEST(StateMap, ShardsBeginAtMultiplesOf128Bytes) {
  const ModelSpec model = SmallGpt(1);
  const Plan plan = PlanOf(model, 2, {3}, {{.data_parallel_degree = 2, .sharding_level = kZero3}},
                           kAppliedBatch, 1);
  const auto held = HeldBy(plan, model, StateKind::kParameters);
  const auto count_of_head = [&](int rank) {
    int64_t count = 0;
    for (const HeldRun& run : held[rank]) count += run.layer_slot == 2 ? run.count : 0;
    return count;
  };
  EXPECT_EQ(count_of_head(0), 2336);
  EXPECT_EQ(count_of_head(1), 2320);
}

// Every part is moved from its stated source to its stated target.
TEST(StateMap, TransfersBringEveryRankWhatItWants) {
  for (const bool is_tied : {false, true}) {
    const ModelSpec model = SmallGpt(2, is_tied);
    const std::vector<Plan> plans = PlansOfFour(model);
    for (size_t k = 0; k < plans.size(); k += 3) {
      // Not all pairs: each plan with one that is far from it.
      const Plan& from = plans[k];
      const Plan& to = plans[(k * 7 + 3) % plans.size()];
      SCOPED_TRACE(PlanGist(from) + " to " + PlanGist(to));
      for (const StateKind kind : {StateKind::kParameters, StateKind::kFirstMoments}) {
        const auto held = HeldBy(from, model, kind);
        const auto wanted = HeldBy(to, model, kind);
        std::vector<Places> have;
        for (const std::vector<HeldRun>& runs : held) have.push_back(PlacesOf(runs));
        for (int rank = 0; rank < 4; ++rank) {
          Places got;
          for (const StateTransfer& transfer : TransfersTo(rank, wanted[rank], held)) {
            for (int64_t i = 0; i < transfer.count; ++i) {
              const auto source =
                  have[transfer.from_rank].find({transfer.from_slot, transfer.from_offset + i});
              ASSERT_NE(source, have[transfer.from_rank].end());
              ASSERT_TRUE(
                  got.emplace(std::pair(transfer.to_slot, transfer.to_offset + i), source->second)
                      .second);
            }
          }
          ASSERT_EQ(got, PlacesOf(wanted[rank]));
        }
      }
    }
  }
}

TEST(StateMap, WhatARankHasItKeeps) {
  const ModelSpec model = SmallGpt(2);
  const Plan plan = PlanOf(model, 4, {4}, StrategiesOf(4), kAppliedBatch, 1);
  const auto held = HeldBy(plan, model, StateKind::kParameters);
  for (int rank = 0; rank < 4; ++rank) {
    for (const StateTransfer& transfer : TransfersTo(rank, held[rank], held)) {
      EXPECT_EQ(transfer.from_rank, rank);
    }
  }
}

}  // namespace
}  // namespace parplan
