#include "planner/planners/exact/interleaved/uneven_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/result_check.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/exact_search.h"
#include "planner/planners/exact/interleaved/interleaved_paths.h"
#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/interleaved/uneven_bound.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/group_size_dice.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  double Draw(double most) { return std::uniform_real_distribution<double>(0.0, most)(random_); }
  int Number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
};

// The bound over all partitions is below the schedule of each, however uneven.
TEST(UnevenBound, IsNoLongerThanTheScheduleOfAnyPartition) {
  Dice dice(11);
  ScheduleEvaluator schedule;
  int close_count = 0;
  int priced_count = 0;
  int held_count = 0;
  int slow_count = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const int devices = dice.Number(2, 6);
    const int chunks = dice.Number(2, 5);
    const int stage_count = devices * chunks;
    const int64_t micro_batches = int64_t{devices} * dice.Number(1, 6);
    const int decoders = stage_count - 2 + dice.Number(0, 2 * stage_count);
    const PlanningProblem problem = EstimatedProblem({.device_count = 8,
                                                      .decoder_count = decoders,
                                                      .hidden_size = 1024,
                                                      .attention_head_count = 16,
                                                      .global_batch_size = 8,
                                                      .rules = {.allow_estimates = true}});
    const ModelSpec& model = problem.model();
    std::vector<int> layer_counts(stage_count, 1);
    for (int left = model.layer_count() - stage_count; left > 0; --left) {
      // Nearly even, or anyhow.
      const int stage = trial % 2 == 0 ? left % stage_count : dice.Number(0, stage_count - 1);
      ++layer_counts[stage];
    }
    DefinitionTimes times;
    for (size_t i = 0; i < model.layer_definitions().size(); ++i) {
      times.forward.push_back(dice.Draw(1.0));
      times.forward_backward.push_back(times.forward.back() + dice.Draw(2.0));
      times.sync.push_back(dice.Draw(0.5));
      times.backward.push_back(times.forward_backward.back() - times.forward.back());
    }
    // Every third time messages take longer than passes.
    const double least_send = dice.Number(0, 1) * dice.Draw(trial % 3 == 0 ? 20.0 : 0.3);
    // Those between nodes take longer than others.
    std::vector<double> sends(devices, least_send);
    for (double& send : sends) send *= dice.Number(1, 4) * 0.25;
    std::vector<StageTimes> stages(stage_count);
    int layer = 0;
    for (int stage = 0; stage < stage_count; ++stage) {
      for (int i = 0; i < layer_counts[stage]; ++i, ++layer) {
        const int definition = model.definition_of_layer()[layer];
        stages[stage].forward += Seconds::Of(times.forward[definition]);
        stages[stage].backward +=
            Seconds::Of(times.forward_backward[definition] - times.forward[definition]);
        stages[stage].gradient_sync += Seconds::Of(times.sync[definition]);
      }
      if (stage + 1 == stage_count) break;
      stages[stage].send = Seconds::Of(sends[stage % devices] + dice.Draw(0.1));
    }
    const double step = schedule
                            .StepTime({.schedule = Schedule::kInterleaved,
                                       .virtual_stage_count = chunks,
                                       .blocking_messages = trial % 4 == 0},
                                      stages, micro_batches)
                            .value();
    const UnevenBound bound(model, devices);
    EXPECT_LE(bound.Quick(times, micro_batches), step);
    UnevenBound::Question question = {.micro_batch_count = micro_batches,
                                      .fewest_virtual_stages = chunks,
                                      .most_virtual_stages = chunks,
                                      .sends = sends,
                                      .most_layers = {}};
    const double narrow = bound.Bound(times, question, Seconds::Infinite().value());
    EXPECT_LE(narrow, step);
    if (narrow > 0.8 * step && trial % 3 == 0 && least_send > 4.0) ++slow_count;
    question.fewest_virtual_stages = 2;
    question.most_virtual_stages = 7;
    EXPECT_LE(bound.Bound(times, question, Seconds::Infinite().value()), narrow * (1.0 + 1e-9));
    if (narrow > 0.9 * step) ++close_count;
    // The same where layers may choose and memory has a limit that this plan keeps.
    PricedOptions options;
    std::vector<double> states;
    std::vector<double> kept;
    for (size_t i = 0; i < times.forward.size(); ++i) {
      states.push_back(dice.Draw(2.0));
      kept.push_back(dice.Draw(1.0));
      options.options.push_back({{.time = times.forward_backward[i],
                                  .sync = times.sync[i],
                                  .states = states[i],
                                  .kept = kept[i]},
                                 {.time = 10.0, .sync = 10.0}});
    }
    for (int device = 0; device < devices; ++device) {
      double bytes = 0.0;
      const int in_flight = std::min(devices, 2 * (devices - 1 - device) + 1);
      int first_layer = 0;
      for (int stage = 0; stage < stage_count; ++stage) {
        for (int i = 0; i < layer_counts[stage] && stage % devices == device; ++i) {
          const int definition = model.definition_of_layer()[first_layer + i];
          bytes += states[definition] + in_flight * kept[definition];
        }
        first_layer += layer_counts[stage];
      }
      options.room = std::max(options.room, bytes);
    }
    const double priced = bound.PricedBound(times, question, options, Seconds::Infinite().value());
    EXPECT_LE(priced, step);
    if (priced > 0.9 * step) ++priced_count;
    // What a device holds, with the memory that it has where it has most: each chunk but the last
    // has as many micro-batches in flight as there are devices.
    options.room = 0.0;
    for (int device = 0; device < devices; ++device) {
      double bytes = 0.0;
      int first_layer = 0;
      for (int stage = 0; stage < stage_count; ++stage) {
        const int in_flight = stage + devices < stage_count
                                  ? devices
                                  : std::min(devices, 2 * (devices - 1 - device) + 1);
        for (int i = 0; i < layer_counts[stage] && stage % devices == device; ++i) {
          const int definition = model.definition_of_layer()[first_layer + i];
          bytes += states[definition] + in_flight * kept[definition];
        }
        first_layer += layer_counts[stage];
      }
      options.room = std::max(options.room, bytes);
    }
    const double held = bound.HeldBound(times, question, options, Seconds::Infinite().value());
    EXPECT_LE(held, step);
    if (held > 0.9 * step) ++held_count;
    // With groups of any size, of which these are some.
    const int64_t any_count = devices + dice.Number(0, 40);
    const int64_t group_size = DrawGroupSize(devices, chunks, any_count, dice.random());
    if (group_size == 0) continue;
    const double grouped = schedule
                               .StepTime({.schedule = Schedule::kInterleaved,
                                          .virtual_stage_count = chunks,
                                          .micro_batch_group_size = group_size,
                                          .blocking_messages = trial % 4 == 0},
                                         stages, any_count)
                               .value();
    question.micro_batch_count = any_count;
    question.fewest_virtual_stages = question.most_virtual_stages = chunks;
    question.any_group_size = true;
    EXPECT_LE(bound.Quick(times, any_count), grouped);
    EXPECT_LE(bound.Bound(times, question, Seconds::Infinite().value()), grouped);
    EXPECT_LE(bound.PricedBound(times, question, options, Seconds::Infinite().value()), grouped);
    EXPECT_LE(bound.HeldBound(times, question, options, Seconds::Infinite().value()), grouped);
    const StageCounts counts(model, layer_counts);
    EXPECT_LE(InterleavedPaths(counts, devices).BoundOfDevices(times, any_count, {}), grouped);
  }
  EXPECT_GT(close_count, 100);
  EXPECT_GT(priced_count, 50);
  EXPECT_GT(held_count, 20);
  EXPECT_GT(slow_count, 20);
}

