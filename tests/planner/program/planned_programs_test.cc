// Checks that the executor runs the plans that planners make for the target `parplan`.

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <variant>

#include "planner/find_plan.h"
#include "planner/program/rank_program.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  template <typename T>
  T Of(std::initializer_list<T> choices) {
    return *std::next(choices.begin(), static_cast<int>(random_() % choices.size()));
  }

 private:
  std::mt19937_64 random_;
};

// A small transformer on up to eight devices, with dimensions missing and memory short here and
// there. All sizes are powers of two, so that degrees divide them.
PlanningProblem DrawProblem(uint64_t seed, bool is_tied) {
  Dice dice(seed);
  EstimatedOptions options;
  options.tied_embedding = is_tied;
  options.device_count = dice.Of({2, 4, 8});
  options.devices_per_node = options.device_count / dice.Of({1, 2});
  options.decoder_count = dice.Of({1, 2, 3, 4, 6});
  options.hidden_size = dice.Of({512, 1024, 4096});
  options.attention_head_count = dice.Of({8, 16});
  options.sequence_length = dice.Of({512, 4096});
  options.vocabulary_size = dice.Of({1024, 32768, 131072});
  options.global_batch_size = dice.Of({1, 2, 8});
  options.link_speed = dice.Of({0.1, 1.0});
  options.rules = {.allow_estimates = true};
  options.rules.top_plan_count = 3;
  options.rules.max_tensor_parallel_degree = options.device_count;
  for (const SearchDimension each :
       {SearchDimension::kEndStrategies, SearchDimension::kPerLayer, SearchDimension::kPipeline,
        SearchDimension::kParameterSharding, SearchDimension::kInterleaved}) {
    if (dice.Of({0, 0, 0, 1}) == 1) {
      options.rules.dimensions = options.rules.dimensions.Without(each);
    }
  }
  const PlanningProblem problem = EstimatedProblem(options);
  return problem.WithUsableMemory(
      Bytes::Ceil(problem.usable_memory().as_double() * dice.Of({0.05, 0.1, 0.2, 1.0})));
}

// Whether some layer is spread otherwise than the first.
bool IsMixed(const Plan& plan) {
  const Strategy& first = plan.stages.front().layer_runs.front().strategy;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (run.strategy.tensor_parallel_degree != first.tensor_parallel_degree ||
          run.strategy.sharding_level != first.sharding_level) {
        return true;
      }
    }
  }
  return false;
}

class PlannedPrograms : public testing::TestWithParam<bool> {};

TEST_P(PlannedPrograms, EveryPlanForOurTargetIsRun) {
  constexpr uint64_t kSeedCount = 24;
  int plan_count = 0;
  int mixed_count = 0;
  const auto check = [&](const Plan& plan, const ModelSpec& model) {
    ++plan_count;
    if (IsMixed(plan)) ++mixed_count;
    for (int rank = 0; rank < plan.device_count; ++rank) {
      EXPECT_OK(RankProgram::Create(plan, model, rank).status()) << PlanGist(plan);
    }
  };
  for (uint64_t seed = 1; seed <= kSeedCount; ++seed) {
    const PlanningProblem problem = DrawProblem(seed, GetParam());
    for (const char* planner : {"exact", "galvatron-bmw", "dp+tp", "dp+pp", "megatron"}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << planner);
      const PlanningProblem asked = problem.WithRules(RulesForOnePlan(problem.rules(), planner));
      const bool gives_several = std::string(planner) == "exact";
      const absl::StatusOr<PlanningResult> result =
          FindPlan(gives_several ? problem : asked, planner, {.max_state_count = 200'000});
      // Some planners have no strategy for all layers.
      if (!result.ok()) continue;
      if (const auto* found = std::get_if<PlanFound>(&*result)) {
        check(found->plan, problem.model());
        for (const PredictedPlan& other : found->alternatives) check(other.plan, problem.model());
      }
      if (const auto* nothing = std::get_if<NothingFits>(&*result);
          nothing != nullptr && nothing->smallest_plan.has_value()) {
        check(*nothing->smallest_plan, problem.model());
      }
    }
  }
  EXPECT_GT(plan_count, 60);
  EXPECT_GT(mixed_count, 10);
}

INSTANTIATE_TEST_SUITE_P(Tables, PlannedPrograms, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return std::string(info.param ? "Tied" : "Untied");
                         });

}  // namespace
}  // namespace parplan