TEST(UnevenBound, EndsAtTheCutoffOrTheMemory) {
  const PlanningProblem problem = EstimatedProblem({.device_count = 8,
                                                    .decoder_count = 14,
                                                    .hidden_size = 1024,
                                                    .attention_head_count = 16,
                                                    .global_batch_size = 8,
                                                    .rules = {.allow_estimates = true}});
  const UnevenBound bound(problem.model(), 2);
  EXPECT_TRUE(bound.is_uniform());
  const DefinitionTimes times = {
      .forward = {0.0, 1.0, 0.0}, .forward_backward = {0.0, 3.0, 0.0}, .sync = {0.0, 0.0, 0.0}};
  UnevenBound::Question question = {.micro_batch_count = 4,
                                    .fewest_virtual_stages = 2,
                                    .most_virtual_stages = 2,
                                    .sends = {},
                                    .most_layers = {}};
  // Seven layers of three seconds on each device, four times, at least.
  const double free = bound.Bound(times, question, Seconds::Infinite().value());
  EXPECT_GE(free, 84.0);
  EXPECT_EQ(bound.Bound(times, question, 50.0), 50.0);
  // Nine layers on one device, if the other one has room for five.
  question.most_layers = {5, 14};
  EXPECT_GE(bound.Bound(times, question, Seconds::Infinite().value()), 108.0 * (1.0 - 1e-8));
  question.most_layers = {5, 8};
  EXPECT_EQ(bound.Bound(times, question, Seconds::Infinite().value()), Seconds::Infinite().value());
}

TEST(UnevenBound, EntersThroughLayersThatAreNotAtTheEndsOfTheModel) {
  const PlanningProblem problem = EstimatedProblem({.device_count = 8,
                                                    .decoder_count = 12,
                                                    .hidden_size = 1024,
                                                    .attention_head_count = 16,
                                                    .global_batch_size = 8,
                                                    .rules = {.allow_estimates = true}});
  const UnevenBound bound(problem.model(), 3);
  // Embedding and head take no time.
  DefinitionTimes times = {
      .forward = {0.0, 1.0, 0.0}, .forward_backward = {0.0, 3.0, 0.0}, .sync = {0.0, 0.0, 0.0}};
  const UnevenBound::Question question = {.micro_batch_count = 3,
                                          .fewest_virtual_stages = 2,
                                          .most_virtual_stages = 4,
                                          .sends = {},
                                          .most_layers = {}};
  const double infinite = Seconds::Infinite().value();
  // Four layers of three seconds on each device, three times, or five on one, which takes 45 s. The
  // last device begins and ends one layer later than the first, which the embedding does not delay.
  EXPECT_GE(bound.Bound(times, question, infinite), 39.0 * (1.0 - 1e-8));
  EXPECT_GE(bound.Quick(times, 3), 37.0 * (1.0 - 1e-8));
  // The first device has four layers, whose synchronisation of one second each follows.
  times.sync[1] = 1.0;
  EXPECT_GE(bound.Bound(times, question, infinite), 43.0 * (1.0 - 1e-8));
}

// Among more partitions than are listed, the search finds one that is nearly the best, and its
// bound is no higher than the best.
TEST(UnevenSearch, IsBetweenItsBoundAndTheBestOfAllPartitions) {
  int unlisted_count = 0;
  int best_count = 0;
  for (int trial = 0; trial < 24; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    EstimatedOptions options{.device_count = trial % 3 == 0 ? 4 : 2,
                             .devices_per_node = trial % 3 == 0 ? 4 : 2,
                             .decoder_count = 8 + trial % 4,
                             .hidden_size = 1024,
                             .attention_head_count = 16,
                             .sequence_length = 512,
                             .vocabulary_size = 5000 * (1 + trial % 5 * 4),
                             .tied_embedding = false,
                             .global_batch_size = 4 * (1 + trial % 2)};
    options.rules = {.schedule = Schedule::kInterleaved,
                     .dimensions = DimensionSet()
                                       .With(SearchDimension::kPipeline)
                                       .With(SearchDimension::kUnevenStages)
                                       .With(SearchDimension::kInterleaved),
                     .allow_estimates = true};
    PlanningProblem problem = EstimatedProblem(options);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_OK(costs);
    if (trial % 2 == 1) {
      // Little more than the least memory.
      const Bytes least = EveryStage(problem, *costs).smallest_usable_memory;
      problem = problem.WithUsableMemory(Bytes::Ceil(least.as_double() * 1.03));
    }
    const BruteForceAnswer twin = EveryStage(problem, *costs);
    ASSERT_TRUE(twin.best.has_value());
    const std::optional<PlanningResult> result = SearchExact(problem, *costs, {});
    ASSERT_TRUE(result.has_value());
    const auto* const found = std::get_if<PlanFound>(&*result);
    ASSERT_NE(found, nullptr);
    EXPECT_OK(CheckResult(problem, *result));
    const double best = twin.best->prediction.step.value();
    const double ours = found->prediction.step.value();
    EXPECT_LE(found->search.bound.value(), best * (1.0 + 1e-9));
    EXPECT_GE(ours, best * (1.0 - 1e-9));
    EXPECT_LE(ours, best * 1.03) << PlanGist(found->plan) << " and not "
                                 << PlanGist(twin.best->plan);
    if (found->search.termination != Termination::kOptimal) ++unlisted_count;
    if (ours <= best * (1.0 + 1e-9)) ++best_count;
  }
  EXPECT_GT(unlisted_count, 0);
  EXPECT_GE(best_count, 12);
}

// Models of a size at which not all partitions and strategies are looked at.
TEST(UnevenSearch, ALargerSpaceIsNeverSlower) {
  int uneven_count = 0;
  for (int trial = 0; trial < 6; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    EstimatedOptions options{.device_count = 32,
                             .decoder_count = 23 + 5 * trial,
                             .hidden_size = 8192,
                             .attention_head_count = 64,
                             .sequence_length = 4096,
                             .vocabulary_size = 128'000,
                             .tied_embedding = false,
                             .global_batch_size = 64};
    options.rules = {.target = Target::kMegatron, .allow_estimates = true};
    options.rules.runtime = *FindRuntime(trial % 2 == 0 ? "megatron-core" : "parplan");
    const auto found = [&options] {
      const PlanningProblem problem = EstimatedProblem(options);
      const CostModel costs = *CostModel::Create(problem);
      const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
      EXPECT_TRUE(result.has_value());
      EXPECT_OK(CheckResult(problem, *result));
      return std::get<PlanFound>(*result);
    };
    const PlanFound grouped = found();
    options.rules.dimensions = DimensionSet::All().Without(SearchDimension::kGroupSize);
    const PlanFound megatron = found();
    EXPECT_LE(grouped.prediction.step.value(), megatron.prediction.step.value() * (1.0 + 1e-9));
    options.rules.target = Target::kParplan;
    const PlanFound all = found();
    EXPECT_LE(all.prediction.step.value(), megatron.prediction.step.value() * (1.0 + 1e-9))
        << PlanGist(all.plan) << " and not " << PlanGist(megatron.plan);
    options.rules.target = Target::kMegatron;
    options.rules.dimensions = DimensionSet::All()
                                   .Without(SearchDimension::kUnevenStages)
                                   .Without(SearchDimension::kGroupSize);
    const PlanFound even = found();
    EXPECT_LE(megatron.prediction.step.value(), even.prediction.step.value() * (1.0 + 1e-9));
    if (megatron.prediction.step < even.prediction.step * 0.999) ++uneven_count;
  }
  EXPECT_GT(uneven_count, 1);
}

// A search that is stopped has a bound of all partitions or none.
TEST(UnevenSearch, StopsWithABoundOfAllPartitionsOrNone) {
  const PlanningProblem problem = EstimatedProblem({.device_count = 32,
                                                    .decoder_count = 23,
                                                    .hidden_size = 8192,
                                                    .attention_head_count = 64,
                                                    .sequence_length = 4096,
                                                    .vocabulary_size = 128'000,
                                                    .tied_embedding = false,
                                                    .global_batch_size = 64,
                                                    .rules = {.allow_estimates = true}});
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_OK(costs.status());
  const StrategySpace space(problem, *costs);
  const PipelineCandidate candidate = {.global_batch_size = 64,
                                       .micro_batch_count = 16,
                                       .pipeline_parallel_degree = 4,
                                       .schedule = Schedule::kInterleaved};
  TableCache tables;
  ASSERT_TRUE(tables.Prepare(space, *costs, {TableCache::KeyOf(candidate)}, {}));
  // Returns the bound if the search is stopped by the question of this number.
  int question_count = 0;
  const auto bound_if_stopped_at = [&](int stop) {
    question_count = 0;
    const SearchControl control = {.should_stop = [&] { return ++question_count > stop; }};
    SearchMeter meter(control);
    int64_t looks = 0;
    return SearchUnevenStages(space, *costs, tables.At(TableCache::KeyOf(candidate)), candidate,
                              Seconds::Infinite(), /*wanted=*/1, looks, meter)
        .bound;
  };
  const Seconds whole = bound_if_stopped_at(std::numeric_limits<int>::max());
  EXPECT_GT(whole, Seconds());
  ASSERT_TRUE(whole.is_finite());
  const int all = question_count;
  // It asks for each mask when it lists it, and again before it bounds its partitions.
  EXPECT_GT(all, 1);
  for (int stop = 0; stop < all; ++stop) EXPECT_EQ(bound_if_stopped_at(stop), Seconds()) << stop;
  EXPECT_EQ(bound_if_stopped_at(all), whole);
}

}  // namespace
}  // namespace parplan
